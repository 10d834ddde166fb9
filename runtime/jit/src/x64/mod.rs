//! Machine code for x86-64 from a graph and the places of its values, and its listing.
//!
//! `emit` writes the code of a function: its blocks, branches, calls and side exits. `lower` has the instructions of each primitive, for
//! one value and for the lanes of a vector; generated code decides which of them an op needs. `outside` has where the parts of the
//! interpreter's objects are, and `print` the text that stands beside the code in a listing.
//!
//! Only this room writes instructions. It may use `regalloc`, `processor` and `ir`, and takes from `analysis` what a call reserves. The plan
//! of a function and `install` call it; no other room does.

#[expect(clippy::useless_conversion, reason = "what dynasm makes of a register")]
pub(crate) mod emit;
pub(crate) mod listing;
pub(crate) mod lower;
pub(crate) mod runtime_layout;
