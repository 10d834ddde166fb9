//! The `vmvx` module: microkernels that executables in portable bytecode call.
//!
//! Its interface is `spec/abi/modules/vmvx.yaml`. The loader makes one context with this module for each thread that runs workgroups.

mod exports;

use super::kernels::SimdLevel;

/// The module. One may serve many contexts.
#[derive(Debug)]
pub struct VmvxModule {
    level: SimdLevel,
}

impl Default for VmvxModule {
    fn default() -> VmvxModule {
        VmvxModule::with_level(SimdLevel::detect())
    }
}

impl VmvxModule {
    /// A module whose kernels use no more of the processor than `level`, or than there is.
    pub fn with_level(level: SimdLevel) -> VmvxModule {
        VmvxModule { level: level.min(SimdLevel::detect()) }
    }
}
