//! The executor: a pool of worker threads that run operations of a queue and help leaders with tiles.

use std::collections::VecDeque;
use std::fmt;
use std::mem::{forget, take};
use std::sync::{Arc, PoisonError, Weak};
use std::time::Duration;

use super::fork_join::{ForkJoin, TiledWork};
use super::options::TaskOptions;
use super::topology::{Topology, bind_current_thread};
use crate::blocking::{self, WorkerPool};
use crate::rules::{Rule, keeps};
use crate::status::{Result, Status};
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use crate::sync::{Condvar, JoinHandle, Mutex, MutexGuard, is_finished, now, pauses, spawn, spin_loop};

/// Spin iterations between two reads of the clock.
const PAUSES: u32 = 16;

/// Something that is ready to run. It handles its own failures.
pub(crate) trait Task: Send {
    /// Runs it, or fails it if there is no thread to run it.
    fn run(self: Box<Self>, started: Result<()>);
}

/// Worker threads, started when they are first needed. Dropping it waits until they have finished all ready tasks,
/// except on a worker, of this executor or of another one.
pub(crate) struct Executor {
    pub(super) pool: Arc<ThreadPool>,
    handover_threshold: u64,
    sharing_threshold: u64,
    local_memory_limit: Option<u32>,
}

pub(super) struct ThreadPool {
    /// The pool itself, for the threads it starts.
    this: Weak<ThreadPool>,
    topology: Topology,
    spin: Duration,
    stack_size: usize,
    state: Mutex<PoolState>,
    /// Notified to wake sleeping workers.
    wake: Condvar,
    /// Notified when the pool may be idle, if forks wait for that.
    pub(super) idle: Condvar,
    /// Incremented whenever there may be new work.
    version: AtomicU64,
    /// Number of threads that lead or help.
    pub(super) busy: AtomicUsize,
    /// Number of workers that spin for work.
    pub(super) spinning: AtomicUsize,
}

#[derive(Default)]
pub(super) struct PoolState {
    ready: VecDeque<Box<dyn Task>>,
    /// Fork-joins whose leaders are working.
    open_jobs: Vec<Arc<ForkJoin>>,
    /// Fork-joins to use again. Helpers of the last leader may still be leaving them.
    free_jobs: Vec<Arc<ForkJoin>>,
    /// Workers with a seat in fork-joins, up to the concurrency of the pool.
    regular_workers: usize,
    /// Workers that substitute for blocked ones.
    substitutes: usize,
    /// Workers that block in a function of the host.
    blocked_workers: usize,
    sleeping: usize,
    /// Workers that run a task, blocked ones among them.
    running: usize,
    /// Counts the forks of which this is the child.
    process: u32,
    /// Threads that want to fork once the pool is idle.
    pub(super) forks: usize,
    stopping: bool,
    threads: Vec<JoinHandle<()>>,
}

impl PoolState {
    /// Whether no worker is left that could run a task. If no other can be started either, tasks would never run: they
    /// run, and fail, on the thread that finds out.
    fn all_are_blocked(&self) -> bool {
        self.regular_workers + self.substitutes == self.blocked_workers
    }

    /// Whether nothing is there to do, and no worker does anything but wait for other threads. Some of those that run a
    /// task may be the caller.
    pub(super) fn is_idle(&self, callers: usize) -> bool {
        self.ready.is_empty() && self.running <= self.blocked_workers + callers
    }

    /// Begins anew in the child of a fork, which has none of the workers, leaders and helpers.
    pub(super) fn begin_anew(&mut self) {
        // No thread is there to be joined.
        take(&mut self.threads).into_iter().for_each(forget);
        let (ready, stopping) = (take(&mut self.ready), self.stopping);
        *self = PoolState { ready, stopping, process: self.process.wrapping_add(1), ..PoolState::default() };
    }
}

impl fmt::Debug for Executor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "executor({} workers)", self.concurrency())
    }
}

impl Executor {
    /// An executor with a worker for each group of the topology. No thread is started yet.
    pub(crate) fn new(topology: Topology, options: &TaskOptions) -> Executor {
        let pool = |this: &Weak<ThreadPool>| ThreadPool {
            this: this.clone(),
            topology,
            spin: options.worker_spin,
            stack_size: options.worker_stack_size,
            state: Mutex::default(),
            wake: Condvar::new(),
            idle: Condvar::new(),
            version: AtomicU64::new(0),
            busy: AtomicUsize::new(0),
            spinning: AtomicUsize::new(0),
        };
        let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Executor {
            pool: Arc::new_cyclic(pool),
            handover_threshold: nanoseconds(options.handover_threshold),
            sharing_threshold: nanoseconds(options.sharing_threshold),
            local_memory_limit: Some(options.worker_local_memory).filter(|limit| *limit > 0),
        }
    }

    /// The most threads that work at once.
    pub(crate) fn concurrency(&self) -> usize {
        self.pool.concurrency()
    }

    /// Operations of less time than this, in nanoseconds, run on the thread that makes them ready.
    pub(crate) fn handover_threshold(&self) -> u64 {
        self.handover_threshold
    }

