//! Replays: the steps of a plan, called on devices.
//!
//! Captures do not have what the host waited for between its calls. So a submission begins once all earlier ones have
//! ended, unless it waits for them itself; and so does what the host does: it writes and reads buffers, and records
//! commands that run at once. What [`timelines`](crate::timelines) cannot see the end of, since a later submission
//! signals it, is not waited for.
//!
//! The arms of operations are generated from `spec/replay/operations.yaml`; `by_hand` has the operations that are more
//! than a call, `values` makes arguments of payloads.

use std::sync::{Arc, PoisonError};
use std::time::Instant;

use smallvec::SmallVec;
use vireo_core::limits::scope;
use vireo_core::status::{Result, Status, StatusCode};
use vireo_hal::{
    Allocator, Buffer, CommandBuffer, CommandBufferMode, Device, Event, Executable, ExecutableCache,
    ExecutableFunction, File, Semaphore, buffer_to_vec, subspan,
};

use crate::generated::executor::call;
use crate::generated::operations::operation;
use crate::generated::payloads::{BufferRange, ReplayScopeParts};
use crate::options::ReplayOptions;
use crate::plan::{Plan, Step, damaged, whole};
use crate::timelines::{Point, Timelines};

mod by_hand;
mod values;

pub(crate) use values::{number, text, words};

/// An observer of a replay.
pub trait Watch {
    /// A scope begins or ends. All that was submitted before has ended.
    fn scope(&mut self, name: &str, begins: bool) {
        let _ = (name, begins);
    }

    /// Whether it wants to see what the host read.
    fn wants_reads(&self) -> bool {
        false
    }

    /// The host reads a range of a buffer.
    ///
    /// # Errors
    /// Whatever ends the replay.
    fn read(&mut self, read: &HostRead<'_>) -> Result<()> {
        let _ = read;
        Ok(())
    }
}

/// A replay that is not watched.
impl Watch for () {}

/// Bytes that the host reads through a mapping.
#[derive(Clone, Copy, Debug)]
pub struct HostRead<'a> {
    /// The number of the record.
    pub record: u64,
    /// The number of the buffer.
    pub buffer: u64,
    /// The first byte in the buffer.
    pub offset: u64,
    /// The bytes.
    pub bytes: &'a [u8],
}

/// An object that a replay has.
enum Object {
    /// It was not made yet.
    Missing,
    Device(Arc<dyn Device>),
    Allocator(Arc<dyn Allocator>),
    Buffer(Arc<dyn Buffer>),
    /// With whether its commands run while they are recorded.
    CommandBuffer(Arc<dyn CommandBuffer>, bool),
    ExecutableCache(Arc<dyn ExecutableCache>),
    /// With its functions in the order of the capture.
    Executable(Arc<dyn Executable>, Box<[ExecutableFunction]>),
    Semaphore(Arc<dyn Semaphore>),
    File(Arc<dyn File>),
    Event(Arc<dyn Event>),
}

impl Object {
    /// Lets go of an object; what programs make at each call is made again of the same memory.
    fn recycle(self) {
        match self {
            Object::Buffer(buffer) => buffer.recycle(),
            Object::CommandBuffer(commands, _) => commands.recycle(),
            Object::Semaphore(semaphore) => semaphore.recycle(),
            _ => {}
        }
    }
}

/// A replay that has ended, with the objects that it made.
pub struct Replayed<'a> {
    plan: &'a Plan,
    objects: Vec<Object>,
}

impl std::fmt::Debug for Replayed<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Replayed").field("objects", &self.objects.len()).finish_non_exhaustive()
    }
}

impl Replayed<'_> {
    /// The buffer with this number in the capture, if the options keep buffers or it is used until the end.
    pub fn buffer(&self, id: u64) -> Option<Arc<dyn Buffer>> {
        match self.objects.get(self.plan.objects.place(id)?) {
            Some(Object::Buffer(buffer)) => Some(buffer.clone()),
            _ => None,
        }
    }
}

