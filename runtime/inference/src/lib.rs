//! Sessions: compiled models with their devices and parameters, whose functions are called with tensors of the host.
//!
//! - [`Model`]: what sessions share: verified and linked modules, devices, parameters.
//! - [`Session`]: a model with state; [`Function`]: a function of it, which is called with [`Input`]s and returns
//!   [`Outputs`].
//! - [`Signature`]: the names and types of what a function takes and returns.
//! - `files`: tensors of the host in files, with the feature `files`.
//! - `builtin`: the drivers of this build, and the loaders of executables that their devices have.
//!
//! It stands on the session of the virtual machine, on the HAL and on the modules in Rust, and on the drivers, loaders
//! and archives that the features ask for. Users take the crate `vireo`, which has the public part of this.

// Users call what is here: its documentation says how it fails.
#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc)]

#[cfg(feature = "local")]
mod builtin;
mod compare;
#[cfg(feature = "cuda")]
mod cuda_executable;
pub mod dlpack;
mod events;
#[cfg(feature = "files")]
pub mod files;
#[cfg(feature = "amdgpu")]
mod gpu_executable;
mod input;
mod mapped;
mod model;
mod output;
mod prepared;
#[cfg(feature = "local")]
mod probe;
#[cfg(feature = "local")]
mod requirements;
mod session;
mod signature;
mod tasks;
mod tensor;
mod tensor_text;

#[cfg(any(feature = "amdgpu", feature = "cuda"))]
pub use builtin::SanitizerChecks;
#[cfg(feature = "amdgpu")]
pub use builtin::{AmdgpuAgent, AmdgpuConfig};
#[cfg(feature = "cuda")]
pub use builtin::{CudaConfig, CudaLibrary, UseGraphs};
/// Tools for the code of AMD GPUs: listings of code objects, and what the sanitizer of the software agent finds.
#[cfg(feature = "software-agents")]
pub mod gpu {
    pub use crate::builtin::{check_result, code_objects, take_reports, take_warnings};
    pub use vireo_softhsa::listing::{Function, Line, Listing, ListingError};
    pub use vireo_softhsa::sanitize::{
        AllocationNote, ExitNote, Finding, OtherAccess, Place, Report, Site, Unchecked, Warning,
    };
}

#[cfg(feature = "local")]
pub use builtin::{
    BuiltinOptions, create_device, default_loaders, global_drivers, list_devices, load_executable_plugin, loaders_for,
};
#[cfg(feature = "software-agents")]
pub use builtin::{PacketTrace, PacketTraceFormat};
pub use compare::{ElementDifferences, TensorDifference, Tolerance};
#[cfg(feature = "cuda")]
pub use cuda_executable::{CudaDevice, CudaExecutable, CudaKernel, CudaModule, CudaResources};
#[cfg(feature = "amdgpu")]
pub use gpu_executable::{GpuExecutable, GpuKernel};
pub use input::Input;
pub use mapped::{MappedTensor, StridedMemory};
pub use model::{Model, ModelBuilder};
pub use output::{FromOutput, FromOutputs, Output, Outputs};
pub use prepared::{CallBatch, PreparedCall};
#[cfg(feature = "local")]
pub use requirements::{
    RequiredDriver, RequiredExecutable, RequiredFormat, RequiredModule, RequiredParameter, Requirements,
};
pub use session::{Function, Session};
pub use signature::{Signature, TensorType, ValueInfo, ValueType};
pub use tasks::{Call, Calls};
pub use tensor::{Elements, HostTensor, Tensor};
pub use tensor_text::{NumberError, TensorTextError};

// Parts of texts, for the command line.
#[doc(hidden)]
pub mod text_parts {
    pub use crate::tensor_text::element::parse_element;
    pub use crate::tensor_text::number;
    pub use crate::tensor_text::{byte_length, shorten, split};
}
