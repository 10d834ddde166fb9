//! Verified functions of an assembled text, for tests of the compiler.

use std::sync::Arc;

use vireo_module::asm::assemble;
use vireo_module::bytecode::{FunctionInfo, ModuleInfo, Rules, VerifiedFunction, verify_function};
use vireo_module::convention::Convention;
use vireo_module::vmfb::Archive;

/// The functions of a module that has functions and at most one type.
pub(crate) fn functions(text: &str) -> Arc<[VerifiedFunction]> {
    let archive = Archive::from_bytes(&assemble(text).unwrap()).unwrap();
    let conventions: Vec<Convention> = archive.functions().map(|one| one.convention().parse().unwrap()).collect();
    let info =
        ModuleInfo { global_bytes: 0, global_refs: 0, types: 1, rodata: 0, imports: &[], functions: &conventions };
    let verified = archive.functions().enumerate().map(|(ordinal, function)| {
        let info_of = FunctionInfo {
            ordinal: ordinal as u32,
            convention: &conventions[ordinal],
            slots: function.slots,
            refs: function.refs,
            blocks: function.blocks,
            features: function.requirements.0,
            rules: Rules::default(),
        };
        verify_function(&archive.bytecode()[function.code.clone()], &info_of, &info).unwrap()
    });
    verified.collect()
}
