//! The allocator of the host's heap ([`HeapAllocator`]), for devices that share the host's memory.

use std::any::Any;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

use super::accounting::{Accounted, Counters};
use super::block_cache::{Block, BlockCache};
use super::buffer::{HeapBuffer, InlineBytes, KernelMemory};
use super::{
    Allocator, AllocatorStatistics, Buffer, BufferCompatibility, BufferParams, BufferPlacement, BufferUsage,
    ExternalBuffer, ExternalBufferFlags, ExternalBufferType, MappingMode, MemoryAccess, MemoryHeap, MemoryType,
    QueueAffinity, WHOLE_BUFFER,
};
use crate::heap_bytes::HeapBytes;
use crate::limits::{Charge, MAX_ALIGNMENT, MemoryBudget, OBJECT_BYTES, block_bytes};
use crate::pages::{PageMapping, page_size};
use crate::status::{Result, Status, StatusCode};

/// Alignment of every buffer: a cache line, which vector kernels rely on.
pub const HEAP_BUFFER_ALIGNMENT: u64 = 64;

/// Buffers of fewer bytes are not mapped.
const MIN_MAPPED_BYTES: u64 = 64 << 10;

/// An allocator of host memory. It counts the bytes in use and refuses allocations that would exceed its limit. Each
/// thread counts by itself: the peaks in its statistics are exact where one thread allocates, and else the sum of the
/// peaks of all threads, at most the limit.
#[derive(Debug)]
pub struct HeapAllocator {
    limit: u64,
    /// Held from the check of the limit until the allocation is counted.
    limit_lock: Mutex<()>,
    counters: Arc<Counters>,
    /// The memory of transient buffers, with free blocks to use again.
    blocks: Arc<BlockCache>,
    /// Whether transient buffers take their memory from `blocks`.
    recycles_blocks: bool,
    /// The budget that all memory is charged to.
    budget: Option<MemoryBudget>,
    /// Whether large buffers are mapped by the system.
    maps: bool,
}

impl HeapAllocator {
    /// An allocator without a limit of its own.
    pub fn new() -> HeapAllocator {
        HeapAllocator::with_limit(u64::MAX)
    }

    /// An allocator that holds at most `limit` bytes at a time.
    ///
    /// With a limit the memory of transient buffers is not used again, since free blocks would have to count.
    pub fn with_limit(limit: u64) -> HeapAllocator {
        let recycles_blocks = limit == u64::MAX;
        let (counters, blocks) = (Arc::default(), Arc::default());
        HeapAllocator {
            limit,
            limit_lock: Mutex::default(),
            counters,
            blocks,
            recycles_blocks,
            budget: None,
            maps: false,
        }
    }

    /// An allocator without a limit that does not use memory of transient buffers again, so that all memory is new and
    /// zero.
    pub fn without_reuse() -> HeapAllocator {
        HeapAllocator { recycles_blocks: false, ..HeapAllocator::new() }
    }

    /// An allocator whose memory is charged to `budget`, which others may share. No memory is used again: all of it is
    /// new and zero.
    pub fn with_budget(budget: MemoryBudget) -> HeapAllocator {
        HeapAllocator { budget: Some(budget), ..HeapAllocator::without_reuse() }
    }

    /// The same allocator, which maps pages for each large buffer: pages that are not written take no memory, and goes
    /// back to the system with the buffer. Allocating takes longer.
    pub fn mapped(self) -> HeapAllocator {
        HeapAllocator { maps: true, ..self }
    }

    /// A buffer by value, for callers that store it in an object of their own.
    #[doc(hidden)]
    pub fn allocate(&self, params: BufferParams, allocation_size: u64) -> Result<HeapBuffer> {
        let params = checked(params)?;
        let host_local = params.memory_type.contains(MemoryType::HOST_LOCAL);
        let Allocated { data, owner } = self.allocate_accounted(allocation_size, params.min_alignment, host_local)?;
        let BufferParams { memory_type, access, usage, .. } = params;
        // SAFETY: the owner keeps that many bytes at `data`, which are reached only through raw pointers.
        Ok(unsafe { HeapBuffer::wrap(owner, data, allocation_size, memory_type, access, usage) })
    }

    /// The parameters of a buffer with defaults filled in.
    #[doc(hidden)]
    pub fn resolve(&self, params: BufferParams) -> Result<BufferParams> {
        checked(params)
    }

    /// The block cache of transient buffers, if they use memory again.
    #[doc(hidden)]
    pub fn blocks(&self) -> Option<&Arc<BlockCache>> {
        self.recycles_blocks.then_some(&self.blocks)
    }

