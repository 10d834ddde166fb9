//! Deferred command buffers: commands are recorded as data, which the queues of a driver run or encode at each
//! execution. Drivers use them unless their API records command buffers itself.
//!
//! A [`DeferredCommandBuffer`] is the object that programs record into: its states, and what it may hold. A
//! [`Recorder`] checks and records the commands. [`ProgramRecorder`] records a [`CommandProgram`], a list of commands,
//! for which a driver implements [`Deferred`] to choose what is recorded of the executable of a dispatch; a driver
//! whose queues need another form has a recorder of its own. An [`EachRecorder`] records for several devices at once.

mod collective;
mod command_buffer;
mod command_program;
mod dispatch_request;
mod each_device;
mod recorder;
mod spin_lock;
#[cfg(test)]
pub(crate) mod tests;

pub use collective::{CollectiveRequest, RecordedCollective};
pub use command_buffer::DeferredEvent;
pub use command_program::{
    Command, CommandFreeLists, CommandProgram, Deferred, MAX_FREE_PROGRAMS, ProgramRecorder, RecordedDispatch,
    ResolvedRange, Segment, Step, resolve,
};
pub use dispatch_request::DispatchRequest;
pub use each_device::{EachProgram, EachRecorder, OfOneDevice, Same};
pub use recorder::{DeferredCommandBuffer, Recorder};
