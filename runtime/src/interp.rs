//! The interpreter: primitives, frames, helpers, control, and the invocation that is polled until it is done.
//!
//! What each op does is generated from `spec/vm/ops` as calls of what stands here; nothing here knows an opcode. An `Invocation` runs
//! one function of a `Program` on the `State` of a context; from outside they are reached through [`Context`](crate::vm::Context).

pub(crate) mod compiled;
pub(crate) mod control;
pub(crate) mod frame;
mod helpers;
mod invocation;
pub(crate) mod machine;
mod memory;
#[cfg(test)]
pub(crate) mod op_tests;
pub(crate) mod perf_map;
pub mod prim;
mod program;
mod registers;
mod sink;
mod siphash;
mod stack;
#[cfg(test)]
mod tests;
pub(crate) mod threaded;

#[doc(hidden)]
pub use crate::limits::Dispatch;
pub use crate::limits::{Limits, Tier};
#[doc(hidden)]
pub use compiled::verify_between_passes;
pub use compiled::{CodePart, CompiledFunction};
pub use invocation::Poll;
pub use perf_map::write_perf_map;
#[doc(hidden)]
pub use program::CodeShape;

pub use crate::vmfb::SourceMap;
pub use sink::{Recorder, Sink, Stderr};

// Only contexts build programs: that imports lead to functions of their convention is what makes registers safe without checks.
pub(crate) use invocation::Invocation;
#[cfg(test)]
pub(crate) use program::ModuleState;
pub(crate) use program::{BytecodeModule, Import, ImportTarget, Module, Program, State};

pub(crate) use control::Exit;