    /// Whether there is a limit of its own.
    #[doc(hidden)]
    pub fn is_limited(&self) -> bool {
        self.limit != u64::MAX || self.budget.is_some()
    }

    /// The largest buffer there can be.
    fn largest(&self) -> u64 {
        self.budget.as_ref().map_or(self.limit, |budget| budget.limit().min(self.limit))
    }

    /// Counts `length` bytes of a transient buffer until the result is dropped. Recycled memory is charged to no
    /// budget.
    pub(super) fn account_recycled(&self, length: u64, host_local: bool) -> Accounted {
        Accounted::new(&self.counters, length, host_local, Charge::default())
    }

    /// Counts `length` bytes with `accounted`, whose earlier bytes were released.
    pub(super) fn recount(&self, accounted: &mut Accounted, length: u64, host_local: bool) {
        accounted.recount(&self.counters, length, host_local);
    }

    /// Allocates zeroed bytes and counts them; a refused allocation is not counted.
    fn allocate_accounted(&self, length: u64, alignment: u64, host_local: bool) -> Result<Allocated> {
        if self.limit == u64::MAX {
            return self.allocate_unlimited(length, alignment, host_local);
        }
        let _limit_lock = self.limit_lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.check_limit(length)?;
        self.allocate_unlimited(length, alignment, host_local)
    }

    /// Counts bytes that were allocated for an imported buffer, or refuses to.
    fn account(&self, length: u64, host_local: bool) -> Result<Accounted> {
        let _limit_lock = self.limit_lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.check_limit(length)?;
        Ok(self.account_recycled(length, host_local))
    }

    /// Fails if `length` more bytes would exceed the limit. The caller holds the lock.
    fn check_limit(&self, length: u64) -> Result<()> {
        // Other threads may free meanwhile, which only makes room, but not allocate.
        let in_use = self.counters.in_use();
        if length > self.limit.saturating_sub(in_use) {
            return Err(Status::resource_exhausted(format!(
                "allocating {length} bytes would exceed the limit of {} bytes, of which {in_use} are in use",
                self.limit,
            )));
        }
        Ok(())
    }

    fn allocate_unlimited(&self, length: u64, alignment: u64, host_local: bool) -> Result<Allocated> {
        let bytes = block_bytes(length, alignment).saturating_add(OBJECT_BYTES);
        let charge = Charge::new(self.budget.as_ref(), bytes, "a buffer of a device")?;
        let account = || Accounted::new(&self.counters, length, host_local, charge);
        if length <= InlineBytes::SIZE && alignment <= InlineBytes::ALIGNMENT {
            let owner = Arc::new(AccountedInline { bytes: InlineBytes::new(), _accounted: account() });
            return Ok(Allocated { data: owner.bytes.data(), owner });
        }
        if self.maps && length >= MIN_MAPPED_BYTES && alignment <= page_size() as u64 {
            let length = usize::try_from(length).unwrap_or(usize::MAX);
            let pages = PageMapping::reserved(length, "a buffer of a device")?;
            return Ok(Allocated {
                data: pages.base(),
                owner: Arc::new(AccountedPages { _pages: pages, _accounted: account() }),
            });
        }
        let bytes = HeapBytes::allocate(length, alignment)?;
        let data = bytes.data();
        Ok(Allocated { data, owner: Arc::new(AccountedBytes { _bytes: bytes, _accounted: account() }) })
    }
}

/// New bytes and their owner.
struct Allocated {
    data: NonNull<u8>,
    owner: Arc<dyn Any + Send + Sync>,
}

impl Default for HeapAllocator {
    fn default() -> Self {
        HeapAllocator::new()
    }
}

/// Bytes that are counted until they are freed.
struct AccountedBytes {
    _bytes: HeapBytes,
    _accounted: Accounted,
}

/// The same for pages of the system.
struct AccountedPages {
    _pages: PageMapping,
    _accounted: Accounted,
}

/// The same for a few bytes, stored in the owner itself.
struct AccountedInline {
    bytes: InlineBytes,
    _accounted: Accounted,
}

/// Whether an owner of memory is one that this allocator makes, so that only the owner knows the address of the memory.
pub(super) fn is_heap_memory(owner: &(dyn Any + Send + Sync)) -> bool {
    owner.is::<AccountedBytes>() || owner.is::<AccountedPages>() || owner.is::<AccountedInline>() || owner.is::<Block>()
}

