//! The loaders of executables of this build.

use std::sync::Arc;

use vireo_hal::host_kernels::ImportProvider;
use vireo_hal::{ExecutableLoader, SecurityPolicy};
use vireo_local::EmbeddedElfLoader;
#[cfg(feature = "vmvx")]
use vireo_vmvx::VmvxLoader;

use super::options::BuiltinOptions;

/// The loaders of local devices for programs that are trusted, for libraries that may import what `imports` provides.
/// Those for others are [`loaders_for`].
pub fn default_loaders(imports: &Arc<dyn ImportProvider>) -> Vec<Arc<dyn ExecutableLoader>> {
    loaders_for(&SecurityPolicy::trusted(), imports)
}

/// The loaders of local devices for programs under `policy`, for kernels that may import what `imports` provides.
pub fn loaders_for(policy: &SecurityPolicy, imports: &Arc<dyn ImportProvider>) -> Vec<Arc<dyn ExecutableLoader>> {
    loaders(policy, imports, None)
}

/// The same, which report to what `options` name how far the loading of kernels has come, and what was loaded.
#[cfg_attr(not(feature = "vmvx"), expect(unused_variables, reason = "machine code is loaded as it is"))]
pub(super) fn loaders(
    policy: &SecurityPolicy,
    imports: &Arc<dyn ImportProvider>,
    options: Option<&BuiltinOptions>,
) -> Vec<Arc<dyn ExecutableLoader>> {
    let mut loaders: Vec<Arc<dyn ExecutableLoader>> = Vec::new();
    if policy.native_code {
        loaders.push(Arc::new(EmbeddedElfLoader::new(imports.clone())));
        #[cfg(target_os = "linux")]
        loaders.push(Arc::new(vireo_local::SystemLibraryLoader::new(imports.clone())));
    }
    #[cfg(feature = "vmvx")]
    {
        let mut loader = VmvxLoader::default().with_limits(policy.limits.clone());
        if let Some(progress) = options.and_then(|options| options.kernel_progress.clone()) {
            loader = loader.with_progress(progress);
        }
        if let Some(loaded) = options.and_then(|options| options.loaded_kernels.clone()) {
            loader = loader.with_loaded(loaded);
        }
        loaders.push(Arc::new(loader));
    }
    loaders
}
