//! The threads that do the work of all streams ([`Crew`]), and what orders it ([`Op`]). An operation runs once all that
//! it depends on is done; streams, events and graphs are nothing but dependencies between operations, so every order
//! that they allow can happen here. With a seed, [`Drawn`] chooses one that repeats.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use vireo_simt::sanitize::Known;
use vireo_soft::bell::Bell;
use vireo_soft::clock;

use crate::options::WorkOrder;
use drawn::Drawn;

mod drawn;
#[cfg(test)]
mod tests;

/// Threads at most. More than one only waits where functions of the host wait for each other.
const MAX_THREADS: usize = 32;
/// Operations that are not done at most. A thread of the program that adds more waits.
const MAX_PENDING: usize = 1 << 16;
/// The time after which an operation that waits for memory is asked again, if nothing else is ready.
const POLL: Duration = Duration::from_micros(50);
/// The time after which a thread that has nothing to do ends.
const IDLE: Duration = Duration::from_secs(5);

/// The state of work that was run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// It is done.
    Done,
    /// It has to be asked again.
    Waiting,
}

/// The work of an operation, which is shown what it knows to be done before it, and adds itself.
pub(crate) type Work = Box<dyn FnMut(&mut Known) -> Progress + Send>;

/// An operation of a stream.
pub(crate) struct Op {
    /// Operations that it waits for, and one while it is being submitted.
    pending: AtomicUsize,
    is_done: AtomicBool,
    /// The time when it was done.
    finished: AtomicU64,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    work: Option<Work>,
    dependents: Vec<Arc<Op>>,
    /// The work that is done before it, for the sanitizer.
    known: Known,
}

impl fmt::Debug for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Op").field("is_done", &self.is_done()).finish_non_exhaustive()
    }
}

impl Op {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it is done. What it wrote is visible then.
    pub(crate) fn is_done(&self) -> bool {
        self.is_done.load(Ordering::Acquire)
    }

    /// The time when it was done, in ticks of the clock.
    pub(crate) fn finished(&self) -> u64 {
        self.finished.load(Ordering::Relaxed)
    }
}

/// The threads.
#[derive(Debug)]
pub(crate) struct Crew {
    ready: Mutex<Ready>,
    arrived: Condvar,
    finished: Bell,
    outstanding: AtomicUsize,
    /// The work that the program knows to be done, as it waited for it.
    host: Mutex<Known>,
    /// The random order, if there is one.
    drawn: Option<Drawn>,
}

#[derive(Debug, Default)]
struct Ready {
    ops: VecDeque<Arc<Op>>,
    threads: usize,
    idle: usize,
}

impl Crew {
    /// No threads yet; they start with the first operation.
    pub(crate) fn new(order: WorkOrder) -> Arc<Self> {
        let drawn = match order {
            WorkOrder::Random(seed) => Some(Drawn::new(seed)),
            WorkOrder::Ready => None,
        };
        Arc::new(Crew {
            ready: Mutex::default(),
            arrived: Condvar::new(),
            finished: Bell::default(),
            outstanding: AtomicUsize::new(0),
            host: Mutex::default(),
            drawn,
        })
    }

    fn ready(&self) -> MutexGuard<'_, Ready> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an operation, which runs once all others are done.
    pub(crate) fn submit(self: &Arc<Self>, after: impl IntoIterator<Item = Arc<Op>>, work: Option<Work>) -> Arc<Op> {
        let op = Arc::new(Op {
            pending: AtomicUsize::new(1),
            is_done: AtomicBool::new(false),
            finished: AtomicU64::new(0),
            inner: Mutex::new(Inner { work, dependents: Vec::new(), known: self.known_to_host() }),
        });
        self.outstanding.fetch_add(1, Ordering::Relaxed);
        for other in after {
            let mut inner = other.inner();
            if !other.is_done() {
                op.pending.fetch_add(1, Ordering::Relaxed);
                inner.dependents.push(op.clone());
            } else if !Arc::ptr_eq(&other, &op) {
                op.inner().known.join(&inner.known);
            }
        }
        self.release(&op);
        op
    }