impl Plan {
    /// Replays the capture once, with new objects.
    ///
    /// # Errors
    /// INVALID_ARGUMENT if there are other devices than the capture has; FAILED_PRECONDITION if a submission waits for
    /// what nothing signals; DEADLINE_EXCEEDED and RESOURCE_EXHAUSTED at the limits; PERMISSION_DENIED for files that
    /// may not be used so; and the failures of devices, each with its record.
    pub fn run(
        &self,
        devices: &[Arc<dyn Device>],
        options: &ReplayOptions,
        watch: &mut dyn Watch,
    ) -> Result<Replayed<'_>> {
        let _started = scope::start(&options.limits);
        let mut run = Run::new(self, devices, options)?;
        let outcome = run.all(watch);
        if let Err(status) = &outcome {
            run.give_up(status);
        }
        outcome?;
        self.keep_executables(&run);
        Ok(Replayed { plan: self, objects: run.objects })
    }
}

impl Plan {
    /// Keeps the executables of a replay until the next one has made its own: loaders that share code between
    /// executables of the same bytes then have it. A budget for memory would count them twice, so with one they go.
    fn keep_executables(&self, run: &Run<'_>) {
        if run.options.limits.memory.is_some() {
            return;
        }
        let executables = run.objects.iter().filter_map(|object| match object {
            Object::Executable(executable, _) => Some(executable.clone()),
            _ => None,
        });
        let executables = executables.collect();
        let before = {
            let mut kept = self.executables.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *kept, executables)
        };
        drop(before);
    }
}

/// A replay under way.
pub(crate) struct Run<'a> {
    plan: &'a Plan,
    pub(crate) options: &'a ReplayOptions,
    /// Whether each submission is waited for before the next call.
    serial: bool,
    /// Whether buffers are made so that a stepper can see their contents.
    in_steps: bool,
    objects: Vec<Object>,
    timelines: Timelines,
    /// The index of the step.
    index: usize,
    /// How many objects have ended, of those of the plan.
    ended: usize,
    /// The signals of submissions that can end, and that no later submission waits for.
    frontier: Vec<SmallVec<[Point; 2]>>,
}

macro_rules! objects {
    ($($name:ident: $variant:ident($object:ident) $expected:literal,)*) => {
        impl Run<'_> {
            $(pub(crate) fn $name(&self, id: u64) -> Result<&Arc<dyn $object>> {
                match self.object(id) {
                    Some(Object::$variant(object, ..)) => Ok(object),
                    _ => Err(not_there($expected, id)),
                }
            })*
        }
    };
}

objects! {
    device: Device(Device) "device",
    allocator: Allocator(Allocator) "allocator",
    buffer: Buffer(Buffer) "buffer",
    command_buffer: CommandBuffer(CommandBuffer) "command buffer",
    executable_cache: ExecutableCache(ExecutableCache) "executable cache",
    executable: Executable(Executable) "executable",
    file: File(File) "file",
    event: Event(Event) "event",
}

fn not_there(expected: &str, id: u64) -> Status {
    Status::new(StatusCode::FailedPrecondition, format!("the {expected} {id} is not there"))
}

impl<'a> Run<'a> {
    /// A replay that has not begun.
    pub(crate) fn new(plan: &'a Plan, devices: &[Arc<dyn Device>], options: &'a ReplayOptions) -> Result<Run<'a>> {
        let (captured, given) = (plan.devices.len(), devices.len());
        if captured != given {
            let message = format!("the capture has {captured} devices, and {given} are given: expected as many");
            return Err(Status::invalid_argument(message));
        }
        if let Some(status) = &plan.hopeless {
            return Err(status.clone());
        }
        let mut objects: Vec<Object> = Vec::new();
        objects.resize_with(plan.places, || Object::Missing);
        for ((device_id, allocator_id), device) in plan.devices.iter().zip(devices) {
            let allocator = Some(Object::Allocator(device.allocator()));
            let made = [(Some(*device_id), Some(Object::Device(device.clone()))), (*allocator_id, allocator)];
            for (id, object) in made {
                let place = id.and_then(|id| plan.objects.place(id)).and_then(|place| objects.get_mut(place));
                if let (Some(place), Some(object)) = (place, object) {
                    *place = object;
                }
            }
        }
        let (timelines, serial) = (Timelines::new(plan.places), options.serial);
        Ok(Run { plan, options, serial, in_steps: false, objects, timelines, index: 0, ended: 0, frontier: Vec::new() })
    }

    /// The same for a stepper.
    pub(crate) fn in_steps(self) -> Run<'a> {
        Run { serial: true, in_steps: true, ..self }
    }
}

