//! The progress of a queue ([`Progress`]): the events of what has not run, and how far each lane is.
//!
//! All lanes share the stream, so the parts of a queue run in the order in which their events are recorded, and the
//! completion thread looks at the first one alone.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Wake;
use std::time::{Duration, Instant};

use vireo_cuda::types::CuStream;

use crate::api::ApiResult;
use crate::context::Context;
use crate::hal_driver::device_queue::{Clock, LANES};
use crate::handles::{Event, EventPool};

/// For how long the completion thread asks again and again before it sleeps. To wake it takes a submitter longer than a
/// submission, and the next one of a program that submits one after the other comes sooner.
const ACTIVE: Duration = Duration::from_micros(20);
/// Looks at the news between two looks at the time.
const LOOKS: u32 = 64;

/// The shortest and the longest sleep between two questions.
const SLEEP: (Duration, Duration) = (Duration::from_micros(20), Duration::from_millis(1));

/// The value of a lane of a queue that failed, so that all waits for it end.
const FAILED: u64 = u64::MAX;

/// How far a lane of a queue is. Waiters hold it.
pub struct StreamClock {
    number: u64,
    /// The number of the library.
    pub(super) library: u32,
    lane: usize,
    progress: Arc<Progress>,
}

impl fmt::Debug for StreamClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "lane {} of queue {}", self.lane, self.number / LANES as u64)
    }
}

impl Clock for StreamClock {
    fn number(&self) -> u64 {
        self.number
    }

    fn completed(&self) -> u64 {
        self.progress.completed[self.lane].load(Ordering::Acquire)
    }
}

/// A part that has not run, as far as is known.
struct Recorded {
    lane: usize,
    epoch: u64,
    event: Event,
}

#[derive(Default)]
struct State {
    recorded: VecDeque<Recorded>,
    is_woken: bool,
    /// Whether the completion thread sleeps until it is told something.
    sleeps: bool,
}

/// The progress of a queue.
pub struct Progress {
    context: Arc<Context>,
    events: EventPool,
    completed: [AtomicU64; LANES],
    state: Mutex<State>,
    changed: Condvar,
    /// Grows with each part that is recorded and each time that the thread is woken.
    news: AtomicU64,
}

impl Wake for Progress {
    fn wake(self: Arc<Self>) {
        self.wake_thread();
    }
}

impl Progress {
    pub(super) fn new(context: &Arc<Context>) -> Progress {
        Progress {
            context: context.clone(),
            events: EventPool::default(),
            completed: Default::default(),
            state: Mutex::default(),
            changed: Condvar::new(),
            news: AtomicU64::new(0),
        }
    }

