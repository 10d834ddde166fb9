//! The state of a queue ([`Core`]): its submissions, its line, what became ready, and how it failed. The modules above
//! this one change it.

use std::collections::VecDeque;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock, PoisonError};

use super::driver_thread::guarded;
use super::frontier::{Frontier, LANES};
use super::hardware::{Hardware, SubmissionPoint, Work};
use super::request::{Reclaim, Request};
use crate::device_queue::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use crate::device_queue::sync::{Condvar, Mutex, MutexGuard};
use crate::hal::Timepoint;
use crate::hal::recycle::{FreeList, Uninit};
use crate::hal::timepoints::{PendingWait, signal_all};
use crate::limits::Charge;
use crate::limits::scope::Scope;
use crate::status::{Result, Status, StatusCode};

/// Points and waits that a submission has memory for at first.
pub(super) const FEW: usize = 4;

/// Most submissions whose memory a queue keeps. Their vectors hold few points and addresses each.
pub(super) const MAX_SPARE: usize = 1024;

/// A submission, with everything that it holds until it has completed.
pub struct Submission<H: Hardware> {
    /// The points to signal.
    pub(super) signal: Vec<Timepoint>,
    /// The points that packets wait for: a timeline that fails meanwhile fails the submission.
    pub(super) waits: Vec<Timepoint>,
    /// The submissions that its packets wait for. They poll the clocks of these, which stay until the packets have run.
    pub(super) device: Vec<SubmissionPoint<H::Clock>>,
    /// One more than the number of the last submission of its own queue that it begins after; zero if there is none.
    pub(super) after: u64,
    pub(super) work: H::Work,
    /// A function that runs once it has completed without a failure, before the points are signaled.
    pub(super) reclaim: Option<Reclaim>,
    /// Why it failed before it ran, if it did: it completes as one that did nothing, after what it waits for.
    pub(super) failure: Option<Status>,
    /// The limits of its call.
    pub(super) scope: Scope,
}

impl<H: Hardware> Default for Submission<H> {
    fn default() -> Self {
        Submission {
            signal: Vec::new(),
            waits: Vec::new(),
            device: Vec::new(),
            after: 0,
            work: H::Work::default(),
            reclaim: None,
            failure: None,
            scope: Scope::default(),
        }
    }
}

impl<H: Hardware> Submission<H> {
    /// An empty one with memory for a few points, so that most submissions need no more.
    pub(super) fn with_capacity() -> Self {
        Submission {
            signal: Vec::with_capacity(FEW),
            waits: Vec::with_capacity(FEW),
            device: Vec::with_capacity(FEW),
            ..Submission::default()
        }
    }

    /// Lets go of what its packets use, which have run: who is told that it is complete finds no references of it left.
    pub(super) fn release(&mut self) {
        self.work.release();
        self.device.clear();
    }

    /// Lets go of what it holds, and keeps its memory.
    pub(super) fn clear(&mut self) {
        self.signal.clear();
        self.waits.clear();
        self.release();
        (self.after, self.reclaim, self.failure) = (0, None, None);
        self.scope = Scope::default();
    }

    /// It will do nothing from here on, and fail with the first such cause. What it has done already may still run, so
    /// it holds all it held.
    pub(super) fn cut(&mut self, cause: Status) {
        self.failure.get_or_insert(cause);
    }

    /// Whether there is a time or an event that ends its call.
    pub(super) fn is_limited(&self) -> bool {
        self.scope.limits().is_some_and(|limits| limits.deadline.is_some() || limits.cancellation.is_some())
    }
}

/// A part of a submission that has not completed.
pub(super) struct Entry<H: Hardware> {
    pub(super) lane: usize,
    pub(super) epoch: u64,
    /// Its number among the parts of the queue, and the number of the first part that may not have ended when it
    /// begins.
    pub(super) sequence: u64,
    pub(super) after: u64,
    /// None for all parts but the last one, which holds what the submission holds.
    pub(super) submission: Option<Box<Submission<H>>>,
}

/// Why a queue takes no more submissions.
pub(super) struct Failure {
    pub(super) status: Status,
    /// Whether the driver ended it, so another one can take its place. Otherwise it stopped by itself.
    pub(super) is_ended: bool,
}

/// A submission that ran and waits for its points, with the outcome.
pub(super) type Settled<H> = (Hold<H>, Box<Submission<H>>, Result<()>);

/// Something that waits for points on the host.
pub(super) enum Waiting<H: Hardware> {
    /// A submission that is held back.
    Request(Request<H::Job>),
    /// One that has run, and completes with what it waited for.
    Settled(Box<Submission<H>>),
}

/// Something that waits, with its queue, until its points are reached.
pub struct Parked<H: Hardware> {
    pub(super) queue: Hold<H>,
    pub(super) waiting: Waiting<H>,
    /// The limits of the call that it is from.
    pub(super) scope: Scope,
    /// Its memory, charged to that call.
    pub(super) _charge: Charge,
}

/// The memory of something that waits.
pub type ParkedMemory<H> = Uninit<PendingWait<Parked<H>>>;

