//! Tests of the sanitizer: bugs that were put into programs, each with the program mended, and drawn
//! programs of streams, whose races a reference knows. Those of warps are with the tests of `vireo-ptx`.

mod bugs;
mod streams;
#[path = "../suite/support.rs"]
mod support;