/// The parameters with defaults filled in; INVALID_ARGUMENT for an alignment that cannot be.
fn checked(params: BufferParams) -> Result<BufferParams> {
    let params = resolve(params);
    let alignment = params.min_alignment;
    if !alignment.is_power_of_two() || alignment > MAX_ALIGNMENT {
        let message = format!("alignment {alignment}: expected a power of two up to {MAX_ALIGNMENT}");
        return Err(Status::invalid_argument(message));
    }
    Ok(params)
}

/// Fills in defaults, and what heap memory can do whether it was asked for or not.
fn resolve(mut params: BufferParams) -> BufferParams {
    if params.usage.is_empty() {
        params.usage = BufferUsage::DEFAULT;
    }
    if params.access.is_empty() {
        params.access = MemoryAccess::ALL;
    }
    if params.queue_affinity.is_empty() {
        params.queue_affinity = QueueAffinity::ANY;
    }
    // All of it is host memory, which the device uses in place.
    params.memory_type.remove(MemoryType::OPTIMAL);
    params.memory_type |= MemoryType::HOST_VISIBLE | MemoryType::DEVICE_VISIBLE;
    params.usage |= BufferUsage::MAPPING | BufferUsage::MAPPING_PERSISTENT | BufferUsage::TRANSFER;
    // An alignment that is no power of two stays, and `checked` refuses it.
    if params.min_alignment == 0 || params.min_alignment.is_power_of_two() {
        params.min_alignment = params.min_alignment.max(HEAP_BUFFER_ALIGNMENT);
    }
    params
}

impl Allocator for HeapAllocator {
    fn trim(&self) -> Result<()> {
        self.blocks.trim(true);
        Ok(())
    }

    fn statistics(&self) -> AllocatorStatistics {
        let statistics = self.counters.statistics();
        // Peaks of several threads are added up, but together they never had more than the limit.
        AllocatorStatistics {
            host_bytes_peak: statistics.host_bytes_peak.min(self.largest()),
            device_bytes_peak: statistics.device_bytes_peak.min(self.largest()),
            ..statistics
        }
    }

    fn memory_heaps(&self) -> Vec<MemoryHeap> {
        vec![MemoryHeap {
            memory_type: MemoryType::DEVICE_LOCAL | MemoryType::HOST_VISIBLE | MemoryType::HOST_COHERENT,
            allowed_usage: BufferUsage::all(),
            max_allocation_size: self.largest(),
            min_alignment: HEAP_BUFFER_ALIGNMENT,
        }]
    }

    fn buffer_compatibility(&self, params: BufferParams, allocation_size: u64) -> BufferPlacement {
        let params = resolve(params);
        let mut compatibility =
            BufferCompatibility::IMPORTABLE | BufferCompatibility::EXPORTABLE | BufferCompatibility::QUEUE_TRANSFER;
        if params.usage.intersects(BufferUsage::DISPATCH) {
            compatibility |= BufferCompatibility::QUEUE_DISPATCH;
        }
        let aligned = params.min_alignment.is_power_of_two() && params.min_alignment <= MAX_ALIGNMENT;
        if aligned && allocation_size <= self.largest() {
            compatibility |= BufferCompatibility::ALLOCATABLE;
        }
        BufferPlacement { compatibility, params, allocation_size }
    }

    fn allocate_buffer(&self, params: BufferParams, allocation_size: u64) -> Result<Arc<dyn Buffer>> {
        Ok(Arc::new(self.allocate(params, allocation_size)?))
    }

