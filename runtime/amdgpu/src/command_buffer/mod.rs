//! Command buffers: recorded once as a program of blocks, which queues turn into packets each time they execute it.
//!
//! `recorder` checks commands and records them with `block`, which computes what an execution needs to know of a block before it begins: packets,
//! bytes of arguments, barriers. `program` is the result, with the buffers that it holds and the slots that it uses. `processor` writes the
//! packets and arguments of a block into memory that was reserved for them. The object that programs record into is that of
//! [`crate::hal::deferred`].

mod arguments;
mod block;
mod processor;
mod program;
mod recorder;
#[cfg(test)]
mod tests;

pub use arguments::{ArgumentMemory, ArgumentRange};
pub use processor::{PacketWriter, Processor, Terminator, TransferKernels, TransferUnit};
pub use program::{Program, PublishedArguments, Resolved, ResolvedSlot};
pub use recorder::{AmdCommandBuffer, DispatchTarget, KernelSource, Recorder};
