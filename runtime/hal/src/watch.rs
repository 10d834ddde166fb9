//! Watches of allocations ([`WatchSlot`]): a recorder of a device is told which bytes the host wrote through a mapping
//! when the mapping ends ([`MappingWatcher`]). Buffers have a slot; it is empty unless a recorder fills it, and then it
//! also has the number by which the recorder knows the buffer. An object in the slot ends with the allocation
//! ([`WatchSlot::keep`]), by which a profile learns of its end.
//!
//! Devices map buffers as well, to run operations of their queues. They say so with [`MappingMode::UNWATCHED`].

use std::any::Any;
use std::fmt;
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock, Weak};

use crate::limits::work;
use crate::status::{Result, Status};
use crate::{Mapping, MappingMode, MemoryAccess};

/// Is told of mappings through which the host may write.
pub trait MappingWatcher: Any + Send + Sync {
    /// A mapping of an allocation has ended that could write. The bytes are those of the whole mapping.
    fn written(&self, allocation: u64, range: &WrittenRange<'_>);

    /// A mapping begins that the host may write to while devices use the allocation.
    fn mapped(&self, allocation: u64, mapping: &Arc<WatchedMapping>) {
        let _ = (allocation, mapping);
    }
}

/// The watch of an allocation, which has one at most, and an object that ends with it.
#[derive(Default)]
pub struct WatchSlot(OnceLock<Box<Slot>>);

#[derive(Default)]
struct Slot {
    watch: OnceLock<Watch>,
    kept: OnceLock<Box<dyn Any + Send + Sync>>,
}

struct Watch {
    allocation: u64,
    watcher: Arc<dyn MappingWatcher>,
}

impl WatchSlot {
    /// Sets the watcher, and the number by which it knows the allocation.
    ///
    /// # Errors
    /// FAILED_PRECONDITION if there is a watcher.
    pub fn set(&self, watcher: Arc<dyn MappingWatcher>, allocation: u64) -> Result<()> {
        let watch = Watch { allocation, watcher };
        let set = self.0.get_or_init(Box::default).watch.set(watch);
        set.map_err(|_| Status::failed_precondition("another recorder watches the buffer"))
    }

    /// Keeps an object as long as the allocation is there, or until it is used again.
    ///
    /// # Errors
    /// FAILED_PRECONDITION if it keeps one.
    pub fn keep(&self, object: Box<dyn Any + Send + Sync>) -> Result<()> {
        let kept = self.0.get_or_init(Box::default).kept.set(object);
        kept.map_err(|_| Status::failed_precondition("the buffer keeps an object of another observer"))
    }

    #[inline(always)]
    fn watch(&self) -> Option<&Watch> {
        self.0.get()?.watch.get()
    }

    /// The number of the allocation, if this is its watcher.
    #[inline]
    pub fn number(&self, watcher: &dyn MappingWatcher) -> Option<u64> {
        let watch = self.watch()?;
        std::ptr::addr_eq(Arc::as_ptr(&watch.watcher), watcher).then_some(watch.allocation)
    }

    /// Removes the watcher, and ends the object that is kept.
    pub fn clear(&mut self) {
        self.0.take();
    }

    /// A mapping of the range from `offset` on, whose end the watcher is told of.
    #[inline(always)]
    pub(crate) fn watched(&self, mode: MappingMode, access: MemoryAccess, offset: u64, mapping: Mapping) -> Mapping {
        match self.watch() {
            None => mapping,
            Some(watch) => watch.watched(mode, access, offset, mapping),
        }
    }
}

impl fmt::Debug for WatchSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.watch() {
            None => f.write_str("unwatched"),
            Some(watch) => write!(f, "watched as {}", watch.allocation),
        }
    }
}

impl Watch {
    #[cold]
    fn watched(&self, mode: MappingMode, access: MemoryAccess, offset: u64, mapping: Mapping) -> Mapping {
        let writes = access.intersects(MemoryAccess::WRITE | MemoryAccess::ANY);
        if !writes || mode.contains(MappingMode::UNWATCHED) {
            return mapping;
        }
        let Mapping { data, length, owner } = mapping;
        let (allocation, watcher) = (self.allocation, self.watcher.clone());
        let watched = Arc::new(WatchedMapping { watcher, allocation, offset, data, length, _owner: owner });
        if mode.contains(MappingMode::PERSISTENT) {
            self.watcher.mapped(allocation, &watched);
        }
        Mapping { data, length, owner: watched }
    }
}

/// A mapping that the host may write to. Its end is what the watcher is told of.
pub struct WatchedMapping {
    watcher: Arc<dyn MappingWatcher>,
    allocation: u64,
    offset: u64,
    data: NonNull<u8>,
    length: u64,
    _owner: Arc<dyn Any + Send + Sync>,
}

// SAFETY: the bytes are reached only through raw pointers, and `_owner` keeps them alive.
unsafe impl Send for WatchedMapping {}
// SAFETY: the bytes are reached only through raw pointers, and `_owner` keeps them alive; no Rust reference to them
// exists.
unsafe impl Sync for WatchedMapping {}

impl WatchedMapping {
    /// The range and its bytes.
    pub fn range(&self) -> WrittenRange<'_> {
        WrittenRange(self)
    }

    /// A reference that does not keep the mapping.
    pub fn downgrade(self: &Arc<Self>) -> Weak<WatchedMapping> {
        Arc::downgrade(self)
    }
}

impl fmt::Debug for WatchedMapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes at {} of allocation {}", self.length, self.offset, self.allocation)
    }
}

