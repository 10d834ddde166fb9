//! Threads that run what a queue has ready, and help those who run something large.

use std::collections::VecDeque;
use std::fmt;
use std::hint::spin_loop;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::job::{Job, Left, Shared};
use super::options::TaskOptions;
use super::topology::{Topology, pin_current_thread};
use crate::status::{Result, Status};

/// Pauses between two looks at the clock.
const PAUSES: u32 = 16;

/// Something that is ready to run. It deals with its own failures.
pub(in crate::hal::local) type Task = Box<dyn FnOnce() + Send>;

/// Worker threads, started when they are first needed, and the work they share. Dropping it lets them finish what is ready.
pub(in crate::hal::local) struct Executor {
    pool: Arc<Pool>,
    handover_threshold: u64,
    sharing_threshold: u64,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

struct Pool {
    topology: Topology,
    spin: Duration,
    stack_size: usize,
    state: Mutex<State>,
    /// Signaled for a worker that sleeps.
    wake: Condvar,
    /// Changes whenever there is something new to look at.
    version: AtomicU64,
    /// Threads that lead or help.
    busy: AtomicUsize,
    /// Workers that look for work without sleeping.
    looking: AtomicUsize,
}

#[derive(Default)]
struct State {
    ready: VecDeque<Task>,
    /// Jobs whose leaders are at work.
    board: Vec<Arc<Job>>,
    /// Jobs to be used again. Helpers of the last leader may still be about to leave them.
    spare: Vec<Arc<Job>>,
    started: usize,
    sleeping: usize,
    stopping: bool,
}

impl fmt::Debug for Executor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "executor({} workers)", self.concurrency())
    }
}

impl Executor {
    /// An executor with a worker for each group of the topology. No thread is started yet.
    pub(in crate::hal::local) fn new(topology: Topology, options: &TaskOptions) -> Executor {
        let pool = Pool {
            topology,
            spin: options.worker_spin,
            stack_size: options.worker_stack_size,
            state: Mutex::default(),
            wake: Condvar::new(),
            version: AtomicU64::new(0),
            busy: AtomicUsize::new(0),
            looking: AtomicUsize::new(0),
        };
        let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Executor {
            pool: Arc::new(pool),
            handover_threshold: nanoseconds(options.handover_threshold),
            sharing_threshold: nanoseconds(options.sharing_threshold),
            threads: Mutex::default(),
        }
    }

    /// How many threads work at once.
    pub(in crate::hal::local) fn concurrency(&self) -> usize {
        self.pool.concurrency()
    }

    /// Less work than this, in nanoseconds, runs where it becomes ready.
    pub(in crate::hal::local) fn handover_threshold(&self) -> u64 {
        self.handover_threshold
    }

    /// Less work than this, in nanoseconds, is not shared.
    pub(in crate::hal::local) fn sharing_threshold(&self) -> u64 {
        self.sharing_threshold
    }

    /// Lets a worker run `task`.
    pub(in crate::hal::local) fn spawn(&self, task: Task) -> Result<()> {
        let mut state = self.pool.lock();
        state.ready.push_back(task);
        self.pool.version.fetch_add(1, Ordering::Relaxed);
        let started = self.wake(&mut state, 1);
        if state.started == 0 {
            // Nobody would ever run it, so it is taken back.
            state.ready.pop_back();
            return started;
        }
        // Whoever is there will come to it.
        Ok(())
    }

    /// Makes the calling thread a leader, which shares work with the workers. With `wake` those that sleep are woken for it.
    pub(in crate::hal::local) fn lead(&self, wake: bool) -> Lead<'_> {
        self.pool.busy.fetch_add(1, Ordering::Relaxed);
        let mut state = self.pool.lock();
        let job = state.spare.pop().unwrap_or_else(|| Arc::new(Job::new(self.concurrency())));
        job.begin();
        state.board.push(job.clone());
        self.pool.version.fetch_add(1, Ordering::Relaxed);
        if wake {
            // Without them the leader works alone.
            let _ = self.wake(&mut state, self.pool.free());
        }
        drop(state);
        Lead { executor: self, job }
    }

    /// Wakes or starts up to `count` workers.
    fn wake(&self, state: &mut State, count: usize) -> Result<()> {
        let woken = count.min(state.sleeping);
        for _ in 0..woken {
            self.pool.wake.notify_one();
        }
        let mut missing = count - woken;
        while missing > self.pool.looking.load(Ordering::Relaxed) && state.started < self.concurrency() {
            let (pool, index) = (self.pool.clone(), state.started);
            let builder = thread::Builder::new().name(format!("vireo-task-{index}")).stack_size(self.pool.stack_size);
            let thread = builder
                .spawn(move || pool.work(index))
                .map_err(|error| Status::resource_exhausted(format!("cannot start a worker thread: {error}")))?;
            self.threads.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
            state.started += 1;
            missing -= 1;
        }
        Ok(())
    }
}

