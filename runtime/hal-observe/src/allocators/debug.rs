//! The debug allocator: fills new memory and freed memory with patterns, so that a program that reads unwritten memory,
//! or a kernel that keeps an address too long, gets conspicuous values; and lists the buffers that were never freed.
//!
//! It departs from the contract of allocators on purpose: the bytes of a new buffer are not zero. Programs of the
//! compiler do not rely on that.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::loan::{Lender, LentBuffer};
use crate::hal::forward::ForwardAllocator;
use crate::hal::transfer::unwatched::buffer_fill;
use crate::hal::{Allocator, Buffer, BufferParams, BufferUsage, Forward, MemoryAccess, MemoryType, WHOLE_BUFFER};
use crate::status::{Result, Status};

/// An allocator that fills the memory of another one with patterns.
#[derive(Debug)]
pub struct DebugAllocator {
    inner: Arc<dyn Allocator>,
    ledger: Arc<AllocationLedger>,
}

impl DebugAllocator {
    /// Each byte of a new buffer, as of the reference runtime's debug allocator. As floats they are -4.316021e8 (f32)
    /// and -6.277438562204e66 (f64).
    pub const NEW: u8 = 0xCD;
    /// Each byte of memory that was freed.
    pub const FREED: u8 = 0xDD;

    /// Fills memory of `inner`, and enters each buffer in `ledger` until it is freed.
    pub fn new(inner: Arc<dyn Allocator>, ledger: Arc<AllocationLedger>) -> Arc<Forward<DebugAllocator>> {
        Arc::new(Forward(DebugAllocator { inner, ledger }))
    }

    /// Its ledger.
    pub fn ledger(&self) -> &Arc<AllocationLedger> {
        &self.ledger
    }
}

impl ForwardAllocator for DebugAllocator {
    fn inner(&self) -> &Arc<dyn Allocator> {
        &self.inner
    }

    fn allocate_buffer(&self, params: BufferParams, allocation_size: u64) -> Result<Arc<dyn Buffer>> {
        // The program may ask for memory that it only reads, which has to be filled all the same.
        let wanted = BufferParams { access: params.access | MemoryAccess::ALL, ..params };
        let memory = self.inner.allocate_buffer(wanted, allocation_size)?;
        buffer_fill(&*memory, 0, WHOLE_BUFFER, &[DebugAllocator::NEW]).map_err(|status| {
            status.context("the debug allocator fills memory through a mapping, which this buffer does not have")
        })?;
        let access = if params.access.is_empty() { memory.allowed_access() } else { params.access };
        let entry = self.ledger.enter(&*memory);
        Ok(Arc::new(LentBuffer::new(memory, access, entry)))
    }
}

/// The buffers of debug allocators that are not freed. Hosts keep it to look at it when everything should be.
#[derive(Debug, Default)]
pub struct AllocationLedger(Mutex<Entries>);

#[derive(Debug, Default)]
struct Entries {
    live: BTreeMap<u64, LiveAllocation>,
    last: u64,
}

/// A buffer that is not freed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveAllocation {
    /// Counts the allocations from 1: the same number of the same program is the same buffer.
    pub number: u64,
    /// Its length in bytes.
    pub bytes: u64,
    /// The type of its memory.
    pub memory_type: MemoryType,
    /// Its usage.
    pub usage: BufferUsage,
}

impl fmt::Display for LiveAllocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LiveAllocation { number, bytes, memory_type, usage } = self;
        write!(f, "allocation {number}: {bytes} bytes of {memory_type:?} memory for {usage:?}")
    }
}

impl AllocationLedger {
    /// The buffers that are not freed, in the order in which they were allocated.
    pub fn live(&self) -> Vec<LiveAllocation> {
        self.lock().live.values().cloned().collect()
    }

    /// How many buffers were allocated so far.
    pub fn allocated(&self) -> u64 {
        self.lock().last
    }

