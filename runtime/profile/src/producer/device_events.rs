//! Times that a device measures itself, as events of its queue and of its dispatches. A device says the names of the
//! functions alone; the submission is the first one of the queue with dispatches of these names.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use vireo_core::status::Status;
use vireo_hal::{DispatchTime, ProfilingDataFamilies, SubmissionTime, TimesObserver};

use super::cpu_counters::Values;
use super::executables::{Functions, KnownExecutable};
use super::session::{COUNTER_SET, Events, Session};
use super::work::Submitted;
use crate::generated::format::{
    COMMAND_INDIRECT_PARAMETERS, COUNTER_OF_COMMAND, COUNTER_OF_DISPATCH_EVENT, COUNTER_TICK_RANGE,
    CommandOperationType, CounterSampleScope, DISPATCH_INDIRECT_PARAMETERS, DISPATCH_OF_COMMAND_BUFFER, NONE,
    QueueEventType,
};
use crate::generated::records::{CounterSample, DispatchEvent, QueueDeviceEvent};

/// Submissions of a queue that are remembered until the device reports them.
const REMEMBERED: usize = 4096;

/// A dispatch that was submitted.
#[derive(Clone, Debug)]
struct Expected {
    name: String,
    executable: u64,
    function: u32,
    command: u32,
    flags: u32,
    count: [u32; 3],
    size: [u32; 3],
}

/// A submission that the device has not reported yet.
#[derive(Debug)]
struct Pending {
    id: u64,
    r#type: QueueEventType,
    command_buffer: u64,
    dispatches: Vec<Expected>,
}

/// A dispatch that the device has reported, before its submission.
struct Reported {
    name: String,
    workgroups: u64,
    times: Option<(Duration, Duration)>,
    /// The values of the counters of the session.
    counted: Option<Values>,
}

#[derive(Default)]
struct OfQueue {
    pending: VecDeque<Pending>,
    reported: Vec<Reported>,
}

/// The observer of a device's times for a session.
pub(super) struct DeviceEvents {
    session: Arc<Session>,
    functions: Arc<Functions>,
    queues: Mutex<BTreeMap<u32, OfQueue>>,
}

impl fmt::Debug for DeviceEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("times of a device")
    }
}

/// Ticks are nanoseconds; 0 is no tick.
fn tick(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).saturating_add(1)
}

impl DeviceEvents {
    pub(super) fn new(session: Arc<Session>, functions: Arc<Functions>) -> DeviceEvents {
        DeviceEvents { session, functions, queues: Mutex::default() }
    }

