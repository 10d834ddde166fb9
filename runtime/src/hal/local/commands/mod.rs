//! Recorded commands. `command_buffer` is what hosts record into, `program` what becomes of it, and `execution` runs that on one thread or
//! shares it with the workers of a device.

mod command_buffer;
mod execution;
mod program;

pub(super) use command_buffer::{LocalCommandBuffer, LocalEvent, dispatch_request};
pub(super) use program::Program;
