//! The interpreter: primitives, frames, helpers, control ops, the dispatchers, and the invocation, which is polled
//! until it is done.
//!
//! The handler of each op is generated from `spec/isa/vm/ops` and calls the functions here; nothing here knows an
//! opcode. An `Invocation` runs one function of a context: its `ModuleList` on its `ContextState`. Hosts use both
//! through contexts, in `vireo-session`.

mod bound_modules;
pub mod code_listing;
pub(crate) mod control;
mod direct_import;
pub(crate) mod frame;
mod helpers;
mod invocation;
pub mod lent_references;
pub mod machine;
pub mod perf_map;
pub mod prim;
mod ready_call;
mod registers;
mod siphash;
mod stack;
mod stack_memory;
pub mod threaded;
mod trace_sink;
#[cfg(feature = "trace")]
mod traced_dispatcher;
mod typed_call;
mod value_call;

#[doc(hidden)]
pub use crate::limits::Dispatch;
pub use crate::limits::{Limits, Tier};
#[doc(hidden)]
pub use bound_modules::CodeShape;
pub use code_listing::{CodePart, CompiledFunction};
#[doc(hidden)]
pub use direct_import::{DirectExport, DirectImport, DirectWords};
pub use invocation::Poll;
pub use perf_map::write_perf_map;

pub use crate::vmfb::SourceMap;
pub use trace_sink::{Recorder, Stderr, TraceSink};

// Only contexts build module lists: access to registers without checks relies on imports being bound to functions of
// the same convention.
pub use bound_modules::{BoundModule, BytecodeModule, ContextState, Import, ImportTarget, ModuleList, ModuleState};
pub use invocation::Invocation;
pub use typed_call::{Passed, PassedList, Suspended, TypedPoll, TypedTarget};
pub use value_call::ValueTarget;

pub use control::Exit;
