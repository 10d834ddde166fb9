//! Errors of the ELF loader: what is wrong with a file, where, and what was expected.

use std::borrow::Cow;

use crate::status::Status;

/// A refused ELF file.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ElfError {
    /// Bytes that a header refers to are not in the file.
    #[error("ELF at file offset {at:#x}: {what} needs {length} bytes, but the file has {file} bytes")]
    Truncated {
        /// File offset of the bytes that are missing.
        at: u64,
        /// The structure that should be there.
        what: &'static str,
        /// How long it is.
        length: u64,
        /// Length of the file.
        file: u64,
    },
    /// A field has an invalid value.
    #[error("ELF at file offset {at:#x}: {field} is {value:#x}, expected {expected}")]
    Value {
        /// File offset of the header that has the field.
        at: u64,
        /// The field.
        field: &'static str,
        /// Its value.
        value: u64,
        /// The accepted values.
        expected: Cow<'static, str>,
    },
    /// An entry of a loaded table has an invalid value.
    #[error("ELF at address {address:#x}: {field} is {value:#x}, expected {expected}")]
    Entry {
        /// Address of the entry.
        address: u64,
        /// The field.
        field: &'static str,
        /// Its value.
        value: u64,
        /// The accepted value.
        expected: &'static str,
    },
    /// An address or a range of addresses is outside the loaded segments.
    #[error("ELF at address {address:#x}: {what} of {length} bytes is not within the loaded segments")]
    Address {
        /// The address.
        address: u64,
        /// The structure that should be there.
        what: &'static str,
        /// How long it is.
        length: u64,
    },
    /// A required part is missing.
    #[error("ELF has no {0}")]
    Missing(&'static str),
    /// A symbol that another library would define.
    #[error("ELF imports the symbol `{0}`: embedded libraries must not depend on others")]
    Import(String),
    /// A feature that is not supported.
    #[error("ELF: {0} is not supported")]
    Unsupported(String),
    /// A relocation whose value does not fit. The value is not shown, since it would reveal where the library was
    /// mapped.
    #[error("ELF relocation {kind} at address {address:#x}: the value does not fit 32 bits")]
    Overflow {
        /// Address that it applies to.
        address: u64,
        /// Type of the relocation.
        kind: &'static str,
    },
    /// Memory could not be mapped or protected.
    #[error("ELF: {0}")]
    Memory(Status),
}

impl ElfError {
    pub(super) fn value(at: u64, field: &'static str, value: u64, expected: impl Into<Cow<'static, str>>) -> ElfError {
        ElfError::Value { at, field, value, expected: expected.into() }
    }
}

impl From<ElfError> for Status {
    fn from(error: ElfError) -> Status {
        let message = error.to_string();
        match error {
            ElfError::Memory(status) => status.context("loading an ELF library"),
            ElfError::Unsupported(_) => Status::unimplemented(message),
            ElfError::Import(_) => Status::new(crate::status::StatusCode::Unavailable, message),
            _ => Status::failed_precondition(message),
        }
    }
}
