//! Command buffers that are recorded through the wrapper: it keeps a record of each command, so that events of
//! dispatches name theirs.

use std::any::Any;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use vireo_core::status::Result;
use vireo_hal::forward::{ForwardCommandBuffer, ForwardExecutable as _};
use vireo_hal::{
    BufferBarrier, BufferRef, Channel, CollectiveOp, CommandBuffer, CopyFlags, DispatchConfig, DispatchFlags, Event,
    Executable, ExecutableFunction, ExecutionBarrierFlags, ExecutionStage, FillFlags, Forward, MemoryBarrier,
    UpdateFlags, WHOLE_BUFFER,
};

use super::executables::{KnownExecutable, ProfiledExecutable, known};
use crate::generated::format::{
    COMMAND_DYNAMIC_BINDINGS, COMMAND_EXECUTION_BARRIER, COMMAND_INDIRECT_PARAMETERS, COMMAND_STATIC_BINDINGS,
    CommandOperationType, NONE,
};
use crate::generated::records::CommandOperation;

/// A command buffer as profiles know it.
#[derive(Debug)]
pub(super) struct KnownCommands {
    pub(super) id: u64,
    pub(super) mode: u64,
    pub(super) categories: u64,
    pub(super) queue_affinity: u64,
    pub(super) commands: Mutex<Recorded>,
    /// The last session that has its records.
    pub(super) session: AtomicU64,
}

/// The commands so far.
#[derive(Debug, Default)]
pub(super) struct Recorded {
    pub(super) operations: Vec<CommandOperation>,
    /// The executables that they name.
    pub(super) executables: Vec<Arc<KnownExecutable>>,
    /// The index of each command that queues run, which barriers and marks are not among.
    pub(super) steps: Vec<u32>,
    /// Whether queues run it in parts, each of which counts its commands.
    pub(super) has_parts: bool,
}

impl Recorded {
    /// The command that is the step of a queue.
    pub(super) fn step(&self, step: usize) -> Option<&CommandOperation> {
        let index = self.steps.get(step).filter(|_| !self.has_parts)?;
        self.operations.get(*index as usize)
    }

    fn add(&mut self, id: u64, r#type: CommandOperationType, is_step: bool) -> &mut CommandOperation {
        let index = u32::try_from(self.operations.len()).unwrap_or(NONE);
        if is_step {
            self.steps.push(index);
        }
        self.operations.push(CommandOperation {
            record_length: CommandOperation::SIZE as u32,
            r#type,
            command_index: index,
            command_buffer_id: id,
            block_ordinal: NONE,
            block_command_ordinal: NONE,
            function_ordinal: NONE,
            source_ordinal: NONE,
            target_ordinal: NONE,
            target_block_ordinal: NONE,
            alternate_block_ordinal: NONE,
            ..CommandOperation::read(&[0; CommandOperation::SIZE])
        });
        let last = self.operations.len() - 1;
        &mut self.operations[last]
    }
}

