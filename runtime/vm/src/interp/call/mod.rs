//! Calls of functions from outside of a program, with lists of values or typed, and the function that machine code
//! calls for a direct import. Contexts of `vireo-context` make them.

mod callee;
mod callee_call;
pub mod direct_import;
pub mod dispatcher;
pub mod invocation;
pub mod passed;
pub mod ready_call;
pub mod targets;
#[cfg(feature = "trace")]
mod traced_dispatcher;
pub mod transfer;
