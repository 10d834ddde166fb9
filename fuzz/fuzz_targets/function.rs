//! Bodies of functions: the input replaces the code of a module that has globals, rodata, types and imports of every kind, so that every
//! mutation reaches the reader, the verifier and, where they accept it, the interpreter.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use vireo::vm::Module;
use vireo::vmfb::Archive;

#[path = "../../runtime/tests/support/exercise.rs"]
mod exercise;

static HELPERS: LazyLock<[Module; 2]> =
    LazyLock::new(|| exercise::helpers(include_bytes!("../../fixtures/context/app.vmfb")));

/// Modules whose code is replaced, chosen by the first byte of the input.
static HOSTS: [&[u8]; 4] = [
    include_bytes!("../../fixtures/golden/buffer.vmfb"),
    include_bytes!("../../fixtures/golden/list.vmfb"),
    include_bytes!("../../fixtures/golden/global.vmfb"),
    include_bytes!("../../fixtures/golden/call.vmfb"),
];

fuzz_target!(|bytes: &[u8]| {
    let Some((host, code)) = bytes.split_first() else { return };
    let mut file = HOSTS[usize::from(*host) % HOSTS.len()].to_vec();
    let archive = Archive::from_bytes(&file).expect("fixtures are modules");
    let start = archive.bytecode().as_ptr() as usize - archive.bytes().as_ptr() as usize;
    let length = archive.bytecode().len().min(code.len());
    drop(archive);
    file[start..start + length].copy_from_slice(&code[..length]);
    exercise::exercise(&file, &*HELPERS);
});
