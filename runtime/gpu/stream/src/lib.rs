//! A driver for GPUs whose library has streams, such as CUDA's: devices, queues, command buffers and executables over
//! the functions of [`StreamApi`], which a crate for each library implements.
//!
//! `api` has the errors of functions and their observer, `context` the context of a GPU and its loss, `handles` what
//! the library makes, which ends when it is dropped, and `memory` buffers that GPUs reach. `executable` reads and loads
//! executables, `collectives` are the ranks of NCCL, `command_buffer` records commands as what streams are given or
//! graphs are made of, `queue` gives streams what is submitted and completes it, `times` measures that. `library_file`
//! opens libraries. `allocator`, `device` and `driver` implement the objects of the HAL.
//!
//! **Who checks**: readers of files check all they use. Queues resolve every buffer of a submission and check it
//! against its uses before a stream gets anything, and hold the memory until that has run. Kernels are native code and
//! trusted once they are loaded.
#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc)]

pub mod allocator;
pub mod api;
pub mod collectives;
pub mod command_buffer;
pub mod context;
pub mod device;
pub mod driver;
pub mod executable;
mod generated;
pub mod handles;
pub mod instance;
pub mod library_file;
pub mod memory;
mod options;
pub mod queue;
pub mod times;

use vireo_core::{limits, status};
use vireo_hal as hal;
use vireo_hal_driver as hal_driver;

pub use generated::api::{CallGroup, StreamApi};
pub use generated::stream_executable as executable_format;
