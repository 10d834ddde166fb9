//! Recorded commands: `program` and `command_buffer` record them, `local` says what of a dispatch, and `execution` runs programs on one thread
//! or shares them with the workers of a device, by what `timing` says of the runs before.

mod command_buffer;
mod execution;
mod local;
mod program;
mod timing;

pub(super) use command_buffer::DeferredEvent;
pub(super) use execution::Execution;
pub(super) use local::{Local, LocalCommandBuffer, Program};
pub(super) use program::DispatchRequest;