    /// The clocks of the lanes of a queue with a number.
    pub(super) fn clocks(self: &Arc<Self>, number: u64) -> [Arc<StreamClock>; LANES] {
        let library = self.context.library.number;
        std::array::from_fn(|lane| {
            let (number, progress) = (number * LANES as u64 + lane as u64, self.clone());
            Arc::new(StreamClock { number, library, lane, progress })
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that everything the stream was given so far ends a part.
    pub(super) fn record(&self, stream: CuStream, lane: usize, epoch: u64) -> crate::status::Result<()> {
        let event = self.events.take(&self.context)?;
        // SAFETY: both are alive, and of the same context, which is current.
        let recorded = unsafe { self.context.api().event_record(event.handle, stream) };
        recorded.map_err(|error| self.context.failed(error))?;
        let mut state = self.lock();
        state.recorded.push_back(Recorded { lane, epoch, event });
        self.news.fetch_add(1, Ordering::Release);
        let sleeps = std::mem::take(&mut state.sleeps);
        drop(state);
        if sleeps {
            self.changed.notify_all();
        }
        Ok(())
    }

    pub(super) fn wake_thread(&self) {
        self.lock().is_woken = true;
        self.news.fetch_add(1, Ordering::Release);
        self.changed.notify_all();
    }

    pub(super) fn rearm(&self) {
        self.lock().is_woken = false;
    }

    /// No part will run any more: all who wait for one go on.
    pub(super) fn fail(&self) {
        self.completed.iter().for_each(|lane| lane.store(FAILED, Ordering::Release));
    }

    /// Whether a lane has completed more parts than `seen`.
    fn is_ahead(&self, seen: &[u64; LANES]) -> bool {
        self.completed.iter().zip(seen).any(|(lane, seen)| lane.load(Ordering::Acquire) > *seen)
    }

    /// The lane and the epoch of the first part that has not run, as far as is known.
    pub(super) fn next(&self) -> Option<(usize, u64)> {
        self.lock().recorded.front().map(|recorded| (recorded.lane, recorded.epoch))
    }

    /// Waits until a lane has completed more parts than `seen`, or the thread is woken. If it `is_alone`, nothing but
    /// the stream wakes it while something runs, so it sleeps in the library. Otherwise it looks at other things in
    /// between.
    pub(super) fn wait(&self, seen: Option<&[u64; LANES]>, is_alone: impl Fn() -> bool, look: impl Fn()) -> ApiResult {
        let mut sleep = SLEEP.0;
        let began = Instant::now();
        loop {
            let mut state = self.lock();
            if state.is_woken || seen.is_some_and(|seen| self.is_ahead(seen)) {
                return Ok(());
            }
            let Some(first) = state.recorded.front().filter(|_| seen.is_some()) else {
                let known = self.news.load(Ordering::Acquire);
                if seen.is_some() && began.elapsed() < ACTIVE {
                    drop(state);
                    self.look_for_news(known);
                    continue;
                }
                state.sleeps = true;
                drop(self.changed.wait(state).unwrap_or_else(PoisonError::into_inner));
                continue;
            };
            let event = first.event.handle;
            drop(state);
            // SAFETY: only this thread takes events out, so it is alive.
            match unsafe { self.context.api().event_query(event) } {
                Ok(()) => self.take_completed()?,
                Err(error) if !error.is_pending() => return Err(error),
                Err(_) if began.elapsed() < ACTIVE => std::thread::yield_now(),
                // SAFETY: only this thread takes events out, so it is alive.
                Err(_) if is_alone() => unsafe { self.context.api().event_synchronize(event) }?,
                Err(_) => {
                    look();
                    let state = self.lock();
                    if !state.is_woken {
                        drop(self.changed.wait_timeout(state, sleep).unwrap_or_else(PoisonError::into_inner));
                    }
                    sleep = (began.elapsed() / 8).clamp(SLEEP.0, SLEEP.1);
                }
            }
        }
    }

    /// Looks for a while whether anything was recorded, or the thread was woken, since `known`.
    fn look_for_news(&self, known: u64) {
        for _ in 0..LOOKS {
            if self.news.load(Ordering::Acquire) != known {
                return;
            }
            std::hint::spin_loop();
        }
        std::thread::yield_now();
    }

    /// Takes the events of what has run, the first of which has.
    fn take_completed(&self) -> ApiResult {
        let mut is_known = true;
        loop {
            let mut state = self.lock();
            let Some(first) = state.recorded.front() else { return Ok(()) };
            if !is_known {
                let event = first.event.handle;
                drop(state);
                // SAFETY: only this thread takes events out, so it is alive.
                match unsafe { self.context.api().event_query(event) } {
                    Ok(()) => state = self.lock(),
                    Err(error) if error.is_pending() => return Ok(()),
                    Err(error) => return Err(error),
                }
            }
            let Some(Recorded { lane, epoch, event }) = state.recorded.pop_front() else { return Ok(()) };
            self.completed[lane].fetch_max(epoch, Ordering::AcqRel);
            drop(state);
            self.events.give(event);
            is_known = false;
        }
    }
}

impl StreamClock {
    /// Lets a stream of another queue wait for a part. False if its end is not recorded yet.
    pub(super) fn wait_on(&self, context: &Context, stream: CuStream, epoch: u64) -> ApiResult<bool> {
        // Held, so that the event is not used again meanwhile.
        let state = self.progress.lock();
        if self.completed() >= epoch {
            return Ok(true);
        }
        let recorded = state.recorded.iter().find(|recorded| recorded.lane == self.lane && recorded.epoch == epoch);
        let Some(recorded) = recorded else { return Ok(false) };
        // SAFETY: both are alive, of the same library, and the event is recorded.
        unsafe { context.api().stream_wait_event(stream, recorded.event.handle, 0) }?;
        Ok(true)
    }
}
