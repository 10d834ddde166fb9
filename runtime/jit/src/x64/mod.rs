//! The x86-64 emitter: machine code from a graph and its allocation, and the listing of it.
//!
//! `emit` emits the code of a function: its blocks, branches, calls and side exits. `lower` has the instructions of
//! each primitive, for one value and for the lanes of a vector; generated code decides which of them an op needs.
//! `runtime_layout` has the offsets of the runtime's objects and what code is linked to, and `listing` the text beside
//! the code in a listing.
//!
//! Only this room encodes instructions. It may use `regalloc`, `processor` and `ir`, and takes from `analysis` what a
//! call reserves. The plan of a function and `install` call it; no other room does.

#[expect(clippy::useless_conversion, reason = "what dynasm makes of a register")]
pub(crate) mod emit;
pub(crate) mod listing;
pub(crate) mod lower;
pub(crate) mod runtime_layout;
