//! The state of a buffer that is an allocation of its own, whatever its memory: its length, type, access, usage and
//! holders. The buffers of drivers and of allocators have it.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::{BufferUsage, Mapping, MappingMode, MemoryAccess, MemoryType, WatchSlot};

/// The properties of a buffer that is an allocation of its own, and how many holders preserve it.
#[derive(Debug)]
pub struct AllocationState {
    /// Bytes.
    pub length: u64,
    /// Type of the memory.
    pub memory_type: MemoryType,
    /// Allowed access.
    pub access: MemoryAccess,
    /// Allowed usage.
    pub usage: BufferUsage,
    holders: AtomicU32,
    /// The watch of what the host writes, if there is one.
    pub watch: WatchSlot,
}

impl AllocationState {
    /// The state of a new buffer, which has one holder.
    pub fn new(length: u64, memory_type: MemoryType, access: MemoryAccess, usage: BufferUsage) -> AllocationState {
        AllocationState { length, memory_type, access, usage, holders: AtomicU32::new(1), watch: WatchSlot::default() }
    }

    /// Adds a holder.
    pub fn preserve(&self) {
        self.holders.fetch_add(1, Ordering::Relaxed);
    }

    /// Removes a holder; true if it was the last. More discards than there were holders change nothing.
    pub fn discard(&self) -> bool {
        self.holders
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |count| count.checked_sub(1))
            .is_ok_and(|before| before == 1)
    }

    /// A mapping of the range from `offset` on, whose end the watch of the allocation is told of if it can write.
    #[inline(always)]
    pub fn watched(&self, mode: MappingMode, access: MemoryAccess, offset: u64, mapping: Mapping) -> Mapping {
        self.watch.watched(mode, access, offset, mapping)
    }

    /// Whether there is one holder.
    pub fn is_terminal(&self) -> bool {
        self.holders.load(Ordering::Acquire) == 1
    }
}

/// Implements the methods of [`Buffer`](crate::Buffer) that only describe an allocation, with the [`AllocationState`]
/// in the field `state`.
#[doc(hidden)]
#[macro_export]
macro_rules! state_methods {
    () => {
        fn allocation(&self) -> Option<std::sync::Arc<dyn $crate::Buffer>> {
            None
        }

        fn byte_offset(&self) -> u64 {
            0
        }

        fn byte_length(&self) -> u64 {
            self.state.length
        }

        fn memory_type(&self) -> $crate::MemoryType {
            self.state.memory_type
        }

        fn allowed_access(&self) -> $crate::MemoryAccess {
            self.state.access
        }

        fn allowed_usage(&self) -> $crate::BufferUsage {
            self.state.usage
        }

        fn preserve(&self) {
            self.state.preserve();
        }

        fn discard(&self) -> bool {
            self.state.discard()
        }

        fn is_terminal(&self) -> bool {
            self.state.is_terminal()
        }

        fn watch_slot(&self) -> Option<&$crate::WatchSlot> {
            Some(&self.state.watch)
        }
    };
}

/// As [`state_methods`], and those of memory that has the length of the buffer and needs no flush. The caller has
/// imported `Result`.
#[doc(hidden)]
#[macro_export]
macro_rules! allocation_methods {
    () => {
        $crate::state_methods!();

        fn allocation_size(&self) -> u64 {
            self.state.length
        }

        fn invalidate_range(&self, offset: u64, length: u64) -> Result<()> {
            $crate::transfer::check_range(self.state.length, offset, length).map(drop)
        }

        fn flush_range(&self, offset: u64, length: u64) -> Result<()> {
            $crate::transfer::check_range(self.state.length, offset, length).map(drop)
        }
    };
}
pub use crate::{allocation_methods, state_methods};
