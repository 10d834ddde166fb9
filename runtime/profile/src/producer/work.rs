//! The observer of a submission: it learns when the operation began and ended, and of the parts of its dispatches, and
//! makes the records of that.

use std::cell::Cell;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use smallvec::SmallVec;
use vireo_core::status::{Result, Status};
use vireo_hal::ProfilingDataFamilies;
use vireo_hal::host_times::{HostPart, Watch, WorkObserver};

use super::commands::KnownCommands;
use super::cpu_counters::Values;
use super::executables::KnownExecutable;
use super::session::{COUNTER_SET, Events, Session};
use crate::generated::format::{
    COMMAND_INDIRECT_PARAMETERS, COUNTER_OF_COMMAND, CounterSampleScope, DependencyStrategy, EXECUTION_DEFERRED,
    EXECUTION_INDIRECT_PARAMETERS, EXECUTION_OF_COMMAND_BUFFER, MEMORY_QUEUE_OPERATION, MemoryEventType, NONE,
    QUEUE_SOFTWARE_DEFERRED, QueueEventType,
};
use crate::generated::records::{CounterSample, HostExecutionEvent, MemoryEvent, QueueEvent};

/// An operation that was submitted.
#[derive(Clone, Debug)]
pub(super) struct Submitted {
    pub(super) id: u64,
    pub(super) r#type: QueueEventType,
    pub(super) queue: u32,
    pub(super) commands: Option<Arc<KnownCommands>>,
    /// The function of a dispatch without a command buffer.
    pub(super) function: Option<(Arc<KnownExecutable>, u32)>,
    pub(super) allocation: u64,
    pub(super) memory: Option<(MemoryEventType, Memory)>,
    pub(super) payload_length: u64,
    pub(super) operation_count: u32,
    pub(super) counts: (u32, u32),
    /// When it was submitted, as the profile has it.
    pub(super) time: i64,
    /// Whether something that it waits for was not there.
    pub(super) is_deferred: bool,
}

/// The memory of an allocation.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Memory {
    pub(super) memory_type: u64,
    pub(super) usage: u64,
    pub(super) alignment: u64,
}

thread_local! {
    /// The address of the work that this thread submits, or 0.
    static SUBMITTED: Cell<usize> = const { Cell::new(0) };
}

/// A submission, and what came of it so far.
pub(super) struct Work {
    pub(super) session: Arc<Session>,
    pub(super) submitted: Submitted,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// When it began, as the profile has it.
    began: Option<i64>,
    /// Most submissions have few dispatches.
    parts: SmallVec<[Dispatched; 2]>,
    is_written: bool,
    /// The first failure of counters.
    failure: Option<Status>,
}

/// The parts of a dispatch together.
struct Dispatched {
    command: usize,
    count: [u32; 3],
    size: [u32; 3],
    times: (Instant, Instant),
    tiles: u64,
    nanoseconds: u64,
    /// Counts of all of its parts.
    counters: Values,
}

impl Work {
    pub(super) fn new(session: Arc<Session>, submitted: Submitted) -> Work {
        Work { session, submitted, state: Mutex::default() }
    }

    fn command_buffer_id(&self) -> u64 {
        self.submitted.commands.as_ref().map_or(0, |commands| commands.id)
    }

    /// The record of the operation itself. One that did not begin was never ready.
    fn queue_event(&self, events: &mut Events, began: Option<i64>) {
        let (session, submitted) = (&self.session, &self.submitted);
        if !session.has(ProfilingDataFamilies::QUEUE_EVENTS) {
            return;
        }
        let ready = match (submitted.is_deferred, began) {
            (false, _) => submitted.time,
            (true, Some(began)) => began,
            (true, None) => 0,
        };
        let strategy = match (submitted.counts.0, submitted.is_deferred) {
            (0, _) => DependencyStrategy::NONE,
            (_, false) => DependencyStrategy::INLINE,
            (_, true) => DependencyStrategy::SOFTWARE_DEFER,
        };
        let event = QueueEvent {
            record_length: QueueEvent::SIZE as u32,
            r#type: submitted.r#type,
            flags: if submitted.is_deferred { QUEUE_SOFTWARE_DEFERRED } else { 0 },
            dependency_strategy: strategy,
            event_id: events.next_queue_event(),
            host_time_ns: submitted.time,
            submission_id: submitted.id,
            command_buffer_id: self.command_buffer_id(),
            allocation_id: submitted.allocation,
            stream_id: session.place.stream(submitted.queue),
            physical_device_ordinal: session.place.ordinal,
            queue_ordinal: submitted.queue,
            wait_count: submitted.counts.0,
            signal_count: submitted.counts.1,
            barrier_count: 0,
            operation_count: submitted.operation_count,
            payload_length: submitted.payload_length,
            ready_host_time_ns: ready,
        };
        events.queue.extend_from_slice(&event.to_bytes());
    }

