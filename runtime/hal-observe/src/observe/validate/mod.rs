//! Validation of calls: an observer that refuses what the contract of the HAL forbids before the device sees it, so
//! that a driver need not check it again. Hosts wrap the devices of drivers in it, and commands those of
//! `--device_validate`.
//!
//! The requirements of one call are data: the rules of arguments in `spec/hal/`, from which the generated `checks` are.
//! Here is what they are made of (`checks`), and what depends on earlier calls: command buffers (`recording`),
//! transient buffers (`transients`) and timelines (`timelines`); and dispatches, which depend on what their executable
//! says of its functions (`dispatches`).
//!
//! **Where a refusal goes.** A call that breaks a rule fails, and the device does not see it. A queue operation that
//! cannot work (a range that is not there, a usage that is not allowed) fails as an operation does: its timelines get
//! the failure. What is no operation at all is refused at once: commands that are not recorded, points that cannot be
//! signaled.
//!
//! **What is not refused** is what only may be wrong. Objects that were made before they were observed, or by another
//! implementation, are taken as they come; a transient buffer is refused where no order of what was submitted lets it
//! have memory.

pub(crate) mod checks;
mod dispatches;
pub(crate) mod needs;
mod recording;
mod state;
mod table;
mod timelines;
mod transients;

use std::fmt;
use std::sync::Arc;

use self::checks::Checks;
use self::needs::Collected;
pub use self::state::Validate;
use self::table::lock;
use super::{Call, Called, ObjectId, Observer, Reply};
use crate::hal::{BufferParams, CommandBufferMode, QueueOperation};
use crate::status::{Result, Status};

impl Validate {
    /// Refuses a call that is wrong whatever its queue does.
    fn refuse(&self, called: &Called<'_>) -> Result<()> {
        let call = called.call();
        if let Some((wait, signal)) = call.points() {
            timelines::check_points(called, wait, signal)?;
        }
        match call {
            Call::AllocatorAllocateBuffer { params, .. }
            | Call::AllocatorImportBuffer { params, .. }
            | Call::DeviceQueueAlloca { params, .. } => check_params(params)?,
            Call::DeviceCreateCommandBuffer { mode, binding_capacity, .. }
                if *binding_capacity > 0 && mode.contains(CommandBufferMode::ALLOW_INLINE_EXECUTION) =>
            {
                let message = "a command buffer with binding slots cannot run while it is recorded";
                return Err(Status::invalid_argument(message));
            }
            Call::DeviceQueueExecute { queue_affinity, command_buffer, binding_table, .. } => {
                let id = called.id(command_buffer);
                self.command_buffers.submit(id, *queue_affinity, binding_table.len())?;
            }
            Call::SemaphoreSignal { value } => timelines::check_signal(called, *value)?,
            _ => {}
        }
        self.command_buffers.check(called)?;
        match call.points() {
            // The timelines of an operation tell its faults.
            Some(_) => Ok(()),
            None => self.check_arguments(called).map(drop),
        }
    }

    /// Checks the arguments of a call, and returns the checks that remain.
    fn check_arguments(&self, called: &Called<'_>) -> Result<Collected> {
        let mut checks = Checks::new(self, called);
        called.call().check(&mut checks)?;
        dispatches::check(&mut checks)?;
        checks.check_barriers()?;
        Ok(checks.collected)
    }

    /// Checks an operation.
    fn check_operation(&self, called: &Called<'_>, operation: QueueOperation<'_>) -> Result<()> {
        self.check_arguments(called)?;
        match operation {
            QueueOperation::Execute { command_buffer, binding_table, .. } => {
                let Some(recorded) = self.command_buffers.recorded(called.id(command_buffer)) else { return Ok(()) };
                Checks::new(self, called).check_bindings(&recorded, binding_table)
            }
            QueueOperation::Dealloca { buffer, .. } => self.transients.check_returned(called, buffer),
            _ => Ok(()),
        }
    }

    /// Keeps what later calls are held to.
    fn remember(&self, called: &Called<'_>, reply: Reply<'_>) -> Result<()> {
        match (called.call(), reply) {
            (
                Call::DeviceCreateCommandBuffer { mode, command_categories, queue_affinity, binding_capacity },
                Reply::DeviceCreateCommandBuffer(commands),
            ) => {
                let id = called.id(commands);
                self.made(called, id, None);
                self.command_buffers.create(id, *mode, *command_categories, *queue_affinity, *binding_capacity);
            }
            (_, Reply::DeviceCreateExecutableCache(cache)) => self.made(called, called.id(cache), None),
            (_, Reply::ExecutableCachePrepareExecutable(executable)) => {
                self.made(called, called.id(executable), None);
            }
            (_, Reply::DeviceCreateEvent(event)) => {
                self.made(called, called.id(event), Some(Arc::downgrade(event)));
            }
            (Call::DeviceQueueAlloca { signal, flags, .. }, Reply::DeviceQueueAlloca(buffer)) => {
                self.transients.allocated(called, buffer, signal, *flags);
            }
            (Call::DeviceQueueDealloca { wait, signal, buffer, .. }, _) => {
                self.transients.returned(called, buffer, wait, signal);
            }
            (call, _) if call.recorded().is_some() => {
                let collected = self.check_arguments(called)?;
                self.command_buffers.record(called, collected);
            }
            _ => self.command_buffers.record(called, Collected::default()),
        }
        Ok(())
    }
}

impl Observer for Validate {
    fn before(&self, call: &Called<'_>) -> Result<()> {
        self.refuse(call).map_err(|status| status.context(call.name()))
    }

    fn submitting(&self, call: &Called<'_>, operation: QueueOperation<'_>) -> Result<()> {
        self.check_operation(call, operation).map_err(|status| status.context(call.name()))
    }

    fn after(&self, call: &Called<'_>, outcome: Result<Reply<'_>, &Status>) {
        if let Ok(reply) = outcome {
            // The arguments were right before the call. If another thread made them wrong meanwhile, the device has
            // accepted them.
            let _ = self.remember(call, reply);
        }
    }

    fn dropped(&self, object: ObjectId) {
        self.command_buffers.dropped(object);
        lock(&self.makers).by_object.remove(&object);
    }
}

impl fmt::Debug for Validate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Validate")
    }
}

fn check_params(params: &BufferParams) -> Result<()> {
    let alignment = params.min_alignment;
    if alignment == 0 || alignment.is_power_of_two() {
        return Ok(());
    }
    Err(Status::invalid_argument(format!("`params`: alignment of {alignment} bytes: expected a power of two, or 0")))
}
