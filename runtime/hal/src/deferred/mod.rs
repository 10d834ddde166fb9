//! Deferred command buffers: commands are recorded as data, which the queues of a driver run or encode when they are executed. Drivers whose
//! API records by itself have no use for them.
//!
//! [`DeferredCommandBuffer`] checks and records, [`CommandProgram`] is what was recorded, and a driver implements [`Deferred`] to say what of an
//! executable is kept for a dispatch.

mod command_buffer;
mod command_program;
#[cfg(test)]
pub(crate) mod tests;

pub use command_buffer::{DeferredCommandBuffer, DeferredEvent};
pub use command_program::{
    Command, CommandFreeLists, CommandProgram, Deferred, Dispatch, DispatchRequest, MAX_FREE_PROGRAMS, ResolvedRange,
    Step, resolve,
};
