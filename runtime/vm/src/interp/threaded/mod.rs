//! The threaded dispatcher: direct-threaded code for verified functions, which runs calls in optimised builds.
//!
//! A function becomes a stream of [`ThreadedInstruction`]s, each the address of a handler and its operands. Every
//! handler ends in a call of the next one, which optimised builds make a jump (a sibling call), so dispatch is one
//! indirect jump per op.
//!
//! All handlers have one signature, and no value that must be dropped or has its address taken lives across the jump:
//! either would keep the call from becoming a jump. A handler that cannot continue (its op traps, the limits have to be
//! checked, the op has no handler of its own) stores a `Continuation` in the machine and returns. `run` then lets the
//! loop dispatcher execute that one op, so each trap has one definition: an op that traps has changed nothing, and
//! executing it again gives the trap. Ops that helpers execute have a handler that calls the helper, and other ops on
//! the cold path one that calls the loop dispatcher; both then jump on.
//!
//! Handlers pass `CarriedValues` to each other in registers of the processor: the value that was written last, and the
//! loop header.
//!
//! Frames are those of `Stack`. The handlers of calls build them here, with the layout that `Stack::push` gives them,
//! and store the call site in the frame's header for the return; `set_top` tells the stack which frame is on top when a
//! handler stops.

pub(crate) mod body;
mod builder;
mod call_handlers;
mod copies;
pub(in crate::interp) mod dispatcher;
mod enter;
mod entry_carries;
mod function_code;
pub(crate) mod handler;
mod handler_frame;
pub(crate) mod handlers;
mod import_call;
mod native_frames;
pub mod offsets;
mod op_execution;
mod operands;
mod reference_loads;
mod runtime_ops;
pub(crate) mod sequences;
mod tier_up;

pub use crate::interp::code::code_table::MachineCode;
pub use crate::interp::code::native_code::{LeftOut, NativeCode};
pub use crate::interp::code::pinned_list::PinnedList;
pub use crate::interp::code::side_exits::{SideExitReason, SideExits};
pub use crate::interp::code::threaded_code::ThreadedCode;
pub use crate::interp::frame::instruction::{
    CALL_INSTRUCTIONS, HandlerAddress, NO_INSTRUCTION, ThreadedCallSite, ThreadedInstruction,
};
pub use crate::interp::machine::bound_modules::FunctionCompiler;
pub use handler::{Handler, address_of};
pub use handlers::cold;
pub use native_frames::{begin_frame, end_frame};
pub use runtime_ops::{
    allocate, call_import, check_limits, count_many, execute, fail_import, move_references, out_of_range,
};
pub use tier_up::TierUp;
