//! Threads for what the host does on behalf of a queue: files and host calls ([`HostWorkers`]). They may block, also on
//! each other, so there are as many as are busy at a time; an idle one takes the next piece of work.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, PoisonError};

use vireo_core::fork;

use super::core::join_driver;
use super::sync::{Condvar, Mutex, MutexGuard, spawn};
use crate::status::{Result, Status};

/// A piece of work.
type Work = Box<dyn FnOnce() + Send>;

/// Idle threads that are kept.
const MAX_IDLE: usize = 2;

#[derive(Default)]
struct State {
    work: VecDeque<Work>,
    idle: usize,
    is_closed: bool,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

/// The threads of a device. They end when it does and their work is done.
pub struct HostWorkers {
    /// The driver, after which threads are named.
    name: &'static str,
    /// The process that opened the device.
    process: u32,
    shared: Arc<Shared>,
}

impl fmt::Debug for HostWorkers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "host workers({} waiting)", self.shared.lock().work.len())
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        join_driver();
        let mut state = self.lock();
        loop {
            if let Some(work) = state.work.pop_front() {
                drop(state);
                work();
                state = self.lock();
            } else if state.is_closed || state.idle >= MAX_IDLE {
                return;
            } else {
                state.idle += 1;
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                state.idle -= 1;
            }
        }
    }
}

impl HostWorkers {
    /// Threads of a driver; none yet.
    pub fn new(name: &'static str) -> HostWorkers {
        HostWorkers { name, process: fork::process(), shared: Arc::default() }
    }

    /// Checks that the threads of the device are those of this process.
    ///
    /// # Errors
    /// FAILED_PRECONDITION in the child of a fork. Nothing would ever end there.
    #[inline]
    pub fn check_process(&self) -> Result<()> {
        if self.process == fork::process() { Ok(()) } else { Err(self.of_another_process()) }
    }

    #[cold]
    fn of_another_process(&self) -> Status {
        Status::failed_precondition(format!(
            "the device of the driver `{}` belongs to the process that forked this one, and a GPU is used by one process: \
             open the device after the fork",
            self.name
        ))
    }

    /// Runs `work` on a thread.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED if there is no thread for it; `work` is dropped then.
    pub fn run(&self, work: impl FnOnce() + Send + 'static) -> Result<()> {
        let mut state = self.shared.lock();
        state.work.push_back(Box::new(work));
        if state.idle >= state.work.len() {
            self.shared.changed.notify_one();
            return Ok(());
        }
        let shared = self.shared.clone();
        let started = spawn(format!("{}-host", self.name), move || shared.run());
        if let Err(error) = started {
            state.work.pop_back();
            return Err(
                Status::resource_exhausted("there is no thread for what the host does on a queue").with_source(error)
            );
        }
        Ok(())
    }
}

impl Drop for HostWorkers {
    fn drop(&mut self) {
        self.shared.lock().is_closed = true;
        self.shared.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn work_that_waits_for_other_work_does_not_hold_it_up() {
        let workers = HostWorkers::new("test");
        let both = Arc::new(Barrier::new(5));
        for _ in 0..4 {
            let both = both.clone();
            let work = move || {
                both.wait();
            };
            workers.run(work).expect("there are threads");
        }
        both.wait();
        let (sender, receiver) = mpsc::channel();
        workers.run(move || sender.send(7).expect("somebody listens")).expect("there are threads");
        assert_eq!(receiver.recv(), Ok(7));
    }
}
