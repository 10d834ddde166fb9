//! Errors of loading a module, with the line that they are about.

use std::fmt;

/// The kind of an error, by which drivers choose a code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LoadErrorKind {
    /// The text is no PTX, or a program that is not right.
    Invalid,
    /// The version of the instruction set is not known, or has not what is used.
    Version,
    /// The target has not what is used.
    Target,
    /// Something that this implementation has not.
    Unsupported,
    /// A symbol that is nowhere defined.
    Unresolved,
}

/// Why a text was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadError {
    /// Its kind.
    pub kind: LoadErrorKind,
    /// The line, from 1 on.
    pub line: u32,
    /// The mistake, and what was expected.
    pub message: String,
}

impl LoadError {
    pub(crate) fn new(kind: LoadErrorKind, line: u32, message: impl Into<String>) -> Self {
        LoadError { kind, line, message: message.into() }
    }

    pub(crate) fn invalid(line: u32, message: impl Into<String>) -> Self {
        Self::new(LoadErrorKind::Invalid, line, message)
    }

    pub(crate) fn unsupported(line: u32, message: impl Into<String>) -> Self {
        Self::new(LoadErrorKind::Unsupported, line, message)
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

impl std::error::Error for LoadError {}
