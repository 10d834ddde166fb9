//! Texts: the assembler refuses them or writes a file that is in order; what can be run is the same after a round trip through text.
//! Seeds: any `.vmasm` of `fixtures/`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use vireo::asm::{assemble, disassemble};
use vireo::vm::Module;
use vireo::vmfb::Archive;

fuzz_target!(|text: &str| {
    let Ok(file) = assemble(text) else { return };
    Archive::from_bytes(&file).expect("the assembler writes files that are in order");
    let Ok(module) = Module::from_bytes(&file) else { return };
    let archive = module.archive().expect("a bytecode module");
    let printed = disassemble(archive, module.functions());
    let again = assemble(&printed).unwrap_or_else(|error| panic!("{error} in:\n{printed}"));
    let again = Archive::from_bytes(&again).expect("the assembler writes files that are in order");
    assert_eq!(archive.bytecode(), again.bytecode(), "{printed}");
});
