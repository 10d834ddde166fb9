//! The `vmvx` module: the microkernels as functions that executables in portable bytecode import.
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
    /// A module whose kernels use at most `level`, and at most what the processor has.
    pub fn with_level(level: SimdLevel) -> VmvxModule {
        VmvxModule { level: level.min(SimdLevel::detect()) }
    }
}
