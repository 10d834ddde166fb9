//! Code objects: the ELF files that the loader of the HSA library loads. [`CodeObject`] reads the target of the code
//! and the kernels' metadata; it loads nothing.

use std::collections::HashMap;

use crate::code_object::{
    CODE_OBJECT_OS_ABI, CodeObjectVersion, KERNEL_GROUP_SIZE, KERNEL_KERNARG_SIZE, KERNEL_PRIVATE_SIZE,
    METADATA_NOTE_NAME, METADATA_NOTE_TYPE,
};
use crate::kernel_descriptor::KernelDescriptor;
use object::read::elf::ElfFile64;
use object::{LittleEndian, Object, ObjectSection, ObjectSymbol};

use super::metadata::{self, Kernel, MetadataError};
use crate::Status;
use crate::generated::elf::{
    ELF_MAGIC, ElfClass, ElfData, ElfMachine, FileHeader, NoteHeader, ProgramHeader, SegmentType,
};
use crate::target::{TargetError, TargetId};

/// Most bytes of metadata: some kilobytes describe a kernel.
const MAX_METADATA: usize = 16 << 20;

/// A refused code object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodeObjectError {
    /// Bytes that a header refers to are not in the file.
    #[error("code object: {what} at file offset {at:#x} is not in the file, which has {length} bytes")]
    Truncated {
        /// The part that should be there.
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
    #[error("code object: version {0} of the ABI in the file header, expected {first} to {last} (code object versions 4 to 6)",
        first = CodeObjectVersion::V4.0, last = CodeObjectVersion::V6.0)]
    Version(u8),
    /// The processor is unknown.
    #[error("code object: {0}")]
    Target(#[from] TargetError),
    /// There is no note with metadata.
    #[error("code object: there is no note with metadata")]
    NoMetadata,
    /// The metadata are too long.
    #[error("code object: {0} bytes of metadata, expected at most {MAX_METADATA}")]
    MetadataLength(usize),
    /// The symbols cannot be read.
    #[error("code object: symbols: {0}")]
    Symbols(String),
    /// There is no descriptor of a kernel.
    #[error("code object: kernel `{kernel}`: there is no descriptor `{symbol}` among the dynamic symbols")]
    NoDescriptor {
        /// Its name.
        kernel: String,
        /// The symbol of its descriptor.
        symbol: String,
    },
    /// The descriptor of a kernel contradicts the metadata.
    #[error(
        "code object: kernel `{kernel}`: its descriptor in section `{section}` has {descriptor} as `{field}`, and the metadata have {metadata} as `{key}`"
    )]
    Descriptor {
        /// Its name.
        kernel: String,
        /// The section with its descriptor.
        section: String,
        /// The field of the descriptor.
        field: &'static str,
        /// Its value.
        descriptor: u32,
        /// The key of the metadata.
        key: &'static str,
        /// Its value.
        metadata: u32,
    },
    /// The metadata are malformed.
    #[error("code object: metadata: {0}")]
    Metadata(#[from] MetadataError),
}

impl From<CodeObjectError> for Status {
    fn from(error: CodeObjectError) -> Status {
        Status::invalid_argument(error.to_string())
    }
}

/// The description that a code object has of itself.
#[derive(Clone, Debug)]
pub struct CodeObject {
    /// The target of its code.
    pub target: TargetId,
    /// Its kernels.
    pub kernels: Vec<Kernel>,
}

/// `length` bytes at `at`.
fn range<'a>(bytes: &'a [u8], at: u64, length: u64, what: &'static str) -> Result<&'a [u8], CodeObjectError> {
    let start = usize::try_from(at).ok();
    let end = at.checked_add(length).and_then(|end| usize::try_from(end).ok());
    let range = start.zip(end).and_then(|(start, end)| bytes.get(start..end));
    range.ok_or(CodeObjectError::Truncated { what, at, length: bytes.len() })
}

/// `N` bytes at `at`.
fn array<'a, const N: usize>(bytes: &'a [u8], at: u64, what: &'static str) -> Result<&'a [u8; N], CodeObjectError> {
    let range = range(bytes, at, N as u64, what)?;
    range.first_chunk().ok_or(CodeObjectError::Truncated { what, at, length: bytes.len() })
}

/// Whether a file begins like an ELF file.
pub fn is_elf(bytes: &[u8]) -> bool {
    bytes.starts_with(&ELF_MAGIC.to_le_bytes())
}

