//! Slabs of device memory for pools of the host ([`DeviceSlabs`]). Pools divide them by offsets; the host does not see
//! their addresses.

use std::any::Any;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::device_alloca::DeviceAllocator;
use crate::device_blocks::BlockMemory;
use crate::hal::{
    Buffer, BufferParams, BufferUsage, MemoryAccess, MemoryType, QueueAffinity, Slab, SlabProperties, SlabProvider,
    SlabProviderStats, SlabTrimFlags, check_range,
};
use crate::status::{Result, Status};

/// Memory of a device that buffers are parts of.
pub trait SlabMemory: BlockMemory {
    /// A part of it, which its owner keeps as well.
    ///
    /// # Safety
    /// The range is within the memory.
    unsafe fn part(&self, offset: u64, length: u64) -> Self;

    /// A buffer over all of it.
    ///
    /// # Safety
    /// The owner keeps the memory allocated, and no Rust reference to bytes that may be written exists meanwhile.
    unsafe fn into_buffer(self, memory_type: MemoryType, access: MemoryAccess, usage: BufferUsage) -> Arc<dyn Buffer>;
}

/// An allocator whose memory pools divide.
pub trait SlabAllocator: DeviceAllocator {
    /// Its memory.
    type Memory: SlabMemory;

    /// Memory of the device that has a queue.
    ///
    /// # Errors
    /// `RESOURCE_EXHAUSTED` if there is no more.
    fn slab(&self, queue_affinity: QueueAffinity, length: u64) -> Result<Self::Memory>;
}

/// A provider of slabs in the memory of one device.
#[derive(Debug)]
pub struct DeviceSlabs<A: SlabAllocator> {
    allocator: Arc<A>,
    affinity: QueueAffinity,
    properties: SlabProperties,
    slabs: Mutex<HashMap<u64, A::Memory>>,
    acquired: AtomicU64,
    released: AtomicU64,
}

impl<A: SlabAllocator> DeviceSlabs<A> {
    /// A provider for the device of a queue.
    ///
    /// # Errors
    /// Those of the allocator.
    pub fn new(allocator: Arc<A>, affinity: QueueAffinity) -> Result<Self> {
        let wanted =
            BufferParams { memory_type: MemoryType::DEVICE_LOCAL, queue_affinity: affinity, ..BufferParams::default() };
        let BufferParams { memory_type, .. } = allocator.resolve(wanted)?;
        let mut supported_usage = BufferUsage::all();
        if !memory_type.contains(MemoryType::HOST_VISIBLE) {
            supported_usage = supported_usage - (BufferUsage::MAPPING | BufferUsage::MAPPING_PERSISTENT);
        }
        Ok(DeviceSlabs {
            allocator,
            affinity,
            properties: SlabProperties { memory_type, supported_usage },
            slabs: Mutex::default(),
            acquired: AtomicU64::new(0),
            released: AtomicU64::new(0),
        })
    }
}

impl<A: SlabAllocator> SlabProvider for DeviceSlabs<A>
where
    A::Memory: std::fmt::Debug,
{
    fn acquire_slab(&self, min_length: u64) -> Result<Slab> {
        let memory = self.allocator.slab(self.affinity, min_length)?;
        let (length, provider_handle) = (memory.length(), self.acquired.fetch_add(1, Ordering::Relaxed) + 1);
        self.slabs.lock().unwrap_or_else(PoisonError::into_inner).insert(provider_handle, memory);
        // Buffers are made by `wrap_buffer`: the host alone does not reach memory in a way that the GPU could use.
        Ok(Slab { base: None, length, provider_handle })
    }

    unsafe fn release_slab(&self, slab: &Slab) {
        let removed = self.slabs.lock().unwrap_or_else(PoisonError::into_inner).remove(&slab.provider_handle);
        self.released.fetch_add(removed.is_some().into(), Ordering::Relaxed);
    }

    unsafe fn wrap_buffer(
        &self,
        slab: &Slab,
        slab_offset: u64,
        allocation_size: u64,
        params: BufferParams,
        owner: Arc<dyn Any + Send + Sync>,
    ) -> Result<Arc<dyn Buffer>> {
        let known = self.slabs.lock().unwrap_or_else(PoisonError::into_inner).get(&slab.provider_handle).cloned();
        let memory = known.ok_or_else(|| Status::invalid_argument("the slab is not one of this provider"))?;
        let length = check_range(memory.length(), slab_offset, allocation_size)?;
        let SlabProperties { memory_type, supported_usage } = self.properties;
        if !memory_type.contains(params.memory_type - MemoryType::OPTIMAL) {
            let wanted = params.memory_type;
            return Err(Status::invalid_argument(format!("a slab of {memory_type:?} memory, not {wanted:?}")));
        }
        let usage = if params.usage.is_empty() { BufferUsage::DEFAULT } else { params.usage };
        let always = BufferUsage::MAPPING | BufferUsage::MAPPING_PERSISTENT | BufferUsage::TRANSFER;
        let access = if params.access.is_empty() { MemoryAccess::ALL } else { params.access };
        // SAFETY: the range was checked above. The caller's promise is that the owner keeps the slab, and a pool gives
        // the range to one buffer at a time.
        let buffer = unsafe {
            let range = memory.part(slab_offset, length);
            let owner = Arc::new((owner, memory));
            range.owned_by(owner).into_buffer(memory_type, access, (usage | always) & supported_usage)
        };
        Ok(buffer)
    }

    fn prefault(&self, _slab: &Slab) {
        // Memory of GPUs is there from its allocation on.
    }

    fn trim(&self, _flags: SlabTrimFlags) {
        // Blocks that cannot be given back stay in the cache.
        let _ = self.allocator.trim();
    }

    fn stats(&self) -> SlabProviderStats {
        SlabProviderStats {
            total_acquired: self.acquired.load(Ordering::Relaxed),
            total_released: self.released.load(Ordering::Relaxed),
            ..SlabProviderStats::default()
        }
    }

    fn properties(&self) -> SlabProperties {
        self.properties
    }
}
