//! The tests of the command, as one program: each program of its own would be linked again after each edit.

mod allocators;
mod asm;
mod benchmark;
mod check;
mod collectives;
mod common;
mod confinement;
mod cuda_programs;
mod devices;
mod docs;
mod dump;
mod errors;
mod explain;
mod formats;
mod gpu_code;
mod gpu_programs;
mod hostile_text;
mod inline;
mod models;
mod parameters;
mod plugin;
mod recording;
mod records;
mod reference_flags;
mod sandbox;
#[path = "../../../runtime/tests/support/skip.rs"]
mod skip;
mod stepping;
mod task;
mod tiers;
mod traces;
mod untrusted;
mod values;
