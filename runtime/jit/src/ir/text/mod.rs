//! The text form of graphs, which people read and tests write.
//!
//! ```text
//! graph
//! native_entry b2 function 0
//!
//! v2: i32 = constant[1] @1
//!
//! b0: entry 0 preheader e0
//!   v0: i32 = slot[0]
//!   jump b1(v0) @0
//! b1(v1: i32 @0): depth 1 header e1
//!   v3: i32 = wrapping_sub.i32 v1, v2 @2
//!   v4: truth = is_nonzero.i32 v3 @3
//!   branch v4, b1(v3) limits e0, b2 @3
//! b2:
//!   side_exit return e1 @4
//!
//! e0: op 0 slots 0 = v0
//! e1: op 4 slots 0 = v3
//! ```
//!
//! Nodes that are in no block come first: constants, tests, and stores that were moved to exits. Then come the blocks
//! in the order in which they are laid out, with their nodes and the terminator, and the exits. `@4` is the op of the
//! bytecode that a node or a terminator was built from. A `;` begins a comment.
//!
//! Passes leave nodes and exits that nothing refers to. The text leaves them out, and the numbers of the others stay; a
//! graph that is read has empty ones in their places. Everything else is the same after writing and reading, except the
//! visits that are left for a function.
//!
//! `print` writes the text, for `vireo dump --jit=graph` and for reports of the graph verifier. `parse` reads it, for
//! tests of passes. `kinds` and `words` have the names of both, so each is in one place; primitives have the names of
//! the spec.

mod kinds;
#[cfg(test)]
pub(crate) mod parse;
pub(crate) mod print;
#[cfg(test)]
mod scanner;
#[cfg(test)]
mod tests;
mod used;
mod words;
