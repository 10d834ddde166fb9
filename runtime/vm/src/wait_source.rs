//! Wait sources: what an invocation waits for. Native functions return one, and hosts that poll block on it.
//!
//! [`BoxedWaitSource`] takes its memory from the free lists of heap objects, so a call that waits for a device
//! allocates nothing for that.

use std::alloc::Layout;
use std::fmt;
use std::ops::Deref;
use std::ptr::NonNull;
use std::task::Waker;
use std::time::Instant;

use super::object_memory;
use crate::status::Result;

/// Something an invocation can wait for.
pub trait WaitSource: Send {
    /// True once the wait is over, successfully or not. Never blocks.
    fn is_ready(&self) -> bool;

    /// Blocks until ready or until `deadline`. Returning early is allowed; the caller asks `is_ready` again.
    fn block(&self, deadline: Option<Instant>);

    /// Wakes an asynchronous task once the wait is over, at once if it is over already. It takes the place of the task
    /// that was given before.
    ///
    /// # Errors
    /// Failures of whatever the wait source needs for that; the task is not woken then.
    fn wake(&self, waker: &Waker) -> Result<()>;
}

/// A wait source of any type, in memory of its own: a box.
pub struct BoxedWaitSource(NonNull<dyn WaitSource>);

// SAFETY: it owns what it points to, which may go to other threads.
unsafe impl Send for BoxedWaitSource {}

impl BoxedWaitSource {
    /// Moves a wait source into memory of its own.
    pub fn new<W: WaitSource + 'static>(wait: W) -> BoxedWaitSource {
        let memory = object_memory::allocate(layout(Layout::for_value(&wait))).cast::<W>();
        // SAFETY: the memory is new, and large and aligned enough.
        unsafe { memory.write(wait) };
        BoxedWaitSource(memory)
    }
}

/// The layout of a block for a value; blocks are never empty.
fn layout(layout: Layout) -> Layout {
    if layout.size() == 0 { Layout::new::<usize>() } else { layout }
}

impl Deref for BoxedWaitSource {
    type Target = dyn WaitSource;

    #[inline]
    fn deref(&self) -> &Self::Target {
        // SAFETY: `new` wrote the value, and this owns it.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for BoxedWaitSource {
    #[inline]
    fn drop(&mut self) {
        let layout = layout(Layout::for_value(&**self));
        // SAFETY: nothing uses the value any more, and `object_memory` allocated the block with the same layout.
        unsafe {
            self.0.drop_in_place();
            object_memory::free(self.0.cast(), layout);
        }
    }
}

impl fmt::Debug for BoxedWaitSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "waiting({})", if self.is_ready() { "ready" } else { "not ready" })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    struct Nothing;

    impl WaitSource for Nothing {
        fn is_ready(&self) -> bool {
            true
        }

        fn block(&self, _deadline: Option<Instant>) {}

        fn wake(&self, waker: &Waker) -> Result<()> {
            waker.wake_by_ref();
            Ok(())
        }
    }

    struct Something<const SIZE: usize>(#[expect(dead_code, reason = "counted")] Arc<()>, [u8; SIZE]);

    impl<const SIZE: usize> WaitSource for Something<SIZE> {
        fn is_ready(&self) -> bool {
            self.1.iter().all(|byte| *byte == 7)
        }

        fn block(&self, _deadline: Option<Instant>) {}

        fn wake(&self, waker: &Waker) -> Result<()> {
            waker.wake_by_ref();
            Ok(())
        }
    }

    #[test]
    fn anything_fits_and_is_dropped_once() {
        let count = Arc::new(());
        for _ in 0..3 {
            let all = [
                BoxedWaitSource::new(Nothing),
                BoxedWaitSource::new(Something(count.clone(), [7; 1])),
                BoxedWaitSource::new(Something(count.clone(), [7; 1000])),
            ];
            assert!(all.iter().all(|wait| wait.is_ready()));
            assert_eq!(Arc::strong_count(&count), 3);
        }
        assert_eq!(Arc::strong_count(&count), 1);
    }
}
