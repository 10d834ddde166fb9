//! The configuration of the drivers of this build.

use std::sync::Arc;

#[cfg(feature = "amdgpu")]
use super::amdgpu::AmdgpuConfig;
#[cfg(feature = "cuda")]
use super::cuda::CudaConfig;
use vireo_hal::host_kernels::ImportProviders;
use vireo_hal::{Progress, SecurityPolicy};
use vireo_local::Collectives;
use vireo_local::task::TaskConfig;
#[cfg(feature = "vmvx")]
use vireo_vmvx::LoadedKernels;

/// The configuration of the drivers of this build. The URI of a device may say otherwise for that device.
#[derive(Clone, Debug, Default)]
pub struct BuiltinOptions {
    /// The workers of `local-task` devices.
    pub local_task: TaskConfig,
    /// The agents of `amdgpu` devices.
    #[cfg(feature = "amdgpu")]
    pub amdgpu: AmdgpuConfig,
    /// The devices of `cuda`.
    #[cfg(feature = "cuda")]
    pub cuda: CudaConfig,
    /// The functions that kernels of local devices may import.
    pub imports: Arc<ImportProviders>,
    /// The rights and limits of programs, and the tier of kernels of local devices that are portable bytecode.
    pub policy: SecurityPolicy,
    /// How channels of `local-sync`, `local-task` and `cuda` devices find the other ranks of a program. The devices of
    /// a registry share the rank of the process.
    pub collectives: Collectives,
    /// The observer of how far local devices have come with verifying and compiling kernels that are portable bytecode.
    pub kernel_progress: Option<Arc<dyn Progress>>,
    /// The list to which local devices add each executable that is portable bytecode.
    #[cfg(feature = "vmvx")]
    pub loaded_kernels: Option<Arc<LoadedKernels>>,
}
