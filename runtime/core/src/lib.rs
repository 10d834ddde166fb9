//! The base crate: errors, limits, memory of the host and functions of mathematics. Every other crate stands on it, and
//! it knows none of them.
//!
//! - [`status`]: the error of every operation.
//! - [`limits`]: limits of calls, memory budgets, and the limits in force on a thread.
//! - [`blocking`]: which threads wait, for devices and their worker pools, and waits within limits; [`timer`]:
//!   deadlines of asynchronous tasks; [`background`]: jobs of a thread of low priority; [`waker_set`]: what waits for
//!   one thing; [`asymmetric_fence`]: fences for locks that mostly one thread takes.
//! - [`heap_bytes`] and [`executable_memory`]: aligned memory of the host, and the only code that makes memory
//!   executable; [`pages`]: mappings of the system; [`release`]: dropping chains of owners.
//! - [`math`]: functions whose results have the same bits on all tiers and processors; [`number_text`]: printing and
//!   parsing of floats; [`byte_size`]: the same of sizes; [`glob`]: patterns with `*` and `?`; [`trace_events`]: traces
//!   that Perfetto opens.
//! - [`record_file`] and [`record_fields`]: what formats of files with records share.
//! - [`visible_text`]: which characters of untrusted text are escaped.
//!
//! Users take the crate `vireo`, which has the public part of this. The feature `jit` says that the build has a JIT.

pub mod address_map;
pub mod asymmetric_fence;
pub mod background;
pub mod blocking;
pub mod byte_size;
pub mod executable_memory;
pub mod fork;
mod generated;
pub mod glob;
pub mod heap_bytes;
pub mod limits;
pub mod math;
pub mod number_text;
pub mod pages;
pub mod record_fields;
pub mod record_file;
pub mod release;
pub mod shard;
pub mod status;
pub mod timer;
pub mod trace_events;
pub mod visible_text;
pub mod waker_set;