impl Drop for WatchedMapping {
    fn drop(&mut self) {
        self.watcher.written(self.allocation, &WrittenRange(self));
    }
}

/// A range of an allocation that the host may have written to.
#[derive(Clone, Copy, Debug)]
pub struct WrittenRange<'a>(&'a WatchedMapping);

impl WrittenRange<'_> {
    /// Its first byte in the allocation.
    pub fn offset(&self) -> u64 {
        self.0.offset
    }

    /// Number of bytes.
    pub fn length(&self) -> u64 {
        self.0.length
    }

    /// Copies `out.len()` bytes, from `start` on in the range.
    ///
    /// # Errors
    /// OUT_OF_RANGE if the range has fewer.
    pub fn read(&self, start: u64, out: &mut [u8]) -> Result<()> {
        crate::check_range(self.0.length, start, out.len() as u64)?;
        // SAFETY: the mapping, which its owner keeps, has `length` bytes at `data`, which `check_range` compared with;
        // `out` is exclusively borrowed, and no Rust reference to the bytes of a buffer exists.
        unsafe { work::copy_bytes(self.0.data.as_ptr().add(start as usize), out.as_mut_ptr(), out.len()) }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::transfer::unwatched;
    use crate::{
        Allocator, Buffer, BufferParams, HeapAllocator, WHOLE_BUFFER, buffer_copy, buffer_fill, buffer_read,
        buffer_write, subspan,
    };

    /// Keeps what it is told.
    #[derive(Default)]
    struct Told(Mutex<Vec<(u64, u64, Vec<u8>)>>, Mutex<Vec<Weak<WatchedMapping>>>);

    impl MappingWatcher for Told {
        fn written(&self, allocation: u64, range: &WrittenRange<'_>) {
            let mut bytes = vec![0; range.length() as usize];
            range.read(0, &mut bytes).expect("in range");
            self.0.lock().expect("no panic").push((allocation, range.offset(), bytes));
        }

        fn mapped(&self, _: u64, mapping: &Arc<WatchedMapping>) {
            self.1.lock().expect("no panic").push(mapping.downgrade());
        }
    }

    fn watched(number: u64) -> (Arc<Told>, Arc<dyn Buffer>) {
        let told = Arc::new(Told::default());
        let buffer = HeapAllocator::new().allocate_buffer(BufferParams::default(), 16).expect("allocates");
        let slot = buffer.watch_slot().expect("heap buffers have one");
        slot.set(told.clone(), number).expect("for the first time");
        assert_eq!((slot.number(&*told), slot.number(&Told::default())), (Some(number), None));
        assert!(slot.set(told.clone(), 1).is_err(), "an allocation has one watcher");
        (told, buffer)
    }

    #[test]
    fn writes_of_the_host_are_told_when_they_end() {
        let (told, buffer) = watched(7);
        let part = subspan(&buffer, 4, 8).expect("in range");
        buffer_write(&*part, 1, &[1, 2]).expect("in range");
        buffer_fill(&*buffer, 12, 4, &[9]).expect("in range");
        buffer_copy(&*buffer, 5, &*part, 4, 1).expect("in range");
        buffer_read(&*buffer, 0, &mut [0; 16]).expect("in range");
        let expected = [(7, 5, vec![1, 2]), (7, 12, vec![9; 4]), (7, 8, vec![1])];
        assert_eq!(*told.0.lock().expect("no panic"), expected);
    }

    #[test]
    fn transfers_of_devices_are_not_told() {
        let (told, buffer) = watched(7);
        unwatched::buffer_write(&*buffer, 1, &[1, 2]).expect("in range");
        unwatched::buffer_fill(&*buffer, 0, WHOLE_BUFFER, &[9]).expect("in range");
        unwatched::buffer_copy(&*buffer, 0, &*buffer, 4, 1).expect("in range");
        assert!(told.0.lock().expect("no panic").is_empty());
    }

    #[test]
    fn what_is_kept_ends_with_the_allocation() {
        let object = Arc::new(());
        let (_, buffer) = watched(7);
        let slot = buffer.watch_slot().expect("heap buffers have one");
        slot.keep(Box::new(object.clone())).expect("it keeps nothing");
        assert!(slot.keep(Box::new(())).is_err(), "it keeps one object");
        let part = subspan(&buffer, 4, 8).expect("in range");
        drop(buffer);
        assert_eq!(Arc::strong_count(&object), 2, "a part of the allocation is there");
        drop(part);
        assert_eq!(Arc::strong_count(&object), 1);
    }

    #[test]
    fn persistent_mappings_are_told_at_their_beginning() {
        let (told, buffer) = watched(3);
        let mapping = buffer.map_range(MappingMode::PERSISTENT, MemoryAccess::WRITE, 2, 4).expect("can be mapped");
        let seen = told.1.lock().expect("no panic")[0].upgrade().expect("it is mapped");
        // SAFETY: the mapping has four bytes, to which nothing refers.
        unsafe { mapping.data.as_ptr().write(5) };
        let mut bytes = [0; 4];
        seen.range().read(0, &mut bytes).expect("in range");
        assert_eq!((bytes, seen.range().offset()), ([5, 0, 0, 0], 2));
        assert!(seen.range().read(1, &mut [0; 4]).is_err(), "past the end");
        drop((seen, mapping));
        assert_eq!(*told.0.lock().expect("no panic"), [(3, 2, vec![5, 0, 0, 0])]);
        assert!(told.1.lock().expect("no panic")[0].upgrade().is_none());
    }
}
