//! The slab provider of the host's heap, for pools of devices that share it.

use std::any::Any;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::memory_pool::MAX_ALIGNMENT;
use crate::hal::block_cache::{Block, BlockCache};
use crate::hal::{
    Buffer, BufferParams, BufferUsage, HeapBuffer, MemoryAccess, MemoryType, Slab, SlabProperties, SlabProvider,
    SlabProviderStats, SlabTrimFlags, check_range,
};
use crate::status::{Result, Status};

/// Provides blocks of the host's heap as slabs. Released ones go to a block cache.
#[derive(Debug, Default)]
pub struct HostSlabProvider {
    blocks: Arc<BlockCache>,
    /// The slabs that are in use.
    slab_table: Mutex<SlabTable>,
}

#[derive(Debug, Default)]
struct SlabTable {
    blocks: HashMap<u64, Arc<Block>>,
    last_handle: u64,
}

impl HostSlabProvider {
    /// A provider that shares a block cache with others.
    pub fn new(blocks: Arc<BlockCache>) -> HostSlabProvider {
        HostSlabProvider { blocks, slab_table: Mutex::default() }
    }
}

impl SlabProvider for HostSlabProvider {
    fn acquire_slab(&self, min_length: u64) -> Result<Slab> {
        let block = self.blocks.acquire(min_length.max(1), MAX_ALIGNMENT)?;
        let (base, length) = (block.bytes().data(), block.bytes().size());
        let mut slab_table = self.slab_table.lock().unwrap_or_else(PoisonError::into_inner);
        slab_table.last_handle += 1;
        let provider_handle = slab_table.last_handle;
        slab_table.blocks.insert(provider_handle, block);
        Ok(Slab { base: Some(base), length, provider_handle })
    }

    unsafe fn release_slab(&self, slab: &Slab) {
        let block = self.slab_table.lock().unwrap_or_else(PoisonError::into_inner).blocks.remove(&slab.provider_handle);
        if let Some(block) = block {
            self.blocks.release(block);
        }
    }

    unsafe fn wrap_buffer(
        &self,
        slab: &Slab,
        slab_offset: u64,
        allocation_size: u64,
        params: BufferParams,
        owner: Arc<dyn Any + Send + Sync>,
    ) -> Result<Arc<dyn Buffer>> {
        let base = slab.base.ok_or_else(|| Status::invalid_argument("the host does not reach the slab"))?;
        let length = check_range(slab.length, slab_offset, allocation_size)?;
        let SlabProperties { memory_type, supported_usage } = self.properties();
        if !memory_type.contains(params.memory_type - MemoryType::OPTIMAL) {
            let wanted = params.memory_type;
            return Err(Status::invalid_argument(format!("a slab of {memory_type:?} memory, not {wanted:?}")));
        }
        let usage = if params.usage.is_empty() { BufferUsage::DEFAULT } else { params.usage };
        let usage = usage & supported_usage | BufferUsage::MAPPING | BufferUsage::TRANSFER;
        let access = if params.access.is_empty() { MemoryAccess::ALL } else { params.access };
        // SAFETY: the offset is within the slab. The caller's promise is that the owner keeps the slab, whose bytes are
        // reached only through raw pointers.
        let buffer = unsafe {
            let data = base.add(slab_offset as usize);
            HeapBuffer::wrap(owner, data, length, memory_type, access, usage)
        };
        Ok(Arc::new(buffer))
    }

    fn prefault(&self, slab: &Slab) {
        const PAGE: usize = 4096;
        let slab_table = self.slab_table.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(block) = slab_table.blocks.get(&slab.provider_handle) else { return };
        let (data, length) = (block.bytes().data(), block.bytes().size() as usize);
        for offset in (0..length).step_by(PAGE) {
            // SAFETY: the offset is within the block, which is in the table and hence alive. An atomic addition of
            // nothing makes the page writable memory and changes no byte that somebody may be using.
            unsafe { std::sync::atomic::AtomicU8::from_ptr(data.add(offset).as_ptr()) }
                .fetch_or(0, std::sync::atomic::Ordering::Relaxed);
        }
    }

    fn trim(&self, flags: SlabTrimFlags) {
        self.blocks.trim(!flags.contains(SlabTrimFlags::EXCESS) || flags.contains(SlabTrimFlags::ALL));
    }

    fn stats(&self) -> SlabProviderStats {
        let stats = self.blocks.stats();
        SlabProviderStats {
            total_acquired: stats.acquired,
            total_released: stats.released,
            cache_count: stats.cached as u32,
            cache_hit_count: stats.hits,
            cache_miss_count: stats.acquired - stats.hits,
            ..SlabProviderStats::default()
        }
    }

    fn properties(&self) -> SlabProperties {
        SlabProperties {
            memory_type: MemoryType::DEVICE_LOCAL
                | MemoryType::HOST_LOCAL
                | MemoryType::HOST_VISIBLE
                | MemoryType::DEVICE_VISIBLE
                | MemoryType::HOST_COHERENT
                | MemoryType::HOST_CACHED,
            supported_usage: BufferUsage::all(),
        }
    }
}
