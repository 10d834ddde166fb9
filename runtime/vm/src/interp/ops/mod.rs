//! The ops that are not made of primitives: control ops, and those that methods of the generated `Helpers` execute. The
//! generated handlers call both.

pub mod control;
pub mod helpers;
pub mod native_call;
mod siphash;
