//! Every test of the library, as one program: each program of its own would be linked again after each edit of a spec.

mod abi;
mod api;
mod folders;
mod formats;
mod gfx;
mod hal;
mod hal_checks;
mod hal_forward;
mod hal_observe;
mod hal_operations;
mod hal_records;
mod interp;
mod libraries;
mod lowering;
mod mini;
mod names;
mod partners;
mod ptx;
mod real;
mod real_spec;
mod reference_docs;
mod rewrites;
mod schema;
mod search;
#[path = "../../../runtime/tests/support/skip.rs"]
mod skip;
mod specs;
