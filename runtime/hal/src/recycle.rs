//! Free lists of objects that are made again at each call: the thread that lets go of the last reference to one recycles it for the next.
//!
//! Only what nobody else refers to is kept, so a kept object is as good as a new one, and who holds a reference of his own loses nothing.
//! Workers of devices let go of what others make, so what they keep is there for all threads.
//!
//! [`free_list!`] is the free list of all objects. Memory without objects has lists of its own: cells of the VM are chained through the memory
//! that is free, blocks are bounded by the bytes that were in use at once, and mappings of stacks are two for each thread.

use std::cell::RefCell;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::LocalKey;

use crate::blocking;

/// Most objects of one kind that a thread keeps, where nothing else is said.
pub const MAX_FREE: usize = 32;

/// A free list of objects of several kinds. Made by [`free_list!`].
pub struct FreeList<T: 'static, const KINDS: usize = 1> {
    local: &'static LocalKey<RefCell<[Vec<T>; KINDS]>>,
    /// Most objects of each kind that one thread keeps, and most that are there for all.
    capacity: [usize; KINDS],
    /// Those that are there for all threads.
    shared: Mutex<[Vec<T>; KINDS]>,
    /// How many of them there are, so that mostly nobody takes the lock.
    count: AtomicUsize,
}

/// Defines a static [`FreeList`] of one kind of objects, of which each thread keeps so many at most, or of several kinds.
#[doc(hidden)]
#[macro_export]
macro_rules! free_list {
    ($(#[$doc:meta])* static $name:ident: [$object:ty; $kinds:expr], $capacity:expr) => {
        $(#[$doc])*
        static $name: $crate::recycle::FreeList<$object, { $kinds }> = {
            thread_local! {
                static LOCAL: std::cell::RefCell<[Vec<$object>; $kinds]> =
                    const { std::cell::RefCell::new([const { Vec::new() }; $kinds]) };
            }
            $crate::recycle::FreeList::new(&LOCAL, $capacity)
        };
    };
    ($(#[$doc:meta])* static $name:ident: $object:ty, $capacity:expr) => {
        $crate::recycle::free_list! { $(#[$doc])* static $name: [$object; 1], [$capacity] }
    };
}
pub use crate::free_list;

impl<T, const KINDS: usize> FreeList<T, KINDS> {
    /// None.
    pub const fn new(local: &'static LocalKey<RefCell<[Vec<T>; KINDS]>>, capacity: [usize; KINDS]) -> Self {
        FreeList { local, capacity, shared: Mutex::new([const { Vec::new() }; KINDS]), count: AtomicUsize::new(0) }
    }

    /// One of those that are kept of a kind.
    #[inline]
    pub fn pop(&self, kind: usize) -> Option<T> {
        match self.local.try_with(|objects| objects.try_borrow_mut().ok()?[kind].pop()) {
            Ok(Some(object)) => Some(object),
            _ if self.count.load(Ordering::Relaxed) > 0 => self.pop_shared(kind),
            _ => None,
        }
    }

    #[cold]
    fn pop_shared(&self, kind: usize) -> Option<T> {
        let object = self.lock()[kind].pop()?;
        self.count.fetch_sub(1, Ordering::Relaxed);
        Some(object)
    }

    /// Keeps an object that is fit to be used again, unless there are enough of its kind.
    #[inline]
    pub fn push(&self, kind: usize, object: T) {
        if blocking::is_worker() {
            return self.push_shared(kind, object);
        }
        // At the end of a thread nothing is kept.
        let _ = self.local.try_with(|objects| {
            if let Ok(mut objects) = objects.try_borrow_mut() {
                push_within(&mut objects[kind], self.capacity[kind], object);
            }
        });
    }

    #[cold]
    fn push_shared(&self, kind: usize, object: T) {
        let left = push_within(&mut self.lock()[kind], self.capacity[kind], object);
        if left.is_none() {
            self.count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Frees what the calling thread keeps and what is there for all.
    pub fn trim(&self) {
        // Taken out first, so that nothing is borrowed or locked while it is freed.
        let local = self
            .local
            .try_with(|objects| objects.try_borrow_mut().map(|mut objects| objects.each_mut().map(std::mem::take)));
        let shared = self.lock().each_mut().map(std::mem::take);
        self.count.fetch_sub(shared.iter().map(Vec::len).sum(), Ordering::Relaxed);
        drop((local, shared));
    }

    /// How many the calling thread keeps.
    #[cfg(test)]
    pub fn local_len(&self) -> usize {
        self.local.with_borrow(|objects| objects.iter().map(Vec::len).sum())
    }

    fn lock(&self) -> MutexGuard<'_, [Vec<T>; KINDS]> {
        // Nothing runs under the lock.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Puts an object to others, or returns it if there are enough.
fn push_within<T>(objects: &mut Vec<T>, capacity: usize, object: T) -> Option<T> {
    if objects.len() >= capacity {
        return Some(object);
    }
    // All of its memory at once: later no call needs more of it.
    objects.reserve_exact(capacity - objects.len());
    objects.push(object);
    None
}

/// Memory of an object that is gone.
pub type Uninit<T> = Arc<MaybeUninit<T>>;

/// Moves `value` to memory that is kept, or to new memory.
pub fn new_arc<T>(free_list: &FreeList<Uninit<T>>, value: T) -> Arc<T> {
    if let Some(mut memory) = free_list.pop(0)
        && let Some(slot) = Arc::get_mut(&mut memory)
    {
        slot.write(value);
        // SAFETY: it was just written.
        return unsafe { memory.assume_init() };
    }
    Arc::new(value)
}

/// Moves an object out that nobody else refers to, and keeps its memory.
pub fn into_inner<T>(free_list: &FreeList<Uninit<T>>, mut object: Arc<T>) -> Option<T> {
    let value = std::ptr::from_mut(Arc::get_mut(&mut object)?);
    // SAFETY: nobody else refers to the object. It is moved out, and what is left counts as memory that is not initialised, of the same
    // layout; so it is neither read nor dropped again.
    let (value, memory) = unsafe {
        let value = value.read();
        (value, Arc::from_raw(Arc::into_raw(object).cast::<MaybeUninit<T>>()))
    };
    free_list.push(0, memory);
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::semaphore::timeline;
    use crate::status::{Status, StatusCode};
    use crate::vm::Ref;
    use crate::{Allocator, Fence, Handle};

    #[test]
    fn a_timeline_that_is_made_again_remembers_nothing() {
        let first = timeline(7);
        let address = Arc::as_ptr(&first).cast::<()>();
        first.fail(Status::data_loss("the cause"));
        let told = Arc::new(Mutex::new(None));
        let second = timeline(0);
        let listener = told.clone();
        second.notify(5, Box::new(move |outcome| *listener.lock().expect("no panic") = Some(outcome)));
        drop(Ref::new(Fence::at(first, 8)));
        drop(Ref::new(Fence::at(second, 5)));
        let outcome = told.lock().expect("no panic").take().expect("nobody can reach the point");
        assert_eq!(outcome.expect_err("nobody did").code(), StatusCode::Aborted);
        let again = [timeline(3), timeline(4)];
        assert!(again.iter().any(|timeline| Arc::as_ptr(timeline).cast::<()>() == address));
        assert_eq!(again.map(|timeline| timeline.query().expect("did not fail")), [3, 4]);
    }

    #[test]
    fn what_workers_let_go_is_there_for_all() {
        struct Nobody;

        impl blocking::WorkerPool for Nobody {
            fn begin_blocking(&self) {}

            fn end_blocking(&self) {}
        }

        free_list! { static FREE: [u32; 2], [3, 2] }

        let worker = |count| {
            std::thread::spawn(move || {
                blocking::join(Arc::new(Nobody));
                (0..count).for_each(|object| FREE.push(1, object));
                assert_eq!(FREE.local_len(), 0);
            })
        };
        worker(5).join().expect("keeps two");
        FREE.push(1, 9);
        assert_eq!([(); 4].map(|()| FREE.pop(1)), [Some(9), Some(1), Some(0), None]);
        worker(1).join().expect("keeps one");
        assert_eq!(FREE.pop(0), None);
        FREE.trim();
        assert_eq!((FREE.pop(1), FREE.count.load(Ordering::Relaxed)), (None, 0));
    }

    #[test]
    fn subspans_are_made_in_the_same_memory_and_let_go_what_they_are_of() {
        let allocator = crate::HeapAllocator::new();
        let whole = allocator.allocate_buffer(crate::BufferParams::default(), 100).expect("allocates");
        let first = crate::subspan(&whole, 1, 50).expect("within");
        let address = Arc::as_ptr(&first).cast::<()>();
        drop(Ref::new(Handle(first)));
        assert_eq!(Arc::strong_count(&whole), 1);
        let second = crate::subspan(&whole, 2, 60).expect("within");
        assert_eq!((Arc::as_ptr(&second).cast::<()>(), second.byte_offset(), second.byte_length()), (address, 2, 60));
        let third = crate::subspan(&second, 1, 59).expect("within");
        drop((second, third));
        assert_eq!(Arc::strong_count(&whole), 1);
    }

    #[test]
    fn a_timeline_that_others_hold_stays_theirs() {
        let held = timeline(1);
        drop(Ref::new(Fence::at(held.clone(), 2)));
        held.signal(2).expect("advances");
        let other = timeline(0);
        assert!(!Arc::ptr_eq(&held, &other));
        assert_eq!(held.query().expect("did not fail"), 2);
    }
}