impl CodeObject {
    /// Reads the header and the metadata.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn read(bytes: &[u8]) -> Result<CodeObject, CodeObjectError> {
        let header = FileHeader::read(array(bytes, 0, "the file header")?);
        let expected = [
            ("magic", u64::from(header.magic), u64::from(ELF_MAGIC)),
            ("class", header.class.into(), ElfClass::BITS_64.0.into()),
            ("data", header.data.into(), ElfData::LITTLE.0.into()),
            ("machine", header.machine.into(), ElfMachine::AMDGPU.0.into()),
            ("os_abi", header.os_abi.into(), CODE_OBJECT_OS_ABI.into()),
            ("segment_size", header.segment_size.into(), ProgramHeader::SIZE as u64),
        ];
        for (field, value, expected) in expected {
            if value != expected {
                return Err(CodeObjectError::Header { field, value, expected });
            }
        }
        if CodeObjectVersion(header.abi_version).name().is_none() {
            return Err(CodeObjectError::Version(header.abi_version));
        }
        let target = TargetId::of_elf_flags(header.flags)?;
        for index in 0..u64::from(header.segment_count) {
            let at = header.segments_offset.saturating_add(index * ProgramHeader::SIZE as u64);
            let segment = ProgramHeader::read(array(bytes, at, "a program header")?);
            if SegmentType(segment.segment_type) != SegmentType::NOTE {
                continue;
            }
            let notes = range(bytes, segment.offset, segment.file_size, "a segment of notes")?;
            if let Some(contents) = metadata_note(notes, segment.offset)? {
                let kernels = metadata::read(contents)?;
                check_descriptors(bytes, &kernels)?;
                return Ok(CodeObject { target, kernels });
            }
        }
        Err(CodeObjectError::NoMetadata)
    }
}

/// Checks the descriptors of kernels, which the packet processor reads, against the metadata, which packets are made
/// from.
fn check_descriptors(bytes: &[u8], kernels: &[Kernel]) -> Result<(), CodeObjectError> {
    let symbols = |error: object::Error| CodeObjectError::Symbols(error.to_string());
    let file = ElfFile64::<LittleEndian>::parse(bytes).map_err(symbols)?;
    let mut descriptors = HashMap::new();
    for symbol in file.dynamic_symbols().filter(|symbol| symbol.is_definition()) {
        descriptors.insert(symbol.name_bytes().map_err(symbols)?, symbol);
    }
    for kernel in kernels {
        let missing = || CodeObjectError::NoDescriptor { kernel: kernel.name.clone(), symbol: kernel.symbol.clone() };
        let symbol = descriptors.get(kernel.symbol.as_bytes()).ok_or_else(missing)?;
        let section = symbol.section_index().ok_or_else(missing)?;
        let section = file.section_by_index(section).map_err(symbols)?;
        let data = section.data_range(symbol.address(), KernelDescriptor::SIZE as u64).map_err(symbols)?;
        let descriptor = KernelDescriptor::read(data.and_then(<[u8]>::first_chunk).ok_or_else(missing)?);
        let fields = [
            ("kernarg_size", descriptor.kernarg_size, KERNEL_KERNARG_SIZE, kernel.kernarg_size),
            ("group_segment_fixed_size", descriptor.group_segment_fixed_size, KERNEL_GROUP_SIZE, kernel.group_size),
            (
                "private_segment_fixed_size",
                descriptor.private_segment_fixed_size,
                KERNEL_PRIVATE_SIZE,
                kernel.private_size,
            ),
        ];
        for (field, descriptor, key, metadata) in fields {
            // Assemblers that are not told the size of the arguments leave it out.
            if descriptor != metadata && (descriptor != 0 || field != "kernarg_size") {
                let (kernel, section) = (kernel.name.clone(), section.name().unwrap_or_default().to_string());
                return Err(CodeObjectError::Descriptor { kernel, section, field, descriptor, key, metadata });
            }
        }
    }
    Ok(())
}

/// The contents of the note with metadata, if it is among `notes`, which are at `origin` in the file.
fn metadata_note(notes: &[u8], origin: u64) -> Result<Option<&[u8]>, CodeObjectError> {
    let mut at = 0;
    while at + NoteHeader::SIZE as u64 <= notes.len() as u64 {
        let inside = |error: CodeObjectError| match error {
            CodeObjectError::Truncated { what, at, length } => {
                CodeObjectError::Truncated { what, at: origin.saturating_add(at), length }
            }
            other => other,
        };
        let note = NoteHeader::read(array(notes, at, "a note").map_err(inside)?);
        let name_at = at + NoteHeader::SIZE as u64;
        let name = range(notes, name_at, note.name_size.into(), "the name of a note").map_err(inside)?;
        let content_at = name_at + u64::from(note.name_size).next_multiple_of(4);
        let content =
            range(notes, content_at, note.description_size.into(), "the contents of a note").map_err(inside)?;
        let is_named = name.strip_suffix(&[0]).is_some_and(|name| name == METADATA_NOTE_NAME.as_bytes());
        if is_named && note.note_type == METADATA_NOTE_TYPE {
            if content.len() > MAX_METADATA {
                return Err(CodeObjectError::MetadataLength(content.len()));
            }
            return Ok(Some(content));
        }
        // At least the header of the note is skipped, so this ends.
        at = content_at + u64::from(note.description_size).next_multiple_of(4);
    }
    Ok(None)
}