impl Run<'_> {
    fn all(&mut self, watch: &mut dyn Watch) -> Result<()> {
        let plan = self.plan;
        for (index, step) in plan.steps.iter().enumerate() {
            self.index = index;
            self.step(step, watch).map_err(|status| plan.context(step, status))?;
            self.let_go();
        }
        self.wait()
    }

    fn step(&mut self, step: &Step, watch: &mut dyn Watch) -> Result<()> {
        scope::check()?;
        let plan = self.plan;
        let payload = plan.payload(step);
        match step.code {
            operation::REPLAY_SCOPE_BEGIN | operation::REPLAY_SCOPE_END => {
                self.wait()?;
                let parts = ReplayScopeParts::read(payload).map_err(damaged)?;
                watch.scope(text("name", parts.name)?, step.code == operation::REPLAY_SCOPE_BEGIN);
                Ok(())
            }
            operation::BUFFER_MAP_RANGE => self.host_read(step, payload, watch),
            _ => call(self, step, payload),
        }
    }

    /// The ranges that the host mapped for reading, if somebody wants to see it.
    fn host_read(&mut self, step: &Step, payload: &[u8], watch: &mut dyn Watch) -> Result<()> {
        let range = BufferRange::read(whole("buffer_range", payload)?);
        let reads = range.memory_access & vireo_hal::MemoryAccess::READ.bits() != 0;
        if !reads || !watch.wants_reads() {
            return Ok(());
        }
        self.wait()?;
        let part = subspan(self.buffer(step.object)?, range.byte_offset, range.byte_length)?;
        let bytes = buffer_to_vec(&*part, part.byte_length())?;
        let read = HostRead { record: step.ordinal, buffer: step.object, offset: range.byte_offset, bytes: &bytes };
        watch.read(&read)
    }

    /// Lets go of the objects that no later step names. What was submitted last may still be waited for.
    fn let_go(&mut self) {
        if !self.frontier.is_empty() || self.timelines.is_blocked() {
            return;
        }
        while let Some(ending) = self.plan.endings.get(self.ended)
            && ending.step as usize <= self.index
        {
            self.ended += 1;
            let Some(place) = self.objects.get_mut(ending.place as usize) else { continue };
            match place {
                Object::Buffer(_) if self.options.keep_buffers => {}
                place => std::mem::replace(place, Object::Missing).recycle(),
            }
        }
    }

    /// Waits for all submissions that can end.
    fn wait(&mut self) -> Result<()> {
        if self.frontier.is_empty() {
            return Ok(());
        }
        let deadline = Instant::now().checked_add(self.options.longest_wait);
        // Its memory is used again.
        let mut frontier = std::mem::take(&mut self.frontier);
        for point in frontier.drain(..).flatten() {
            self.semaphore_of(&point)?.wait(point.value, deadline)?;
        }
        self.frontier = frontier;
        Ok(())
    }

    /// The semaphore of a point.
    pub(crate) fn semaphore_of(&self, point: &Point) -> Result<&Arc<dyn Semaphore>> {
        match self.objects.get(point.place) {
            Some(Object::Semaphore(semaphore)) => Ok(semaphore),
            _ => Err(not_there("semaphore", point.semaphore)),
        }
    }

    /// Called before a submission: those before it have ended, or it waits for them.
    pub(crate) fn before_submission(&mut self, step: &Step) -> Result<()> {
        let waits = self.plan.waits(step);
        let reaches = |wait: &Point, point: &Point| wait.place == point.place && wait.value >= point.value;
        let is_waited_for =
            |points: &SmallVec<[Point; 2]>| points.iter().any(|point| waits.iter().any(|wait| reaches(wait, point)));
        if self.frontier.iter().all(is_waited_for) {
            return Ok(());
        }
        self.wait()
    }

    /// Called after a submission.
    pub(crate) fn submitted(&mut self, step: &Step) -> Result<()> {
        let plan = self.plan;
        let (waits, signals) = (plan.waits(step), plan.signals(step));
        let missing = self.timelines.missing(waits);
        if let Some(Point { semaphore, value, .. }) = missing.filter(|_| self.serial) {
            let message =
                format!("it waits for value {value} of semaphore {semaphore}, which nothing before it signals");
            return Err(Status::new(StatusCode::FailedPrecondition, message));
        }
        if missing.is_none() {
            // It waits for all of them, or they have ended.
            self.frontier.clear();
        }
        if missing.is_none() && !self.timelines.is_blocked() {
            self.timelines.promise(signals);
            if !signals.is_empty() {
                self.frontier.push(SmallVec::from_slice(signals));
            }
        } else {
            for ending in self.timelines.submit(self.index, waits, signals) {
                if !ending.is_empty() {
                    self.frontier.push(SmallVec::from_vec(ending));
                }
            }
        }
        if self.serial { self.wait() } else { Ok(()) }
    }

    /// Called before a command is recorded: it may run at once.
    pub(crate) fn before_command(&mut self, step: &Step) -> Result<()> {
        match self.object(step.object) {
            Some(Object::CommandBuffer(_, true)) => self.wait(),
            _ => Ok(()),
        }
    }

    /// Ends what waits for points that will not come.
    pub(crate) fn give_up(&self, status: &Status) {
        for object in &self.objects {
            if let Object::Semaphore(semaphore) = object {
                semaphore.fail(status.clone());
            }
        }
    }

    #[inline]
    fn object(&self, id: u64) -> Option<&Object> {
        self.objects.get(self.plan.objects.place(id)?)
    }

    fn made(&mut self, step: &Step, object: Object) -> Result<()> {
        let place = self.plan.objects.place(step.related).and_then(|place| self.objects.get_mut(place));
        *place.ok_or_else(|| not_there("object", step.related))? = object;
        Ok(())
    }

    pub(crate) fn made_buffer(&mut self, step: &Step, buffer: Arc<dyn Buffer>) -> Result<()> {
        self.made(step, Object::Buffer(buffer))
    }

    pub(crate) fn made_command_buffer(&mut self, step: &Step, commands: Arc<dyn CommandBuffer>) -> Result<()> {
        let runs_at_once = commands.mode().contains(CommandBufferMode::ALLOW_INLINE_EXECUTION);
        self.made(step, Object::CommandBuffer(commands, runs_at_once))
    }

    /// Has a command buffer in place of another.
    pub(crate) fn replace_command_buffer(&mut self, id: u64, commands: Arc<dyn CommandBuffer>) -> Result<()> {
        let place = self.plan.objects.place(id).and_then(|place| self.objects.get_mut(place));
        *place.ok_or_else(|| not_there("command buffer", id))? = Object::CommandBuffer(commands, false);
        Ok(())
    }

    pub(crate) fn made_event(&mut self, step: &Step, event: Arc<dyn Event>) -> Result<()> {
        self.made(step, Object::Event(event))
    }

    pub(crate) fn made_executable_cache(&mut self, step: &Step, cache: Arc<dyn ExecutableCache>) -> Result<()> {
        self.made(step, Object::ExecutableCache(cache))
    }

    pub(crate) fn made_semaphore(&mut self, step: &Step, semaphore: Arc<dyn Semaphore>) -> Result<()> {
        let place = self.plan.objects.place(step.related).unwrap_or(usize::MAX);
        self.timelines.begin(place, semaphore.query()?);
        self.made(step, Object::Semaphore(semaphore))
    }
}
