//! The interpreter: primitives, frames, helpers, control, and the invocation that is polled until it is done.
//!
//! What each op does is generated from `spec/vm/ops` as calls of what stands here; nothing here knows an opcode. An [`Invocation`]
//! runs one function of a [`Program`] on the [`State`] of a context.

pub(crate) mod control;
mod helpers;
mod invocation;
mod limits;
pub(crate) mod machine;
#[cfg(test)]
pub(crate) mod op_tests;
pub mod prim;
pub mod program;
mod registers;
mod sink;
mod siphash;
mod stack;
#[cfg(test)]
mod tests;

pub use invocation::{Invocation, Poll};
pub use limits::Limits;
pub use program::{BytecodeModule, Import, ImportTarget, Module, ModuleState, Program, SourceMap, State};
pub use sink::{Sink, Stderr};

pub(crate) use control::Exit;
