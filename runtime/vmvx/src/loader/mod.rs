//! The loader of executables in portable bytecode: modules whose exports are kernels, which the VM runs with the `vmvx`
//! module for their imports. Local devices have it among their loaders.
//!
//! A kernel gets the memory of its bindings as VM buffers on loan: references that it keeps are to empty buffers once
//! the workgroups have run. So, unlike native kernels, executables need not be trusted.

mod executable;
mod kernel_context;
mod loaded_kernels;
mod shared_modules;

use std::sync::Arc;

pub use executable::VmvxExecutable;
pub use loaded_kernels::LoadedKernels;

use self::shared_modules::SharedModules;
use crate::VmvxModule;
use crate::background;
use crate::hal::ExecutableFormat;
use crate::hal::{Executable, ExecutableCachingMode, ExecutableLoader, Progress, report_count};
use crate::limits::Charge;
use crate::limits::{DispatchMode, Limits, Tier};
use crate::status::Result;
use crate::vm::{LinkedModules, Module};
use crate::vmfb::Archive;
use vireo_vm::interp::CodeShape;

/// Bytes of memory that are charged for each byte of a module, which is larger once it is decoded.
const MEMORY_PER_BYTE: u64 = 16;

/// Loads executables in portable bytecode.
#[derive(Debug, Default)]
pub struct VmvxLoader {
    /// The module that all of them import.
    module: Arc<VmvxModule>,
    /// The limits of their kernels, and the tier that runs them.
    limits: Limits,
    /// The listener that is told how far the verification and the compilation of kernels have come.
    progress: Option<Arc<dyn Progress>>,
    /// The list that each executable is added to.
    loaded: Option<Arc<LoadedKernels>>,
    /// Modules that executables of the same bytes share.
    shared: SharedModules,
}

impl VmvxLoader {
    /// A loader whose executables import `module`.
    pub fn new(module: VmvxModule) -> VmvxLoader {
        VmvxLoader { module: Arc::new(module), ..VmvxLoader::default() }
    }

    /// The same loader with another tier. Kernels run often or long, so with `Auto` they are compiled when they are
    /// loaded: by another thread, and by those that run one before. With `Compiled` loading them takes until they are
    /// compiled, and so it does with `Auto` where there is one processor only. With `Traced` the interpreter runs them
    /// and reports nothing.
    pub fn with_tier(mut self, tier: Tier) -> VmvxLoader {
        self.limits.tier = tier;
        self
    }

    /// The same loader with other limits. Their tier means what it means in [`VmvxLoader::with_tier`].
    pub fn with_limits(self, limits: Limits) -> VmvxLoader {
        VmvxLoader { limits, ..self }
    }

    /// The same loader, which reports to `progress` how far it has come: each byte of bytecode counts once when it is
    /// verified, and once more when it is compiled, if loading takes until then.
    pub fn with_progress(self, progress: Arc<dyn Progress>) -> VmvxLoader {
        VmvxLoader { progress: Some(progress), ..self }
    }

    /// The same loader, which adds each executable to `loaded`.
    pub fn with_loaded(self, loaded: Arc<LoadedKernels>) -> VmvxLoader {
        VmvxLoader { loaded: Some(loaded), ..self }
    }
}

impl VmvxLoader {
    /// Verifies a module, and links it.
    fn linked(&self, data: &[u8]) -> Result<LinkedModules> {
        let archive = Archive::from_bytes(data)?;
        let mut module = match self.progress.as_deref() {
            Some(progress) => Module::from_archive_with(archive, report_count(progress))?,
            None => Module::from_archive(archive)?,
        };
        module.set_code_shape(CodeShape::KERNELS);
        LinkedModules::new([Module::native_shared(self.module.clone())?, module])
    }
}

impl ExecutableLoader for VmvxLoader {
    fn infer_format(&self, _caching_mode: ExecutableCachingMode, data: &[u8]) -> Result<String> {
        Archive::from_bytes(data)?;
        Ok(ExecutableFormat::VmvxBytecode.name().to_string())
    }

    fn supports(&self, _caching_mode: ExecutableCachingMode, format: &str) -> bool {
        format == ExecutableFormat::VmvxBytecode.name()
    }

    fn load(
        &self,
        _caching_mode: ExecutableCachingMode,
        format: &str,
        data: &[u8],
        constants: &[u32],
    ) -> Result<Arc<dyn Executable>> {
        let mut limits = self.limits.clone();
        limits.tier = match limits.tier {
            Tier::Auto if Tier::Compiled.check().is_ok() => {
                if limits.dispatch == DispatchMode::Auto && background::is_available() {
                    limits.dispatch = DispatchMode::Kernels;
                    Tier::Auto
                } else {
                    Tier::Compiled
                }
            }
            // Tracing is for the program: a kernel runs once for each of many workgroups.
            Tier::Traced => Tier::Interpreter,
            tier => tier,
        };
        let charge = Charge::of_call(MEMORY_PER_BYTE * data.len() as u64, "an executable")?;
        let progress = self.progress.as_deref();
        // A loader with progress shows that of each executable.
        let shared = if progress.is_none() { self.shared.find(data) } else { None };
        let executable = shared
            .map_or_else(|| self.linked(data), Ok)
            .and_then(|linked| VmvxExecutable::new(linked, constants, limits, progress, charge))
            .map_err(|status| status.context(format!("executable `{format}`")))?;
        let executable = Arc::new(executable);
        self.shared.add(&executable);
        if let Some(loaded) = &self.loaded {
            loaded.add(&executable);
        }
        Ok(executable)
    }
}
