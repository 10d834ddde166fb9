//! Forks of the process: its workers finish what they run, and the child starts others.

use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError, Weak};
use std::time::Instant;

use vireo_core::blocking::is_worker;
use vireo_core::fork::{self, Crew, Held, Side};

use super::executor::{Executor, PoolState, ThreadPool};

impl Executor {
    /// Lets forks of the process wait for the workers.
    pub(crate) fn register_for_forks(&self) {
        let pool: Weak<ThreadPool> = Arc::downgrade(&self.pool);
        fork::register(pool);
    }
}

impl Crew for ThreadPool {
    fn wait(&self, end: Instant) {
        let mut state = self.lock();
        state.forks += 1;
        let left = end.saturating_duration_since(Instant::now());
        let waited = self.idle.wait_timeout_while(state, left, |state| !state.is_idle(callers()));
        waited.unwrap_or_else(PoisonError::into_inner).0.forks -= 1;
    }

    fn hold(&self) -> Box<dyn Held + '_> {
        Box::new(HeldPool { pool: self, state: self.lock() })
    }
}

/// One if a worker forks, which need not wait for itself.
fn callers() -> usize {
    usize::from(is_worker())
}

struct HeldPool<'a> {
    pool: &'a ThreadPool,
    state: MutexGuard<'a, PoolState>,
}

impl Held for HeldPool<'_> {
    fn is_idle(&self) -> bool {
        self.state.is_idle(callers())
    }

    fn resume(&mut self, side: Side) {
        if side == Side::Parent {
            return;
        }
        self.state.begin_anew();
        self.pool.busy.store(0, Ordering::Relaxed);
        self.pool.spinning.store(0, Ordering::Relaxed);
    }
}
