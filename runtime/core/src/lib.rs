//! What every other crate of Vireo stands on, and which knows none of them.
//!
//! - [`status`]: the error of every operation.
//! - [`limits`]: what a call may use, how that is counted, and what of it is in force on a thread.
//! - [`blocking`]: threads that wait, and may as well work.
//! - [`heap_bytes`] and [`executable_memory`]: memory of the host, and the only place that makes memory executable.
//! - [`math`]: functions that give the same bits wherever they are computed; [`number_text`]: floats as text, and
//!   from it; [`glob`]: patterns with `*` and `?`.
//!
//! Users take the crate `vireo`, which has the public part of this. The feature `jit` says that there is a compiler above.

pub mod blocking;
pub mod executable_memory;
mod generated;
pub mod glob;
pub mod heap_bytes;
pub mod limits;
pub mod math;
pub mod number_text;
pub mod status;
