//! The fuzz target of executables in portable bytecode: reader, verifier, sessions, microkernels, and kernels on memory of their own. Seeds:
//! the executables in the `vmvx_*.vmfb` of `fixtures/models`.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../runtime/tests/support/exercise.rs"]
#[expect(dead_code, reason = "what runs whole modules is for the other targets")]
mod exercise;

fuzz_target!(|bytes: &[u8]| {
    exercise::exercise_kernels(bytes);
});
