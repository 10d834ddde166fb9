//! The command buffer ([`AmdCommandBuffer`]): the object that programs record into, a [`Recorder`] behind the interface of the HAL.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::program::Program;
use super::recorder::{KernelSource, Recorder};
use crate::hal::deferred::DispatchRequest;
use crate::hal::{
    BufferBarrier, BufferRef, CommandBuffer, CommandBufferMode, CommandCategory, CopyFlags, DispatchConfig,
    DispatchFlags, Event, Executable, ExecutableFunction, ExecutionBarrierFlags, ExecutionStage, FillFlags, LabelColor,
    LabelLocation, MAX_UPDATE_SIZE, MemoryAdviseFlags, MemoryBarrier, QueueAffinity, UpdateFlags,
};
use crate::status::{Result, Status};

/// A command buffer of an AMD GPU.
pub struct AmdCommandBuffer {
    mode: CommandBufferMode,
    categories: CommandCategory,
    queue_affinity: QueueAffinity,
    binding_capacity: u32,
    source: Arc<dyn KernelSource>,
    state: Mutex<State>,
}

enum State {
    Created,
    Recording {
        recorder: Box<Recorder>,
        open_groups: u32,
    },
    Recorded(Arc<Program>),
    /// Recording failed when it ended, or a one-shot command buffer was executed.
    Spent,
}

impl State {
    fn name(&self) -> &'static str {
        match self {
            State::Created => "not begun",
            State::Recording { .. } => "being recorded",
            State::Recorded(_) => "recorded already",
            State::Spent => "executed already and one-shot, or not recorded completely",
        }
    }
}

impl AmdCommandBuffer {
    /// A command buffer on which `begin` was not called yet, with what it refers to on its device.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for binding slots together with `ALLOW_INLINE_EXECUTION`.
    pub fn new(
        source: Arc<dyn KernelSource>,
        mode: CommandBufferMode,
        categories: CommandCategory,
        queue_affinity: QueueAffinity,
        binding_capacity: u32,
    ) -> Result<AmdCommandBuffer> {
        if binding_capacity > 0 && mode.contains(CommandBufferMode::ALLOW_INLINE_EXECUTION) {
            return Err(Status::invalid_argument(
                "a command buffer with binding slots cannot run while it is recorded",
            ));
        }
        let state = Mutex::new(State::Created);
        Ok(AmdCommandBuffer { mode, categories, queue_affinity, binding_capacity, source, state })
    }

    /// What it was recorded for.
    pub fn source(&self) -> &Arc<dyn KernelSource> {
        &self.source
    }

    /// The program, for an execution. A one-shot command buffer returns it once.
    ///
    /// # Errors
    /// FAILED_PRECONDITION if it is not recorded, or is one-shot and was taken before.
    pub fn take_program(&self) -> Result<Arc<Program>> {
        let mut state = self.lock();
        let State::Recorded(program) = &*state else {
            let name = state.name();
            return Err(Status::failed_precondition(format!("cannot execute a command buffer that is {name}")));
        };
        let program = program.clone();
        if self.mode.contains(CommandBufferMode::ONE_SHOT) {
            *state = State::Spent;
        }
        Ok(program)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a command of `category`.
    fn record(&self, category: CommandCategory, command: impl FnOnce(&mut Recorder) -> Result<()>) -> Result<()> {
        if !self.categories.contains(category) {
            let message = format!("the command buffer holds {:?} commands, not {category:?}", self.categories);
            return Err(Status::failed_precondition(message));
        }
        match &mut *self.lock() {
            State::Recording { recorder, .. } => command(recorder),
            state => Err(not_recording(state)),
        }
    }

    fn groups(&self, change: impl FnOnce(u32) -> Option<u32>) -> Result<()> {
        match &mut *self.lock() {
            State::Recording { open_groups, .. } => {
                *open_groups =
                    change(*open_groups).ok_or_else(|| Status::failed_precondition("no debug group is open"))?;
                Ok(())
            }
            state => Err(not_recording(state)),
        }
    }
}

fn not_recording(state: &State) -> Status {
    Status::failed_precondition(format!("cannot record into a command buffer that is {}", state.name()))
}

impl fmt::Debug for AmdCommandBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.lock() {
            State::Recording { recorder, .. } => write!(f, "command_buffer({} commands so far)", recorder.commands()),
            State::Recorded(program) => write!(f, "command_buffer({} commands)", program.commands()),
            state => write!(f, "command_buffer({})", state.name()),
        }
    }
}

impl CommandBuffer for AmdCommandBuffer {
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
        let mut state = self.lock();
        if !matches!(*state, State::Created) {
            let name = state.name();
            return Err(Status::failed_precondition(format!("cannot begin a command buffer that is {name}")));
        }
        let reusable = !self.mode.contains(CommandBufferMode::ONE_SHOT);
        *state =
            State::Recording { recorder: Box::new(Recorder::new(self.binding_capacity, reusable)), open_groups: 0 };
        Ok(())
    }

    fn end(&self) -> Result<()> {
        let mut state = self.lock();
        match std::mem::replace(&mut *state, State::Spent) {
            State::Recording { recorder, open_groups: 0 } => {
                *state = State::Recorded(Arc::new(recorder.finish(&*self.source)?));
                Ok(())
            }
            other => {
                let message = match &other {
                    State::Recording { open_groups, .. } => format!("{open_groups} debug groups are still open"),
                    other => format!("cannot end a command buffer that is {}", other.name()),
                };
                *state = other;
                Err(Status::failed_precondition(message))
            }
        }
    }

    fn begin_debug_group(&self, _label: &str, _color: LabelColor, _location: &LabelLocation) -> Result<()> {
        self.groups(|open| Some(open.saturating_add(1)))
    }

    fn end_debug_group(&self) -> Result<()> {
        self.groups(|open| open.checked_sub(1))
    }

    fn execution_barrier(
        &self,
        _source_stages: ExecutionStage,
        _target_stages: ExecutionStage,
        _flags: ExecutionBarrierFlags,
        _memory_barriers: &[MemoryBarrier],
        _buffer_barriers: &[BufferBarrier],
    ) -> Result<()> {
        self.record(CommandCategory::empty(), Recorder::barrier)
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
        self.record(CommandCategory::empty(), Recorder::barrier)
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
        self.record(CommandCategory::DISPATCH, |recorder| recorder.dispatch(&*self.source, request))
    }
}
