//! Buffers in memory that GPUs reach ([`DeviceBuffer`]), and the address at which kernels find a buffer
//! ([`device_range`]).

use std::any::Any;
use std::fmt;
use std::ops::BitAnd;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::hal::allocation_state::{AllocationState, state_methods};
use crate::hal::transient::TransientBuffer;
use crate::hal::{
    Buffer, BufferUsage, Mapping, MappingMode, MemoryAccess, MemoryType, check_range, require_access, require_usage,
};
use crate::hal_driver::device_blocks::BlockMemory;
use crate::hal_driver::device_slabs::SlabMemory;
use crate::hal_driver::references::{AddressRange, Reach};
use crate::status::{Result, Status};

/// The devices of a library that may access memory, by their places among those of the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceSet {
    /// The number of the library; zero for every library.
    pub library: u32,
    /// The devices.
    pub devices: u64,
}

impl DeviceSet {
    /// One device of a library.
    pub fn one(library: u32, ordinal: i32) -> DeviceSet {
        DeviceSet { library, devices: 1u64.checked_shl(ordinal as u32).unwrap_or(0) }
    }

    /// Whether it has all devices of another set.
    pub fn contains(self, other: DeviceSet) -> bool {
        (self.library == 0 || self.library == other.library) && self.devices & other.devices == other.devices
    }

    /// The devices of two sets, which are of one library.
    pub fn with(self, other: DeviceSet) -> DeviceSet {
        DeviceSet { library: self.library, devices: self.devices | other.devices }
    }
}

impl Default for DeviceSet {
    fn default() -> DeviceSet {
        DeviceSet { library: 0, devices: u64::MAX }
    }
}

impl BitAnd for DeviceSet {
    type Output = DeviceSet;

    fn bitand(self, other: DeviceSet) -> DeviceSet {
        let devices = self.devices & other.devices;
        match (self.library, other.library) {
            (0, library) | (library, 0) => DeviceSet { library, devices },
            (one, another) if one == another => DeviceSet { library: one, devices },
            // Addresses of one library mean nothing to another one.
            (library, _) => DeviceSet { library, devices: 0 },
        }
    }
}

/// A way to read memory that the host does not reach.
pub trait HostCopies: Send + Sync {
    /// A copy of a range, for the host alone, with what keeps it. What is written to the copy goes nowhere.
    ///
    /// # Errors
    /// Those of the library, and RESOURCE_EXHAUSTED if there is no memory for it.
    ///
    /// # Safety
    /// The range is allocated, and stays so until this returns.
    unsafe fn copy_of(&self, address: u64, length: u64) -> Result<(NonNull<u8>, Arc<dyn Any + Send + Sync>)>;
}

/// An allocation, or part of one, that GPUs reach.
#[derive(Clone)]
pub struct DeviceMemory {
    /// Its address for GPUs.
    pub address: u64,
    /// Bytes.
    pub length: u64,
    /// Its address for the host, if the host reaches it.
    pub host: Option<NonNull<u8>>,
    /// How the host reads it otherwise.
    pub copies: Option<Arc<dyn HostCopies>>,
    /// The devices that may access it.
    pub reached_by: DeviceSet,
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

/// A buffer over memory that GPUs reach.
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
        let refused = || {
            let memory_type = self.state.memory_type;
            Status::permission_denied(format!("the host does not reach the memory of the buffer ({memory_type:?})"))
        };
        let Some(host) = self.memory.host else {
            // A copy is as good to read, where nothing is to be seen later.
            let reads = !persistent && access.contains(MemoryAccess::READ) && !access.contains(MemoryAccess::WRITE);
            let copies = self.memory.copies.as_ref().filter(|_| reads).ok_or_else(refused)?;
            // SAFETY: the range is within the buffer, whose memory its owner keeps.
            let (data, owner) = unsafe { copies.copy_of(self.memory.address + offset, length) }?;
            return Ok(Mapping { data, length, owner });
        };
        // SAFETY: `offset` is within the buffer, whose memory the host reaches.
        let data = unsafe { host.add(offset as usize) };
        let mapping = Mapping { data, length, owner: self.memory.owner.clone() };
        Ok(self.state.watched(mode, access, offset, mapping))
    }

    fn invalidate_range(&self, offset: u64, length: u64) -> Result<()> {
        // The host is coherent with its own memory, which is all that it maps.
        check_range(self.state.length, offset, length).map(drop)
    }

    fn flush_range(&self, offset: u64, length: u64) -> Result<()> {
        check_range(self.state.length, offset, length).map(drop)
    }
}

/// A range of memory as kernels reach it.
pub type DeviceRange = AddressRange<DeviceSet>;

impl Reach for DeviceSet {
    fn fixed_memory(allocation: &dyn Buffer) -> Option<(u64, DeviceSet)> {
        let any: &dyn Any = allocation;
        any.downcast_ref::<DeviceBuffer>().map(|device| (device.memory.address, device.memory.reached_by))
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
