//! Results: an HSA status for the error of a function, a status with a reason for what stops a queue.

use vireo_hsa::hsa::HsaStatus;

/// The result of what a function of the library does.
pub(crate) type Result<T> = std::result::Result<T, HsaStatus>;

/// The status of a result.
pub(crate) fn code(result: Result<()>) -> HsaStatus {
    result.err().unwrap_or(HsaStatus::SUCCESS)
}

/// Why a queue stops.
#[derive(Debug)]
pub(crate) struct Failure {
    /// What programs are told.
    pub(crate) status: HsaStatus,
    /// What is written to the standard error stream.
    pub(crate) what: String,
    /// The address that a kernel may not access.
    pub(crate) fault: Option<u64>,
}

impl Failure {
    pub(crate) fn new(status: HsaStatus, what: impl Into<String>) -> Self {
        Failure { status, what: what.into(), fault: None }
    }
}
