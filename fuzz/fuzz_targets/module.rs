//! Whole module files: reader, verifier, contexts, interpreter, `hal` module. Seeds: any `.vmfb` of `fixtures/`.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use vireo::vm::Module;

#[path = "../../runtime/tests/support/exercise.rs"]
mod exercise;

static HELPERS: LazyLock<[Module; 2]> =
    LazyLock::new(|| exercise::helpers(include_bytes!("../../fixtures/context/app.vmfb")));

fuzz_target!(|bytes: &[u8]| {
    exercise::exercise(bytes, &*HELPERS);
});
