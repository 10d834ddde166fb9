//! Command buffers: recorded once as a program of templates, which queues copy and patch each time they execute it.
//!
//! A program is divided into blocks, for each of which a queue reserves slots and memory at once. `recorder` checks
//! commands, with `dispatch` for those that run kernels of executables, and writes them to the `template` of a block:
//! packets and arguments as an execution has them, and the list of what it patches. What commands name is
//! [`crate::hal_driver::references`], and `transfer` chooses kernels of the driver by the addresses of an execution.
//! `program` is the result, and `published` the arguments that stay with it, in memory of an `argument_pool`; `source`
//! is the device that commands are recorded for. The object that programs record into is that of
//! [`crate::hal_driver::deferred`], which records for several agents, too.
//!
//! There is no form of commands between the calls that record them and the templates: nothing but executions reads
//! them. The reference's driver keeps records, which it turns into packets at each execution.

mod argument_pool;
mod arguments;
mod dispatch;
mod program;
mod published;
mod recorder;
mod resolved;
mod source;
mod targets;
mod template;
#[cfg(test)]
mod tests;
mod transfer;

pub use argument_pool::{PublishedMemory, PublishedPool};
pub use arguments::{ArgumentMemory, ArgumentRange};
pub use program::Program;
pub use recorder::{AgentsCommandBuffer, AmdCommandBuffer, PacketRecorder};
pub use resolved::{PacketBytes, Resolved};
pub use source::{DispatchTarget, KernelSource};
pub use template::{RingPlace, Template};
pub use transfer::{TransferKernels, TransferUnit};
