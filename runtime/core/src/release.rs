//! Releasing what owns others. Programs let objects own objects to any depth, directly or through buffers of devices,
//! so dropping one must not recurse: beyond a few levels, what is to be dropped waits in a queue that the outermost
//! drop of the thread works off.
//!
//! Heap objects of the VM are dropped by [`release`], and owners of memory are kept as [`SharedOwner`].

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Arc;

/// Drops inside of each other that do not wait: about as many as there are in objects of programs that mean well, such
/// as a view of a buffer in a list. More would take stack.
const MAX_DEPTH: u32 = 8;

/// Something to be dropped.
enum Pending {
    Object { object: NonNull<()>, drop: unsafe fn(NonNull<()>) },
    Owner { _owner: Arc<dyn Any + Send + Sync> },
}

impl Pending {
    #[inline]
    fn drop_now(self) {
        if let Pending::Object { object, drop } = self {
            // SAFETY: who called `release` guarantees it.
            unsafe { drop(object) };
        }
    }
}

thread_local! {
    /// How many drops the thread is inside of.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    /// Whether something waits. It is read often, so it is a flag of its own.
    static ANY_WAITS: Cell<bool> = const { Cell::new(false) };
    /// The objects that wait. The queue has no destructor, so that other destructors can drop objects at the end of a
    /// thread.
    static QUEUE: ManuallyDrop<RefCell<Vec<Pending>>> = const { ManuallyDrop::new(RefCell::new(Vec::new())) };
}

/// Counts a drop as long as it lives, also if a destructor panics. The outermost one works off the queue when it ends.
struct Level(u32);

impl Level {
    #[inline]
    fn enter(depth: u32) -> Level {
        DEPTH.set(depth + 1);
        Level(depth)
    }
}

impl Drop for Level {
    #[inline]
    fn drop(&mut self) {
        if self.0 == 0 && ANY_WAITS.get() {
            work_off();
        }
        DEPTH.set(self.0);
    }
}

/// Calls `drop` with `object`, now or before the outermost drop of the thread returns.
///
/// # Safety
/// `drop` must be callable with it once, on this thread, as long as that takes.
#[inline]
pub unsafe fn release(object: NonNull<()>, drop: unsafe fn(NonNull<()>)) {
    let depth = DEPTH.get();
    if depth >= MAX_DEPTH {
        return wait(Pending::Object { object, drop });
    }
    let _level = Level::enter(depth);
    // SAFETY: the caller guarantees that `drop` may be called with the object once, on this thread.
    unsafe { drop(object) };
}

#[cold]
fn wait(pending: Pending) {
    ANY_WAITS.set(true);
    QUEUE.with(|queue| queue.borrow_mut().push(pending));
}

#[cold]
fn work_off() {
    /// A destructor may panic here, too.
    struct Outermost;

    impl Drop for Outermost {
        fn drop(&mut self) {
            DEPTH.set(0);
        }
    }

    let _outermost = Outermost;
    while let Some(pending) = QUEUE.with(|queue| queue.borrow_mut().pop()) {
        pending.drop_now();
    }
    ANY_WAITS.set(false);
    QUEUE.with(|queue| *queue.borrow_mut() = Vec::new());
}

/// An owner of memory, which is released as [`release`] does. It can own what owns another one, and so on.
pub struct SharedOwner(ManuallyDrop<Arc<dyn Any + Send + Sync>>);

impl SharedOwner {
    /// The owner, mutably.
    pub fn get_mut(&mut self) -> &mut Arc<dyn Any + Send + Sync> {
        &mut self.0
    }

    /// Gives up that it is released in turn.
    pub fn into_inner(mut self) -> Arc<dyn Any + Send + Sync> {
        // SAFETY: it is taken once, because the value is forgotten.
        let owner = unsafe { ManuallyDrop::take(&mut self.0) };
        std::mem::forget(self);
        owner
    }
}

impl From<Arc<dyn Any + Send + Sync>> for SharedOwner {
    fn from(owner: Arc<dyn Any + Send + Sync>) -> SharedOwner {
        SharedOwner(ManuallyDrop::new(owner))
    }
}

impl Clone for SharedOwner {
    fn clone(&self) -> SharedOwner {
        SharedOwner::from(Arc::clone(&self.0))
    }
}

impl Deref for SharedOwner {
    type Target = Arc<dyn Any + Send + Sync>;

    fn deref(&self) -> &Arc<dyn Any + Send + Sync> {
        &self.0
    }
}

impl Drop for SharedOwner {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: it is taken once, when the value is dropped.
        let owner = unsafe { ManuallyDrop::take(&mut self.0) };
        let depth = DEPTH.get();
        if depth >= MAX_DEPTH {
            return wait(Pending::Owner { _owner: owner });
        }
        let _level = Level::enter(depth);
        drop(owner);
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use super::*;

    struct Link {
        _next: Option<SharedOwner>,
        dropped: Arc<AtomicUsize>,
        panics: bool,
    }

    impl Drop for Link {
        fn drop(&mut self) {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            assert!(!self.panics, "as the test wants");
        }
    }

    fn chain(length: usize, dropped: &Arc<AtomicUsize>, panics: impl Fn(usize) -> bool) -> Option<SharedOwner> {
        let link = |next, index| {
            let owner: Arc<dyn Any + Send + Sync> =
                Arc::new(Link { _next: next, dropped: dropped.clone(), panics: panics(index) });
            Some(SharedOwner::from(owner))
        };
        (0..length).fold(None, link)
    }

    #[test]
    fn a_long_chain_needs_little_stack() {
        let dropped = Arc::new(AtomicUsize::new(0));
        let count = dropped.clone();
        let run = move || drop(chain(1_000_000, &count, |_| false));
        thread::Builder::new().stack_size(64 << 10).spawn(run).expect("starts").join().expect("has enough stack");
        assert_eq!(dropped.load(Ordering::Relaxed), 1_000_000);
    }

    #[test]
    fn owners_are_dropped_before_the_outermost_drop_returns_and_once() {
        let dropped = Arc::new(AtomicUsize::new(0));
        let chain = chain(100, &dropped, |_| false);
        let other = chain.clone();
        drop(chain);
        assert_eq!(dropped.load(Ordering::Relaxed), 0);
        drop(other);
        assert_eq!((dropped.load(Ordering::Relaxed), DEPTH.get(), ANY_WAITS.get()), (100, 0, false));
    }

    #[test]
    fn a_panic_does_not_keep_others_from_being_dropped() {
        let dropped = Arc::new(AtomicUsize::new(0));
        let chain_that_panics = chain(100, &dropped, |index| index == 50);
        catch_unwind(AssertUnwindSafe(|| drop(chain_that_panics))).expect_err("panics");
        assert_eq!(DEPTH.get(), 0);
        drop(chain(1, &dropped, |_| false));
        assert_eq!((dropped.load(Ordering::Relaxed), ANY_WAITS.get()), (101, false));
    }
}