    fn enter(self: &Arc<Self>, buffer: &dyn Buffer) -> Entry {
        let mut entries = self.lock();
        entries.last += 1;
        let number = entries.last;
        let live = LiveAllocation {
            number,
            bytes: buffer.byte_length(),
            memory_type: buffer.memory_type(),
            usage: buffer.allowed_usage(),
        };
        entries.live.insert(number, live);
        Entry { ledger: self.clone(), number }
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        // Nothing under the lock can panic between two changes.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A line of a ledger, which is removed when the buffer is freed.
struct Entry {
    ledger: Arc<AllocationLedger>,
    number: u64,
}

impl Lender for Entry {
    fn take_back(&self, memory: Arc<dyn Buffer>) {
        self.ledger.lock().live.remove(&self.number);
        // It could be filled when it was new. If it cannot be now, no caller could handle the failure, and it is freed
        // all the same.
        let _: Result<(), Status> = buffer_fill(&*memory, 0, WHOLE_BUFFER, &[DebugAllocator::FREED]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hal::{HeapAllocator, MappingMode, buffer_to_vec, buffer_write, subspan};

    fn debug() -> (Arc<Forward<DebugAllocator>>, Arc<AllocationLedger>) {
        let ledger = Arc::<AllocationLedger>::default();
        (DebugAllocator::new(Arc::new(HeapAllocator::new()), ledger.clone()), ledger)
    }

    #[test]
    fn new_memory_has_the_pattern_and_keeps_what_is_written() {
        let (allocator, _) = debug();
        for size in [0, 1, 63, 64, 5000] {
            let buffer = allocator.allocate_buffer(BufferParams::default(), size).expect("allocates");
            assert_eq!(buffer_to_vec(&*buffer, size).expect("is mapped"), vec![DebugAllocator::NEW; size as usize]);
            if size > 0 {
                buffer_write(&*buffer, 0, &[7]).expect("may be written");
                assert_eq!(buffer_to_vec(&*buffer, 1).expect("is mapped"), [7]);
            }
        }
        let read_only = BufferParams { access: MemoryAccess::READ, ..BufferParams::default() };
        let buffer = allocator.allocate_buffer(read_only, 3).expect("allocates");
        assert_eq!(buffer_to_vec(&*buffer, 3).expect("is mapped"), [DebugAllocator::NEW; 3]);
        assert!(buffer_write(&*buffer, 0, &[7]).is_err(), "the host may only read it");
    }

    /// Keeps what it has allocated, as a device that uses memory after it was freed.
    #[derive(Debug, Default)]
    struct Keeper {
        heap: HeapAllocator,
        kept: Mutex<Vec<Arc<dyn Buffer>>>,
    }

    impl Allocator for Keeper {
        fn trim(&self) -> Result<()> {
            Ok(())
        }

        fn statistics(&self) -> crate::hal::AllocatorStatistics {
            self.heap.statistics()
        }

        fn memory_heaps(&self) -> Vec<crate::hal::MemoryHeap> {
            self.heap.memory_heaps()
        }

        fn buffer_compatibility(&self, params: BufferParams, allocation_size: u64) -> crate::hal::BufferPlacement {
            self.heap.buffer_compatibility(params, allocation_size)
        }

        fn allocate_buffer(&self, params: BufferParams, allocation_size: u64) -> Result<Arc<dyn Buffer>> {
            let buffer = self.heap.allocate_buffer(params, allocation_size)?;
            self.kept.lock().expect("nothing panics").push(buffer.clone());
            Ok(buffer)
        }

        unsafe fn import_buffer(
            &self,
            params: BufferParams,
            external: &crate::hal::ExternalBuffer,
        ) -> Result<Arc<dyn Buffer>> {
            // SAFETY: the caller guarantees that the memory is there, and may be accessed so, as long as its owner.
            unsafe { self.heap.import_buffer(params, external) }
        }
    }

    #[test]
    fn freed_memory_has_another_pattern_but_not_while_it_is_mapped() {
        let keeper = Arc::<Keeper>::default();
        let allocator = DebugAllocator::new(keeper.clone(), Arc::default());
        let buffer = allocator.allocate_buffer(BufferParams::default(), 4).expect("allocates");
        let part = subspan(&buffer, 1, 2).expect("in range");
        let mapping = part.map_range(MappingMode::PERSISTENT, MemoryAccess::READ, 0, WHOLE_BUFFER).expect("is mapped");
        let memory = keeper.kept.lock().expect("nothing panics")[0].clone();
        let bytes = || buffer_to_vec(&*memory, 4).expect("is mapped");
        drop((buffer, part));
        assert_eq!(bytes(), [DebugAllocator::NEW; 4]);
        drop(mapping);
        assert_eq!(bytes(), [DebugAllocator::FREED; 4]);
    }

    #[test]
    fn the_ledger_has_what_is_not_freed() {
        let (allocator, ledger) = debug();
        let params = BufferParams { memory_type: MemoryType::HOST_LOCAL, ..BufferParams::default() };
        let buffers = [10, 20, 30].map(|size| allocator.allocate_buffer(params, size).expect("allocates"));
        let [_first, second, _third] = &buffers;
        let part = subspan(second, 4, 4).expect("in range");
        drop(buffers);
        let live = ledger.live();
        assert_eq!(live.iter().map(|live| (live.number, live.bytes)).collect::<Vec<_>>(), [(2, 20)]);
        let text = live[0].to_string();
        assert!(text.starts_with("allocation 2: 20 bytes of host_visible|"), "{text}");
        drop(part);
        assert_eq!((ledger.live(), ledger.allocated()), (Vec::new(), 3));
        assert_eq!(allocator.statistics().host_bytes_freed, 60);
    }

    #[test]
    fn memory_that_cannot_be_filled_is_refused() {
        /// Memory of a device that the host does not reach.
        #[derive(Debug)]
        struct Remote(Arc<dyn Allocator>);

        impl ForwardAllocator for Remote {
            fn inner(&self) -> &Arc<dyn Allocator> {
                &self.0
            }

            fn allocate_buffer(&self, params: BufferParams, allocation_size: u64) -> Result<Arc<dyn Buffer>> {
                let inner = self.0.allocate_buffer(params, allocation_size)?;
                Ok(Arc::new(Forward(Unmapped(inner))))
            }
        }

        #[derive(Debug)]
        struct Unmapped(Arc<dyn Buffer>);

        impl crate::hal::forward::ForwardBuffer for Unmapped {
            fn inner(&self) -> &Arc<dyn Buffer> {
                &self.0
            }

            fn map_range(&self, _: MappingMode, _: MemoryAccess, _: u64, _: u64) -> Result<crate::hal::Mapping> {
                Err(Status::permission_denied("not of the host"))
            }
        }

        let remote = Arc::new(Forward(Remote(Arc::new(HeapAllocator::new()))));
        let allocator = DebugAllocator::new(remote, Arc::default());
        let error = allocator.allocate_buffer(BufferParams::default(), 4).expect_err("cannot be filled");
        assert!(error.to_string().contains("fills memory through a mapping"), "{error}");
        assert_eq!(allocator.0.ledger().allocated(), 0);
    }
}
