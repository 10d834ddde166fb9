//! Command programs of local devices (`vireo_hal_driver::deferred`): `recording` is what is recorded of a dispatch,
//! `execution` runs programs on one thread or shares them with workers, by the times in `profile`.

mod execution;
mod profile;
mod recording;

pub(super) use execution::Execution;
pub(super) use recording::{LocalCommandProgram, LocalCommands};
