//! The errors of [`super::CodeObject`]: each names where in the file it is, and what should be there.

use super::message_pack::MetadataError;
use crate::Status;
use crate::code_object::CodeObjectVersion;
use crate::target::TargetError;

/// Most bytes of metadata: some kilobytes describe a kernel.
pub(super) const MAX_METADATA: usize = 16 << 20;

/// Most program headers: linkers write about ten, and each is read on its own.
pub(super) const MAX_SEGMENTS: u16 = 256;

/// Most bytes of the name of a symbol, so that many symbols with one name take no longer than the file is long.
pub(super) const MAX_NAME: usize = 1 << 14;

/// A refused code object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodeObjectError {
    /// Bytes that the file refers to are not in it.
    #[error("code object: {what} at file offset {at:#x} is not in the file, which has {length} bytes")]
    Truncated {
        /// The part of the file that should be there.
        what: &'static str,
        /// Its offset.
        at: u64,
        /// Bytes of the file.
        length: usize,
    },
    /// The file is for something else than an AMD GPU with HSA.
    #[error("code object: {field} is {value:#x}, expected {expected:#x}")]
    Header {
        /// The field of the ELF header.
        field: &'static str,
        /// Its value.
        value: u64,
        /// The value that code objects have.
        expected: u64,
    },
    /// The version has other flags, or is not known.
    #[error(
        "code object: version {0} of the ABI in the file header, expected {first} to {last} (code object versions \
         4 to 6)",
        first = CodeObjectVersion::V4.0, last = CodeObjectVersion::V6.0
    )]
    Version(u8),
    /// There are too many program headers.
    #[error("code object: {0} program headers, expected at most {MAX_SEGMENTS}")]
    SegmentCount(u16),
    /// The processor is unknown.
    #[error("code object: {0}")]
    Target(#[from] TargetError),
    /// A segment is longer in the file than in memory.
    #[error(
        "code object: the segment at {address:#x} has {in_file} bytes in the file, expected at most {in_memory}, as in \
         memory"
    )]
    SegmentLength {
        /// Its address.
        address: u64,
        /// Bytes in the file.
        in_file: u64,
        /// Bytes in memory.
        in_memory: u64,
    },
    /// Nothing in the file is loaded to an address.
    #[error("code object: {what} at address {address:#x} is in no segment that the file has bytes of")]
    Unloaded {
        /// The part of the file that should be there.
        what: &'static str,
        /// The address.
        address: u64,
    },
    /// The dynamic table does not say where the symbols are.
    #[error("code object: the dynamic table at file offset {at:#x} has no entry for {what}")]
    Dynamic {
        /// Its offset.
        at: u64,
        /// The table that it lacks.
        what: &'static str,
    },
    /// There are fewer symbols than their hash table says.
    #[error("code object: {there} symbols at {at:#x}, expected {expected}")]
    SymbolCount {
        /// The address or the offset of the table.
        at: u64,
        /// Symbols that are there.
        there: usize,
        /// Symbols that should be.
        expected: u64,
    },
    /// A symbol has no name.
    #[error(
        "code object: symbol {index}: its name at byte {at} of the string table is no text of at most {MAX_NAME} bytes"
    )]
    SymbolName {
        /// Its number.
        index: usize,
        /// The offset of the name.
        at: u32,
    },
    /// There is no note with metadata.
    #[error("code object: there is no note with metadata")]
    NoMetadata,
    /// The metadata are too long.
    #[error("code object: {0} bytes of metadata, expected at most {MAX_METADATA}")]
    MetadataLength(usize),
    /// The metadata are malformed.
    #[error("code object: metadata at file offset {origin:#x}: {error}")]
    Metadata {
        /// The offset of the metadata.
        origin: u64,
        /// The error in them.
        error: MetadataError,
    },
    /// The metadata are for another processor than the header.
    #[error("code object: the target of the metadata is `{found}`, and the file header is for `{expected}`")]
    MetadataTarget {
        /// The target in the metadata; empty if they have none.
        found: String,
        /// The processor of the header.
        expected: &'static str,
    },
    /// There is no descriptor of a kernel.
    #[error("code object: kernel `{kernel}`: there is no descriptor `{symbol}` among the dynamic symbols")]
    NoDescriptor {
        /// Its name.
        kernel: String,
        /// The symbol of its descriptor.
        symbol: String,
    },
    /// A descriptor is where none can be, or its code is.
    #[error("code object: `{symbol}`: {what} is at address {address:#x}, expected {expected}")]
    Place {
        /// The symbol of the descriptor.
        symbol: String,
        /// The descriptor, or the first instruction.
        what: &'static str,
        /// Its address.
        address: u64,
        /// Where it should be.
        expected: &'static str,
    },
    /// The descriptor of a kernel contradicts the metadata.
    #[error(
        "code object: kernel `{kernel}`: its descriptor at address {address:#x} has {descriptor} as `{field}`, and the \
         metadata have {metadata} as `{key}`"
    )]
    Descriptor {
        /// Its name.
        kernel: String,
        /// The address of its descriptor.
        address: u64,
        /// The field of the descriptor.
        field: &'static str,
        /// Its value.
        descriptor: u32,
        /// The key of the metadata.
        key: &'static str,
        /// Its value.
        metadata: u32,
    },
}

impl From<CodeObjectError> for Status {
    fn from(error: CodeObjectError) -> Status {
        Status::invalid_argument(error.to_string())
    }
}
