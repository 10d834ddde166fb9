//! [`VerifyError`]: why the decoder or the verifier refuses a function. Sessions turn it into a status with the place
//! in the file.

use std::fmt;

use crate::status::Status;

/// Why a function was refused, and at which byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifyError {
    /// Ordinal of the function in its module.
    pub function: u32,
    /// Offset from the start of the function of the op that is wrong.
    pub offset: u32,
    /// The fault, and what was expected.
    pub message: String,
}

impl fmt::Display for VerifyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "function {} at {:#06x}: {}", self.function, self.offset, self.message)
    }
}

impl std::error::Error for VerifyError {}

impl From<VerifyError> for Status {
    fn from(error: VerifyError) -> Self {
        Status::invalid_argument(error.to_string())
    }
}
