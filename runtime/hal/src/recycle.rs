//! Free lists of objects that programs make at each call: the thread that drops the last reference to one recycles it
//! for the next. Timelines, transient buffers, queue operations and command programs come from such lists.
//!
//! An object is recycled only if there is no other reference to it, so one from the list is as good as a new one. Each
//! thread has a list of its own, without a lock. Worker threads drop objects that other threads make, so they push to a
//! list that all threads share.
//!
//! Objects use [`free_list!`]. Memory has free lists of other kinds: those of heap objects of the VM are linked through
//! the free memory, the block cache of pools is bounded by the most bytes that were in use at once, and each thread
//! keeps two mappings of stacks.

use std::cell::RefCell;
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::LocalKey;

use crate::blocking;

/// Most free objects of one kind for each thread, where a list does not say otherwise.
pub const MAX_FREE: usize = 32;

/// A free list of objects of several kinds. Made by [`free_list!`].
pub struct FreeList<T: 'static, const KINDS: usize = 1> {
    local: &'static LocalKey<RefCell<[Vec<T>; KINDS]>>,
    /// Most free objects of each kind, for each thread, and as many again in the shared list.
    capacity: [usize; KINDS],
    /// Free objects for all threads.
    shared: Mutex<[Vec<T>; KINDS]>,
    /// The length of the shared lists: threads take the lock only if it is not zero.
    count: AtomicUsize,
}

/// Defines a static [`FreeList`] of one kind of objects with the capacity for each thread, or of several kinds with one
/// capacity each.
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
    /// An empty free list.
    pub const fn new(local: &'static LocalKey<RefCell<[Vec<T>; KINDS]>>, capacity: [usize; KINDS]) -> Self {
        FreeList { local, capacity, shared: Mutex::new([const { Vec::new() }; KINDS]), count: AtomicUsize::new(0) }
    }

    /// A free object of a kind, from the thread's list or else from the shared one.
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

    /// The newest free object of a kind that `fits`, from the thread's list or else from the shared one.
    #[inline]
    pub fn pop_where(&self, kind: usize, fits: impl Fn(&T) -> bool) -> Option<T> {
        match self.local.try_with(|objects| take_newest(&mut objects.try_borrow_mut().ok()?[kind], &fits)) {
            Ok(Some(object)) => Some(object),
            _ if self.count.load(Ordering::Relaxed) > 0 => {
                let object = take_newest(&mut self.lock()[kind], &fits)?;
                self.count.fetch_sub(1, Ordering::Relaxed);
                Some(object)
            }
            _ => None,
        }
    }

    /// Adds an object that is fit to be used again. If the list of its kind is full, the oldest one in it is dropped:
    /// what was used last is most likely to fit the next request.
    #[inline]
    pub fn push(&self, kind: usize, object: T) {
        if blocking::is_worker() {
            return self.push_shared(kind, object);
        }
        // While a thread ends its list is gone, and the object is dropped.
        let replaced = self.local.try_with(|objects| match objects.try_borrow_mut() {
            Ok(mut objects) => push_within(&mut objects[kind], self.capacity[kind], object),
            Err(_) => None,
        });
        // Nothing is borrowed while it is dropped.
        drop(replaced);
    }

    #[cold]
    fn push_shared(&self, kind: usize, object: T) {
        let replaced = push_within(&mut self.lock()[kind], self.capacity[kind], object);
        if replaced.is_none() {
            self.count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Drops the free objects of the calling thread and those of the shared lists.
    pub fn trim(&self) {
        // Taken out first, so that nothing is borrowed or locked while it is freed.
        let local = self
            .local
            .try_with(|objects| objects.try_borrow_mut().map(|mut objects| objects.each_mut().map(std::mem::take)));
        let shared = self.lock().each_mut().map(std::mem::take);
        self.count.fetch_sub(shared.iter().map(Vec::len).sum(), Ordering::Relaxed);
        drop((local, shared));
    }

    /// Number of free objects of the calling thread.
    #[doc(hidden)]
    pub fn local_len(&self) -> usize {
        self.local.with_borrow(|objects| objects.iter().map(Vec::len).sum())
    }

    fn lock(&self) -> MutexGuard<'_, [Vec<T>; KINDS]> {
        // Nothing runs under the lock.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes out the newest object that fits; the others keep their order.
fn take_newest<T>(objects: &mut Vec<T>, fits: impl Fn(&T) -> bool) -> Option<T> {
    let index = objects.iter().rposition(fits)?;
    Some(objects.remove(index))
}

/// Pushes an object. If there are `capacity` already, the oldest one is taken out and returned, or this one if there
/// may be none.
fn push_within<T>(objects: &mut Vec<T>, capacity: usize, object: T) -> Option<T> {
    if capacity == 0 {
        return Some(object);
    }
    if objects.len() >= capacity {
        let oldest = objects.remove(0);
        objects.push(object);
        return Some(oldest);
    }
    // The whole capacity is allocated at once, so that later calls allocate nothing.
    objects.reserve_exact(capacity - objects.len());
    objects.push(object);
    None
}

/// An object without other references, weak ones included. It is checked once, when the object is recycled, which takes
/// an atomic operation; using it again then takes none.
pub struct Unshared<T>(Arc<T>);

impl<T> Unshared<T> {
    /// The object, if there is no other reference to it; otherwise this one is dropped.
    #[inline]
    pub fn new(mut object: Arc<T>) -> Option<Unshared<T>> {
        Arc::get_mut(&mut object)?;
        Some(Unshared(object))
    }

    /// A new object.
    pub fn of(object: T) -> Unshared<T> {
        Unshared(Arc::new(object))
    }

    /// The object, to be shared again.
    #[inline]
    pub fn into_shared(self) -> Arc<T> {
        self.0
    }
}

impl<T> Deref for Unshared<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Unshared<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: `new` found no other reference, and none was made since: that takes this one, the only one there is.
        unsafe { &mut *Arc::as_ptr(&self.0).cast_mut() }
    }
}