    /// Groups of commands of less time than this, in nanoseconds, are not shared.
    pub(crate) fn sharing_threshold(&self) -> u64 {
        self.sharing_threshold
    }

    /// Most bytes of memory that a workgroup may ask for, if there is a limit.
    pub(crate) fn local_memory_limit(&self) -> Option<u32> {
        self.local_memory_limit
    }

    /// Queues `task` for a worker.
    pub(crate) fn spawn(&self, task: Box<dyn Task>) {
        let mut state = self.pool.lock();
        state.ready.push_back(task);
        self.pool.version.fetch_add(1, Ordering::Relaxed);
        let started = match keeps(Rule::TasksAreAnnounced) {
            true => self.pool.wake(&mut state, 1, self.concurrency()),
            false => Ok(()),
        };
        if state.all_are_blocked()
            && started.is_err()
            && keeps(Rule::UnstartedTasksFail)
            && let Some(task) = state.ready.pop_back()
        {
            drop(state);
            task.run(started);
        }
    }

    /// Makes the calling thread a leader, which shares work with the workers. With `wake`, sleeping workers are woken.
    pub(crate) fn lead(&self, wake: bool) -> Leader<'_> {
        self.pool.busy.fetch_add(1, Ordering::Relaxed);
        let mut state = self.pool.lock();
        let job = state.free_jobs.pop().unwrap_or_else(|| Arc::new(ForkJoin::new(self.concurrency())));
        job.begin(blocking::is_worker());
        state.open_jobs.push(job.clone());
        if wake {
            // Without helpers the leader works alone.
            let _ = self.pool.wake_helpers(&mut state);
        }
        drop(state);
        Leader { executor: self, job }
    }
}

impl Drop for Executor {
    fn drop(&mut self) {
        let mut state = self.pool.lock();
        state.stopping = true;
        let threads = take(&mut state.threads);
        drop(state);
        self.pool.version.fetch_add(1, Ordering::Relaxed);
        self.pool.wake.notify_all();
        // A worker cannot join itself, nor a worker that drops its executor: of two, each may run the last operation
        // that owns the pool of the other. So a worker joins no other; those of the executor end once nothing is left
        // to do.
        if blocking::is_worker() && keeps(Rule::WorkersJoinNobody) {
            return;
        }
        for thread in threads {
            // Workers catch panics of tasks and tiles.
            let _ = thread.join();
        }
    }
}

