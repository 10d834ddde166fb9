//! Replays that stop at each dispatch, before and after it, with the contents of its bindings at hand: comparisons and
//! minimised captures are made of them.
//!
//! One thing is done after the other, in an order in which each submission can run ([`crate::order`]). Commands are
//! kept when they are recorded; when their command buffer is executed, each becomes one of its own, so barriers and
//! events have nothing to order. Memory that nothing has written is zero, so that no result depends on what was in it
//! before.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use vireo_core::limits::{Charge, scope};
use vireo_core::status::{Result, Status, StatusCode};
use vireo_hal::{
    Buffer, BufferParams, BufferUsage, CommandBufferMode, CommandCategory, CopyFlags, Device, ExecutableCachingMode,
    ExecuteFlags, FillFlags, MemoryAccess, MemoryType, QueueAffinity, Semaphore, SemaphoreFlags, Timepoint,
    buffer_read, buffer_write, check_range,
};

use crate::executor::{Run, number};
use crate::generated::dump::payload;
use crate::generated::executor::call;
use crate::generated::operations::operation;
use crate::generated::payloads::{
    BufferRange, BufferRef, CommandBufferObject, DeviceQueueExecuteParts, DispatchParts, ExecutableMetadataParts,
    ExecutablePrepareParts,
};
use crate::options::ReplayOptions;
use crate::order::is_command;
use crate::plan::{Plan, Step, damaged, whole};

/// Bytes that are read or written at a time.
pub(crate) const CHUNK: usize = 1 << 20;

/// A range of a buffer that a dispatch uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BoundRange {
    /// The number of the buffer in the capture; 0 if none is bound.
    pub buffer: u64,
    /// The first byte in the buffer.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
}

/// A dispatch of a replay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SteppedDispatch {
    /// How many dispatches were before it. A command counts each time that it runs.
    pub number: u64,
    /// The number of its record.
    pub record: u64,
    /// The name of its function; bytes that are not UTF-8 are replaced.
    pub function: String,
    /// The ranges that its bindings are bound to.
    pub bindings: Vec<BoundRange>,
    /// Where the counts of its workgroups are, if they are in a buffer.
    pub(crate) counts: Option<BoundRange>,
    /// The number of the device.
    pub(crate) device: u64,
    /// The index of its step.
    pub(crate) step: usize,
}

/// A range that the host reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SteppedRead {
    /// The number of the record.
    pub record: u64,
    /// The range.
    pub range: BoundRange,
}

/// Where a replay has stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// Before a dispatch, which [`Stepper::pass`] runs.
    Dispatch(SteppedDispatch),
    /// Where the host reads.
    Read(SteppedRead),
    /// All is done.
    End,
}

/// A device, the point that it has reached, and memory through which the host sees buffers that it cannot map.
struct Stage {
    device: Arc<dyn Device>,
    semaphore: Arc<dyn Semaphore>,
    value: u64,
    window: Option<Arc<dyn Buffer>>,
}

impl Stage {
    fn new(device: &Arc<dyn Device>) -> Result<Stage> {
        let semaphore = device.create_semaphore(QueueAffinity::ANY, 0, SemaphoreFlags::empty())?;
        Ok(Stage { device: device.clone(), semaphore, value: 0, window: None })
    }

    /// The point that the next submission signals.
    fn next(&mut self) -> [Timepoint; 1] {
        self.value += 1;
        [Timepoint { semaphore: self.semaphore.clone(), value: self.value }]
    }

    fn wait(&self, options: &ReplayOptions) -> Result<()> {
        self.semaphore.wait(self.value, Instant::now().checked_add(options.longest_wait))
    }

    fn window(&mut self) -> Result<Arc<dyn Buffer>> {
        if let Some(window) = &self.window {
            return Ok(window.clone());
        }
        let params = BufferParams {
            usage: BufferUsage::TRANSFER | BufferUsage::MAPPING,
            access: MemoryAccess::ALL,
            memory_type: MemoryType::HOST_VISIBLE | MemoryType::DEVICE_VISIBLE,
            ..BufferParams::default()
        };
        let window = self.device.allocator().allocate_buffer(params, CHUNK as u64)?;
        Ok(self.window.insert(window).clone())
    }
}

