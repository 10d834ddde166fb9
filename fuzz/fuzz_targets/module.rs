//! The fuzz target of module files: reader, verifier, contexts, interpreter, `hal` module. Seeds: any `.vmfb` of `fixtures/`.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use vireo::vm::Module;

#[path = "../../runtime/tests/support/exercise.rs"]
#[expect(dead_code, reason = "kernels are fuzzed by themselves")]
mod exercise;

static HELPERS: LazyLock<Vec<Module>> = LazyLock::new(|| {
    exercise::helpers(
        include_bytes!("../../fixtures/context/app.vmfb"),
        include_bytes!("../../fixtures/golden/provider.vmfb"),
    )
});

fuzz_target!(|bytes: &[u8]| {
    exercise::exercise(bytes, &HELPERS);
});
