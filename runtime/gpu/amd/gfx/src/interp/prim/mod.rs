//! The vocabulary of semantics on the values of one lane: [`vireo_simt::prim`], and what only this architecture has.
//! Each function is what `spec/primitives/` says of its name.

mod angles;
mod division;
mod special;
#[cfg(test)]
#[path = "../../../../../../tests/support/primitive_examples.rs"]
pub(crate) mod tests;

pub(crate) use angles::*;
pub(crate) use division::*;
pub(crate) use special::*;
pub(crate) use vireo_simt::prim::*;
