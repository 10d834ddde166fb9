//! The interpreter, in rooms of which each uses those before it: primitives (`prim`), the stack (`frame`), the code of
//! functions as data (`code`), the state of a running call (`machine`), ops that are not made of primitives (`ops`),
//! the threaded dispatcher (`threaded`), and calls (`call`).
//!
//! The handler of each op is generated from `spec/isa/vm/ops` and calls the functions here; nothing here knows an
//! opcode. An `Invocation` runs one function of a context: its `ModuleList` on its `ContextState`. Hosts use both
//! through contexts, in `vireo-context`.

mod call;
pub mod code;
pub(crate) mod frame;
pub mod machine;
pub(crate) mod ops;
pub mod prim;
pub mod threaded;

#[doc(hidden)]
pub use crate::limits::DispatchMode;
pub use crate::limits::{Limits, Tier};
#[doc(hidden)]
pub use call::direct_import::{DirectExport, DirectWords};
pub use call::invocation::Poll;
pub use code::listing::{CodePart, CompiledFunction};
pub use code::loops;
pub use code::perf_map::write_perf_map;
#[doc(hidden)]
pub use machine::bound_modules::CodeShape;
#[doc(hidden)]
pub use machine::direct_import::DirectImport;

pub use crate::vmfb::SourceMap;
pub use machine::trace_sink::{Stderr, TraceRecorder, TraceSink};

// Only contexts build module lists: access to registers without checks relies on imports being bound to functions of
// the same convention.
pub use call::invocation::{Invocation, Step, Suspended, Suspension};
pub use call::passed::{Passed, PassedList};
pub use call::ready_call::CallState;
pub use call::targets::{TypedTarget, ValueTarget};
pub use call::transfer::{Results, TypedResults};
pub use code::import_site::ImportTarget;
pub use frame::argument_layout::ArgumentLayout;
pub use machine::bound_modules::{BoundModule, BytecodeModule, Import, ModuleList};
pub use machine::context_state::{ContextState, ModuleState};

pub use machine::exit::Exit;
