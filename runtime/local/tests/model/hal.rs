//! The crate `vireo-hal` as the driver uses it, but for the memory of work-groups, which is that of a thread of the
//! system.

pub(crate) use vireo_hal::*;

pub(crate) mod host_kernels {
    /// Memory that no tile of the model uses.
    pub(crate) struct WorkgroupMemory;

    impl WorkgroupMemory {
        pub(crate) fn with<R>(run: impl FnOnce(&mut WorkgroupMemory) -> R) -> R {
            run(&mut WorkgroupMemory)
        }
    }
}
