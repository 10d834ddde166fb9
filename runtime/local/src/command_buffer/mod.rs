//! Executions of recorded commands (`vireo_hal::deferred`). `local` says what is recorded of a dispatch, and `execution` runs programs on one
//! thread or shares them with the workers of a device, by what `timing` says of the runs before.

mod execution;
mod profile;
mod recording;

pub(super) use execution::Execution;
pub(super) use recording::{LocalCommandBuffer, LocalCommandProgram, LocalCommands};
