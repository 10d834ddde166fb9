//! A stream as the hardware of a queue ([`StreamQueue`]).

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::task::Waker;
use std::thread;
use std::time::{Duration, Instant};

use super::progress::{Progress, StreamClock};
use crate::allocator::StreamAllocator;
use crate::collectives::{Flight, Flights, issue};
use crate::command_buffer::{Counts, Program, Replay, Scratch};
use crate::context::{Context, LossListener};
use crate::generated::api::CallGroup;
use crate::hal::recycle::{MAX_FREE, free_list};
use crate::hal::{BufferBinding, TimesObserver};
use crate::hal_driver::device_queue::{Clock, Core, Hardware, Job, LANES, ParkedMemory, Part, SubmissionPoint, Work};
use crate::hal_driver::references::Resolved;
use crate::handles::Stream;
use crate::memory::{DeviceMemory, DeviceSet};
use crate::options::UseGraphs;
use crate::status::{Result, Status, StatusCode};
use crate::times::{DeviceClock, StreamTimes, Timing};

/// The program of an execution, with the addresses of that.
#[derive(Default)]
pub struct Execution {
    program: Option<Arc<Program>>,
    resolved: Resolved<DeviceSet>,
    /// Where the host reads sizes of grids.
    counts: Option<DeviceMemory>,
    /// Its collective operations, if it has some.
    flight: Option<Arc<Flight>>,
    /// How many groups of them the stream was given.
    given: AtomicU64,
}

impl Work for Execution {
    fn parts(&self) -> u64 {
        self.program.as_ref().map_or(1, |program| program.blocks().len() as u64)
    }

    fn outcome(&self) -> Result<()> {
        self.flight.as_ref().map_or(Ok(()), |flight| flight.outcome())
    }

    fn release(&mut self) {
        if let (Some(_), Some(program)) = (self.flight.take(), &self.program) {
            // Other ranks wait for those that the stream was not given.
            Flight::abandon(program.collectives().skip(*self.given.get_mut() as usize));
        }
        *self.given.get_mut() = 0;
        (self.program, self.counts) = (None, None);
        self.resolved.clear();
    }
}

/// A program with a binding table.
pub type ProgramJob = (Arc<Program>, Vec<BufferBinding>);

impl Job<StreamQueue> for ProgramJob {
    type Ref<'a> = (&'a Arc<Program>, &'a [BufferBinding]);

    fn borrow(&self) -> Self::Ref<'_> {
        (&self.0, &self.1)
    }

    fn to_owned((program, table): Self::Ref<'_>) -> Self {
        (program.clone(), table.to_vec())
    }

    fn resolve((program, table): Self::Ref<'_>, queue: &StreamQueue, work: &mut Execution) -> Result<()> {
        if program.collectives().next().is_some() {
            (work.flight, work.program) = (Some(Arc::default()), Some(program.clone()));
        }
        program.resolve(table, &mut work.resolved)?;
        if !work.resolved.reached_by.contains(queue.context.set()) {
            let context = &queue.context;
            let message = format!("{context:?} may not access the memory of a buffer: it is of another device");
            return Err(Status::invalid_argument(message));
        }
        if program.counts() > 0 {
            let bytes = u64::from(program.counts()) * Counts::BYTES;
            work.counts = Some(queue.memory.pinned(queue.place, bytes)?);
        }
        work.program = Some(program.clone());
        Ok(())
    }
}

/// A queue.
pub type QueueCore = Core<StreamQueue>;

free_list! { static PARKED: ParkedMemory<StreamQueue>, MAX_FREE }

/// The memory in which a part is put together.
#[derive(Debug, Default)]
pub struct Builder {
    scratch: Scratch,
    /// The lane and the epoch of the part that the stream was given last.
    given: Option<(usize, u64)>,
    /// The same of the part that waits for other ranks, and whether it was given its collective operations.
    held_up: Option<((usize, u64), bool)>,
}

/// A stream, and what it uses.
pub struct StreamQueue {
    /// The first field, so it is dropped first.
    stream: Stream,
    context: Arc<Context>,
    /// Unique in the process, from 1.
    number: u64,
    progress: Arc<Progress>,
    clocks: [Arc<StreamClock>; LANES],
    times: StreamTimes,
    /// Where the memory of executions is from, and the place of the GPU there.
    memory: Arc<StreamAllocator>,
    place: usize,
    graphs: UseGraphs,
    /// The collective operations that the stream has.
    flights: Flights,
    /// Whether the next part waits for other ranks.
    is_held_up: AtomicBool,
    core: OnceLock<Weak<QueueCore>>,
}

