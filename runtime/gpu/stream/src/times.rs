//! Times of queues for an observer of their device: pairs of events on the stream, around each submission and, if they
//! are asked for, around its dispatches ([`StreamTimes`]). While there is no observer no event is made for them, and an
//! admission looks at one flag.
//!
//! Events say how much time is between two of them. One of them is an *anchor*, for which the host has looked at its
//! own clock ([`DeviceClock`]): it is recorded on a stream without work, so nothing waits for what the GPU does. The
//! clocks of host and GPU drift apart, and the library counts in milliseconds of 24 bits, so there is a new anchor
//! every second. What is left of the difference shows where the GPU seems to begin before it was told, or to end after
//! that was known: the anchor is corrected then.

use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use vireo_cuda::types::CuStream;

use crate::context::Context;
use crate::hal::TimesObserver;
use crate::hal_driver::device_queue::LANES;
use crate::hal_driver::queue_times::{QueueTimes, Ran, Span, Timed, TimedDispatch};
use crate::handles::{Event, EventPool, Stream};

/// The age at which an anchor is renewed.
const RENEWED: Duration = Duration::from_secs(1);

/// How long an observer waits for the first anchor, and an admission for a new one.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const WAIT: Duration = Duration::from_micros(100);

/// An event whose time the host knows.
struct Anchor {
    event: Event,
    made: Duration,
    /// Its time in nanoseconds, which what is measured from it may correct.
    at: AtomicI64,
}

fn nanoseconds(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}

impl Anchor {
    /// The time of the anchor, for which all of these moments after it are within what the host saw, as far as that can
    /// be. A host that was busy when the anchor was made may be wrong by more than a dispatch takes.
    fn correct<'a>(&self, passed: impl Iterator<Item = &'a i64> + Clone, (low, high): (Duration, Duration)) -> i64 {
        let at = self.at.load(Ordering::Relaxed);
        let (Some(first), Some(last)) = (passed.clone().min(), passed.max()) else { return at };
        let early = nanoseconds(low).saturating_sub(first.saturating_add(at));
        let late = nanoseconds(high).saturating_sub(last.saturating_add(at));
        let shift = if early > 0 { early } else { late.min(0).max(early) };
        self.at.fetch_add(shift, Ordering::Relaxed);
        at.saturating_add(shift)
    }
}

/// The stream of anchors and the latest one.
struct Anchors {
    stream: Stream,
    latest: Option<Arc<Anchor>>,
}

/// The clock of a GPU as the host sees it, for all queues of a device on that GPU.
pub struct DeviceClock {
    context: Arc<Context>,
    /// Events with times.
    events: EventPool,
    /// None while nothing observes the device.
    anchors: Mutex<Option<Anchors>>,
}

impl fmt::Debug for DeviceClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "clock of {:?}", self.context)
    }
}

impl DeviceClock {
    /// The clock of a GPU, which nothing observes yet.
    pub fn new(context: &Arc<Context>) -> DeviceClock {
        DeviceClock { context: context.clone(), events: EventPool::with_times(), anchors: Mutex::default() }
    }

    /// From here on times are compared with the clock of the host, or not any more. Without a stream for that, times
    /// stay unknown.
    pub(crate) fn set_observed(&self, is_observed: bool) {
        let mut anchors = self.anchors.lock().unwrap_or_else(PoisonError::into_inner);
        if !is_observed {
            *anchors = None;
            return;
        }
        if anchors.is_none() {
            *anchors = Stream::new(&self.context).ok().map(|stream| Anchors { stream, latest: None });
        }
        let Some(Anchors { stream, latest }) = &mut *anchors else { return };
        *latest = self.look(stream, FIRST_WAIT).map(Arc::new).or_else(|| latest.take());
    }

    /// The time of the host: all devices of a library count from one moment.
    fn now(&self) -> Duration {
        self.context.library.started.elapsed()
    }