impl ThreadPool {
    pub(super) fn lock(&self) -> MutexGuard<'_, PoolState> {
        // No other code runs under the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn concurrency(&self) -> usize {
        self.topology.groups.len()
    }

    /// Number of processors without a leading or helping thread.
    fn free(&self) -> usize {
        self.concurrency().saturating_sub(self.busy.load(Ordering::Relaxed))
    }

    /// Whether more threads lead and help than there are processors.
    fn is_crowded(&self) -> bool {
        self.busy.load(Ordering::Relaxed) > self.concurrency()
    }

    /// The last regular worker. If a thread of the host leads and all other workers help, no processor is left for it,
    /// so it helps only leaders that are workers.
    fn is_last(&self, group: usize) -> bool {
        group + 1 == self.concurrency()
    }

    /// Wakes or starts as many helpers as there are free processors.
    fn wake_helpers(self: &Arc<Self>, state: &mut PoolState) -> Result<()> {
        let most = if blocking::is_worker() { self.concurrency() } else { self.concurrency() - 1 };
        if state.regular_workers == self.concurrency() && state.sleeping > 0 {
            // The last worker, which does not help a host thread, may be among the sleeping ones, and `notify_one`
            // might reach only it.
            self.wake.notify_all();
            return Ok(());
        }
        self.wake(state, self.free(), most)
    }

    /// Wakes or starts up to `count` workers, with at most `most` regular ones.
    fn wake(self: &Arc<Self>, state: &mut PoolState, count: usize, most: usize) -> Result<()> {
        let woken = count.min(state.sleeping);
        for _ in 0..woken {
            self.wake.notify_one();
        }
        for _ in self.spinning.load(Ordering::Relaxed)..count - woken {
            if state.regular_workers < most {
                let index = state.regular_workers;
                self.start(state, Some(index))?;
                state.regular_workers += 1;
            } else if state.substitutes < state.blocked_workers && keeps(Rule::SubstitutesStart) {
                self.start(state, None)?;
                state.substitutes += 1;
            }
        }
        Ok(())
    }

    /// Starts a worker: the regular one of a group, or a substitute.
    fn start(self: &Arc<Self>, state: &mut PoolState, group: Option<usize>) -> Result<()> {
        let name = group.and_then(|index| self.topology.groups.get(index)).map_or("vireo-task", |group| &group.name);
        let pool = self.clone();
        let thread = spawn(name.to_string(), self.stack_size, move || pool.work(group))
            .map_err(|error| Status::resource_exhausted(format!("cannot start a worker thread: {error}")))?;
        // Substitutes end when they are no longer needed.
        state.threads.retain(|thread| !is_finished(thread));
        state.threads.push(thread);
        Ok(())
    }

    /// The main loop of a worker.
    fn work(self: Arc<Self>, group: Option<usize>) {
        bind_current_thread(&self.topology);
        blocking::join(self.clone());
        let mut state = self.lock();
        let process = state.process;
        loop {
            if state.stopping && !keeps(Rule::ReadyTasksRunFirst) {
                return;
            }
            if let Some(task) = state.ready.pop_front() {
                state.running += 1;
                drop(state);
                task.run(Ok(()));
                state = self.lock();
                if state.process != process {
                    // The task has forked. This is the child, which has other workers.
                    return;
                }
                state.running -= 1;
                self.look_whether_idle(&state);
                continue;
            }
            let seen = self.version.load(Ordering::Relaxed);
            if let Some(index) = group
                && self.free() > 0
                && let Some(job) =
                    state.open_jobs.iter().find(|job| job.is_open() && (job.is_led_by_worker() || !self.is_last(index)))
            {
                let job = job.clone();
                drop(state);
                self.busy.fetch_add(1, Ordering::Relaxed);
                // Seat 0 is the leader's.
                let changed = || self.version.load(Ordering::Relaxed) != seen;
                job.help(index + 1, self.spin, || self.is_crowded() || changed());
                self.busy.fetch_sub(1, Ordering::Relaxed);
                drop(job);
                state = self.lock();
                if changed() {
                    continue;
                }
            } else if state.stopping {
                return;
            } else if group.is_none() && state.substitutes > state.blocked_workers {
                state.substitutes -= 1;
                return;
            } else {
                drop(state);
                self.spin_for_work(seen);
                state = self.lock();
                if self.version.load(Ordering::Relaxed) != seen && keeps(Rule::SleepersLookAgain) {
                    continue;
                }
            }
            if (state.stopping || !state.ready.is_empty()) && keeps(Rule::SleepersLookAgain) {
                continue;
            }
            state.sleeping += 1;
            state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.sleeping -= 1;
        }
    }

    /// Lets forks go on if the pool is idle.
    fn look_whether_idle(&self, state: &PoolState) {
        if state.forks > 0 && state.is_idle(0) {
            self.idle.notify_all();
        }
    }

    /// Spins until there may be new work, for a limited time and while there are free processors.
    fn spin_for_work(&self, seen: u64) {
        self.spinning.fetch_add(1, Ordering::Relaxed);
        let start = now();
        while self.version.load(Ordering::Relaxed) == seen
            && self.spinning.load(Ordering::Relaxed) <= self.free()
            && now().duration_since(start) < self.spin
        {
            for _ in 0..pauses(PAUSES) {
                spin_loop();
            }
        }
        self.spinning.fetch_sub(1, Ordering::Relaxed);
    }
}

impl WorkerPool for ThreadPool {
    fn begin_blocking(&self) {
        let mut state = self.lock();
        state.blocked_workers += 1;
        self.look_whether_idle(&state);
        if state.ready.is_empty() || !keeps(Rule::BlockedWorkersAreReplaced) {
            return;
        }
        // A ready task may be what it waits for.
        let Some(pool) = self.this.upgrade() else { return };
        let Err(failure) = pool.wake(&mut state, 1, self.concurrency()) else { return };
        if state.all_are_blocked() && keeps(Rule::UnstartedTasksFail) {
            let tasks = take(&mut state.ready);
            drop(state);
            tasks.into_iter().for_each(|task| task.run(Err(failure.clone())));
        }
    }

    fn end_blocking(&self) {
        let mut state = self.lock();
        state.blocked_workers = state.blocked_workers.saturating_sub(1);
        drop(state);
        // Its substitute may be asleep and has to end.
        self.version.fetch_add(1, Ordering::Relaxed);
        self.wake.notify_all();
    }
}

/// A thread that leads a fork-join.
pub(crate) struct Leader<'a> {
    executor: &'a Executor,
    job: Arc<ForkJoin>,
}

impl Leader<'_> {
    /// Runs `tiles` tiles of `work` together with helping workers, and returns when all have completed or one has
    /// failed. With `wake`, sleeping workers are woken.
    pub(crate) fn share(&self, tiles: u32, work: &dyn TiledWork, wake: bool) -> Result<()> {
        let pool = &self.executor.pool;
        self.job.share(tiles, work, || {
            if pool.free() > 0 {
                pool.version.fetch_add(1, Ordering::Relaxed);
                if wake {
                    let mut state = pool.lock();
                    // Without helpers the leader works alone.
                    let _ = pool.wake_helpers(&mut state);
                }
            }
        })
    }
}

impl Drop for Leader<'_> {
    fn drop(&mut self) {
        self.job.end();
        let mut state = self.executor.pool.lock();
        state.open_jobs.retain(|job| !Arc::ptr_eq(job, &self.job));
        state.free_jobs.push(self.job.clone());
        drop(state);
        self.executor.pool.busy.fetch_sub(1, Ordering::Relaxed);
    }
}