/// A queue.
pub struct Core<H: Hardware> {
    /// The first field, so it is dropped first: the hardware ends before anything that packets use is freed.
    pub hardware: H,
    pub(super) admission: Mutex<Admission<H>>,
    /// In the order in which they were published. Locked after the admission, if both are.
    pub(super) entries: Mutex<VecDeque<Entry<H>>>,
    /// Memory of submissions that completed, to use again.
    pub(super) spare: Mutex<Vec<Box<Submission<H>>>>,
    pub(super) failure: OnceLock<Failure>,
    pub(super) has_failed: AtomicBool,
    /// Whether its owner is gone: the threads end once everything has completed.
    pub(super) is_closing: AtomicBool,
    /// How many [`Hold`]s there are.
    pub(super) holds: AtomicUsize,
    pub(super) feed: Mutex<Feed<H>>,
    pub(super) fed: Condvar,
    pub(super) settled: Mutex<Vec<Settled<H>>>,
    /// The free list of what waits for points on the host, a static of the driver: a generic type has none of its own.
    pub(super) parked: &'static FreeList<ParkedMemory<H>>,
    pub(super) threads: Arc<Threads>,
}

impl<H: Hardware> fmt::Debug for Core<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.hardware, f)
    }
}

/// Somebody who may still submit to a queue: an operation that is held back, or one that runs on the host. The threads
/// of the queue stay as long as there is one, also if the device is gone.
pub struct Hold<H: Hardware>(Arc<Core<H>>);

impl<H: Hardware> Hold<H> {
    pub(super) fn new(core: &Arc<Core<H>>) -> Self {
        core.holds.fetch_add(1, Ordering::SeqCst);
        Hold(core.clone())
    }
}

impl<H: Hardware> Deref for Hold<H> {
    type Target = Arc<Core<H>>;

    fn deref(&self) -> &Arc<Core<H>> {
        &self.0
    }
}

impl<H: Hardware> Drop for Hold<H> {
    fn drop(&mut self) {
        // After what it submitted has become an entry, which the threads look at after this.
        if self.0.holds.fetch_sub(1, Ordering::SeqCst) == 1 && self.0.is_closing.load(Ordering::SeqCst) {
            self.0.wake_threads();
        }
    }
}

/// A submission that the hardware gets next.
pub(super) struct Begun<H: Hardware> {
    pub(super) submission: Box<Submission<H>>,
    /// The lane that counts its parts, and whether its next part begins after all that was published before.
    pub(super) lane: usize,
    pub(super) is_ordered: bool,
    /// Whether no one but queues of its agent sees what it writes.
    pub(super) is_private: bool,
    /// How many of its waits are published already.
    pub(super) waited: usize,
    /// The part that is published next, and how many there are.
    pub(super) part: u64,
    pub(super) parts: u64,
}

/// The state that admission changes.
pub(super) struct Admission<H: Hardware> {
    /// The epoch of the next part of each lane, and the number of its last part.
    pub(super) next_epochs: [u64; LANES],
    pub(super) last_sequences: [u64; LANES],
    /// The number of the next part.
    pub(super) next_sequence: u64,
    /// Parts with lower numbers have ended before anything begins that is published from here on.
    pub(super) ordered: u64,
    /// The limits of the call of the last submission, if it has any that end it.
    pub(super) limits: Scope,
    pub(super) frontier: Frontier,
    pub(super) builder: H::Builder,
    pub(super) begun: Option<Begun<H>>,
    /// The submissions that begin afterwards; none in place of one that was taken out again.
    pub(super) line: VecDeque<Option<Box<Submission<H>>>>,
    /// How many submissions came to the line, and how many of them are with the hardware or were taken out.
    pub(super) came: u64,
    pub(super) left: u64,
}

impl<H: Hardware> Admission<H> {
    pub(super) fn new(builder: H::Builder) -> Self {
        Admission {
            next_epochs: [1; LANES],
            last_sequences: [0; LANES],
            next_sequence: 1,
            ordered: 0,
            limits: Scope::default(),
            frontier: Frontier::default(),
            builder,
            begun: None,
            line: VecDeque::new(),
            came: 0,
            left: 0,
        }
    }

    /// Whether nothing waits for room.
    pub(super) fn is_idle(&self) -> bool {
        self.begun.is_none() && self.line.is_empty()
    }

    /// Takes all that waits for room.
    pub(super) fn take_line(&mut self) -> Vec<Box<Submission<H>>> {
        self.left = self.came;
        let begun = self.begun.take().map(|begun| begun.submission);
        begun.into_iter().chain(self.line.drain(..).flatten()).collect()
    }
}

/// The threads of a queue, which outlive it.
#[derive(Default)]
pub(super) struct Threads {
    pub(super) running: Mutex<u32>,
    pub(super) ended: Condvar,
}

