//! The `vmvx` module: the microkernels as functions that executables in portable bytecode import.
//!
//! Its interface is `spec/abi/modules/vmvx.yaml`. The loader makes one context with this module for each thread that
//! runs workgroups.

mod exports;

use super::kernels::SimdLevel;

/// The module. One may serve many contexts.
#[derive(Debug)]
pub struct VmvxModule {
    limit: SimdLevel,
}

impl Default for VmvxModule {
    fn default() -> VmvxModule {
        VmvxModule::with_level(SimdLevel::MAX)
    }
}

impl VmvxModule {
    /// A module whose kernels use at most `level`, and at most what the processor has.
    pub fn with_level(level: SimdLevel) -> VmvxModule {
        VmvxModule { limit: level }
    }

    /// Instructions that kernels use. The processor is asked at the first kernel, since many programs have none.
    fn level(&self) -> SimdLevel {
        self.limit.min(SimdLevel::detect())
    }
}
