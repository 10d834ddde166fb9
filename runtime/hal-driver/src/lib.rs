//! Parts of drivers: [`queue`]s, [`deferred`] command buffers, memory [`pool`]s, sources of memory for transient
//! buffers ([`memory_source`]), and files of the host. A driver takes those that suit its device.
//!
//! It knows the traits of `vireo-hal` and no driver. Users depend on the crate `vireo`.
#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc)]

pub mod deferred;
pub mod device_alloca;
pub mod device_blocks;
pub mod device_queue;
pub mod device_slabs;
pub mod device_timeline;
pub mod host_file;
pub mod known;
pub mod memory_source;
pub mod panics;
pub mod pool;
pub mod queue;
pub mod references;
pub mod staging;

use vireo_core::{limits, status};
use vireo_hal as hal;