    /// A new anchor, if the GPU answers soon.
    fn look(&self, stream: &Stream, wait: Duration) -> Option<Anchor> {
        let _current = self.context.enter().ok()?;
        let api = self.context.api();
        let event = self.events.take(&self.context).ok()?;
        let before = Instant::now();
        // SAFETY: both are alive, and of the same context, which is current.
        unsafe { api.event_record(event.handle, stream.handle) }.ok()?;
        loop {
            // SAFETY: it is alive.
            let done = unsafe { api.event_query(event.handle) };
            let (now, took) = (self.now(), before.elapsed());
            match done {
                // It was recorded between the two, and the middle is off by half of that at most.
                Ok(()) => {
                    return Some(Anchor { event, made: now, at: nanoseconds(now.saturating_sub(took / 2)).into() });
                }
                Err(error) if error.is_pending() && took < wait => std::thread::yield_now(),
                Err(_) => return None,
            }
        }
    }

    /// The latest anchor, or a new one.
    fn anchor(&self) -> Option<Arc<Anchor>> {
        let mut anchors = self.anchors.lock().unwrap_or_else(PoisonError::into_inner);
        let Anchors { stream, latest } = anchors.as_mut()?;
        let is_old = latest.as_ref().is_none_or(|anchor| anchor.made + RENEWED < self.now());
        if is_old && let Some(anchor) = self.look(stream, WAIT) {
            *latest = Some(Arc::new(anchor));
        }
        latest.clone()
    }

    /// Nanoseconds from an anchor to an event, which has happened.
    fn passed(&self, anchor: &Anchor, event: &Event) -> Option<i64> {
        // SAFETY: both are alive, and have times.
        let passed = unsafe { self.context.api().event_elapsed(anchor.event.handle, event.handle) }.ok()?;
        let passed = f64::from(f32::from_bits(passed.0)) * 1e6;
        // More than a century is no time.
        (passed.abs() < 3e18).then_some(passed as i64)
    }
}

/// Two events by their places among those of a submission.
type Pair = (usize, usize);

/// The events of a submission.
struct Record {
    anchor: Option<Arc<Anchor>>,
    events: Vec<Event>,
    whole: Option<Pair>,
    dispatches: Vec<Option<Pair>>,
}

/// The times of a queue.
pub struct StreamTimes {
    times: QueueTimes<Record>,
    clock: Arc<DeviceClock>,
}

impl fmt::Debug for StreamTimes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.times.fmt(f)
    }
}

impl StreamTimes {
    /// Times of the queue at this place.
    pub fn new(ordinal: u32, clock: &Arc<DeviceClock>) -> StreamTimes {
        StreamTimes { times: QueueTimes::new(ordinal), clock: clock.clone() }
    }

    /// Replaces the observer.
    pub fn observe(&self, observer: Option<Arc<dyn TimesObserver>>) {
        self.times.observe(observer);
    }

    /// Measures the part that the stream is given next, if somebody wants that.
    #[inline]
    pub fn begin(&self) -> Option<Timing<'_>> {
        self.times.active().map(|observer| Timing::new(&self.clock, observer))
    }

    /// A part was given to the stream.
    pub fn add(&self, timing: Timing<'_>, (lane, epoch): (usize, u64), sequence: u64) {
        let Timing { observer, submitted, anchor, count, dispatches, events, pairs, whole, .. } = timing;
        let record = Record { anchor, events, whole, dispatches: pairs };
        self.times.add(Timed { observer, lane, epoch, sequence, submitted, count, dispatches, record });
    }

    /// Reports what has completed.
    pub fn report(&self, completed: &[u64; LANES]) {
        self.times.report(completed, |timed| self.read(timed));
    }

    fn read(&self, timed: &mut Timed<Record>) -> Ran {
        let (record, clock) = (&mut timed.record, &self.clock);
        let completed = clock.now();
        let limits = (timed.submitted, completed.max(timed.submitted));
        let current = clock.context.enter().ok();
        let anchor = record.anchor.take().filter(|_| current.is_some());
        let moments: Vec<Option<Duration>> = match anchor {
            Some(anchor) => {
                let passed: Vec<_> = record.events.iter().map(|event| clock.passed(&anchor, event)).collect();
                let at = anchor.correct(passed.iter().flatten(), limits);
                let moment = |passed: i64| Duration::from_nanos(passed.saturating_add(at).max(0).unsigned_abs());
                passed.into_iter().map(|passed| passed.map(moment)).collect()
            }
            None => Vec::new(),
        };
        let moment = |index: usize| Some((*moments.get(index)?)?.clamp(limits.0, limits.1));
        let span = |pair: &Pair| -> Option<Span> { Some((moment(pair.0)?, moment(pair.1)?)) };
        let whole = record.whole.as_ref().and_then(span);
        let dispatches = record.dispatches.iter().map(|pair| pair.as_ref().and_then(span)).collect();
        record.events.drain(..).for_each(|event| clock.events.give(event));
        Ran { whole, dispatches, counters: Vec::new(), completed: limits.1 }
    }
}

