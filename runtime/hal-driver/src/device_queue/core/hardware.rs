//! The hardware that runs submissions, as the queue knows it: [`Hardware`] and the traits of its parts.

use std::fmt;
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use super::frontier::{Frontier, LANES};
use crate::status::Result;

/// The progress of a lane of a queue, for itself and for others. Its waiters hold it.
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

    /// How it ended, once all of its parts have.
    ///
    /// # Errors
    /// Its failure, if it failed without the queue.
    fn outcome(&self) -> Result<()> {
        Ok(())
    }

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

    /// Whether the line waits for something outside of this process, such as other ranks: submitters leave it to the
    /// feeder then, since what it waits for may depend on what they do next.
    fn is_held_up(&self) -> bool {
        false
    }

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

    /// How long a kernel may run without an end once the queue has no owner any more; none for as long as it likes.
    fn patience(&self) -> Option<Duration>;
}

/// A submission that a timeline will be advanced by.
pub struct SubmissionPoint<C> {
    /// The lane of its queue, of which a waiter owns the clock and nothing else.
    pub clock: Arc<C>,
    /// How many parts the lane has completed once it has.
    pub epoch: u64,
    /// Its number among the submissions of its queue.
    pub(super) sequence: u64,
    /// The submissions that have completed before it.
    pub(super) frontier: Frontier,
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