impl Drop for StreamQueue {
    fn drop(&mut self) {
        self.context.library.queues.fetch_sub(1, Ordering::Relaxed);
    }
}

impl fmt::Debug for StreamQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "queue {} of {:?}", self.number, self.context)
    }
}

impl LossListener for QueueCore {
    fn lost(&self, cause: &Status) {
        self.fail(cause.clone().context(format!("{self:?} stopped")));
    }
}

/// The place of a queue in its device.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// Its place among the queues of the device.
    pub ordinal: u32,
    /// The place of its GPU among those of the allocator.
    pub gpu: usize,
    /// The clock of that GPU.
    pub clock: &'a Arc<DeviceClock>,
}

/// A queue of a GPU, without threads.
///
/// # Errors
/// Those of the library, and UNIMPLEMENTED if it has no graphs and they are always to be used.
pub fn queue_of(
    context: &Arc<Context>,
    memory: &Arc<StreamAllocator>,
    place: Place<'_>,
    graphs: UseGraphs,
) -> Result<Arc<QueueCore>> {
    static NEXT_NUMBER: AtomicU64 = AtomicU64::new(1);
    let has_graphs = context.api().has(CallGroup::Graphs);
    let graphs = match graphs {
        UseGraphs::Auto if !has_graphs => UseGraphs::Never,
        UseGraphs::Always if !has_graphs => {
            return Err(Status::unimplemented(format!("the library of {context:?} has no graphs")));
        }
        graphs => graphs,
    };
    let number = NEXT_NUMBER.fetch_add(1, Ordering::Relaxed);
    let progress = Arc::new(Progress::new(context));
    let clocks = progress.clocks(number);
    let hardware = StreamQueue {
        stream: Stream::new(context)?,
        context: context.clone(),
        number,
        progress,
        clocks,
        times: StreamTimes::new(place.ordinal, place.clock),
        memory: memory.clone(),
        place: place.gpu,
        graphs,
        flights: Flights::default(),
        is_held_up: AtomicBool::new(false),
        core: OnceLock::new(),
    };
    context.library.queues.fetch_add(1, Ordering::Relaxed);
    let core = Arc::new(Core::new(hardware, Builder::default(), &PARKED));
    let weak = Arc::downgrade(&core);
    // It was not set before.
    let _ = core.hardware.core.set(weak.clone());
    context.listen(weak);
    Ok(core)
}

impl StreamQueue {
    /// Lets the stream wait for parts of other queues. False if the end of one is not recorded yet.
    fn wait_for(&self, points: &[SubmissionPoint<StreamClock>]) -> Result<bool> {
        for point in points {
            let waits = point.clock.wait_on(&self.context, self.stream.handle, point.epoch);
            if !waits.map_err(|error| self.context.failed(error))? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Looks at collective operations that have not run, whose ranks may have failed.
    fn look_at_flights(&self) {
        if !self.flights.is_empty() {
            self.flights.check(|lane| self.clocks[lane].completed(), self.progress.next());
        }
    }

    /// Tells an observer of the times of submissions from here on; none ends that.
    pub(crate) fn observe(&self, observer: Option<Arc<dyn TimesObserver>>) {
        self.times.observe(observer);
    }

    fn enter(&self) -> Result<crate::context::Current<'_>> {
        self.context.enter().map_err(|error| self.context.failed(error))
    }
}

impl Hardware for StreamQueue {
    type Clock = StreamClock;
    type Work = Execution;
    type Job = ProgramJob;
    type Builder = Builder;

    const NAME: &'static str = "stream";

    /// Each is one call of the library.
    const MAX_WAITS: usize = usize::MAX;

    fn clocks(&self) -> &[Arc<StreamClock>; LANES] {
        &self.clocks
    }

    fn agent(&self) -> u64 {
        u64::from(self.context.library.number) << 32 | self.context.description.ordinal as u64
    }

    /// Streams wait for events of their own library only.
    fn can_wait_for(&self, other: &StreamClock) -> bool {
        self.context.library.number == other.library
    }

    fn prepare_waits(&self, builder: &mut Builder, points: &[SubmissionPoint<StreamClock>]) -> Result<bool> {
        builder.given = None;
        let _current = self.enter()?;
        self.wait_for(points)
    }