impl Drop for Executor {
    fn drop(&mut self) {
        self.pool.lock().stopping = true;
        self.pool.version.fetch_add(1, Ordering::Relaxed);
        self.pool.wake.notify_all();
        let threads = std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            // A worker that drops the executor itself, with the last task that held it, cannot wait for its own end.
            if thread.thread().id() != thread::current().id() {
                // Workers catch panics of what they run.
                let _ = thread.join();
            }
        }
    }
}

impl Pool {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing runs under the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn concurrency(&self) -> usize {
        self.topology.groups.len()
    }

    /// How many more threads there is a processor for.
    fn free(&self) -> usize {
        self.concurrency().saturating_sub(self.busy.load(Ordering::Relaxed))
    }

    /// More threads are at work than there are processors for.
    fn is_crowded(&self) -> bool {
        self.busy.load(Ordering::Relaxed) > self.concurrency()
    }

    /// The life of a worker.
    fn work(&self, index: usize) {
        if let Some(group) = self.topology.groups.get(index) {
            pin_current_thread(group);
        }
        // The seat of the leader is the first.
        let seat = index + 1;
        let mut state = self.lock();
        loop {
            if let Some(task) = state.ready.pop_front() {
                drop(state);
                task();
                state = self.lock();
                continue;
            }
            let seen = self.version.load(Ordering::Relaxed);
            if self.free() > 0
                && let Some(job) = state.board.iter().find(|job| job.is_open())
            {
                let job = job.clone();
                drop(state);
                self.busy.fetch_add(1, Ordering::Relaxed);
                let left = job.help(seat, self.spin, || self.is_crowded());
                self.busy.fetch_sub(1, Ordering::Relaxed);
                drop(job);
                state = self.lock();
                if left == Left::Over || self.version.load(Ordering::Relaxed) != seen {
                    continue;
                }
            } else if state.stopping {
                return;
            } else {
                drop(state);
                self.look(seen);
                state = self.lock();
                if self.version.load(Ordering::Relaxed) != seen {
                    continue;
                }
            }
            if state.stopping || !state.ready.is_empty() {
                continue;
            }
            state.sleeping += 1;
            state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.sleeping -= 1;
        }
    }

    /// Looks for something new for a while, if there is a processor for that.
    fn look(&self, seen: u64) {
        self.looking.fetch_add(1, Ordering::Relaxed);
        let start = Instant::now();
        while self.version.load(Ordering::Relaxed) == seen
            && self.looking.load(Ordering::Relaxed) <= self.free()
            && start.elapsed() < self.spin
        {
            for _ in 0..PAUSES {
                spin_loop();
            }
        }
        self.looking.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A thread that shares work.
pub(in crate::hal::local) struct Lead<'a> {
    executor: &'a Executor,
    job: Arc<Job>,
}

impl Lead<'_> {
    /// Runs `tiles` tiles of `work` together with the workers that are there, and returns when all are done or one has failed. With
    /// `wake` those that sleep are woken for it.
    pub(in crate::hal::local) fn share(&self, tiles: u32, work: &dyn Shared, wake: bool) -> Result<()> {
        let pool = &self.executor.pool;
        self.job.share(tiles, work, || {
            if pool.free() > 0 {
                pool.version.fetch_add(1, Ordering::Relaxed);
                if wake {
                    let mut state = pool.lock();
                    let count = pool.free().min(state.sleeping);
                    // Only those that sleep: starting one would take longer than the work.
                    let _ = self.executor.wake(&mut state, count);
                }
            }
        })
    }
}

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        self.job.end();
        let mut state = self.executor.pool.lock();
        state.board.retain(|job| !Arc::ptr_eq(job, &self.job));
        state.spare.push(self.job.clone());
        drop(state);
        self.executor.pool.busy.fetch_sub(1, Ordering::Relaxed);
    }
}