/// The memory of an object that was moved out.
pub type Uninit<T> = Unshared<MaybeUninit<T>>;

/// Moves `value` to memory from the free list, or to new memory.
pub fn new_arc<T>(free_list: &FreeList<Uninit<T>>, value: T) -> Arc<T> {
    let Some(mut memory) = free_list.pop(0) else { return Arc::new(value) };
    memory.write(value);
    // SAFETY: it was just written.
    unsafe { memory.into_shared().assume_init() }
}

/// Moves an object out if there is no other reference to it, and adds its memory to the free list.
pub fn into_inner<T>(free_list: &FreeList<Uninit<T>>, object: Arc<T>) -> Option<T> {
    let mut object = Unshared::new(object)?;
    let value = std::ptr::from_mut(&mut *object);
    // SAFETY: there is no other reference to the object. It is moved out, and its memory becomes `MaybeUninit` of the
    // same layout, so it is neither read nor dropped again.
    let (value, memory) = unsafe {
        let value = value.read();
        (value, Unshared(Arc::from_raw(Arc::into_raw(object.into_shared()).cast::<MaybeUninit<T>>())))
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
    fn a_recycled_timeline_is_reset() {
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
    fn workers_push_to_the_shared_list() {
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
        assert_eq!([(); 4].map(|()| FREE.pop(1)), [Some(9), Some(4), Some(3), None]);
        (0..3).for_each(|object| FREE.push(1, object));
        assert_eq!((FREE.pop_where(1, |object| *object < 2), FREE.pop_where(1, |object| *object < 2)), (Some(1), None));
        FREE.trim();
        worker(1).join().expect("keeps one");
        assert_eq!(FREE.pop(0), None);
        FREE.trim();
        assert_eq!((FREE.pop(1), FREE.count.load(Ordering::Relaxed)), (None, 0));
    }

    #[test]
    fn subspans_are_recycled_and_release_their_allocation() {
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
    fn a_timeline_with_other_references_is_not_recycled() {
        let held = timeline(1);
        drop(Ref::new(Fence::at(held.clone(), 2)));
        held.signal(2).expect("advances");
        let other = timeline(0);
        assert!(!Arc::ptr_eq(&held, &other));
        assert_eq!(held.query().expect("did not fail"), 2);
    }
}
