//! Tests of the sanitizer: bugs that were put into programs, each with the program mended. Drawn programs, whose races
//! a reference knows, are with the tests of `vireo-ptx`.

mod bugs;
#[expect(dead_code, reason = "the other suite uses the rest")]
#[path = "../suite/support.rs"]
mod support;
