//! The loaders of executables of this build, and what gets them: local devices, and modules that run kernels without a device.

use std::sync::Arc;

use crate::hal::local::{EmbeddedElfLoader, ImportProvider, LocalDevice};
use crate::hal::{ExecutableLoader, SecurityPolicy};
use crate::modules::hal_loader::HalLoaderModule;
use crate::vmvx::VmvxLoader;

/// The loaders of local devices for programs that are trusted, for libraries that may import what `imports` provides. Those for others
/// are [`SecurityPolicy::loaders`].
pub fn default_loaders(imports: &Arc<dyn ImportProvider>) -> Vec<Arc<dyn ExecutableLoader>> {
    SecurityPolicy::trusted().loaders(imports)
}

impl SecurityPolicy {
    /// The loaders of a local device, for kernels that may import what `imports` provides.
    pub fn loaders(&self, imports: &Arc<dyn ImportProvider>) -> Vec<Arc<dyn ExecutableLoader>> {
        let mut loaders: Vec<Arc<dyn ExecutableLoader>> = Vec::new();
        if self.native_code {
            loaders.push(Arc::new(EmbeddedElfLoader::new(imports.clone())));
            #[cfg(target_os = "linux")]
            loaders.push(Arc::new(crate::hal::local::SystemLibraryLoader::new(imports.clone())));
        }
        loaders.push(Arc::new(VmvxLoader::default().with_limits(self.limits.clone())));
        loaders
    }
}

impl LocalDevice {
    /// A device for programs under `policy`, whose loaders and allocator it has.
    pub fn with_policy(id: &str, policy: &SecurityPolicy, imports: &Arc<dyn ImportProvider>) -> LocalDevice {
        let device = LocalDevice::new(id, Arc::new(policy.allocator()), policy.loaders(imports));
        let device = if policy.zeroed_memory { device.with_zeroed_transients() } else { device };
        if policy.native_code { device } else { device.without_native_code() }
    }
}

impl HalLoaderModule {
    /// A module for programs under `policy`, whose loaders it has.
    pub fn with_policy(policy: &SecurityPolicy, imports: &Arc<dyn ImportProvider>) -> HalLoaderModule {
        let module = HalLoaderModule::new(policy.loaders(imports));
        if policy.native_code { module } else { module.without_native_code() }
    }
}
