//! The core of a queue ([`Core`]): who submits, who waits for room, who completes and who ends, without anything of a
//! GPU. What it asks of one is [`Hardware`], which `hardware` implements by packets of an HSA queue, and the model
//! checker by threads.
//!
//! `submission` sorts what a submission waits for, and holds back what the host has to wait for. `admission` puts
//! submissions in line and gives them to the hardware as there is room. `feeder` is the thread that does so for what
//! nobody waits for, `completion` the one that completes what has run, and `ending` the end of a queue. `frontier` is
//! what a queue knows of others. The table in the module above says which of them may wait for what.
//!
//! Submissions that nothing orders may run at once, and end in any order, so one count cannot say which of them have
//! completed. A queue has [`LANES`], each with a count of its own: a submission has the next number of a lane, and the
//! submissions of a lane run one after the other. `admission` chooses the lane, and decides what begins only after all
//! that the queue has begun before.

mod admission;
mod completion;
mod ending;
mod feeder;
mod frontier;
mod submission;

use std::any::Any;
use std::collections::VecDeque;
use std::fmt;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock, PoisonError};
use std::task::Waker;
use std::time::{Duration, Instant};

use self::admission::Admission;
use self::ending::Threads;
use self::feeder::Feed;
use crate::device_queue::rules::{Rule, keeps};
use crate::device_queue::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use crate::device_queue::sync::{Condvar, Mutex, MutexGuard, thread_local};
use crate::hal::Timepoint;
use crate::limits::scope::Scope;
use crate::status::{Result, Status, StatusCode};

pub use ending::Owner;
pub use frontier::Frontier;
use submission::Reclaim;
pub use submission::{Payload, Request, refuse};

/// The lanes of a queue: as many of its submissions may run at once. The completion thread waits for all of them.
pub const LANES: usize = 4;

/// How far a lane of a queue is, for itself and for others. Whoever waits for it holds it.
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// The number of the clock: unique in the process, from 1.
    fn number(&self) -> u64;

    /// How many parts of submissions have run.
    fn completed(&self) -> u64;
}

/// A job: the work of packets, and all that they use until they have run.
pub trait Work: Default + Send + 'static {
    /// Parts that run one after the other, each of which completes by itself; at least one.
    fn parts(&self) -> u64;

    /// Lets go of all of it; from here on it is nothing to do.
    fn release(&mut self);
}

