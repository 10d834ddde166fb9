//! The driver of AMD GPUs, over an HSA library: devices of agents, queues of AQL packets, command buffers recorded as block programs, and
//! executables that are code objects.
//!
//! `target` has the identifiers of targets, `executable` reads executables, `memory` has buffers that agents reach, and `command_buffer` records
//! commands as blocks and turns blocks into packets. The layouts of packets, signals and queues are those of
//! `vireo-hsa`. The crate opens no library by itself and knows no software agent: a driver is made from a table of functions.
//!
//! It stands on `vireo-core`, `vireo-hal` and `vireo-hsa`. Users depend on the crate `vireo`.

pub mod command_buffer;
pub mod executable;
mod generated;
pub mod memory;
pub mod target;

use vireo_core::status;
use vireo_hal as hal;

pub use generated::amdgpu_executable as executable_format;