/// A command buffer that was recorded.
struct Recorded {
    /// The way in which it was made.
    made: CommandBufferObject,
    /// The indices of the steps that record its commands.
    commands: Vec<usize>,
}

/// The execution of a command buffer.
struct Execution {
    /// The index of the step that executes it.
    step: usize,
    commands: u64,
    /// Commands that were done.
    done: usize,
}

/// A replay that stops at each dispatch.
pub(crate) struct Stepper<'a> {
    plan: &'a Plan,
    run: Run<'a>,
    order: Vec<usize>,
    /// Steps of the order that were done.
    done: usize,
    recorded: HashMap<u64, Recorded>,
    execution: Option<Execution>,
    /// The dispatch before which the replay has stopped.
    pending: Option<usize>,
    /// How many dispatches there were.
    dispatches: u64,
    stages: HashMap<u64, Stage>,
    /// The device of each buffer.
    homes: HashMap<u64, u64>,
    /// The names of the functions of executables.
    names: HashMap<u64, Vec<String>>,
    /// The memory of the tables above.
    charge: Charge,
}

/// Bytes of the tables for each step, at most.
const TABLES: u64 = 128;

impl<'a> Stepper<'a> {
    /// A replay that has not begun. The caller starts the limits.
    pub(crate) fn new(plan: &'a Plan, devices: &[Arc<dyn Device>], options: &'a ReplayOptions) -> Result<Stepper<'a>> {
        let charge = Charge::of_call((plan.steps.len() as u64).saturating_mul(TABLES), "steps")?;
        let run = Run::new(plan, devices, options)?.in_steps();
        let mut stages = HashMap::new();
        for ((id, _), device) in plan.devices.iter().zip(devices) {
            stages.insert(*id, Stage::new(device)?);
        }
        Ok(Stepper {
            plan,
            run,
            order: plan.serial_order()?,
            done: 0,
            recorded: HashMap::new(),
            execution: None,
            pending: None,
            dispatches: 0,
            stages,
            homes: HashMap::new(),
            names: HashMap::new(),
            charge,
        })
    }

    /// Goes on to the next stop.
    pub(crate) fn advance(&mut self) -> Result<Stop> {
        let plan = self.plan;
        let mut place = None;
        let outcome = self.until_stop(&mut place);
        self.ended(outcome.map_err(|status| place.map_or(status.clone(), |step| plan.context(step, status))))
    }

    /// Runs the dispatch before which the replay has stopped.
    pub(crate) fn pass(&mut self) -> Result<()> {
        let plan = self.plan;
        let Some(step) = self.pending.take().and_then(|index| plan.steps.get(index)) else { return Ok(()) };
        let outcome = match self.execution.take() {
            Some(execution) => self.command(step, execution.step).map(|()| {
                self.execution = Some(Execution { done: execution.done + 1, ..execution });
            }),
            None => call(&mut self.run, step, plan.payload(step)),
        };
        self.ended(outcome.map_err(|status| plan.context(step, status)))
    }

    fn ended<T>(&self, outcome: Result<T>) -> Result<T> {
        if let Err(status) = &outcome {
            self.run.give_up(status);
        }
        outcome
    }

    fn until_stop(&mut self, place: &mut Option<&'a Step>) -> Result<Stop> {
        let plan = self.plan;
        loop {
            scope::check()?;
            let next = match &self.execution {
                Some(Execution { commands, done, .. }) => {
                    self.recorded.get(commands).and_then(|recorded| recorded.commands.get(*done)).copied()
                }
                None => self.order.get(self.done).copied(),
            };
            let Some((index, step)) = next.and_then(|index| Some((index, plan.steps.get(index)?))) else {
                let Some(Execution { step, .. }) = self.execution.take() else { return Ok(Stop::End) };
                *place = plan.steps.get(step);
                self.end_execution(step)?;
                continue;
            };
            *place = Some(step);
            let in_execution = self.execution.as_ref().map(|execution| execution.step);
            if let Some(execution) = in_execution {
                if step.code == operation::COMMAND_BUFFER_DISPATCH {
                    return self.before_dispatch(index, step, Some(execution));
                }
                self.command(step, execution)?;
                if let Some(execution) = &mut self.execution {
                    execution.done += 1;
                }
                continue;
            }
            self.done += 1;
            if step.code == operation::DEVICE_QUEUE_DISPATCH {
                return self.before_dispatch(index, step, None);
            }
            if let Some(read) = self.step(index, step)? {
                return Ok(Stop::Read(read));
            }
        }
    }

    /// Does a step that is no dispatch, or begins to execute a command buffer. Returns what the host reads.
    fn step(&mut self, index: usize, step: &'a Step) -> Result<Option<SteppedRead>> {
        let bytes = self.plan.payload(step);
        match step.code {
            operation::REPLAY_SCOPE_BEGIN | operation::REPLAY_SCOPE_END => {}
            operation::DEVICE_CREATE_COMMAND_BUFFER => {
                let made = CommandBufferObject::read(whole("command_buffer_object", bytes)?);
                self.recorded.insert(step.related, Recorded { made, commands: Vec::new() });
            }
            operation::COMMAND_BUFFER_BEGIN => {
                if let Some(recorded) = self.recorded.get_mut(&step.object) {
                    recorded.commands.clear();
                }
            }
            // They run one by one, so nothing is left to order.
            operation::COMMAND_BUFFER_END
            | operation::COMMAND_BUFFER_EXECUTION_BARRIER
            | operation::COMMAND_BUFFER_SIGNAL_EVENT
            | operation::COMMAND_BUFFER_RESET_EVENT
            | operation::COMMAND_BUFFER_WAIT_EVENTS => {}
            _ if is_command(step) => {
                if let Some(recorded) = self.recorded.get_mut(&step.object) {
                    recorded.commands.push(index);
                }
            }
            operation::BUFFER_MAP_RANGE => return self.host_read(step, bytes),
            operation::DEVICE_QUEUE_EXECUTE => {
                let commands = DeviceQueueExecuteParts::read(bytes).map_err(damaged)?.head.command_buffer_id;
                if commands == 0 {
                    call(&mut self.run, step, bytes)?;
                } else {
                    self.execution = Some(Execution { step: index, commands, done: 0 });
                }
            }
            _ => {
                call(&mut self.run, step, bytes)?;
                self.made_buffer(step)?;
            }
        }
        Ok(None)
    }

    fn host_read(&self, step: &Step, bytes: &[u8]) -> Result<Option<SteppedRead>> {
        let range = BufferRange::read(whole("buffer_range", bytes)?);
        if range.memory_access & MemoryAccess::READ.bits() == 0 {
            return Ok(None);
        }
        let available = self.run.buffer(step.object)?.byte_length();
        let length = check_range(available, range.byte_offset, range.byte_length)?;
        let range = BoundRange { buffer: step.object, offset: range.byte_offset, length };
        Ok(Some(SteppedRead { record: step.ordinal, range }))
    }

    /// Notes the device of a buffer that was made, and clears it.
    fn made_buffer(&mut self, step: &Step) -> Result<()> {
        let is_new = [operation::ALLOCATOR_ALLOCATE_BUFFER, operation::DEVICE_QUEUE_ALLOCA].contains(&step.code);
        if !is_new && step.code != operation::ALLOCATOR_IMPORT_BUFFER {
            return Ok(());
        }
        let mut devices = self.plan.devices.iter();
        let home = devices.find(|(device, allocator)| *device == step.object || *allocator == Some(step.object));
        let home = home.map_or(0, |(device, _)| *device);
        self.homes.insert(step.related, home);
        let buffer = self.run.buffer(step.related)?.clone();
        let Some(stage) = self.stages.get_mut(&home).filter(|_| is_new && buffer.byte_length() > 0) else {
            return Ok(());
        };
        let signal = stage.next();
        let length = buffer.byte_length();
        let flags = FillFlags::empty();
        stage.device.queue_fill(QueueAffinity::ANY, &[], &signal, &buffer, 0, length, &[0], flags)?;
        stage.wait(self.run.options)
    }

    /// The dispatch that is next, `execution` being the step that executes its command buffer.
    fn before_dispatch(&mut self, index: usize, step: &'a Step, execution: Option<usize>) -> Result<Stop> {
        let plan = self.plan;
        let parts = DispatchParts::read(plan.payload(step)).map_err(damaged)?;
        let submission = execution.and_then(|index| plan.steps.get(index)).unwrap_or(step);
        let table: Vec<BufferRef> = match execution {
            Some(_) => {
                DeviceQueueExecuteParts::read(plan.payload(submission)).map_err(damaged)?.bindings.iter().collect()
            }
            None => Vec::new(),
        };
        let bindings =
            parts.bindings.iter().map(|binding| self.resolve(&binding, &table)).collect::<Result<Vec<_>>>()?;
        let counts = parts.head.workgroup_count_ref;
        let is_indirect = counts.buffer_id != 0 || counts.length != 0;
        let counts = if is_indirect { Some(self.resolve(&counts, &table)?) } else { None };
        let function = self.function(parts.head.executable_id, parts.head.function_ordinal)?;
        let number = self.dispatches;
        self.dispatches += 1;
        self.pending = Some(index);
        let (record, device) = (step.ordinal, submission.object);
        Ok(Stop::Dispatch(SteppedDispatch { number, record, function, bindings, counts, device, step: index }))
    }

    /// The range that a binding stands for.
    fn resolve(&self, binding: &BufferRef, table: &[BufferRef]) -> Result<BoundRange> {
        let mut bound = BoundRange { buffer: binding.buffer_id, offset: binding.offset, length: binding.length };
        if bound.buffer == 0 {
            let slot = table.get(binding.buffer_slot as usize).copied().unwrap_or_default();
            if slot.buffer_id == 0 {
                return Ok(BoundRange { buffer: 0, offset: 0, length: 0 });
            }
            let available = self.run.buffer(slot.buffer_id)?.byte_length();
            let available = check_range(available, slot.offset, slot.length)?;
            let length = check_range(available, bound.offset, bound.length)?;
            // Both are within the buffer.
            bound = BoundRange { buffer: slot.buffer_id, offset: slot.offset + bound.offset, length };
        } else {
            let available = self.run.buffer(bound.buffer)?.byte_length();
            bound.length = check_range(available, bound.offset, bound.length)?;
        }
        Ok(bound)
    }

    /// The name of a function in the order of the capture.
    fn function(&mut self, executable: u64, ordinal: u32) -> Result<String> {
        if !self.names.contains_key(&executable) {
            let names = function_names(self.plan, executable)?;
            let bytes = names.iter().map(|name| (size_of::<String>() + name.len()) as u64).sum();
            self.charge.add(bytes, "names of functions")?;
            self.names.insert(executable, names);
        }
        let name = self.names.get(&executable).and_then(|names| names.get(ordinal as usize));
        Ok(name.cloned().unwrap_or_else(|| format!("{ordinal} of executable {executable}")))
    }

    /// Runs a command of the command buffer that the step `execution` executes, as one of its own.
    fn command(&mut self, step: &Step, execution: usize) -> Result<()> {
        let plan = self.plan;
        let Some(execution) = plan.steps.get(execution) else { return Ok(()) };
        let parts = DeviceQueueExecuteParts::read(plan.payload(execution)).map_err(damaged)?;
        let Some(Recorded { made, .. }) = self.recorded.get(&step.object) else { return Ok(()) };
        let device = self.run.device(execution.object)?.clone();
        let affinity = QueueAffinity::from_number(parts.head.queue_affinity)?;
        let categories = CommandCategory::from_number(number("command_categories", made.command_categories)?)?;
        let capacity = number("binding_capacity", made.binding_capacity)?;
        let commands = device.create_command_buffer(CommandBufferMode::ONE_SHOT, categories, affinity, capacity)?;
        self.run.replace_command_buffer(step.object, commands.clone())?;
        commands.begin()?;
        call(&mut self.run, step, plan.payload(step))?;
        commands.end()?;
        let bindings = self.run.buffer_binding_list(&parts.bindings)?;
        let Some(stage) = self.stages.get_mut(&execution.object) else { return Ok(()) };
        let signal = stage.next();
        device.queue_execute(
            affinity,
            &[],
            &signal,
            &commands,
            &bindings,
            ExecuteFlags::from_number(parts.head.flags)?,
        )?;
        stage.wait(self.run.options)
    }

    /// Signals the points of the step that executes a command buffer, all of whose commands have run.
    fn end_execution(&mut self, step: usize) -> Result<()> {
        let plan = self.plan;
        let Some(step) = plan.steps.get(step) else { return Ok(()) };
        let parts = DeviceQueueExecuteParts::read(plan.payload(step)).map_err(damaged)?;
        let affinity = QueueAffinity::from_number(parts.head.queue_affinity)?;
        let (wait, signal) = (self.run.waits(step)?, self.run.signals(step)?);
        self.run.device(step.object)?.queue_barrier(affinity, &wait, &signal, ExecuteFlags::empty())?;
        self.run.submitted(step)
    }

    /// Reads bytes of a buffer.
    pub(crate) fn read(&mut self, buffer: u64, offset: u64, out: &mut [u8]) -> Result<()> {
        let source = self.run.buffer(buffer)?.clone();
        if is_mappable(&*source) {
            return buffer_read(&*source, offset, out);
        }
        let options = self.run.options;
        let stage = self.stage(buffer)?;
        let window = stage.window()?;
        let mut place = offset;
        for part in out.chunks_mut(CHUNK) {
            let (signal, length) = (stage.next(), part.len() as u64);
            let flags = CopyFlags::empty();
            stage.device.queue_copy(QueueAffinity::ANY, &[], &signal, &source, place, &window, 0, length, flags)?;
            stage.wait(options)?;
            buffer_read(&*window, 0, part)?;
            place += length;
        }
        Ok(())
    }

    /// Writes bytes to a buffer.
    pub(crate) fn write(&mut self, buffer: u64, offset: u64, bytes: &[u8]) -> Result<()> {
        let target = self.run.buffer(buffer)?.clone();
        if is_mappable(&*target) {
            return buffer_write(&*target, offset, bytes);
        }
        let options = self.run.options;
        let stage = self.stage(buffer)?;
        let window = stage.window()?;
        let mut place = offset;
        for part in bytes.chunks(CHUNK) {
            let (signal, length) = (stage.next(), part.len() as u64);
            let flags = CopyFlags::empty();
            buffer_write(&*window, 0, part)?;
            stage.device.queue_copy(QueueAffinity::ANY, &[], &signal, &window, 0, &target, place, length, flags)?;
            stage.wait(options)?;
            place += length;
        }
        Ok(())
    }

    /// The format of an executable that an executable cache with this number finds in its bytes.
    pub(crate) fn infer_format(&self, cache: u64, data: &[u8]) -> Result<String> {
        self.run.executable_cache(cache)?.infer_format(ExecutableCachingMode::empty(), data)
    }

    fn stage(&mut self, buffer: u64) -> Result<&mut Stage> {
        let home = self.homes.get(&buffer).copied().unwrap_or_default();
        let missing =
            || Status::new(StatusCode::FailedPrecondition, format!("the device of buffer {buffer} is not there"));
        self.stages.get_mut(&home).ok_or_else(missing)
    }
}

fn is_mappable(buffer: &dyn Buffer) -> bool {
    buffer.memory_type().contains(MemoryType::HOST_VISIBLE)
        && buffer.allowed_usage().contains(BufferUsage::MAPPING_SCOPED)
}

/// The names of the functions of an executable, in the order of the capture.
fn function_names(plan: &Plan, executable: u64) -> Result<Vec<String>> {
    let prepares = |step: &&Step| step.payload_type == payload::EXECUTABLE_PREPARE && step.related == executable;
    let Some(step) = plan.steps.iter().find(prepares) else { return Ok(Vec::new()) };
    let parts = ExecutablePrepareParts::read(plan.payload(step)).map_err(damaged)?;
    let metadata = ExecutableMetadataParts::read(parts.metadata).map_err(damaged)?;
    let mut names = metadata.names;
    let split = |function: crate::generated::payloads::ExecutableFunction| {
        let (name, rest) = names.split_at_checked(usize::from(function.name_length)).unwrap_or_default();
        names = rest;
        String::from_utf8_lossy(name).into_owned()
    };
    Ok(metadata.functions.iter().map(split).collect())
}
