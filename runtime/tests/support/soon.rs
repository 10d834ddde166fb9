//! Waits for events that are there at once.

use std::task::Waker;
use std::time::Instant;

use vireo::Result;
use vireo::vm::WaitSource;

/// Is there at once.
pub struct Soon;

impl WaitSource for Soon {
    fn is_ready(&self) -> bool {
        true
    }

    fn block(&self, _: Option<Instant>) {}

    fn wake(&self, waker: &Waker) -> Result<()> {
        waker.wake_by_ref();
        Ok(())
    }
}
