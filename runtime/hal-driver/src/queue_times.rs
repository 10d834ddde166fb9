//! Times of a queue for an observer of its device ([`QueueTimes`]): which submissions are timed, and the reports of
//! those that completed. How something is measured is the driver's own: it keeps a record of each submission, and
//! reads it once that has run.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use crate::device_queue::{LANES, guarded};
use crate::hal::{DispatchTime, SubmissionTime, TimesObserver};

/// When something began and ended.
pub type Span = (Duration, Duration);

/// A dispatch of a submission that is timed.
#[derive(Clone, Debug)]
pub struct TimedDispatch {
    /// Its kernel; none if that is not known.
    pub kernel: Option<Arc<str>>,
    /// Its workgroups; 0 if only the device knows.
    pub workgroups: u64,
}

/// A part of a submission that is timed.
pub struct Timed<R> {
    /// The observer.
    pub observer: Arc<dyn TimesObserver>,
    /// The lane that counts it.
    pub lane: usize,
    /// How many parts the lane has completed once this one has.
    pub epoch: u64,
    /// Its number among the parts of the queue.
    pub sequence: u64,
    /// When it was given to the device.
    pub submitted: Duration,
    /// How many dispatches it has.
    pub count: u32,
    /// Those that are timed: all, or none.
    pub dispatches: Vec<TimedDispatch>,
    /// The record by which the driver reads its times.
    pub record: R,
}

/// The times of a part that has run.
#[derive(Debug)]
pub struct Ran {
    /// When its first command began, and its last one ended.
    pub whole: Option<Span>,
    /// The same of each dispatch, in their order; the device did not measure those that are missing.
    pub dispatches: Vec<Option<Span>>,
    /// The values of the device's counters for each dispatch, in their order; empty for those that it has none of.
    pub counters: Vec<Box<[u64]>>,
    /// The time now.
    pub completed: Duration,
}

/// The times of a queue. While nothing observes it, an admission looks at one flag.
pub struct QueueTimes<R> {
    /// The queue, by its place among those of the device.
    ordinal: u32,
    is_observed: AtomicBool,
    observer: RwLock<Option<Arc<dyn TimesObserver>>>,
    has_pending: AtomicBool,
    /// The parts that are timed and have not completed, in the order in which it was submitted.
    pending: Mutex<VecDeque<Timed<R>>>,
}

impl<R> fmt::Debug for QueueTimes<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "times of queue {}", self.ordinal)
    }
}

impl<R> QueueTimes<R> {
    /// Times of the queue at this place.
    pub fn new(ordinal: u32) -> QueueTimes<R> {
        QueueTimes {
            ordinal,
            is_observed: AtomicBool::new(false),
            observer: RwLock::default(),
            has_pending: AtomicBool::new(false),
            pending: Mutex::default(),
        }
    }

    /// Replaces the observer.
    pub fn observe(&self, observer: Option<Arc<dyn TimesObserver>>) {
        let is_observed = observer.is_some();
        *self.observer.write().unwrap_or_else(PoisonError::into_inner) = observer;
        self.is_observed.store(is_observed, Ordering::Release);
    }

    /// Whether the submission that is admitted now is timed, and for whom.
    #[inline]
    pub fn active(&self) -> Option<Arc<dyn TimesObserver>> {
        if !self.is_observed.load(Ordering::Acquire) {
            return None;
        }
        let observer = self.observer.read().unwrap_or_else(PoisonError::into_inner).clone();
        observer.filter(|observer| observer.is_active())
    }

    /// A part is given to the device now.
    pub fn add(&self, timed: Timed<R>) {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner).push_back(timed);
        self.has_pending.store(true, Ordering::Release);
    }

    /// Reports what has completed, of which `read` reads the times. The completion thread calls it before anyone learns
    /// of that.
    pub fn report(&self, completed: &[u64; LANES], mut read: impl FnMut(&mut Timed<R>) -> Ran) {
        if !self.has_pending.load(Ordering::Acquire) {
            return;
        }
        loop {
            let timed = {
                let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
                let index = pending.iter().position(|timed| timed.epoch <= completed[timed.lane]);
                let timed = index.and_then(|index| pending.remove(index));
                self.has_pending.store(!pending.is_empty(), Ordering::Release);
                timed
            };
            let Some(mut timed) = timed else { return };
            let ran = read(&mut timed);
            self.tell(&timed, &ran);
        }
    }

    /// If an observer panics, the others are told all the same.
    fn tell(&self, timed: &Timed<R>, ran: &Ran) {
        let Timed { observer, sequence, submitted, count, dispatches, .. } = timed;
        for (index, (dispatch, times)) in dispatches.iter().zip(&ran.dispatches).enumerate() {
            let time = DispatchTime {
                queue: self.ordinal,
                submission: *sequence,
                kernel: dispatch.kernel.as_deref().unwrap_or_default(),
                workgroups: dispatch.workgroups,
                times: *times,
                counters: ran.counters.get(index).map_or(&[], |counters| counters),
            };
            let _ = guarded("an observer of times", || observer.dispatch(&time));
        }
        let time = SubmissionTime {
            queue: self.ordinal,
            submission: *sequence,
            dispatches: *count,
            submitted: *submitted,
            times: ran.whole,
            completed: ran.completed,
        };
        let _ = guarded("an observer of times", || observer.submission(&time));
    }
}