    /// A call of the program, from its begin until the result is dropped.
    pub(crate) fn call(&self) -> impl Drop + '_ {
        CallInProgress::new(self.drawn.as_ref())
    }

    /// Lets the calling thread wait while there are too many operations. Locks that work needs must not be held.
    pub(crate) fn throttle(self: &Arc<Self>) {
        let is_room = || self.outstanding.load(Ordering::Relaxed) < MAX_PENDING;
        match &self.drawn {
            Some(drawn) => {
                drawn.settle();
                drawn.make_room(self, is_room);
            }
            None if is_room() => {}
            None => {
                self.finished.wait(None, || is_room().then_some(()));
            }
        }
    }

    /// Counts one thing less that an operation waits for.
    fn release(self: &Arc<Self>, op: &Arc<Op>) {
        if op.pending.fetch_sub(1, Ordering::AcqRel) != 1 {
            return;
        }
        if op.inner().work.is_none() {
            self.finish(op);
            return;
        }
        if let Some(drawn) = &self.drawn {
            return drawn.push(self, op.clone());
        }
        let mut ready = self.ready();
        ready.ops.push_back(op.clone());
        if ready.idle >= ready.ops.len() || ready.threads >= MAX_THREADS {
            drop(ready);
            self.arrived.notify_one();
            return;
        }
        ready.threads += 1;
        drop(ready);
        let crew = self.clone();
        let spawned = std::thread::Builder::new().name("softcuda".to_string()).spawn(move || crew.run());
        if spawned.is_err() {
            let mut ready = self.ready();
            ready.threads -= 1;
            let is_alone = ready.threads == 0;
            drop(ready);
            // The machine has no more threads; this one does the work.
            if is_alone && let Some(op) = self.ready().ops.pop_front() {
                self.perform_or_ask_again(op);
            }
        }
    }

    /// Marks an operation done, and those that only waited for it, without recursion.
    fn finish(self: &Arc<Self>, op: &Arc<Op>) {
        let mut done = vec![op.clone()];
        let mut runnable = Vec::new();
        while let Some(op) = done.pop() {
            op.finished.store(clock::now(), Ordering::Relaxed);
            let (dependents, known) = {
                let mut inner = op.inner();
                op.is_done.store(true, Ordering::Release);
                (std::mem::take(&mut inner.dependents), inner.known.clone())
            };
            self.outstanding.fetch_sub(1, Ordering::Relaxed);
            for other in dependents {
                other.inner().known.join(&known);
                if other.pending.load(Ordering::Acquire) == 1 && other.inner().work.is_none() {
                    // This was the last one, and it has nothing to do.
                    other.pending.store(0, Ordering::Release);
                    done.push(other);
                } else {
                    runnable.push(other);
                }
            }
        }
        self.finished.ring();
        for other in runnable {
            self.release(&other);
        }
    }

    /// The loop of a thread.
    fn run(self: &Arc<Self>) {
        loop {
            let mut ready = self.ready();
            let op = loop {
                if let Some(op) = ready.ops.pop_front() {
                    break op;
                }
                ready.idle += 1;
                let waited = self.arrived.wait_timeout(ready, IDLE).unwrap_or_else(PoisonError::into_inner);
                ready = waited.0;
                ready.idle -= 1;
                if waited.1.timed_out() && ready.ops.is_empty() {
                    ready.threads -= 1;
                    return;
                }
            };
            drop(ready);
            self.perform_or_ask_again(op);
        }
    }

    /// Runs an operation, and marks it done if it is.
    fn perform(self: &Arc<Self>, op: &Arc<Op>) -> Progress {
        let (work, mut known) = {
            let mut inner = op.inner();
            (inner.work.take(), inner.known.clone())
        };
        if let Some(mut work) = work {
            if work(&mut known) == Progress::Waiting {
                op.inner().work = Some(work);
                return Progress::Waiting;
            }
            op.inner().known = known;
            // Memory that it keeps is released before others are told.
            drop(work);
        }
        self.finish(op);
        Progress::Done
    }

    fn perform_or_ask_again(self: &Arc<Self>, op: Arc<Op>) {
        if self.perform(&op) == Progress::Done {
            return;
        }
        let mut ready = self.ready();
        let is_alone = ready.ops.is_empty();
        ready.ops.push_back(op);
        drop(ready);
        if is_alone {
            std::thread::sleep(POLL);
        }
    }

    /// Waits until an operation is done.
    pub(crate) fn wait(self: &Arc<Self>, op: &Arc<Op>) {
        match &self.drawn {
            _ if op.is_done() => {}
            Some(drawn) => drawn.wait(self, op),
            None => {
                self.finished.wait(None, || op.is_done().then_some(()));
            }
        }
        self.learn(&op.inner().known);
    }

    /// The program learns that work is done.
    pub(crate) fn learn(&self, known: &Known) {
        self.host.lock().unwrap_or_else(PoisonError::into_inner).join(known);
    }

    /// The work that the program knows to be done.
    pub(crate) fn known_to_host(&self) -> Known {
        self.host.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether an operation is done, for a program that asks: it may ask until it is.
    pub(crate) fn query(self: &Arc<Self>, op: &Arc<Op>) -> bool {
        if !op.is_done()
            && let Some(drawn) = &self.drawn
        {
            drawn.query(self);
        }
        let is_done = op.is_done();
        if is_done {
            self.learn(&op.inner().known);
        }
        is_done
    }
}

/// A call of the program.
struct CallInProgress<'a>(Option<&'a Drawn>);

impl<'a> CallInProgress<'a> {
    fn new(drawn: Option<&'a Drawn>) -> Self {
        drawn.inspect(|drawn| drawn.begin_call());
        CallInProgress(drawn)
    }
}

impl Drop for CallInProgress<'_> {
    fn drop(&mut self) {
        self.0.inspect(|drawn| drawn.end_call());
    }
}
