//! The passes: each one rewrites a graph so that it does the same with less.
//!
//! `optimise` is called by the plan of a function and runs them all in order. It has value numbering, loop-invariant code motion and the
//! removal of dead code itself; it calls `ranges`, `promote` and `strength` for each loop, and `vectorise`, `skip` and `layout` once.
//! `ranges` also has the words for a counted loop and its guard in which `promote` and `strength` are written.
//!
//! Passes use `ir`, `analysis` and `processor`. They know nothing of how a graph was built, of places of values or of machine code.

mod block_layout;
mod block_parameters;
pub(crate) mod dce;
mod guard_sinking;
mod gvn;
mod licm;
pub(crate) mod optimise;
mod range_check_hoisting;
mod replacements;
mod scalar_promotion;
mod strength_reduction;
mod vectorise;
