//! The passes: each one rewrites a graph, and is a file of its name.
//!
//! `optimise` is the pipeline: the plan of a function calls it, and it runs all passes in order. `licm` runs
//! `range_check_hoisting`, `scalar_promotion`, and `strength_reduction` or `index_reduction`, for each loop.
//! `range_check_hoisting` also has the counted loop and the guard that the others are written with, `simplify` knows
//! nodes that constants make trivial, and `replacements` replaces uses of nodes for all of them. `folding` runs after
//! the proof of a graph, and changes no node.
//!
//! `filetests` runs the tests of each pass that are files, in `runtime/jit/filetests/`.
//!
//! Passes use `ir`, `analysis` and `processor`. They know nothing of how a graph was built, of registers of values or
//! of machine code.

mod block_layout;
mod block_parameters;
mod call_pairing;
pub(crate) mod dce;
#[cfg(test)]
mod filetests;
pub(crate) mod folding;
mod guard_sinking;
mod gvn;
mod if_conversion;
mod index_reduction;
mod licm;
#[cfg(feature = "lies")]
pub mod lies;
pub(crate) mod optimise;
mod range_check_hoisting;
mod replacements;
mod scalar_promotion;
mod simplify;
mod splats;
mod strength_reduction;
mod strip_mining;
mod vectorise;
