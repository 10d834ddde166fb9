//! Deferred command buffers: commands are recorded as data, which the queues of a driver run or encode at each execution. Drivers use them
//! unless their API records command buffers itself.
//!
//! [`DeferredCommandBuffer`] checks and records commands into a [`CommandProgram`]; a driver implements [`Deferred`] to choose what is
//! recorded of the executable of a dispatch.

mod command_buffer;
mod command_program;
#[cfg(test)]
pub(crate) mod tests;

pub use command_buffer::{DeferredCommandBuffer, DeferredEvent};
pub use command_program::{
    Command, CommandFreeLists, CommandProgram, Deferred, Dispatch, DispatchRequest, MAX_FREE_PROGRAMS, ResolvedRange,
    Step, resolve,
};
