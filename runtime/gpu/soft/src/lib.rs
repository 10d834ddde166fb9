//! The common parts of software GPUs, whatever API programs call: the map of allocations ([`memory`]), objects by their
//! handles ([`handles`]), threads that wait for words in memory ([`bell`]), a clock ([`clock`]), the options that
//! configure a library ([`options`]), what its traces need ([`trace`]), and the pointers of C ([`pointers`]). The
//! software HSA agent is made of it.
//!
//! It names no type of an API: a library says by [`api::Api`] which of its statuses stands for what this crate refuses.
//! It stands on `vireo-core` and `vireo-simt`, and knows no instruction set and no driver. **Who checks**: this crate,
//! where an address or a handle is looked up; who passes a pointer of C vouches for it.

pub mod api;
pub mod bell;
mod bell_rules;
pub mod clock;
pub mod handles;
pub mod memory;
pub mod options;
pub mod pointers;
mod sync;
pub mod trace;
