//! The `vmvx` module: microkernels that executables in portable bytecode call.
//!
//! Its interface is `spec/abi/modules/vmvx.yaml`. What a program passes is hostile: `view` finds the bytes that a call may touch, with
//! arithmetic that cannot wrap, before a kernel runs. The kernels in `kernels` get addresses and sizes that were checked and nothing else.
//! The loader of such executables, in `hal::local::vmvx`, makes one context with this module for each thread that runs workgroups.

mod exports;
mod kernels;
mod view;

pub use kernels::Level;

/// The module. One may serve many contexts.
#[derive(Debug)]
pub struct VmvxModule {
    level: Level,
}

impl Default for VmvxModule {
    fn default() -> VmvxModule {
        VmvxModule::with_level(Level::detect())
    }
}

impl VmvxModule {
    /// A module whose kernels use no more of the processor than `level`, or than there is.
    pub fn with_level(level: Level) -> VmvxModule {
        VmvxModule { level: level.min(Level::detect()) }
    }
}
