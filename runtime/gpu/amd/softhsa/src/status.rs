//! Results: an HSA status for the error of a function, a status with a reason for what stops a queue. Messages for what
//! a status does not say.

use std::fmt;
use std::io::Write;

use vireo_hsa::hsa::HsaStatus;

/// The result of what a function of the library does.
pub(crate) type Result<T> = std::result::Result<T, HsaStatus>;

/// The status of a result.
pub(crate) fn code(result: Result<()>) -> HsaStatus {
    result.err().unwrap_or(HsaStatus::SUCCESS)
}

/// Writes a message to the standard error stream. `eprintln` would panic where that stream is closed, which ends a
/// packet processor without a word to its program, or the process in a function of C.
pub(crate) fn tell(message: fmt::Arguments<'_>) {
    let _ = writeln!(std::io::stderr(), "softhsa: {message}");
}

/// Why a queue stops.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The status that programs get.
    pub(crate) status: HsaStatus,
    /// The text that is written to the standard error stream.
    pub(crate) what: String,
    /// The address that a kernel may not access.
    pub(crate) fault: Option<u64>,
}

impl Failure {
    pub(crate) fn new(status: HsaStatus, what: impl Into<String>) -> Self {
        Failure { status, what: what.into(), fault: None }
    }
}
