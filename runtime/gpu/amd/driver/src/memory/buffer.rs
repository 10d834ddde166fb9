//! Buffers in memory that agents reach ([`DeviceBuffer`]), and the address at which kernels find a buffer
//! ([`device_range`]).

use std::any::Any;
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering, fence};

use crate::hal::allocation_state::{AllocationState, state_methods};
use crate::hal::transient::TransientBuffer;
use crate::hal::{
    Buffer, BufferUsage, Mapping, MappingMode, MemoryAccess, MemoryType, check_range, require_access, require_usage,
};
use crate::hal_driver::device_blocks::BlockMemory;
use crate::hal_driver::device_slabs::SlabMemory;
use crate::hal_driver::references::{AddressRange, Reach};
use crate::status::{Result, Status};

/// How writes of the host become visible to a device before it is told of them. It is a property of the memory:
/// coherent memory needs nothing.
#[derive(Clone, Copy, Debug, Default)]
pub enum Publication {
    /// The device sees them once a packet is published.
    #[default]
    Coherent,
    /// They may still be in a buffer between host and device (HDP), which a write to this register of the device
    /// flushes.
    Hdp(HdpRegister),
}

/// The register of a device that flushes the buffer for the host's writes.
#[derive(Clone, Copy, Debug)]
pub struct HdpRegister(NonNull<AtomicU32>);

// SAFETY: it is only written, atomically, and stays mapped as long as the HSA library is initialised.
unsafe impl Send for HdpRegister {}
// SAFETY: the register is only written, and atomically, so any number of threads may do so at once.
unsafe impl Sync for HdpRegister {}

impl HdpRegister {
    /// The register at an address.
    ///
    /// # Safety
    /// It is the address that the HSA library names, and the library stays initialised as long as this is used.
    pub unsafe fn new(register: NonNull<AtomicU32>) -> HdpRegister {
        HdpRegister(register)
    }
}

impl Publication {
    /// Makes all earlier writes of this thread visible.
    pub fn publish(self) {
        match self {
            Publication::Coherent => {}
            Publication::Hdp(HdpRegister(register)) => {
                fence(Ordering::SeqCst);
                // SAFETY: the caller of `HdpRegister::new` guarantees that the register is mapped as long as this is
                // used.
                unsafe { register.as_ref() }.store(1, Ordering::SeqCst);
                fence(Ordering::SeqCst);
            }
        }
    }
}

/// A set of GPUs, by their places among the visible ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AgentMask(pub u64);

impl AgentMask {
    /// All GPUs.
    pub const ALL: AgentMask = AgentMask(u64::MAX);

    /// Whether it has all GPUs of another set.
    pub fn contains(self, other: AgentMask) -> bool {
        self.0 & other.0 == other.0
    }
}

impl Default for AgentMask {
    fn default() -> AgentMask {
        AgentMask::ALL
    }
}

impl std::ops::BitOr for AgentMask {
    type Output = AgentMask;

    fn bitor(self, other: AgentMask) -> AgentMask {
        AgentMask(self.0 | other.0)
    }
}

impl std::ops::BitAnd for AgentMask {
    type Output = AgentMask;

    fn bitand(self, other: AgentMask) -> AgentMask {
        AgentMask(self.0 & other.0)
    }
}

/// An allocation, or part of one, that agents reach.
#[derive(Clone)]
pub struct DeviceMemory {
    /// Its address for agents.
    pub address: u64,
    /// Bytes.
    pub length: u64,
    /// Its address for the host, if the host reaches it.
    pub host: Option<NonNull<u8>>,
    /// How writes of the host become visible.
    pub publication: Publication,
    /// The GPUs that may access it.
    pub reached_by: AgentMask,
    /// Keeps it allocated.
    pub owner: Arc<dyn Any + Send + Sync>,
}

// SAFETY: the bytes are reached only through raw pointers, and `owner` keeps them alive.
unsafe impl Send for DeviceMemory {}
// SAFETY: shared references only read addresses; the bytes are reached through raw pointers, and no Rust reference to
// them exists.
unsafe impl Sync for DeviceMemory {}

impl BlockMemory for DeviceMemory {
    fn length(&self) -> u64 {
        self.length
    }

    fn owned_by(self, owner: Arc<dyn Any + Send + Sync>) -> DeviceMemory {
        DeviceMemory { owner, ..self }
    }
}

impl SlabMemory for DeviceMemory {
    unsafe fn part(&self, offset: u64, length: u64) -> DeviceMemory {
        DeviceMemory {
            address: self.address + offset,
            length,
            // SAFETY: the caller guarantees that the offset is within the memory.
            host: self.host.map(|host| unsafe { host.add(offset as usize) }),
            ..self.clone()
        }
    }

