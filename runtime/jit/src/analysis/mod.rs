//! Analyses of functions and of graphs, which change neither.
//!
//! Of the bytecode, for `build`: `typed_liveness` is liveness of slots with the type of the next read, and
//! `block_liveness` that at each op of a block; `constants` is constant propagation, `edges` has the branches that
//! machine code executes, `loops` finds loop headers, `references` finds the registers of the frame that have the
//! references which branches move, and `calls` has the calls that machine code makes itself and their convention.
//!
//! Of the graph, for `passes`: `dominators`, `loop_nest` for nests of counted loops, `shapes` for how values differ
//! between lanes, in the terms of `shape`, `byte_lanes` for what lanes of bytes can compute, `carried` for elements
//! that loops keep in registers, `cost` for what forms of a loop cost and its limits, and `verify`, the graph verifier.
//!
//! The room may use `ir` and `processor`, and `calls` the layout of the interpreter's frames. It is called by `build`
//! and `passes`; `x64` takes one number of the calling convention from it.

pub(crate) mod block_liveness;
pub(crate) mod byte_lanes;
pub(crate) mod calls;
pub(crate) mod carried;
pub(crate) mod constants;
pub(crate) mod cost;
pub(crate) mod dominators;
pub(crate) mod edges;
pub(crate) mod loop_nest;
pub(crate) mod loops;
pub(crate) mod origins;
pub(crate) mod references;
pub(crate) mod shape;
pub(crate) mod shapes;
pub(crate) mod typed_liveness;
pub(crate) mod verify;
