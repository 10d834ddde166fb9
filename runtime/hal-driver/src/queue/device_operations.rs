//! The queue operations of a device ([`QueueOperation`]) as submissions of a [`Queue`]: how long each is expected to
//! take, and what is prepared for it before it has to wait. A failure goes to the points that it signals, or to the
//! caller if there are none and the operation has run already.

use std::any::Any;
use std::borrow::Cow;
use std::sync::Arc;

use super::discipline::{Discipline, Held, Prepared, Queue, WaitAndSignal};
use super::operation::Request;
use super::weight::Weight;
use super::work::host_call_context;
use crate::deferred::{CommandProgram, DeferredCommandBuffer, DispatchRequest, ProgramRecorder};
use crate::hal::{QueueAffinity, QueueOperation};
use crate::status::{Result, Status};

impl<D: Discipline> Queue<D> {
    /// Submits an operation of a device. `device` is the kind of device that commands are recorded for, and
    /// `queue_affinity` is told to functions of the host.
    ///
    /// # Errors
    /// Those of arguments that can be refused now, and the failure of an operation that has run and signals no points.
    pub fn operate(
        self: &Arc<Self>,
        queue_affinity: QueueAffinity,
        (wait, signal): WaitAndSignal<'_>,
        operation: QueueOperation<'_>,
        device: D::Device,
    ) -> Result<()> {
        let points = (wait, signal);
        let weight = match operation {
            QueueOperation::Barrier { .. } | QueueOperation::Dealloca { .. } => Weight::Light,
            QueueOperation::Fill { length, .. } | QueueOperation::Copy { length, .. } => Weight::of_transfer(length),
            QueueOperation::Update { source, .. } => Weight::of_transfer(source.len() as u64),
            QueueOperation::Read { .. } | QueueOperation::Write { .. } => Weight::Time(None),
            QueueOperation::HostCall { args, .. } => {
                // Arguments that no call has are refused now.
                host_call_context(queue_affinity, args)?;
                Weight::Foreign
            }
            QueueOperation::Dispatch { executable, function, config, constants, bindings, flags } => {
                // There is no binding table, so no slots.
                let mut program = CommandProgram::new(0);
                let request = DispatchRequest { executable, function, config, constants, bindings, flags };
                program.dispatch(device, request)?;
                return self.execute(queue_affinity, points, operation, Cow::Owned(Arc::new(program)));
            }
            QueueOperation::Execute { command_buffer, binding_table, flags: _ } => {
                let any: &dyn Any = &**command_buffer;
                let own = any.downcast_ref::<DeferredCommandBuffer<ProgramRecorder<D::Device>>>().ok_or_else(|| {
                    Status::invalid_argument("the command buffer was recorded for another kind of device")
                })?;
                let program = own.take_program()?;
                let (slots, given) = (program.slots(), binding_table.len());
                if slots > given {
                    let message = format!("the commands refer to {slots} slots, {given} are bound");
                    return Err(Status::invalid_argument(message));
                }
                if !program.segments().is_empty() {
                    return self.execute_segments(queue_affinity, points, operation, program);
                }
                return self.execute(queue_affinity, points, operation, program);
            }
        };
        self.submit(wait, signal, weight, Request { queue_affinity, operation, prepared: Prepared::Nothing })
    }

    /// Executes a command program, with the runner of the queue if it has one. A submission of its own: where the
    /// compiler knows what is prepared, it moves nothing of it.
    #[inline]
    pub(super) fn execute(
        self: &Arc<Self>,
        queue_affinity: QueueAffinity,
        (wait, signal): WaitAndSignal<'_>,
        operation: QueueOperation<'_>,
        program: Held<'_, CommandProgram<D::Device>>,
    ) -> Result<()> {
        let weight = self.discipline().weight(&program);
        let prepared = Prepared::Program { program, runner: self.discipline().runner() };
        self.submit(wait, signal, weight, Request { queue_affinity, operation, prepared })
    }
}