    /// The record of what the host did, without what is said of dispatches alone.
    fn host_event(&self, event_id: u64, times: (i64, i64)) -> HostExecutionEvent {
        let (session, submitted) = (&self.session, &self.submitted);
        let of_buffer = if submitted.commands.is_some() { EXECUTION_OF_COMMAND_BUFFER } else { 0 };
        HostExecutionEvent {
            record_length: HostExecutionEvent::SIZE as u32,
            r#type: submitted.r#type,
            flags: of_buffer | if submitted.is_deferred { EXECUTION_DEFERRED } else { 0 },
            status_code: 0,
            event_id,
            submission_id: submitted.id,
            command_buffer_id: self.command_buffer_id(),
            executable_id: 0,
            allocation_id: submitted.allocation,
            stream_id: session.place.stream(submitted.queue),
            physical_device_ordinal: session.place.ordinal,
            queue_ordinal: submitted.queue,
            command_index: NONE,
            function_ordinal: NONE,
            workgroup_count: [0; 3],
            workgroup_size: [0; 3],
            start_host_time_ns: times.0,
            end_host_time_ns: times.1,
            payload_length: submitted.payload_length,
            tile_count: 0,
            tile_duration_sum_ns: 0,
            operation_count: submitted.operation_count,
            reserved0: 0,
        }
    }

    /// The record of what was counted for a dispatch.
    fn counter_sample(&self, events: &mut Events, dispatch: &HostExecutionEvent, values: &[u64]) {
        let sample = CounterSample {
            flags: if dispatch.command_index == NONE { 0 } else { COUNTER_OF_COMMAND },
            scope: CounterSampleScope::DISPATCH,
            sample_id: events.next_counter_sample(),
            counter_set_id: COUNTER_SET,
            submission_id: dispatch.submission_id,
            command_buffer_id: dispatch.command_buffer_id,
            executable_id: dispatch.executable_id,
            stream_id: dispatch.stream_id,
            command_index: dispatch.command_index,
            function_ordinal: dispatch.function_ordinal,
            physical_device_ordinal: dispatch.physical_device_ordinal,
            queue_ordinal: dispatch.queue_ordinal,
            ..CounterSample::read(&[0; CounterSample::SIZE])
        };
        if let Err(error) = sample.write(&mut events.counter_samples, values) {
            events.fail(Status::out_of_range(error.to_string()));
        }
    }

    /// The record of a dispatch; none if the filter does not select it.
    fn dispatch_event(&self, events: &mut Events, dispatched: &Dispatched) -> Option<HostExecutionEvent> {
        let submitted = &self.submitted;
        let recorded = submitted.commands.as_ref().map(|commands| commands.recorded());
        let command = recorded.as_ref().and_then(|recorded| recorded.step(dispatched.command));
        let (executable_id, ordinal) = match (&submitted.function, command) {
            (Some((executable, ordinal)), _) => (executable.id, *ordinal),
            (None, Some(command)) => (command.executable_id, command.function_ordinal),
            (None, None) => (0, NONE),
        };
        let executable = match &submitted.function {
            Some((executable, _)) => Some(executable),
            None => recorded
                .as_ref()
                .and_then(|recorded| recorded.executables.iter().find(|other| other.id == executable_id)),
        };
        let info = executable.and_then(|executable| executable.functions.get(ordinal as usize));
        let index = command.map_or(NONE, |command| command.command_index);
        let name = info.map_or("", |info| info.name.as_str());
        if !self.session.selects(submitted.queue, self.command_buffer_id(), index, name) {
            return None;
        }
        let is_indirect = command.is_some_and(|command| command.flags & COMMAND_INDIRECT_PARAMETERS != 0);
        let size = match (dispatched.size, info) {
            ([0, 0, 0], Some(info)) => info.workgroup_size,
            (size, _) => size,
        };
        let times = (self.session.clock.time(dispatched.times.0), self.session.clock.time(dispatched.times.1));
        let event = self.host_event(events.next_host_execution_event(), times);
        Some(HostExecutionEvent {
            r#type: QueueEventType::DISPATCH,
            flags: event.flags | if is_indirect { EXECUTION_INDIRECT_PARAMETERS } else { 0 },
            executable_id,
            function_ordinal: ordinal,
            command_index: index,
            workgroup_count: dispatched.count,
            workgroup_size: size,
            payload_length: 0,
            tile_count: dispatched.tiles,
            tile_duration_sum_ns: i64::try_from(dispatched.nanoseconds).unwrap_or(i64::MAX),
            operation_count: 1,
            ..event
        })
    }