/// The events of a part that the stream is given. What the library refuses is not timed: that is no reason for the
/// submission to fail.
pub struct Timing<'a> {
    clock: &'a DeviceClock,
    observer: Arc<dyn TimesObserver>,
    anchor: Option<Arc<Anchor>>,
    submitted: Duration,
    wants_dispatches: bool,
    events: Vec<Event>,
    /// Whether the stream was given nothing after the last event.
    is_current: bool,
    count: u32,
    dispatches: Vec<TimedDispatch>,
    pairs: Vec<Option<Pair>>,
    whole: Option<Pair>,
}

impl fmt::Debug for Timing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Timing")
    }
}

impl<'a> Timing<'a> {
    fn new(clock: &'a DeviceClock, observer: Arc<dyn TimesObserver>) -> Timing<'a> {
        let wants_dispatches = observer.wants_dispatches();
        let anchor = clock.anchor();
        Timing {
            clock,
            observer,
            anchor,
            submitted: clock.now(),
            wants_dispatches,
            events: Vec::new(),
            is_current: false,
            count: 0,
            dispatches: Vec::new(),
            pairs: Vec::new(),
            whole: None,
        }
    }

    /// Whether dispatches are timed.
    pub fn wants_dispatches(&self) -> bool {
        self.wants_dispatches
    }

    /// An event of the stream after all that it was given so far; none if the library refuses it.
    fn mark(&mut self, stream: CuStream) -> Option<usize> {
        if !self.is_current {
            let event = self.clock.events.take(&self.clock.context).ok()?;
            // SAFETY: both are alive, and of the same context, which is current.
            unsafe { self.clock.context.api().event_record(event.handle, stream) }.ok()?;
            self.events.push(event);
            self.is_current = true;
        }
        self.events.len().checked_sub(1)
    }

    /// Times what `give` gives the stream, as a whole.
    pub fn whole<T>(&mut self, stream: CuStream, give: impl FnOnce(&mut Self) -> T) -> T {
        let begin = self.mark(stream);
        let given = give(self);
        let end = self.mark(stream);
        self.whole = begin.zip(end);
        given
    }

    /// Counts a dispatch, and times what `give` gives the stream for it.
    pub fn dispatch<T>(
        &mut self,
        stream: CuStream,
        (kernel, grid): (Option<&Arc<str>>, [u32; 3]),
        give: impl FnOnce() -> T,
    ) -> T {
        self.count += 1;
        if !self.wants_dispatches {
            self.is_current = false;
            return give();
        }
        let begin = self.mark(stream);
        let given = give();
        self.is_current = false;
        let end = self.mark(stream);
        self.pairs.push(begin.zip(end));
        let workgroups = grid.iter().map(|count| u64::from(*count)).product();
        self.dispatches.push(TimedDispatch { kernel: kernel.cloned(), workgroups });
        given
    }

    /// The stream was given something that is no dispatch.
    pub fn other(&mut self) {
        self.is_current = false;
    }

    /// The stream was given a graph with so many dispatches.
    pub fn graph(&mut self, dispatches: usize) {
        self.count += u32::try_from(dispatches).unwrap_or(u32::MAX);
        self.is_current = false;
    }
}
