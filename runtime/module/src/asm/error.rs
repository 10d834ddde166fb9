//! Errors of the assembler, and where in the text they are.

use thiserror::Error;

/// A location in the text, counted from 1; columns are characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Location {
    /// The line.
    pub line: u32,
    /// The character in the line.
    pub column: u32,
}

/// An error of the assembler.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{}:{}: {message}", location.line, location.column)]
pub struct AsmError {
    /// Where the text is wrong.
    pub location: Location,
    /// The text that was found, and what was expected.
    pub message: String,
}

/// An error at `location`.
pub(super) fn at<T>(location: Location, message: impl Into<String>) -> Result<T, AsmError> {
    Err(AsmError { location, message: message.into() })
}