/// The work of a submission, before it is known where its memory is.
pub trait Job<H: Hardware>: Send + 'static {
    /// The same, borrowed.
    type Ref<'a>: Copy;

    /// Borrows it.
    fn borrow(&self) -> Self::Ref<'_>;

    /// Owns what was borrowed.
    fn to_owned(borrowed: Self::Ref<'_>) -> Self;

    /// Finds the memory of everything that packets will use. `work` is nothing to do.
    ///
    /// # Errors
    /// Those of buffers without memory, or with memory that the hardware does not reach.
    fn resolve(borrowed: Self::Ref<'_>, hardware: &H, work: &mut H::Work) -> Result<()>;
}

/// A part of a submission that is put together.
pub struct Part<'a, H: Hardware> {
    /// The lane that counts it.
    pub lane: usize,
    /// How many parts the lane has completed once this one has.
    pub epoch: u64,
    /// The number of the part among those of the queue.
    pub sequence: u64,
    /// Whether it begins after all that was published before has ended.
    pub is_ordered: bool,
    /// Whether no one but queues of the same agent sees what it writes once it has completed.
    pub is_private: bool,
    /// The points that it waits for.
    pub waits: &'a [SubmissionPoint<H::Clock>],
    /// Its work; none to do nothing.
    pub work: Option<(&'a H::Work, u64)>,
}

/// A queue of a GPU: a ring that takes packets as long as there is room, begins them in order, and counts what has
/// ended.
pub trait Hardware: fmt::Debug + Send + Sync + Sized + 'static {
    /// How far lanes are.
    type Clock: Clock;
    /// The work of its packets.
    type Work: Work;
    /// The same before memory is known.
    type Job: Job<Self>;
    /// The memory in which packets are put together.
    type Builder: Send + 'static;

    /// The driver, after which threads are named.
    const NAME: &'static str;

    /// Waits that are published together at most.
    const MAX_WAITS: usize;

    /// The clocks of its lanes.
    fn clocks(&self) -> &[Arc<Self::Clock>; LANES];

    /// The agent that it is of, by a number that no other one has.
    fn agent(&self) -> u64;

    /// Whether packets can wait for the other queue.
    fn can_wait_for(&self, other: &Self::Clock) -> bool;

    /// Puts packets together that only wait. False if there is no room for them now.
    ///
    /// # Errors
    /// Those of parts that never fit, and of a queue that has failed.
    fn prepare_waits(&self, builder: &mut Self::Builder, points: &[SubmissionPoint<Self::Clock>]) -> Result<bool>;

    /// Puts the packets of a part together. False if there is no room for them now.
    ///
    /// # Errors
    /// Those of parts that never fit, and of a queue that has failed.
    fn prepare(&self, builder: &mut Self::Builder, part: Part<'_, Self>) -> Result<bool>;

    /// Publishes what was put together last. The hardware may have run it when this returns.
    ///
    /// # Errors
    /// Those of a queue that has failed.
    fn publish(&self, builder: &mut Self::Builder) -> Result<()>;

    /// A value that changes when there may be more room, for [`Self::pause`].
    fn progress(&self) -> u64;

    /// Waits a little, at most until the progress is not `seen` any more. `attempts` counts such waits.
    fn pause(&self, seen: u64, attempts: u32);

    /// Ends the wait of the completion thread, or the next one.
    fn wake(&self);

    /// The same for who does not know queues.
    fn waker(&self) -> Waker;

    /// From here on, [`Self::wake`] ends the next wait.
    fn rearm(&self);

    /// Blocks the completion thread until a lane has completed more parts than `seen`, the queue is woken, or the time
    /// has come.
    fn wait(&self, seen: Option<&[u64; LANES]>, until: Option<Instant>);

    /// Called by the completion thread, with how far the lanes are, before anybody learns of what has completed.
    fn report(&self, completed: &[u64; LANES]);

    /// Whether [`Self::stop`] ends what runs.
    fn can_stop(&self) -> bool;

    /// Ends what runs, and runs nothing else. When it returns, nothing is used any more.
    fn stop(&self);

    /// After a failure: lets go of all queues that wait for this one.
    fn release_waiters(&self);

    /// The kernel that runs, by its name.
    fn running(&self) -> Option<Arc<str>>;

    /// How long a kernel may run without an end once nobody owns the queue any more; none for as long as it likes.
    fn patience(&self) -> Option<Duration>;
}

/// A submission that a timeline will be advanced by.
pub struct SubmissionPoint<C> {
    /// The lane of its queue, of which a waiter owns the clock and nothing else.
    pub clock: Arc<C>,
    /// How many parts the lane has completed once it has.
    pub epoch: u64,
    /// Its number among the submissions of its queue.
    sequence: u64,
    /// The submissions that have completed before it.
    frontier: Frontier,
}

impl<C> Clone for SubmissionPoint<C> {
    fn clone(&self) -> Self {
        let SubmissionPoint { clock, epoch, sequence, frontier } = self;
        SubmissionPoint { clock: clock.clone(), epoch: *epoch, sequence: *sequence, frontier: *frontier }
    }
}

impl<C: Clock> fmt::Debug for SubmissionPoint<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "submission {} of {:?}", self.epoch, self.clock)
    }
}

impl<C: Clock> SubmissionPoint<C> {
    /// Whether it has completed.
    pub fn is_reached(&self) -> bool {
        self.clock.completed() >= self.epoch
    }
}

/// Points and waits that a submission has memory for at first.
const FEW: usize = 4;

/// Most submissions whose memory a queue keeps. Their vectors hold few points and addresses each.
const MAX_SPARE: usize = 1024;

/// A submission, and what it holds until it has completed.
pub struct Submission<H: Hardware> {
    /// The points to signal.
    signal: Vec<Timepoint>,
    /// The points that packets wait for: a timeline that fails meanwhile fails the submission.
    waits: Vec<Timepoint>,
    /// The submissions that its packets wait for. They poll the clocks of these, which stay until the packets have run.
    device: Vec<SubmissionPoint<H::Clock>>,
    /// One more than the number of the last submission of its own queue that it begins after; zero if there is none.
    after: u64,
    work: H::Work,
    /// A function that runs once it has completed without a failure, before the points are signaled.
    reclaim: Option<Reclaim>,
    /// Why it failed before it ran, if it did: it completes as one that did nothing, after what it waits for.
    failure: Option<Status>,
    /// The limits of its call.
    scope: Scope,
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
    fn with_capacity() -> Self {
        Submission {
            signal: Vec::with_capacity(FEW),
            waits: Vec::with_capacity(FEW),
            device: Vec::with_capacity(FEW),
            ..Submission::default()
        }
    }

    /// Lets go of what its packets use, which have run: who is told that it is complete finds no references of it left.
    fn release(&mut self) {
        self.work.release();
        self.device.clear();
    }

    /// Lets go of what it holds, and keeps its memory.
    fn clear(&mut self) {
        self.signal.clear();
        self.waits.clear();
        self.release();
        (self.after, self.reclaim, self.failure) = (0, None, None);
        self.scope = Scope::default();
    }

    /// It will do nothing from here on, and fail with the first such cause. What it has done already may still run, so
    /// it holds all it held.
    fn cut(&mut self, cause: Status) {
        self.failure.get_or_insert(cause);
    }

    /// Whether there is a time or an event that ends its call.
    fn is_limited(&self) -> bool {
        self.scope.limits().is_some_and(|limits| limits.deadline.is_some() || limits.cancellation.is_some())
    }
}

