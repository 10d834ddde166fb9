//! The loader of executables in portable bytecode: modules whose functions are kernels, run by the VM itself with the `vmvx` module for their imports.
//!
//! A kernel gets the memory of its bindings as buffers of the VM. They are lent: whatever the program keeps of them is empty once the
//! workgroups are done. So an executable needs no trust, unlike native kernels.

mod executable;
mod kernel_context;

use std::sync::Arc;

pub use executable::VmvxExecutable;

use crate::VmvxModule;
use crate::hal::ExecutableFormat;
use crate::hal::{Executable, ExecutableCachingMode, ExecutableLoader};
use crate::limits::Charge;
use crate::limits::{Limits, Tier};
use crate::status::Result;
use crate::vm::Module;
use crate::vmfb::Archive;

/// Bytes of memory that a byte of a module counts as, once it is decoded.
const MEMORY_PER_BYTE: u64 = 16;

/// Loads executables in portable bytecode.
#[derive(Debug, Default)]
pub struct VmvxLoader {
    /// What all of them import.
    module: Arc<VmvxModule>,
    /// What their kernels may use, and what runs them.
    limits: Limits,
}

impl VmvxLoader {
    /// A loader whose executables import `module`.
    pub fn new(module: VmvxModule) -> VmvxLoader {
        VmvxLoader { module: Arc::new(module), limits: Limits::default() }
    }

    /// The same loader with another tier. Kernels run often or long, or nobody would have made kernels of them: with `Auto` they become
    /// machine code when they are loaded, as with `Compiled`. With `Traced` the interpreter runs them and reports nothing.
    pub fn with_tier(mut self, tier: Tier) -> VmvxLoader {
        self.limits.tier = tier;
        self
    }

    /// The same loader with other limits. Their tier means what it means in [`VmvxLoader::with_tier`].
    pub fn with_limits(self, limits: Limits) -> VmvxLoader {
        VmvxLoader { limits, ..self }
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
        let vmvx = Module::native_shared(self.module.clone())?;
        let mut limits = self.limits.clone();
        limits.tier = match limits.tier {
            Tier::Auto if Tier::Compiled.check().is_ok() => Tier::Compiled,
            // What is traced is the program. A kernel runs once for each of many workgroups.
            Tier::Traced => Tier::Interpreter,
            tier => tier,
        };
        let charge = Charge::of_call(MEMORY_PER_BYTE * data.len() as u64, "an executable")?;
        let executable = Module::from_bytes(data)
            .and_then(|module| VmvxExecutable::new(vmvx, module, constants, limits, charge))
            .map_err(|status| status.context(format!("executable `{format}`")))?;
        Ok(Arc::new(executable))
    }
}
