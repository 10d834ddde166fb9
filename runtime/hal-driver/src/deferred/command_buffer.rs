//! Deferred command buffers ([`DeferredCommandBuffer`]): recorded into a program once, then run or encoded by a
//! queue any number of times. Drivers choose the program by a [`Recorder`].

use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, OnceLock};

use super::collective::CollectiveRequest;
use super::dispatch_request::DispatchRequest;
use super::recorder::{DeferredCommandBuffer, Recorder, RecordingState};
use super::spin_lock::SpinLock;
use crate::hal::recycle;
use crate::hal::{
    BufferBarrier, BufferRef, Channel, CollectiveOp, CommandBuffer, CommandBufferMode, CommandCategory, CopyFlags,
    DispatchConfig, DispatchFlags, Event, Executable, ExecutableFunction, ExecutionBarrierFlags, ExecutionStage,
    FillFlags, LabelColor, LabelLocation, MAX_UPDATE_SIZE, MemoryAdviseFlags, MemoryBarrier, QueueAffinity,
    UpdateFlags,
};
use crate::status::{Result, Status};

/// An event of a deferred command buffer. Waiting for it is a barrier, so it has no state.
#[derive(Debug)]
pub struct DeferredEvent;

impl Event for DeferredEvent {}

impl<R: Recorder> RecordingState<R> {
    fn name(&self) -> &'static str {
        match self {
            RecordingState::Created => "not begun",
            RecordingState::Recording { .. } => "being recorded",
            RecordingState::Failed => "not recorded completely",
            RecordingState::Recorded(_) => "recorded already",
            RecordingState::Spent(_) => "executed already and one-shot",
        }
    }
}

impl<R: Recorder> DeferredCommandBuffer<R> {
    /// A command buffer on which `begin` was not called yet.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for binding slots together with `ALLOW_INLINE_EXECUTION`.
    pub fn new(
        device: R::Device,
        mode: CommandBufferMode,
        categories: CommandCategory,
        queue_affinity: QueueAffinity,
        binding_capacity: u32,
    ) -> Result<Arc<DeferredCommandBuffer<R>>> {
        let inline = CommandBufferMode::ALLOW_INLINE_EXECUTION;
        if binding_capacity > 0 && mode.contains(inline) {
            return Err(Status::invalid_argument(
                "a command buffer with binding slots cannot run while it is recorded",
            ));
        }
        let state = SpinLock::new(RecordingState::Created);
        let reusable = OnceLock::new();
        let command_buffer =
            DeferredCommandBuffer { mode, categories, queue_affinity, binding_capacity, device, state, reusable };
        Ok(recycle::new_arc(R::command_buffers(), command_buffer))
    }

    /// The device that its commands are recorded for.
    pub fn device(&self) -> &R::Device {
        &self.device
    }

    /// Records a command of `category`.
    fn record(&self, category: CommandCategory, command: impl FnOnce(&mut R) -> Result<()>) -> Result<()> {
        if !self.categories.contains(category) {
            let message = format!("the command buffer holds {:?} commands, not {category:?}", self.categories);
            return Err(Status::failed_precondition(message));
        }
        match &mut *self.state.begin() {
            RecordingState::Recording { recorder, .. } => command(recorder),
            state => Err(not_recording(state)),
        }
    }

    /// Changes the number of debug groups that are open.
    fn change_groups(&self, change: impl FnOnce(u32) -> Option<u32>) -> Result<()> {
        match &mut *self.state.begin() {
            RecordingState::Recording { open_groups, .. } => {
                *open_groups =
                    change(*open_groups).ok_or_else(|| Status::failed_precondition("no debug group is open"))?;
                Ok(())
            }
            state => Err(not_recording(state)),
        }
    }

    /// The program, for an execution. A one-shot command buffer returns it once.
    ///
    /// # Errors
    /// FAILED_PRECONDITION if it is not recorded, or is one-shot and was taken before.
    pub fn take_program(&self) -> Result<Cow<'_, Arc<R::Program>>> {
        if let Some(program) = self.reusable.get() {
            return Ok(Cow::Borrowed(program));
        }
        let mut state = self.state.begin();
        let RecordingState::Recorded(program) = &*state else {
            return Err(Status::failed_precondition(format!(
                "cannot execute a command buffer that is {}",
                state.name()
            )));
        };
        let program = program.clone();
        if self.mode.contains(CommandBufferMode::ONE_SHOT) {
            *state = RecordingState::Spent(program.clone());
        }
        Ok(Cow::Owned(program))
    }
}

fn not_recording<R: Recorder>(state: &RecordingState<R>) -> Status {
    Status::failed_precondition(format!("cannot record into a command buffer that is {}", state.name()))
}

impl<R: Recorder> fmt::Debug for DeferredCommandBuffer<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.state.begin() {
            RecordingState::Recording { recorder, .. } => {
                write!(f, "command_buffer({} commands so far)", recorder.command_count())
            }
            RecordingState::Recorded(program) => write!(f, "command_buffer({} commands)", R::commands_of(program)),
            state => write!(f, "command_buffer({})", state.name()),
        }
    }
}

impl<R: Recorder> CommandBuffer for DeferredCommandBuffer<R> {
    fn mode(&self) -> CommandBufferMode {
        self.mode
    }

    fn allowed_categories(&self) -> CommandCategory {
        self.categories
    }

    fn queue_affinity(&self) -> QueueAffinity {
        self.queue_affinity
    }

    fn binding_capacity(&self) -> u32 {
        self.binding_capacity
    }