impl KnownCommands {
    pub(super) fn recorded(&self) -> MutexGuard<'_, Recorded> {
        self.commands.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A command buffer as profiles know it; none if it was recorded without the wrapper.
pub(super) fn known_commands(command_buffer: &Arc<dyn CommandBuffer>) -> Option<&Arc<KnownCommands>> {
    let any: &dyn Any = &**command_buffer;
    any.downcast_ref::<Forward<ProfiledCommandBuffer>>().map(|forward| &forward.0.known)
}

/// A command buffer whose commands are known.
#[derive(Debug)]
pub(super) struct ProfiledCommandBuffer {
    pub(super) inner: Arc<dyn CommandBuffer>,
    pub(super) known: Arc<KnownCommands>,
}

impl ProfiledCommandBuffer {
    /// Keeps a command that was recorded.
    fn keep(&self, r#type: CommandOperationType, is_step: bool, set: impl FnOnce(&mut CommandOperation)) {
        set(self.known.recorded().add(self.known.id, r#type, is_step));
    }

    fn keep_barrier(&self) {
        self.keep(CommandOperationType::BARRIER, false, |operation| operation.flags = COMMAND_EXECUTION_BARRIER);
    }
}

/// The slot of a reference, and the flag for it.
fn slot(reference: &BufferRef) -> (u32, u32) {
    match &reference.buffer {
        Some(_) => (NONE, COMMAND_STATIC_BINDINGS),
        None => (reference.slot, COMMAND_DYNAMIC_BINDINGS),
    }
}

fn target(operation: &mut CommandOperation, reference: &BufferRef) {
    let (ordinal, flag) = slot(reference);
    (operation.target_ordinal, operation.target_offset) = (ordinal, reference.offset);
    operation.length = if reference.length == WHOLE_BUFFER { 0 } else { reference.length };
    operation.flags |= flag;
}

impl ForwardCommandBuffer for ProfiledCommandBuffer {
    fn inner(&self) -> &Arc<dyn CommandBuffer> {
        &self.inner
    }

    fn begin(&self) -> Result<()> {
        self.inner.begin()?;
        *self.known.recorded() = Recorded::default();
        Ok(())
    }

    fn execution_barrier(
        &self,
        source_stages: ExecutionStage,
        target_stages: ExecutionStage,
        flags: ExecutionBarrierFlags,
        memory_barriers: &[MemoryBarrier],
        buffer_barriers: &[BufferBarrier],
    ) -> Result<()> {
        self.inner.execution_barrier(source_stages, target_stages, flags, memory_barriers, buffer_barriers)?;
        self.keep_barrier();
        Ok(())
    }

    fn wait_events(
        &self,
        events: &[Arc<dyn Event>],
        source_stages: ExecutionStage,
        target_stages: ExecutionStage,
        memory_barriers: &[MemoryBarrier],
        buffer_barriers: &[BufferBarrier],
    ) -> Result<()> {
        self.inner.wait_events(events, source_stages, target_stages, memory_barriers, buffer_barriers)?;
        self.keep_barrier();
        Ok(())
    }

    fn fill_buffer(&self, reference: &BufferRef, pattern: &[u8], flags: FillFlags) -> Result<()> {
        self.inner.fill_buffer(reference, pattern, flags)?;
        self.keep(CommandOperationType::FILL, true, |operation| target(operation, reference));
        Ok(())
    }

    fn update_buffer(&self, source: &[u8], reference: &BufferRef, flags: UpdateFlags) -> Result<()> {
        self.inner.update_buffer(source, reference, flags)?;
        self.keep(CommandOperationType::UPDATE, true, |operation| target(operation, reference));
        Ok(())
    }

    fn copy_buffer(&self, source: &BufferRef, reference: &BufferRef, flags: CopyFlags) -> Result<()> {
        self.inner.copy_buffer(source, reference, flags)?;
        self.keep(CommandOperationType::COPY, true, |operation| {
            target(operation, reference);
            let (ordinal, flag) = slot(source);
            (operation.source_ordinal, operation.source_offset) = (ordinal, source.offset);
            operation.flags |= flag;
        });
        Ok(())
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
        self.inner.collective(channel, op, param, send_ref, recv_ref, element_count)?;
        // The format has no code for it.
        self.known.recorded().has_parts = true;
        Ok(())
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
        let inner = ProfiledExecutable::inner_of(executable);
        self.inner.dispatch(inner, function, config, constants, bindings, flags)?;
        let known = known(executable);
        let mut recorded = self.known.recorded();
        let operation = recorded.add(self.known.id, CommandOperationType::DISPATCH, true);
        operation.binding_count = bindings.len() as u32;
        operation.workgroup_size = config.workgroup_size;
        operation.flags = bindings.iter().fold(0, |flags, binding| flags | slot(binding).1);
        match is_indirect(flags) {
            true => operation.flags |= COMMAND_INDIRECT_PARAMETERS,
            false => operation.workgroup_count = config.workgroup_count,
        }
        let Some(known) = known else { return Ok(()) };
        operation.executable_id = known.id;
        if let Some(ordinal) = known.ordinal(function) {
            operation.function_ordinal = ordinal;
            if operation.workgroup_size == [0; 3] {
                operation.workgroup_size = known.functions[ordinal as usize].workgroup_size;
            }
        }
        if !recorded.executables.iter().any(|other| Arc::ptr_eq(other, known)) {
            recorded.executables.push(known.clone());
        }
        Ok(())
    }

    fn flush_buffer(&self, reference: &BufferRef) -> Result<()> {
        self.inner.flush_buffer(reference)?;
        self.keep(CommandOperationType::PROFILE_MARKER, true, |operation| target(operation, reference));
        Ok(())
    }

    fn invalidate_buffer(&self, reference: &BufferRef) -> Result<()> {
        self.inner.invalidate_buffer(reference)?;
        self.keep(CommandOperationType::PROFILE_MARKER, true, |operation| target(operation, reference));
        Ok(())
    }
}

/// Whether the size of a dispatch is read from a buffer.
pub(super) fn is_indirect(flags: DispatchFlags) -> bool {
    flags.intersects(DispatchFlags::DYNAMIC_INDIRECT_PARAMETERS | DispatchFlags::STATIC_INDIRECT_PARAMETERS)
}