    fn memory_event(&self, events: &mut Events, time: i64) {
        let (session, submitted) = (&self.session, &self.submitted);
        let Some((r#type, memory)) = &submitted.memory else { return };
        if !session.has(ProfilingDataFamilies::MEMORY_EVENTS) {
            return;
        }
        let event = MemoryEvent {
            record_length: MemoryEvent::SIZE as u32,
            r#type: *r#type,
            flags: MEMORY_QUEUE_OPERATION,
            result: NONE,
            event_id: events.next_memory_event(),
            host_time_ns: time,
            allocation_id: submitted.allocation,
            submission_id: submitted.id,
            physical_device_ordinal: session.place.ordinal,
            queue_ordinal: submitted.queue,
            memory_type: memory.memory_type,
            buffer_usage: memory.usage,
            length: submitted.payload_length,
            alignment: memory.alignment,
            ..MemoryEvent::read(&[0; MemoryEvent::SIZE])
        };
        events.memory.extend_from_slice(&event.to_bytes());
    }

    /// Submits it, with itself as the observer.
    pub(super) fn submit<T>(self: &Arc<Self>, submit: impl FnOnce() -> T) -> T {
        // Work that another submission runs at once may submit more.
        let before = SUBMITTED.replace(Arc::as_ptr(self).addr());
        let _watched = Watch::new(self.clone()).enter();
        let outcome = submit();
        SUBMITTED.set(before);
        outcome
    }

    /// Writes the record of an operation that nothing of this process runs.
    pub(super) fn write_submitted(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if !std::mem::replace(&mut state.is_written, true) {
            self.session.add(|events| {
                self.queue_event(events, state.began);
                self.memory_event(events, self.submitted.time);
            });
        }
    }
}

impl WorkObserver for Work {
    fn began(&self) {
        // Work that the submitting thread runs at once begins when it is submitted.
        let is_at_once = SUBMITTED.get() == std::ptr::from_ref(self).addr();
        let time = if is_at_once { self.submitted.time } else { self.session.clock.now() };
        self.state.lock().unwrap_or_else(PoisonError::into_inner).began = Some(time);
    }

    fn wants_beginnings(&self) -> bool {
        self.session.cpu_counters().is_some()
    }

    fn runs(&self) {
        if let Some((session, counters)) = self.session.cpu_counters()
            && let Err(status) = counters.begin(session)
        {
            self.state.lock().unwrap_or_else(PoisonError::into_inner).failure.get_or_insert(status);
        }
    }

    fn ran(&self, part: &HostPart) {
        // First, so that none of what follows is counted.
        let counted = self.session.cpu_counters().map(|(session, counters)| counters.end(session));
        if counted.is_none() && !self.session.has(ProfilingDataFamilies::HOST_EXECUTION_EVENTS) {
            return;
        }
        let (start, end) = part.times;
        let nanoseconds = u64::try_from(end.duration_since(start).as_nanos()).unwrap_or(u64::MAX);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let values = match counted.unwrap_or_else(|| Ok(Values::new())) {
            Ok(values) => values,
            Err(status) => {
                state.failure.get_or_insert(status);
                Values::new()
            }
        };
        match state.parts.iter_mut().rev().find(|dispatched| dispatched.command == part.command) {
            Some(dispatched) => {
                dispatched.times = (dispatched.times.0.min(start), dispatched.times.1.max(end));
                dispatched.tiles += 1;
                dispatched.nanoseconds = dispatched.nanoseconds.saturating_add(nanoseconds);
                for (sum, value) in dispatched.counters.iter_mut().zip(values) {
                    *sum = sum.saturating_add(value);
                }
            }
            None => state.parts.push(Dispatched {
                command: part.command,
                count: part.grid.count,
                size: part.grid.size,
                times: (start, end),
                tiles: 1,
                nanoseconds,
                counters: values,
            }),
        }
    }

    fn ended(&self, outcome: Result<(), &Status>) {
        let end = self.session.clock.now();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let began = state.began.unwrap_or(end);
        let is_new = !std::mem::replace(&mut state.is_written, true);
        let failure = state.failure.take();
        self.session.add(|events| {
            if is_new {
                self.queue_event(events, Some(began));
            }
            let has_times = self.session.has(ProfilingDataFamilies::HOST_EXECUTION_EVENTS);
            for dispatched in &state.parts {
                let Some(event) = self.dispatch_event(events, dispatched) else { continue };
                if has_times {
                    events.host_execution.extend_from_slice(&event.to_bytes());
                }
                // A part whose counters failed has none.
                if !dispatched.counters.is_empty() {
                    self.counter_sample(events, &event, &dispatched.counters);
                }
            }
            if let Some(failure) = failure {
                events.fail(failure);
            }
            if has_times {
                let status_code = outcome.err().map_or(0, |status| status.code() as u32);
                let event = self.host_event(events.next_host_execution_event(), (began, end));
                events.host_execution.extend_from_slice(&HostExecutionEvent { status_code, ..event }.to_bytes());
            }
            self.memory_event(events, end);
        });
        state.parts.clear();
    }
}

impl Drop for Work {
    /// An operation whose points failed did not run.
    fn drop(&mut self) {
        self.write_submitted();
    }
}