    /// Gives the stream a part. What it was given before a failure is still there, and its owner holds what that uses
    /// until the stream has come to its end.
    fn prepare(&self, builder: &mut Builder, part: Part<'_, StreamQueue>) -> Result<bool> {
        let Part { lane, epoch, sequence, waits, work, .. } = part;
        let _current = self.enter()?;
        let program = work.and_then(|(work, index)| Some((work.program.as_deref()?, work, index)));
        let block =
            program.and_then(|(program, work, index)| Some((program, work, program.blocks().get(index as usize)?)));
        // The host reads what the part before has copied.
        if block.is_some_and(|(.., block)| block.needs.is_some()) && self.clocks[lane].completed() < epoch - 1 {
            return Ok(false);
        }
        let held_up = builder.held_up.take().filter(|(part, _)| *part == (lane, epoch));
        self.is_held_up.store(false, Ordering::Relaxed);
        if held_up.is_none() && !self.wait_for(waits)? {
            return Ok(false);
        }
        let mut timing = self.times.begin();
        if let Some((program, work, block)) = block {
            let stream = self.stream.handle;
            let execution = crate::command_buffer::Execution {
                context: &self.context,
                stream,
                resolved: &work.resolved,
                graphs: self.graphs,
            };
            let mut give = |timing: Option<&mut Timing<'_>>| {
                if let (false, Some(flight)) = (block.collectives.is_empty(), &work.flight) {
                    let mut is_given = held_up.is_some_and(|(_, is_given)| is_given);
                    if !issue(&block.collectives, &execution, &mut is_given)? {
                        builder.held_up = Some(((lane, epoch), is_given));
                        self.is_held_up.store(true, Ordering::Relaxed);
                        return Ok(false);
                    }
                    work.given.fetch_add(1, Ordering::Relaxed);
                    self.flights.add((lane, epoch), flight, &block.collectives);
                }
                let pool = self.memory.pool(self.place).map(|pool| &**pool);
                let replay = Replay { execution, pool, program, counts: work.counts.as_ref() };
                replay.run(block, &mut builder.scratch, timing).map(|()| true)
            };
            let is_given = match &mut timing {
                None => give(None)?,
                Some(timing) => timing.whole(stream, |timing| give(Some(timing)))?,
            };
            if !is_given {
                return Ok(false);
            }
        }
        if let Some(timing) = timing {
            self.times.add(timing, (lane, epoch), sequence);
        }
        builder.given = Some((lane, epoch));
        Ok(true)
    }

    fn publish(&self, builder: &mut Builder) -> Result<()> {
        let Some((lane, epoch)) = builder.given.take() else { return Ok(()) };
        let _current = self.enter()?;
        self.progress.record(self.stream.handle, lane, epoch)
    }

    fn progress(&self) -> u64 {
        0
    }

    fn pause(&self, _seen: u64, attempts: u32) {
        // At first it may go on at once. Then it is waited for for longer and longer, up to a millisecond.
        match attempts {
            0..64 => thread::yield_now(),
            _ => thread::sleep(Duration::from_micros((50 * u64::from(attempts - 63)).min(1000))),
        }
    }

    fn is_held_up(&self) -> bool {
        self.is_held_up.load(Ordering::Relaxed)
    }

    fn wake(&self) {
        self.progress.wake_thread();
    }

    fn waker(&self) -> Waker {
        self.progress.clone().into()
    }

    fn rearm(&self) {
        self.progress.rearm();
    }

    /// Only limits have a time, and no kernel of a library with streams can be ended.
    fn wait(&self, seen: Option<&[u64; LANES]>, _until: Option<Instant>) {
        // Only other queues of the library wake the thread while something runs.
        let is_alone = || self.context.library.queues.load(Ordering::Relaxed) <= 1 && self.flights.is_empty();
        let look = || self.look_at_flights();
        let waited = self.context.enter().and_then(|_current| self.progress.wait(seen, is_alone, look));
        if let Err(error) = waited {
            let status = self.context.failed(error);
            if let Some(core) = self.core.get().and_then(Weak::upgrade) {
                core.fail(status.context(format!("{self:?} stopped")));
            }
        }
    }

    fn report(&self, completed: &[u64; LANES]) {
        self.look_at_flights();
        self.times.report(completed);
    }

    fn can_stop(&self) -> bool {
        false
    }

    /// Waits until nothing of it runs: a library with streams ends no kernel.
    fn stop(&self) {
        self.flights.end(&Status::new(StatusCode::Aborted, "its queue stopped"));
        // A context that is lost runs nothing.
        let _ = self.stream.synchronize();
    }

    fn release_waiters(&self) {
        self.progress.fail();
    }

    fn running(&self) -> Option<Arc<str>> {
        None
    }

    fn patience(&self) -> Option<Duration> {
        None
    }
}
