//! Runs the assembler on whatever text there is.

use vireo::asm::{assemble, disassemble};
use vireo::vm::Module;
use vireo::vmfb::Archive;

/// Assembles a text; what can be run comes out of a round trip through text as it was. False if the text is refused.
///
/// # Panics
/// If the assembler writes what cannot be read, or the disassembler what assembles to something else.
pub fn round_trip(text: &str) -> bool {
    let Ok(file) = assemble(text) else { return false };
    Archive::from_bytes(&file).expect("the assembler writes files that are in order");
    let Ok(module) = Module::from_bytes(&file) else { return true };
    let archive = module.archive().expect("a bytecode module");
    let printed = disassemble(archive, module.functions());
    let again = assemble(&printed).unwrap_or_else(|error| panic!("{error} in:\n{printed}"));
    let again = Archive::from_bytes(&again).expect("the assembler writes files that are in order");
    assert_eq!(archive.bytecode(), again.bytecode(), "{printed}");
    true
}