impl Threads {
    pub(super) fn lock(&self) -> MutexGuard<'_, u32> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An operation that became ready, with the outcome of its waits.
pub(super) struct Ready<H: Hardware> {
    pub(super) queue: Hold<H>,
    pub(super) request: Request<H::Job>,
    pub(super) scope: Scope,
    pub(super) outcome: Result<()>,
}

/// The work of the feeder.
pub(super) struct Feed<H: Hardware> {
    pub(super) ready: VecDeque<Ready<H>>,
    /// Whether there is something in the line whose submitter does not wait.
    pub(super) is_wanted: bool,
}

impl<H: Hardware> Default for Feed<H> {
    fn default() -> Self {
        Feed { ready: VecDeque::new(), is_wanted: false }
    }
}

impl<H: Hardware> Core<H> {
    /// A queue without threads.
    pub fn new(hardware: H, builder: H::Builder, parked: &'static FreeList<ParkedMemory<H>>) -> Core<H> {
        Core {
            hardware,
            parked,
            admission: Mutex::new(Admission::new(builder)),
            entries: Mutex::new(VecDeque::new()),
            spare: Mutex::new(Vec::new()),
            failure: OnceLock::new(),
            has_failed: AtomicBool::new(false),
            is_closing: AtomicBool::new(false),
            holds: AtomicUsize::new(0),
            feed: Mutex::new(Feed::default()),
            fed: Condvar::new(),
            settled: Mutex::new(Vec::new()),
            threads: Arc::default(),
        }
    }

    pub(super) fn admission(&self) -> MutexGuard<'_, Admission<H>> {
        self.admission.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn entries(&self) -> MutexGuard<'_, VecDeque<Entry<H>>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An empty submission, in the memory of one that completed if there is one.
    pub(super) fn new_submission(&self) -> Box<Submission<H>> {
        let spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner).pop();
        spare.unwrap_or_else(|| Box::new(Submission::with_capacity()))
    }

    /// Keeps the memory of a submission that holds nothing any more.
    pub(super) fn recycle(&self, submission: Box<Submission<H>>) {
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        if spare.len() < MAX_SPARE {
            spare.push(submission);
        }
    }

    /// Whether somebody may still submit, besides the owner.
    pub(super) fn is_held(&self) -> bool {
        self.holds.load(Ordering::SeqCst) != 0
    }

    pub(super) fn is_closing(&self) -> bool {
        self.is_closing.load(Ordering::SeqCst)
    }

    pub(super) fn failure(&self) -> Option<&Failure> {
        if self.has_failed.load(Ordering::Acquire) { self.failure.get() } else { None }
    }

    /// Whether the driver ended the queue, so that another one can take its place.
    pub fn is_ended(&self) -> bool {
        self.failure().is_some_and(|failure| failure.is_ended)
    }

    /// Stops it: what has not completed fails with the cause, and so does what is submitted from here on.
    pub fn fail(&self, cause: Status) {
        self.set_failure(Failure { status: cause, is_ended: false });
    }

    /// The same where it works as it should, but what runs is to end.
    pub(super) fn end(&self, why: &Status) {
        let kernel = self.hardware.running();
        let kernel = kernel.map_or_else(|| "a packet without a kernel".to_string(), |name| format!("`{name}`"));
        let status = why.clone().context(format!("{self:?} was ended while {kernel} ran"));
        self.set_failure(Failure { status, is_ended: true });
    }

    pub(super) fn set_failure(&self, failure: Failure) {
        if self.failure.set(failure).is_ok() {
            self.has_failed.store(true, Ordering::Release);
            self.wake_threads();
        }
    }

    /// Lets both threads look at everything again.
    pub(super) fn wake_threads(&self) {
        self.hardware.wake();
        self.wake_feeder(false);
    }
}

impl Failure {
    /// The cause for a submission. Where the driver ended the queue, the calls that it was ended for learn which limit
    /// that was, and others that it was not theirs.
    pub(super) fn of(&self, scope: &Scope) -> Status {
        if !self.is_ended || scope.check().is_err() {
            return self.status.clone();
        }
        Status::new(StatusCode::Aborted, self.status.message().to_string())
    }
}

/// Ends a submission. What is left of it is its memory.
pub(super) fn complete<H: Hardware>(mut submission: Box<Submission<H>>, outcome: Result<()>) -> Box<Submission<H>> {
    submission.release();
    let Submission { signal, reclaim, failure, .. } = &mut *submission;
    let mut outcome = outcome.and(failure.take().map_or(Ok(()), Err));
    // An operation that failed has not happened, so nothing is done after it.
    if let Some(reclaim) = reclaim.take().filter(|_| outcome.is_ok()) {
        outcome = outcome.and(guarded("what is done after an operation", reclaim).and_then(|outcome| outcome));
    }
    for point in signal.iter() {
        // The timeline is signaled, whatever a callback of the host does then.
        let _ = guarded("a callback", || signal_all(std::slice::from_ref(point), outcome.clone()));
    }
    submission.clear();
    submission
}

impl<J> Request<J> {
    /// Ends it without running it.
    pub(super) fn end<H: Hardware>(self, outcome: Result<()>) {
        let Request { signal, reclaim, payload, wait } = self;
        // Waiters that see the points signalled find that their memory is no longer charged.
        drop((payload, wait));
        complete(Box::new(Submission::<H> { signal, reclaim, ..Submission::default() }), outcome);
    }
}
