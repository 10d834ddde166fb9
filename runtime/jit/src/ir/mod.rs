//! The IR: the graph in SSA form that `build` makes, `passes` rewrite and `x64` emits.
//!
//! `graph` has blocks, nodes, exits and native terminators, `block_index` the numbers of blocks, `types` the types and
//! effects of nodes, `text` the text form of a graph, and `rewrite` the vocabulary of rewrites of nodes; `bits`, `hash`
//! and `per_block` are the sets and tables that the compiler keeps about them, `visits` says which of them an iteration
//! has to look at again, `effort` how much of all that a function may take, and `decisions` what became of loops.
//! Nothing here knows how a graph is built, how it is changed or which processor runs it: the room uses words of the
//! bytecode and the generated primitives, and no other room. Every other room uses it.

pub(crate) mod bits;
pub(crate) mod block_index;
pub(crate) mod decisions;
pub(crate) mod effort;
pub(crate) mod graph;
pub(crate) mod hash;
pub(crate) mod per_block;
pub(crate) mod rewrite;
pub(crate) mod text;
pub(crate) mod types;
pub(crate) mod visits;
