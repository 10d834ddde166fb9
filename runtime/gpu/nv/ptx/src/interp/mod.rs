//! The interpreter: the loop of a warp, and the instructions that are not made of primitives. Handlers of the others
//! are generated.

mod atomic;
pub(crate) mod control;
#[cfg(test)]
#[path = "../../../../../tests/support/primitive_examples.rs"]
pub(crate) mod examples;
pub(crate) mod lanes;
pub(crate) mod matrix;
pub(crate) mod mbarrier;
pub(crate) mod memory;
pub(crate) mod moves;
pub(crate) mod packed;
pub(crate) mod print;
mod run;
pub(crate) mod sync;
pub(crate) mod tiles;

pub(crate) use atomic::{atomic, atomic_quad};
pub(crate) use matrix::{Element, Product, load_matrix};
