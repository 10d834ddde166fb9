//! The driver of AMD GPUs, over an HSA library: devices of agents, queues of AQL packets, command buffers recorded as
//! templates of packets, and executables that are code objects.
//!
//! `symbols` finds the library and calls it, `agent` describes its agents, `links` how they reach memory, and
//! `vireo_hsa::target` their targets. `executable` reads and loads executables, `memory` has buffers that agents reach,
//! `command_buffer` records commands as packets with what executions patch, and `builtin` has the driver's own kernels.
//! `queue` gives packets to queues and learns what has run. `allocator`, `options`, `agent_source` (an agent for
//! recorders), `device` and `driver` implement the objects of the HAL, of the parts that `hal-driver` has. The layouts
//! of packets, signals and queues are those of `vireo-hsa`. The crate knows no software agent: a driver is made from a
//! table of functions.
//!
//! **Who checks**: readers of files check all they use. Queues resolve every buffer of a submission and check it
//! against its uses before they write a packet, and hold the memory until that has completed. Kernels are native code
//! and trusted once they are loaded.
//!
//! It stands on `vireo-core`, `vireo-hal` and `vireo-hsa`. Users depend on the crate `vireo`.

pub mod agent;
mod agent_source;
pub mod allocator;
mod builtin;
pub mod command_buffer;
pub mod device;
pub mod driver;
pub mod executable;
mod generated;
pub mod links;
pub mod memory;
mod options;
pub mod queue;
pub mod symbols;

use vireo_core::{limits, status};
use vireo_hal as hal;
use vireo_hal_driver as hal_driver;

pub use generated::amdgpu_executable as executable_format;
pub use vireo_hsa::target::TargetId;
