//! The interpreter: primitives, frames, invocations and the generated dispatch loop.

pub mod prim;