    /// Remembers a submission with dispatches.
    pub(super) fn submitted(&self, submitted: &Submitted) {
        let mut dispatches = Vec::new();
        if let Some(commands) = &submitted.commands {
            let recorded = commands.recorded();
            for operation in recorded.operations.iter().filter(|one| one.r#type == CommandOperationType::DISPATCH) {
                let executable = recorded.executables.iter().find(|other| other.id == operation.executable_id);
                let info = executable.and_then(|known| known.functions.get(operation.function_ordinal as usize));
                dispatches.push(Expected {
                    name: info.map(|info| info.name.clone()).unwrap_or_default(),
                    executable: operation.executable_id,
                    function: operation.function_ordinal,
                    command: operation.command_index,
                    flags: match operation.flags & COMMAND_INDIRECT_PARAMETERS {
                        0 => DISPATCH_OF_COMMAND_BUFFER,
                        _ => DISPATCH_OF_COMMAND_BUFFER | DISPATCH_INDIRECT_PARAMETERS,
                    },
                    count: operation.workgroup_count,
                    size: operation.workgroup_size,
                });
            }
        } else if let Some((executable, ordinal)) = &submitted.function {
            let info = executable.functions.get(*ordinal as usize);
            dispatches.push(Expected {
                name: info.map(|info| info.name.clone()).unwrap_or_default(),
                executable: executable.id,
                function: *ordinal,
                command: NONE,
                flags: 0,
                count: [0; 3],
                size: info.map_or([0; 3], |info| info.workgroup_size),
            });
        }
        if dispatches.is_empty() {
            return;
        }
        let command_buffer = submitted.commands.as_ref().map_or(0, |commands| commands.id);
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        let pending = &mut queues.entry(submitted.queue).or_default().pending;
        if pending.len() >= REMEMBERED {
            pending.pop_front();
        }
        pending.push_back(Pending { id: submitted.id, r#type: submitted.r#type, command_buffer, dispatches });
    }

    /// A submission of another session, or of a wrapper that does not know it, and the executables that it has.
    fn unknown(&self, submission: u64, reported: &[Reported]) -> (Pending, Vec<Arc<KnownExecutable>>) {
        let mut executables = Vec::new();
        let expected = |reported: &Reported| {
            let known = self.functions.get(&reported.name);
            let (executable, function) = known.as_ref().map_or((0, NONE), |(known, ordinal)| (known.id, *ordinal));
            executables.extend(known.map(|(known, _)| known));
            let workgroups = u32::try_from(reported.workgroups).unwrap_or(u32::MAX);
            let (command, flags, size) = (NONE, 0, [0; 3]);
            let (name, count) = (reported.name.clone(), [workgroups, 1, 1]);
            Expected { name, executable, function, command, flags, count, size }
        };
        let dispatches = reported.iter().map(expected).collect();
        let pending = Pending { id: submission, r#type: QueueEventType::EXECUTE, command_buffer: 0, dispatches };
        (pending, executables)
    }
}

impl DeviceEvents {
    /// The record of what was counted for a dispatch.
    fn counter_sample(&self, events: &mut Events, queue: u32, dispatch: &DispatchEvent, values: &[u64]) {
        let flag = |is_set: bool, flag: u32| if is_set { flag } else { 0 };
        let sample = CounterSample {
            flags: flag(dispatch.event_id != 0, COUNTER_OF_DISPATCH_EVENT)
                | flag(dispatch.command_index != NONE, COUNTER_OF_COMMAND)
                | flag(dispatch.start_tick != 0, COUNTER_TICK_RANGE),
            scope: CounterSampleScope::DISPATCH,
            sample_id: events.next_counter_sample(),
            counter_set_id: COUNTER_SET,
            dispatch_event_id: dispatch.event_id,
            submission_id: dispatch.submission_id,
            command_buffer_id: dispatch.command_buffer_id,
            executable_id: dispatch.executable_id,
            stream_id: self.session.place.stream(queue),
            start_tick: dispatch.start_tick,
            end_tick: dispatch.end_tick,
            command_index: dispatch.command_index,
            function_ordinal: dispatch.function_ordinal,
            physical_device_ordinal: self.session.place.ordinal,
            queue_ordinal: queue,
            ..CounterSample::read(&[0; CounterSample::SIZE])
        };
        if let Err(error) = sample.write(&mut events.counter_samples, values) {
            events.fail(Status::out_of_range(error.to_string()));
        }
    }
}

impl TimesObserver for DeviceEvents {
    fn is_active(&self) -> bool {
        true
    }

    fn wants_dispatches(&self) -> bool {
        self.session.has(ProfilingDataFamilies::DISPATCH_EVENTS) || self.wants_counters()
    }

    fn wants_counters(&self) -> bool {
        self.session.has(ProfilingDataFamilies::COUNTER_SAMPLES)
    }

    fn dispatch(&self, time: &DispatchTime<'_>) {
        // A driver's own kernels, such as those that fill, are of no executable that a profile could name.
        if !self.functions.has(time.kernel) {
            return;
        }
        let counted = self.session.counters().and_then(|counters| counters.select(time.counters));
        let (name, workgroups) = (time.kernel.to_string(), time.workgroups);
        let reported = Reported { name, workgroups, times: time.times, counted };
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        queues.entry(time.queue).or_default().reported.push(reported);
    }

    fn submission(&self, time: &SubmissionTime) {
        let now = self.session.clock.now();
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        let of_queue = queues.entry(time.queue).or_default();
        let reported = std::mem::take(&mut of_queue.reported);
        let is_of = |pending: &Pending| match self.wants_dispatches() {
            false => pending.dispatches.len() == time.dispatches as usize,
            true => {
                let names = pending.dispatches.iter().map(|dispatch| dispatch.name.as_str());
                names.eq(reported.iter().map(|reported| reported.name.as_str()))
            }
        };
        let found = match time.dispatches {
            0 => None,
            _ => of_queue.pending.iter().position(is_of).and_then(|index| of_queue.pending.remove(index)),
        };
        drop(queues);
        let is_known = found.is_some();
        let (pending, executables) = match found {
            Some(pending) => (pending, Vec::new()),
            None => self.unknown(time.submission, &reported),
        };
        let place = &self.session.place;
        self.session.add(|events| {
            executables.into_iter().for_each(|executable| events.names(executable));
            let span = i64::try_from((time.completed.saturating_sub(time.submitted)).as_nanos()).unwrap_or(0);
            let last = (tick(time.completed), now);
            let first = events.ticks.map_or((tick(time.submitted), now.saturating_sub(span)), |(first, _)| first);
            events.ticks = Some((first, last));
            for (dispatch, reported) in pending.dispatches.iter().zip(&reported) {
                let command_buffer = pending.command_buffer;
                if !self.session.selects(time.queue, command_buffer, dispatch.command, &dispatch.name) {
                    continue;
                }
                let event_id = match self.session.has(ProfilingDataFamilies::DISPATCH_EVENTS) {
                    true => events.next_dispatch_event(),
                    false => 0,
                };
                let event = DispatchEvent {
                    record_length: DispatchEvent::SIZE as u32,
                    flags: dispatch.flags,
                    event_id,
                    submission_id: pending.id,
                    command_buffer_id: command_buffer,
                    executable_id: dispatch.executable,
                    command_index: dispatch.command,
                    function_ordinal: dispatch.function,
                    workgroup_count: dispatch.count,
                    workgroup_size: dispatch.size,
                    start_tick: reported.times.map_or(0, |(start, _)| tick(start)),
                    end_tick: reported.times.map_or(0, |(_, end)| tick(end)),
                };
                if event_id != 0 {
                    events.dispatch.entry(time.queue).or_default().extend_from_slice(&event.to_bytes());
                }
                if let Some(values) = &reported.counted {
                    self.counter_sample(events, time.queue, &event, values);
                }
            }
            let Some((start, end)) = time.times.filter(|_| {
                self.session.has(ProfilingDataFamilies::DEVICE_QUEUE_EVENTS) && (is_known || time.dispatches != 0)
            }) else {
                return;
            };
            let event = QueueDeviceEvent {
                record_length: QueueDeviceEvent::SIZE as u32,
                r#type: pending.r#type,
                flags: 0,
                reserved0: 0,
                event_id: events.next_queue_device_event(),
                submission_id: pending.id,
                command_buffer_id: pending.command_buffer,
                allocation_id: 0,
                stream_id: place.stream(time.queue),
                payload_length: 0,
                physical_device_ordinal: place.ordinal,
                queue_ordinal: time.queue,
                operation_count: time.dispatches,
                reserved1: 0,
                start_tick: tick(start),
                end_tick: tick(end),
            };
            events.queue_device.extend_from_slice(&event.to_bytes());
        });
    }
}
