//! Code objects: the ELF files that the loader of the HSA library loads. [`CodeObject`] reads the target of the code and the kernels' metadata; it
//! loads nothing.

use vireo_hsa::code_object::{CODE_OBJECT_OS_ABI, METADATA_NOTE_NAME, METADATA_NOTE_TYPE};

use super::metadata::{self, Kernel, MetadataError};
use crate::hal::elf_format::{
    ELF_MAGIC, ElfClass, ElfData, ElfMachine, FileHeader, NoteHeader, ProgramHeader, SegmentType,
};
use crate::status::Status;
use crate::target::{TargetError, TargetId};

/// Most bytes of metadata: some kilobytes describe a kernel.
const MAX_METADATA: usize = 16 << 20;

/// A refused code object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodeObjectError {
    /// Bytes that a header refers to are not in the file.
    #[error("code object: {what} at file offset {at:#x} is not in the file, which has {length} bytes")]
    Truncated {
        /// What should be there.
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
        /// What code objects have.
        expected: u64,
    },
    /// The processor is unknown.
    #[error("code object: {0}")]
    Target(#[from] TargetError),
    /// There is no note with metadata.
    #[error("code object: there is no note with metadata")]
    NoMetadata,
    /// The metadata are too long.
    #[error("code object: {0} bytes of metadata, expected at most {MAX_METADATA}")]
    MetadataLength(usize),
    /// The metadata are malformed.
    #[error("code object: metadata: {0}")]
    Metadata(#[from] MetadataError),
}

impl From<CodeObjectError> for Status {
    fn from(error: CodeObjectError) -> Status {
        Status::invalid_argument(error.to_string())
    }
}

/// What a code object says of itself.
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
pub(super) fn is_elf(bytes: &[u8]) -> bool {
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
        let target = TargetId::of_elf_flags(header.flags)?;
        for index in 0..u64::from(header.segment_count) {
            let at = header.segments_offset.saturating_add(index * ProgramHeader::SIZE as u64);
            let segment = ProgramHeader::read(array(bytes, at, "a program header")?);
            if SegmentType(segment.segment_type) != SegmentType::NOTE {
                continue;
            }
            let notes = range(bytes, segment.offset, segment.file_size, "a segment of notes")?;
            if let Some(contents) = metadata_note(notes, segment.offset)? {
                return Ok(CodeObject { target, kernels: metadata::read(contents)? });
            }
        }
        Err(CodeObjectError::NoMetadata)
    }
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
