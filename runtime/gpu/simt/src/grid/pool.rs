//! Threads that help with grids ([`Pool`]). They are kept, since starting one takes as long as a small kernel.

use std::fmt;
use std::mem;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

/// The work of a grid, which each thread that takes part runs once.
type GridWork<'a> = dyn Fn() + Sync + 'a;

/// A grid that threads may help with.
struct Job {
    id: u64,
    work: &'static GridWork<'static>,
    /// How many more threads may start.
    wanted: usize,
    /// How many have started, and not ended.
    running: usize,
    panicked: bool,
}

#[derive(Default)]
struct State {
    jobs: Vec<Job>,
    next_id: u64,
    /// Threads that wait for a job.
    idle: usize,
    ended: bool,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// A job wants threads, or the pool ends.
    wanted: Condvar,
    /// The last thread of a job has ended.
    left: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The loop of a thread of the pool.
    fn help(&self) {
        let mut state = self.lock();
        while !state.ended {
            let Some(job) = state.jobs.iter_mut().find(|job| job.wanted > 0) else {
                state.idle += 1;
                state = self.wanted.wait(state).unwrap_or_else(PoisonError::into_inner);
                state.idle -= 1;
                continue;
            };
            job.wanted -= 1;
            job.running += 1;
            let (id, work) = (job.id, job.work);
            drop(state);
            let panicked = panic::catch_unwind(AssertUnwindSafe(work)).is_err();
            state = self.lock();
            if let Some(job) = state.jobs.iter_mut().find(|job| job.id == id) {
                job.running -= 1;
                job.panicked |= panicked;
            }
            self.left.notify_all();
        }
    }
}

/// Threads that run work-groups, started when a grid first wants them and ended with the pool.
#[derive(Default)]
pub struct Pool {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").finish_non_exhaustive()
    }
}

impl Pool {
    /// Runs `work` on the calling thread, and on up to `helpers` others that are free meanwhile; returns when all of
    /// them have ended.
    ///
    /// # Panics
    /// If `work` panics on one of the threads.
    pub(super) fn run(&self, helpers: usize, work: &GridWork<'_>) {
        // SAFETY: Only the lifetimes change. Threads use the reference while the job is in the list, and `Leave` takes
        // it from there, after all of them have ended, before this function returns or unwinds.
        let work_of_helpers = unsafe { mem::transmute::<&GridWork<'_>, &'static GridWork<'static>>(work) };
        let mut state = self.shared.lock();
        let id = state.next_id;
        state.next_id += 1;
        state.jobs.push(Job { id, work: work_of_helpers, wanted: helpers, running: 0, panicked: false });
        let leave = Leave { shared: &self.shared, id };
        let idle = state.idle;
        drop(state);
        self.start(helpers, idle);
        self.shared.wanted.notify_all();
        work();
        assert!(!leave.now(), "a thread that ran work-groups has panicked");
    }

    /// Starts threads if too few are idle, until there are as many as one grid wants.
    fn start(&self, helpers: usize, idle: usize) {
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        for _ in idle..helpers {
            if threads.len() >= helpers {
                break;
            }
            let shared = self.shared.clone();
            // The work that a thread which cannot be started would have taken is left to the others.
            match thread::Builder::new().name("vireo-simt".to_string()).spawn(move || shared.help()) {
                Ok(thread) => threads.push(thread),
                Err(_) => break,
            }
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.lock().ended = true;
        self.shared.wanted.notify_all();
        for thread in mem::take(self.threads.get_mut().unwrap_or_else(PoisonError::into_inner)) {
            // Threads catch panics of jobs, and have none of their own.
            let _ = thread.join();
        }
    }
}

/// Takes a job from the list, even if the caller's part of it panics.
struct Leave<'a> {
    shared: &'a Shared,
    id: u64,
}

impl Leave<'_> {
    /// Waits for the threads that have started, keeps others from starting, and returns whether one panicked.
    fn now(&self) -> bool {
        let mut state = self.shared.lock();
        loop {
            let Some(at) = state.jobs.iter().position(|job| job.id == self.id) else { return false };
            state.jobs[at].wanted = 0;
            if state.jobs[at].running == 0 {
                return state.jobs.swap_remove(at).panicked;
            }
            state = self.shared.left.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        self.now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn threads_are_kept_for_the_next_grid() {
        let pool = Pool::default();
        for _ in 0..20 {
            // All three must run at the same time to pass.
            let (barrier, runs) = (Barrier::new(3), AtomicUsize::new(0));
            pool.run(2, &|| {
                barrier.wait();
                runs.fetch_add(1, Ordering::Relaxed);
            });
            assert_eq!(runs.into_inner(), 3);
        }
        assert_eq!(pool.threads.lock().unwrap().len(), 2);
    }

    #[test]
    fn a_grid_needs_no_thread_that_is_busy() {
        let pool = Pool::default();
        let (begin, end) = (Barrier::new(3), Barrier::new(3));
        thread::scope(|scope| {
            scope.spawn(|| {
                pool.run(1, &|| {
                    begin.wait();
                    end.wait();
                });
            });
            begin.wait();
            // The only thread of the pool is in the first grid, which does not end before this one.
            let runs = AtomicUsize::new(0);
            pool.run(1, &|| {
                runs.fetch_add(1, Ordering::Relaxed);
            });
            end.wait();
            assert_eq!(runs.into_inner(), 1);
        });
    }

    #[test]
    fn a_panic_of_any_thread_is_one_of_the_caller() {
        let pool = Pool::default();
        let caller = thread::current().id();
        for of_caller in [false, true] {
            let barrier = Barrier::new(2);
            let result = panic::catch_unwind(AssertUnwindSafe(|| {
                pool.run(1, &|| {
                    barrier.wait();
                    assert!((thread::current().id() == caller) != of_caller, "as the test asks");
                });
            }));
            assert!(result.is_err());
        }
        let runs = AtomicUsize::new(0);
        pool.run(0, &|| {
            runs.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(runs.into_inner(), 1, "the pool is still there");
    }
}
