//! The checks of kernels on software GPUs ([`SanitizerChecks`]).

/// The checks that the sanitizer of the software agent and the software CUDA driver makes of accesses of kernels.
/// `vireo::gpu::take_reports` returns what it finds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SanitizerChecks {
    /// Accesses out of bounds, and to freed memory.
    pub memory: bool,
    /// Data races of waves, work-groups and queues.
    pub race: bool,
    /// Data races that change nothing, since all stores leave the same bytes. They are found where `race` is on.
    pub race_same_value: bool,
    /// Loads of what was never written.
    pub init: bool,
}

impl SanitizerChecks {
    /// True if something is checked.
    pub fn any(self) -> bool {
        self.memory || self.race || self.race_same_value || self.init
    }
}

/// The findings of the sanitizer since the last call.
#[cfg(feature = "software-agents")]
pub fn take_reports() -> Vec<vireo_softhsa::sanitize::Report> {
    vireo_softhsa::take_reports().into_iter().chain(vireo_softcuda::take_reports()).collect()
}

/// The limits of the sanitizer that were reached since the last call.
#[cfg(feature = "software-agents")]
pub fn take_warnings() -> Vec<vireo_softhsa::sanitize::Warning> {
    vireo_softhsa::take_warnings().into_iter().chain(vireo_softcuda::take_warnings()).collect()
}
