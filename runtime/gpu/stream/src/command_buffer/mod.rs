//! Command buffers: recorded once as a program of commands with packed arguments, which queues give to a stream each
//! time they execute it.
//!
//! `recorder` checks commands and writes them to the [`Block`]s of a [`Program`]; `dispatch` does so for kernels. A
//! block is what a stream is given without the host in between: another one begins where the host has to read the size
//! of a grid first. `replay` gives a block to a stream, with the addresses of an execution; `graph` launches the same
//! as a graph of the library.
//!
//! The arguments of the dispatches of a block are in one arena. If all are known when they are recorded, launches read
//! them there; otherwise an execution copies the arena and patches what depends on it.

mod block;
mod dispatch;
mod execution;
mod graph;
mod known;
mod program;
mod recorder;
mod replay;

pub use block::{Block, Command, Counts, Launch, Operation};
pub use execution::Execution;
pub use program::Program;
pub use recorder::{StreamCommandBuffer, StreamRecorder, StreamsCommandBuffer, Target};
pub use replay::{Replay, Scratch};
