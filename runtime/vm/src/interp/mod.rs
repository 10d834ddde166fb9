//! The interpreter: primitives, frames, helpers, control, and the invocation that is polled until it is done.
//!
//! What each op does is generated from `spec/vm/ops` as calls of what stands here; nothing here knows an opcode. An `Invocation` runs
//! one function of a `ModuleList` on the `ContextState` of a context; from outside they are reached through contexts.

mod bound_modules;
pub mod code_listing;
pub(crate) mod control;
pub(crate) mod frame;
mod helpers;
mod invocation;
pub mod machine;
pub mod perf_map;
pub mod prim;
mod registers;
mod siphash;
mod stack;
mod stack_memory;
pub mod threaded;
mod trace_sink;
mod traced_dispatcher;

#[doc(hidden)]
pub use crate::limits::Dispatch;
pub use crate::limits::{Limits, Tier};
#[doc(hidden)]
pub use bound_modules::CodeShape;
pub use code_listing::{CodePart, CompiledFunction};
pub use invocation::Poll;
pub use perf_map::write_perf_map;

pub use crate::vmfb::SourceMap;
pub use trace_sink::{Recorder, Stderr, TraceSink};

// Only contexts build programs: that imports lead to functions of their convention is what makes registers safe without checks.
pub use bound_modules::{BoundModule, BytecodeModule, ContextState, Import, ImportTarget, ModuleList, ModuleState};
pub use invocation::Invocation;

pub use control::Exit;