    fn begin(&self) -> Result<()> {
        let mut state = self.state.begin();
        if !matches!(&*state, RecordingState::Created) {
            let name = state.name();
            return Err(Status::failed_precondition(format!("cannot begin a command buffer that is {name}")));
        }
        let reusable = !self.mode.contains(CommandBufferMode::ONE_SHOT);
        let recorder = R::new(&self.device, self.binding_capacity, reusable);
        *state = RecordingState::Recording { recorder, open_groups: 0 };
        Ok(())
    }

    fn end(&self) -> Result<()> {
        let mut state = self.state.begin();
        match std::mem::replace(&mut *state, RecordingState::Failed) {
            RecordingState::Recording { recorder, open_groups: 0 } => {
                let program = recorder.finish(&self.device)?;
                if !self.mode.contains(CommandBufferMode::ONE_SHOT) {
                    // Recording ends once, so it is not set yet.
                    let _ = self.reusable.set(program.clone());
                }
                *state = RecordingState::Recorded(program);
                Ok(())
            }
            other => {
                let message = match &other {
                    RecordingState::Recording { open_groups, .. } => {
                        format!("{open_groups} debug groups are still open")
                    }
                    other => format!("cannot end a command buffer that is {}", other.name()),
                };
                *state = other;
                Err(Status::failed_precondition(message))
            }
        }
    }

    fn begin_debug_group(&self, _label: &str, _color: LabelColor, _location: &LabelLocation) -> Result<()> {
        self.change_groups(|open| Some(open.saturating_add(1)))
    }

    fn end_debug_group(&self) -> Result<()> {
        self.change_groups(|open| open.checked_sub(1))
    }

    fn execution_barrier(
        &self,
        _source_stages: ExecutionStage,
        _target_stages: ExecutionStage,
        _flags: ExecutionBarrierFlags,
        _memory_barriers: &[MemoryBarrier],
        _buffer_barriers: &[BufferBarrier],
    ) -> Result<()> {
        self.record(CommandCategory::empty(), R::barrier)
    }

    fn signal_event(&self, _event: &Arc<dyn Event>, _source_stages: ExecutionStage) -> Result<()> {
        // A wait for it is a barrier after all commands before, so there is nothing to signal.
        self.record(CommandCategory::empty(), |_| Ok(()))
    }

    fn reset_event(&self, _event: &Arc<dyn Event>, _source_stages: ExecutionStage) -> Result<()> {
        self.record(CommandCategory::empty(), |_| Ok(()))
    }

    fn wait_events(
        &self,
        _events: &[Arc<dyn Event>],
        _source_stages: ExecutionStage,
        _target_stages: ExecutionStage,
        _memory_barriers: &[MemoryBarrier],
        _buffer_barriers: &[BufferBarrier],
    ) -> Result<()> {
        self.record(CommandCategory::empty(), R::barrier)
    }

    fn advise_buffer(&self, _buffer_ref: &BufferRef, _flags: MemoryAdviseFlags, _arg0: u64, _arg1: u64) -> Result<()> {
        self.record(CommandCategory::empty(), |_| Ok(()))
    }

    fn fill_buffer(&self, target: &BufferRef, pattern: &[u8], _flags: FillFlags) -> Result<()> {
        self.record(CommandCategory::TRANSFER, |recorder| recorder.fill(target, pattern))
    }

    fn update_buffer(&self, source: &[u8], target: &BufferRef, _flags: UpdateFlags) -> Result<()> {
        if source.len() as u64 > MAX_UPDATE_SIZE {
            let message = format!("update of {} bytes: expected at most {MAX_UPDATE_SIZE}", source.len());
            return Err(Status::out_of_range(message));
        }
        self.record(CommandCategory::TRANSFER, |recorder| recorder.update(source, target))
    }

    fn copy_buffer(&self, source: &BufferRef, target: &BufferRef, _flags: CopyFlags) -> Result<()> {
        self.record(CommandCategory::TRANSFER, |recorder| recorder.copy(source, target))
    }

    fn dispatch(
        &self,
        executable: &Arc<dyn Executable>,
        function: ExecutableFunction,
        config: &DispatchConfig,
        constants: &[u32],
        bindings: &[BufferRef],
        flags: DispatchFlags,
    ) -> Result<()> {
        let request = DispatchRequest { executable, function, config, constants, bindings, flags };
        self.record(CommandCategory::DISPATCH, |recorder| recorder.dispatch(&self.device, request))
    }

    fn collective(
        &self,
        channel: &Arc<dyn Channel>,
        op: CollectiveOp,
        param: u32,
        send_ref: &BufferRef,
        recv_ref: &BufferRef,
        element_count: u64,
    ) -> Result<()> {
        let request = CollectiveRequest { channel, op, param, send: send_ref, recv: recv_ref, element_count };
        self.record(CommandCategory::empty(), |recorder| recorder.collective(&request))
    }

    fn flush_buffer(&self, buffer_ref: &BufferRef) -> Result<()> {
        self.record(CommandCategory::empty(), |recorder| recorder.synchronise(buffer_ref))
    }

    fn invalidate_buffer(&self, buffer_ref: &BufferRef) -> Result<()> {
        self.record(CommandCategory::empty(), |recorder| recorder.synchronise(buffer_ref))
    }

    fn recycle(self: Arc<Self>) {
        let unmade = recycle::into_inner(R::command_buffers(), self);
        let Some(DeferredCommandBuffer { state, reusable, .. }) = unmade else { return };
        drop(reusable);
        match state.into_inner() {
            RecordingState::Created | RecordingState::Failed => {}
            RecordingState::Recording { recorder, .. } => recorder.recycle(),
            RecordingState::Recorded(program) | RecordingState::Spent(program) => R::recycle_program(program),
        }
    }
}
