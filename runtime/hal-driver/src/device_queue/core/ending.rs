//! The owner of a queue ([`Owner`]), which starts its threads and ends it. What was submitted completes also without
//! it, so the threads stay until then: the owner waits for them, but only where that cannot be for ever.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::driver_thread::is_driver_thread;
use super::hardware::{Clock, Hardware};
use super::state::Core;
use crate::device_queue::rules::{Rule, keeps};
use crate::device_queue::sync::atomic::Ordering;
use crate::device_queue::sync::{now, spawn, wait_a_while};
use crate::limits::scope::Scope;
use crate::status::{Result, Status};

/// A queue, as long as somebody may submit to it.
pub struct Owner<H: Hardware>(Arc<Core<H>>);

impl<H: Hardware> fmt::Debug for Owner<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl<H: Hardware> Owner<H> {
    /// Starts the threads of a queue.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED if there are no threads.
    pub fn start(core: Arc<Core<H>>) -> Result<Owner<H>> {
        let number = core.hardware.clocks()[0].number();
        // Drops what it has started if it cannot start all.
        let owner = Owner(core.clone());
        let completion = core.clone();
        core.start_thread(format!("{}-{number}", H::NAME), move || completion.run_completion())?;
        let feeder = core.clone();
        core.start_thread(format!("{}-feed-{number}", H::NAME), move || feeder.run_feeder())?;
        Ok(owner)
    }

    /// The queue.
    pub fn core(&self) -> &Arc<Core<H>> {
        &self.0
    }
}

impl<H: Hardware> Core<H> {
    fn start_thread(self: &Arc<Self>, name: String, run: impl FnOnce() + Send + 'static) -> Result<()> {
        let threads = self.threads.clone();
        let run = move || {
            // This drops its reference to the queue, which may be the last one but for that of who waits for the
            // thread.
            run();
            *threads.lock() -= 1;
            threads.ended.notify_all();
        };
        let mut running = self.threads.lock();
        let started = spawn(name, run);
        *running += u32::from(started.is_ok());
        started.map_err(|error| Status::resource_exhausted("there is no thread for a queue").with_source(error))
    }
}

impl<H: Hardware> Drop for Owner<H> {
    fn drop(&mut self) {
        let Owner(core) = self;
        core.is_closing.store(true, Ordering::SeqCst);
        core.wake_threads();
        // A thread of a queue may be what the work that is left waits for.
        if is_driver_thread() && keeps(Rule::DriverThreadsDoNotWait) {
            return;
        }
        let scope = Scope::current();
        let started = now();
        let is_long = |patience: Duration| now().saturating_duration_since(started) > patience.saturating_mul(2);
        let threads = core.threads.clone();
        let mut running = threads.lock();
        while *running != 0 {
            // Submissions that are held back may wait for what the caller does next. The threads end by themselves
            // then.
            if core.is_held() || scope.check().is_err() || core.hardware.patience().is_some_and(is_long) {
                return;
            }
            running = wait_a_while(&threads.running, &threads.ended, running);
        }
    }
}
