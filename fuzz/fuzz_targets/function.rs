//! The fuzz target of function bodies: the input replaces the code of a module that has globals, rodata, types and imports of every kind, so
//! that every mutation reaches the reader, the verifier and, where they accept it, the interpreter.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use vireo::vm::Module;
use vireo::vmfb::Archive;

#[path = "../../runtime/tests/support/exercise.rs"]
#[expect(dead_code, reason = "kernels are fuzzed by themselves")]
mod exercise;
#[path = "../hosts.rs"]
mod hosts;

static HELPERS: LazyLock<Vec<Module>> = LazyLock::new(|| {
    exercise::helpers(
        include_bytes!("../../fixtures/context/app.vmfb"),
        include_bytes!("../../fixtures/golden/provider.vmfb"),
    )
});

fuzz_target!(|bytes: &[u8]| {
    let Some((host, code)) = bytes.split_first() else { return };
    let mut file = hosts::HOSTS[usize::from(*host) % hosts::HOSTS.len()].clone();
    let archive = Archive::from_bytes(&file).expect("fixtures are modules");
    let start = archive.bytecode().as_ptr() as usize - archive.bytes().as_ptr() as usize;
    let length = archive.bytecode().len().min(code.len());
    drop(archive);
    file[start..start + length].copy_from_slice(&code[..length]);
    exercise::exercise(&file, &HELPERS);
});
