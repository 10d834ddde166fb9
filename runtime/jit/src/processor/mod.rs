//! The processor: what analyses, passes and the register allocator ask about it without writing code for it.
//!
//! `registers` has the registers and what each one is for, `features` the extensions of x86-64 that there are, and
//! `lanes` the accesses that have vector instructions. The room uses types of `ir` and nothing else. Analyses and
//! passes ask it what is worthwhile, `regalloc` which registers it may allocate, and `x64` has the instructions.

pub(crate) mod features;
pub(crate) mod lanes;
pub(crate) mod registers;