    unsafe fn into_buffer(self, memory_type: MemoryType, access: MemoryAccess, usage: BufferUsage) -> Arc<dyn Buffer> {
        let length = self.length;
        // SAFETY: the caller guarantees that the memory has `length` bytes as long as its owner lives, and that no Rust
        // reference to bytes that may be written exists meanwhile.
        Arc::new(unsafe { DeviceBuffer::new(self, length, memory_type, access, usage) })
    }
}

impl fmt::Debug for DeviceMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes at {:#x}", self.length, self.address)
    }
}

/// A buffer over memory that agents reach.
pub struct DeviceBuffer {
    memory: DeviceMemory,
    state: AllocationState,
}

impl DeviceBuffer {
    /// A buffer over the first `length` bytes of `memory`.
    ///
    /// # Safety
    /// The memory has that many bytes at its addresses as long as its owner lives, and no Rust reference to bytes that
    /// may be written exists meanwhile.
    pub unsafe fn new(
        memory: DeviceMemory,
        length: u64,
        memory_type: MemoryType,
        access: MemoryAccess,
        usage: BufferUsage,
    ) -> DeviceBuffer {
        DeviceBuffer { memory, state: AllocationState::new(length, memory_type, access, usage) }
    }

    /// Its memory.
    pub fn memory(&self) -> &DeviceMemory {
        &self.memory
    }
}

impl fmt::Debug for DeviceBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "device buffer({} bytes, {:?})", self.state.length, self.state.memory_type)
    }
}

impl Buffer for DeviceBuffer {
    state_methods!();

    fn allocation_size(&self) -> u64 {
        self.memory.length
    }

    fn map_range(&self, mode: MappingMode, access: MemoryAccess, offset: u64, length: u64) -> Result<Mapping> {
        let persistent = mode.contains(MappingMode::PERSISTENT);
        let usage = if persistent { BufferUsage::MAPPING_PERSISTENT } else { BufferUsage::MAPPING_SCOPED };
        require_usage(self, usage)?;
        require_access(self, access)?;
        let length = check_range(self.state.length, offset, length)?;
        let host = self.memory.host.ok_or_else(|| {
            let memory_type = self.state.memory_type;
            Status::permission_denied(format!("the host does not reach the memory of the buffer ({memory_type:?})"))
        })?;
        // SAFETY: `offset` is within the buffer, whose memory the host reaches.
        let data = unsafe { host.add(offset as usize) };
        let mapping = Mapping { data, length, owner: self.memory.owner.clone() };
        Ok(self.state.watched(mode, access, offset, mapping))
    }

    fn invalidate_range(&self, offset: u64, length: u64) -> Result<()> {
        // Queues release to the system at the end of each submission.
        check_range(self.state.length, offset, length).map(drop)
    }

    fn flush_range(&self, offset: u64, length: u64) -> Result<()> {
        check_range(self.state.length, offset, length)?;
        self.memory.publication.publish();
        Ok(())
    }
}

/// A range of memory as kernels reach it.
pub type DeviceRange = AddressRange<AgentMask>;

impl Reach for AgentMask {
    fn fixed_memory(allocation: &dyn Buffer) -> Option<(u64, AgentMask)> {
        fixed_memory(allocation)
    }

    fn range(buffer: &dyn Buffer) -> Result<DeviceRange> {
        device_range(buffer)
    }
}

/// The memory of a buffer as kernels reach it now.
///
/// # Errors
/// FAILED_PRECONDITION if a transient buffer has no memory, INVALID_ARGUMENT if the buffer is of another kind of
/// device.
pub fn device_range(buffer: &dyn Buffer) -> Result<DeviceRange> {
    if let Some(allocation) = buffer.allocation() {
        let range = device_range(&*allocation)?;
        let length = check_range(range.length, buffer.byte_offset(), buffer.byte_length())?;
        return Ok(DeviceRange { address: range.address + buffer.byte_offset(), length, ..range });
    }
    let any: &dyn Any = buffer;
    if let Some(device) = any.downcast_ref::<DeviceBuffer>() {
        let DeviceMemory { address, reached_by, ref owner, .. } = device.memory;
        return Ok(DeviceRange { address, length: device.state.length, reached_by, owner: owner.clone() });
    }
    if let Some(transient) = any.downcast_ref::<TransientBuffer>() {
        let range = device_range(&*transient.committed()?)?;
        let length = check_range(range.length, 0, buffer.byte_length())?;
        return Ok(DeviceRange { length, ..range });
    }
    Err(Status::invalid_argument(format!("{buffer:?} is not in memory of this device")))
}

/// The address at which kernels find an allocation, and the GPUs that may access it, if it is of this kind of device
/// and stays there as long as it lives.
pub fn fixed_memory(allocation: &dyn Buffer) -> Option<(u64, AgentMask)> {
    let any: &dyn Any = allocation;
    any.downcast_ref::<DeviceBuffer>().map(|device| (device.memory.address, device.memory.reached_by))
}
