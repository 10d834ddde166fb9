//! What the compiler may ask about the processor without writing code for it.
//!
//! `registers` has the registers and what each one is for, `features` the instructions beyond plain x86-64 that there are, and `lanes`
//! tells which accesses of vectors have an instruction. The room uses types of `ir` and nothing else. Analyses and passes ask it what is
//! worthwhile, `regalloc` which registers there are to give, and `x64` writes the instructions.

pub(crate) mod features;
pub(crate) mod lanes;
pub(crate) mod registers;