/// A part of a submission that has not completed.
struct Entry<H: Hardware> {
    lane: usize,
    epoch: u64,
    /// Its number among the parts of the queue, and the number of the first part that may not have ended when it
    /// begins.
    sequence: u64,
    after: u64,
    /// None for all parts but the last one, which holds what the submission holds.
    submission: Option<Box<Submission<H>>>,
}

/// Why a queue takes no more submissions.
struct Failure {
    status: Status,
    /// Whether the driver ended it, so another one can take its place. Otherwise it stopped by itself.
    is_ended: bool,
}

/// A submission that ran and waits for its points, with the outcome.
type Settled<H> = (Hold<H>, Box<Submission<H>>, Result<()>);

/// A queue.
pub struct Core<H: Hardware> {
    /// The first field, so it is dropped first: the hardware ends before anything that packets use is freed.
    pub hardware: H,
    admission: Mutex<Admission<H>>,
    /// In the order in which they were published. Locked after the admission, if both are.
    entries: Mutex<VecDeque<Entry<H>>>,
    /// Memory of submissions that completed, to use again.
    spare: Mutex<Vec<Box<Submission<H>>>>,
    failure: OnceLock<Failure>,
    has_failed: AtomicBool,
    /// Whether its owner is gone: the threads end once everything has completed.
    is_closing: AtomicBool,
    /// How many [`Hold`]s there are.
    holds: AtomicUsize,
    feed: Mutex<Feed<H>>,
    fed: Condvar,
    settled: Mutex<Vec<Settled<H>>>,
    threads: Arc<Threads>,
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
    fn new(core: &Arc<Core<H>>) -> Self {
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

thread_local! {
    /// Whether the thread is one of a queue, or runs what a queue does on the host.
    static IS_DRIVER_THREAD: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Makes the calling thread one that never waits for a queue to end: others may wait for it.
pub fn join_driver() {
    IS_DRIVER_THREAD.with(|is_driver| is_driver.set(true));
}

/// Whether it is such a thread.
pub fn is_driver_thread() -> bool {
    IS_DRIVER_THREAD.with(|is_driver| is_driver.get())
}

/// Runs code of the host. A panic becomes a failure that has its message; it was printed when it happened.
///
/// # Errors
/// `INTERNAL` for a panic.
pub fn guarded<T>(what: &str, run: impl FnOnce() -> T) -> Result<T> {
    if !keeps(Rule::PanicsAreCaught) {
        return Ok(run());
    }
    catch_unwind(AssertUnwindSafe(run))
        .map_err(|panic| Status::internal(format!("{what} panicked: {}", text_of(&*panic))))
}

/// The message of a panic.
fn text_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a message")
}

impl<H: Hardware> Core<H> {
    /// A queue without threads.
    pub fn new(hardware: H, builder: H::Builder) -> Core<H> {
        Core {
            hardware,
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

    fn admission(&self) -> MutexGuard<'_, Admission<H>> {
        self.admission.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn entries(&self) -> MutexGuard<'_, VecDeque<Entry<H>>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An empty submission, in the memory of one that completed if there is one.
    fn new_submission(&self) -> Box<Submission<H>> {
        let spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner).pop();
        spare.unwrap_or_else(|| Box::new(Submission::with_capacity()))
    }

    /// Keeps the memory of a submission that holds nothing any more.
    fn recycle(&self, submission: Box<Submission<H>>) {
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        if spare.len() < MAX_SPARE {
            spare.push(submission);
        }
    }

    /// Whether somebody may still submit, besides the owner.
    fn is_held(&self) -> bool {
        self.holds.load(Ordering::SeqCst) != 0
    }

    fn is_closing(&self) -> bool {
        self.is_closing.load(Ordering::SeqCst)
    }

    fn failure(&self) -> Option<&Failure> {
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
    fn end(&self, why: &Status) {
        let kernel = self.hardware.running();
        let kernel = kernel.map_or_else(|| "a packet without a kernel".to_string(), |name| format!("`{name}`"));
        let status = why.clone().context(format!("{self:?} was ended while {kernel} ran"));
        self.set_failure(Failure { status, is_ended: true });
    }

    fn set_failure(&self, failure: Failure) {
        if self.failure.set(failure).is_ok() {
            self.has_failed.store(true, Ordering::Release);
            self.wake_threads();
        }
    }

    /// Lets both threads look at everything again.
    fn wake_threads(&self) {
        self.hardware.wake();
        self.wake_feeder(false);
    }
}

impl Failure {
    /// The cause for a submission. Where the driver ended the queue, the calls that it was ended for learn which limit
    /// that was, and others that it was not theirs.
    fn of(&self, scope: &Scope) -> Status {
        if !self.is_ended || scope.check().is_err() {
            return self.status.clone();
        }
        Status::new(StatusCode::Aborted, self.status.message().to_string())
    }
}
