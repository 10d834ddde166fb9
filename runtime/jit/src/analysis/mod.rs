//! What is found out about a function or a graph without changing it.
//!
//! About the bytecode, for `build`: `kinds` finds as what slots are read next and `walk` goes through a block with that, `constants` finds
//! which slots hold constants, `loops` the loop headers, and `calls` which calls machine code performs itself and where values are passed.
//! About the graph, for `passes`: `dominators`, `nest` for the counted loops as trees, `forms` for how values differ between lanes, and
//! `verify`, which looks at what a pass has left.
//!
//! The room may use `ir` and `processor`, and `calls` the layout of the interpreter's frames. It is called by `build` and `passes`; `x64`
//! takes one number of the calling convention from it.

pub(crate) mod block_liveness;
pub(crate) mod calls;
pub(crate) mod constants;
pub(crate) mod dominators;
pub(crate) mod loop_nest;
pub(crate) mod loops;
pub(crate) mod shapes;
pub(crate) mod typed_liveness;
pub(crate) mod verify;