    fn export_buffer(
        &self,
        buffer: &Arc<dyn Buffer>,
        requested_type: ExternalBufferType,
        _requested_flags: ExternalBufferFlags,
    ) -> Result<ExternalBuffer> {
        match requested_type {
            // The device's addresses are the host's.
            ExternalBufferType::HostAllocation | ExternalBufferType::DeviceAllocation => {}
        }
        let access = buffer.allowed_access() & (MemoryAccess::READ | MemoryAccess::WRITE);
        let refused =
            |status: Status| Status::new(StatusCode::Unavailable, "the buffer cannot be exported").with_source(status);
        let mapping = buffer.map_range(MappingMode::PERSISTENT, access, 0, WHOLE_BUFFER).map_err(refused)?;
        Ok(ExternalBuffer { r#type: requested_type, data: mapping.data, size: mapping.length, owner: mapping.owner })
    }

    unsafe fn import_buffer(&self, params: BufferParams, external: &ExternalBuffer) -> Result<Arc<dyn Buffer>> {
        let params = resolve(params);
        match external.r#type {
            // The device's addresses are the host's.
            ExternalBufferType::HostAllocation | ExternalBufferType::DeviceAllocation => {}
        }
        // Transfers need no alignment, kernels do.
        let is_unaligned =
            params.access.contains(MemoryAccess::UNALIGNED) && !params.usage.intersects(BufferUsage::DISPATCH);
        let alignment = if is_unaligned { 1 } else { params.min_alignment.min(MAX_ALIGNMENT) };
        if !alignment.is_power_of_two() || !(external.data.as_ptr() as u64).is_multiple_of(alignment) {
            let message = format!("the memory to import is not aligned to {alignment} bytes");
            return Err(Status::new(StatusCode::Unavailable, message));
        }
        if let Some(memory) = external.owner.downcast_ref::<KernelMemory>() {
            memory.account_once(|| self.account(external.size, params.memory_type.contains(MemoryType::HOST_LOCAL)))?;
        }
        let owner = external.owner.clone();
        let (memory_type, access, usage) = (params.memory_type, params.access, params.usage);
        // SAFETY: the caller guarantees that the memory is there, and may be accessed so, as long as its owner.
        let buffer = unsafe { HeapBuffer::wrap(owner, external.data, external.size, memory_type, access, usage) };
        Ok(Arc::new(buffer))
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::{MappingMode, WHOLE_BUFFER, buffer_to_vec};

    #[test]
    fn buffers_of_every_size_are_aligned_zero_and_counted() {
        let allocator = HeapAllocator::new();
        for alignment in [0, 1, 16, 64, 128, 4096] {
            for size in [0, 1, 63, 64, 65, 1000, 1024, 1025, 1 << 16] {
                let params = BufferParams { min_alignment: alignment, ..BufferParams::default() };
                let buffer = allocator.allocate(params, size).expect("allocates");
                let (data, length) =
                    buffer.range(MappingMode::SCOPED, MemoryAccess::ALL, 0, WHOLE_BUFFER).expect("can be mapped");
                assert_eq!(length, size);
                assert!((data.as_ptr() as u64).is_multiple_of(alignment.max(HEAP_BUFFER_ALIGNMENT)));
                assert!(buffer_to_vec(&buffer, size).expect("can be read").iter().all(|byte| *byte == 0));
                // SAFETY: the buffer has that many bytes, and there is no other reference to it. Later buffers must not
                // show these bytes.
                unsafe { data.as_ptr().write_bytes(0xAA, size as usize) };
                assert_eq!(allocator.counters.in_use(), size);
            }
        }
        assert_eq!((allocator.counters.in_use(), allocator.statistics().device_bytes_peak), (0, 1 << 16));
    }

    #[test]
    fn unaligned_memory_is_imported_for_transfers_alone() {
        let bytes = Arc::new([0_u64; 32]);
        let import = |usage: BufferUsage, access: MemoryAccess| {
            // SAFETY: one byte after the first of an array is in the array.
            let data = unsafe { NonNull::from(&*bytes).cast::<u8>().add(1) };
            let owner: Arc<dyn Any + Send + Sync> = bytes.clone();
            let external = ExternalBuffer { r#type: ExternalBufferType::HostAllocation, data, size: 100, owner };
            let params = BufferParams { usage, access, ..BufferParams::default() };
            // SAFETY: the owner keeps the bytes, to which nothing writes.
            unsafe { HeapAllocator::new().import_buffer(params, &external) }
        };
        let unaligned = MemoryAccess::READ | MemoryAccess::UNALIGNED;
        let buffer = import(BufferUsage::TRANSFER, unaligned).expect("transfers need no alignment");
        assert_eq!(buffer_to_vec(&*buffer, 100).expect("can be read"), [0; 100]);
        for (usage, access) in [(BufferUsage::TRANSFER, MemoryAccess::READ), (BufferUsage::DEFAULT, unaligned)] {
            let refused = import(usage, access).expect_err("kernels need alignment, and it was not said");
            assert_eq!(refused.code(), StatusCode::Unavailable);
        }
    }

    #[test]
    fn a_limit_holds_for_all_threads_together() {
        let allocator = HeapAllocator::with_limit(1000);
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..1000 {
                        let buffer = allocator.allocate(BufferParams::default(), 400);
                        drop(buffer);
                    }
                });
            }
        });
        let statistics = allocator.statistics();
        assert!(statistics.device_bytes_peak <= 1000, "{statistics:?}");
        assert_eq!(statistics.device_bytes_allocated, statistics.device_bytes_freed);
    }
}
