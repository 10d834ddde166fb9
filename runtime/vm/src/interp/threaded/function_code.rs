//! The threaded code of functions, which is built when they first run.

use super::builder::CodeBuilder;
use crate::bytecode::VerifiedFunction;
use crate::interp::code::threaded_code::ThreadedCode;
use crate::interp::machine::bound_modules::BytecodeModule;

/// The code of function `ordinal` of `module`, which is number `index` of the context's module list.
#[inline]
pub(super) fn code_of(module: &BytecodeModule, index: usize, ordinal: usize) -> Option<&ThreadedCode> {
    let function = module.functions.get(ordinal)?;
    module.code.get_or_build(ordinal, || build(function, module, index))
}

fn build(function: &VerifiedFunction, module: &BytecodeModule, index: usize) -> ThreadedCode {
    // Only a function that is too long for the 16-bit distances of fused branches is built a second time, without them.
    let build = |fuse| CodeBuilder::new(function, module, index, fuse).build();
    build(true)
        .or_else(|| build(false))
        .unwrap_or_else(|| unreachable!("other branches reach as far as instructions go"))
}
