//! Recorded commands. `command_buffer` is what hosts record into, `program` what becomes of it, and `execution` runs that on one thread or
//! shares it with the workers of a device, by what `timing` says of the runs before.

mod command_buffer;
mod execution;
mod program;
mod timing;

pub(super) use command_buffer::{LocalCommandBuffer, LocalEvent, dispatch_request};
pub(super) use program::Program;
