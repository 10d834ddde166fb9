//! A software CUDA driver: the functions of the CUDA driver library, `libcuda.so`, with GPUs that interpret PTX on the
//! processor. Programs run on it without a GPU, in process ([`entries`], [`functions`]) or through the library of the
//! crate `vireo-softcuda-library`, which exports every name that the library of the GPUs' vendor has.
//!
//! Streams are asynchronous: threads of a crew do their work in any order that streams, events and graphs allow.
//! [`Options`] chooses the devices, that order, and calls that fail. **Who checks**: this crate. Handles are looked up,
//! copies and kernels access only allocations that the device may access, and images are hostile. Pointers to arguments
//! are the caller's to vouch for, as in any C library.

mod abi;
mod api;
mod call_trace;
mod callback;
mod capture;
mod context;
mod crew;
mod gate;
mod generated;
mod graph;
mod image;
mod launch;
mod memory;
mod module;
mod options;
mod poisoned;
mod reports;
mod sanitizer;
mod system;
mod transfer;
mod user_object;

use vireo_cuda::cuda_symbols::CudaFunctions;

pub use generated::entries;
pub use options::{Fault, Options, OptionsError, VARIABLE, WorkOrder};
pub use system::{InUse, active_checks, configure, take_reports, take_warnings};
pub use vireo_simt::sanitize;

/// All functions of the software driver.
pub const fn functions() -> CudaFunctions {
    generated::functions::FUNCTIONS
}
