//! Command buffers: recorded once as a program of blocks and their templates, which queues copy and patch each time they execute it.
//!
//! `recorder` checks commands, whose references become a `place`, and records them with `block`, which computes what an execution needs to know of
//! a block before it begins: packets, bytes of arguments, barriers. `processor` interprets each block once, when recording ends, and writes its
//! `template`: packets and arguments as an execution has them, and the list of what it patches. `program` is the result, with the buffers that it
//! holds and the slots that it uses, and `published` has memory for arguments that stay with it; `by_agent` records for several agents at once. The
//! object that programs record into is that of [`crate::hal::deferred`].

mod arguments;
mod block;
mod by_agent;
mod place;
mod processor;
mod program;
mod published;
mod recorder;
mod template;
#[cfg(test)]
mod tests;

pub use arguments::{ArgumentMemory, ArgumentRange};
pub use by_agent::{AgentsCommandBuffer, AgentsProgram, AgentsRecorder};
pub use processor::{Processor, TransferKernels, TransferUnit};
pub use program::{Program, PublishedArguments, Resolved, ResolvedSlot, StaticBuffer};
pub use published::PublishedPool;
pub use recorder::{AmdCommandBuffer, DispatchTarget, KernelSource, Recorder};
pub use template::{PacketBytes, RingPlace, Template};
