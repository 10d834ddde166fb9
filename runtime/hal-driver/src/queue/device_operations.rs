//! The queue operations of a device ([`QueueOperation`]) as submissions of a [`Queue`]. Each takes the points to wait
//! for and those to signal; a failure goes to the latter, or to the caller if there are none and the operation has run
//! already.

use std::any::Any;
use std::borrow::Cow;
use std::sync::Arc;

use super::alloca::dealloca;
use super::discipline::{Discipline, Held, Queue, WaitAndSignal, Work};
use super::host_call;
use super::operation::Request;
use super::weight::Weight;
use crate::deferred::{CommandProgram, DeferredCommandBuffer, DispatchRequest, ProgramRecorder};
use crate::hal::{BufferBinding, QueueAffinity, QueueOperation};
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
        let (weight, request): (Weight, Request<'_, D>) = match operation {
            QueueOperation::Barrier { flags: _ } => (Weight::Light, Work::Nothing.into()),
            QueueOperation::Dealloca { buffer, flags: _ } => return dealloca(self, (wait, signal), buffer),
            QueueOperation::Fill { target_buffer, target_offset: offset, length, pattern, flags: _ } => {
                let work = Work::Fill { target: Cow::Borrowed(target_buffer), offset, length };
                (Weight::of_transfer(length), Request { bytes: pattern, ..work.into() })
            }
            QueueOperation::Update { source, target_buffer, target_offset: offset, flags: _ } => {
                let work = Work::Update { target: Cow::Borrowed(target_buffer), offset };
                (Weight::of_transfer(source.len() as u64), Request { bytes: source, ..work.into() })
            }
            QueueOperation::Copy { source_buffer, source_offset, target_buffer, target_offset, length, flags: _ } => {
                let (source, target) = (Cow::Borrowed(source_buffer), Cow::Borrowed(target_buffer));
                let work = Work::Copy { source, source_offset, target, target_offset, length };
                (Weight::of_transfer(length), work.into())
            }
            QueueOperation::Read { source_file, source_offset, target_buffer, target_offset, length, flags: _ } => {
                let (source, target) = (Cow::Borrowed(source_file), Cow::Borrowed(target_buffer));
                (Weight::Time(None), Work::Read { source, source_offset, target, target_offset, length }.into())
            }
            QueueOperation::Write { source_buffer, source_offset, target_file, target_offset, length, flags: _ } => {
                let (source, target) = (Cow::Borrowed(source_buffer), Cow::Borrowed(target_file));
                (Weight::Time(None), Work::Write { source, source_offset, target, target_offset, length }.into())
            }
            QueueOperation::HostCall { call, args, flags } => {
                let context = host_call::context(queue_affinity, args)?;
                return host_call::submit(self, (wait, signal), call, context, flags);
            }
            QueueOperation::Dispatch { executable, function, config, constants, bindings, flags } => {
                // There is no binding table, so no slots.
                let mut program = CommandProgram::new(0);
                let request = DispatchRequest { executable, function, config, constants, bindings, flags };
                program.dispatch(device, request)?;
                return self.execute((wait, signal), Cow::Borrowed(&Arc::new(program)), &[]);
            }
            QueueOperation::Execute { command_buffer, binding_table, flags: _ } => {
                let any: &dyn Any = &**command_buffer;
                let own = any.downcast_ref::<DeferredCommandBuffer<ProgramRecorder<D::Device>>>().ok_or_else(|| {
                    Status::invalid_argument("the command buffer was recorded for another kind of device")
                })?;
                return self.execute((wait, signal), own.take_program()?, binding_table);
            }
        };
        self.submit(wait, signal, weight, request)
    }

    /// Executes a command program with a binding table, and with the runner of the queue if it has one.
    #[inline]
    fn execute(
        self: &Arc<Self>,
        (wait, signal): WaitAndSignal<'_>,
        program: Held<'_, CommandProgram<D::Device>>,
        table: &[BufferBinding],
    ) -> Result<()> {
        if program.slots() > table.len() {
            let (slots, given) = (program.slots(), table.len());
            return Err(Status::invalid_argument(format!("the commands refer to {slots} slots, {given} are bound")));
        }
        let weight = self.discipline().weight(&program);
        let work = Work::Execute { program, runner: self.discipline().runner() };
        self.submit(wait, signal, weight, Request { table, ..Request::from(work) })
    }
}
