//! The parts of this build: its drivers, and the loaders of executables that their devices have. Nothing below names
//! all of them, so a driver or a loader that is added has its line here.
//!
//! A registry, a device and a policy get from here what they start from; each is whole without it.

#[cfg(feature = "amdgpu")]
mod amdgpu;
#[cfg(feature = "cuda")]
mod cuda;
mod drivers;
mod loaders;
mod options;
#[cfg(any(feature = "amdgpu", feature = "cuda"))]
mod sanitizer;

#[cfg(feature = "amdgpu")]
pub use amdgpu::{AmdgpuAgent, AmdgpuConfig};
#[cfg(feature = "software-agents")]
pub use amdgpu::{check_result, code_objects};
#[cfg(feature = "cuda")]
pub use cuda::{CudaConfig, CudaLibrary, UseGraphs};
pub use drivers::{create_device, global_drivers, list_devices, load_executable_plugin};
pub use loaders::{default_loaders, loaders_for};
pub use options::BuiltinOptions;
#[cfg(any(feature = "amdgpu", feature = "cuda"))]
pub use sanitizer::SanitizerChecks;
#[cfg(feature = "software-agents")]
pub use sanitizer::{take_reports, take_warnings};
#[cfg(feature = "software-agents")]
pub use vireo_softhsa::{PacketTrace, TraceFormat as PacketTraceFormat};
