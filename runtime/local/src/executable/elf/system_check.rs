//! Checks of a system library's headers before the dynamic loader opens it, which trusts its files.

use super::error::ElfError;
use super::machine;
use super::parse::program_headers;
use crate::hal::elf_format::{SegmentFlags, SegmentType};

/// Checks that a file is a shared object for this machine, that all of its segments are within the file, and that none
/// is both writable and executable. The dynamic loader would map segments past the end of the file, and accessing them
/// would kill the process.
pub(crate) fn check(bytes: &[u8]) -> Result<(), ElfError> {
    let headers = program_headers(bytes, machine::HOST)?;
    for (at, header) in &headers {
        let (flags, kind) = (SegmentFlags::from_bits_retain(header.flags), SegmentType(header.segment_type));
        let end = header.offset.checked_add(header.file_size);
        if end.is_none_or(|end| end > bytes.len() as u64) {
            return Err(ElfError::Truncated {
                at: header.offset,
                what: "a segment",
                length: header.file_size,
                file: bytes.len() as u64,
            });
        }
        if kind == SegmentType::LOAD && flags.contains(SegmentFlags::WRITE | SegmentFlags::EXECUTE) {
            return Err(ElfError::value(*at, "flags", header.flags.into(), "writable or executable, not both"));
        }
    }
    for (kind, what) in [(SegmentType::LOAD, "segment to load"), (SegmentType::DYNAMIC, "dynamic table")] {
        if !headers.iter().any(|(_, header)| header.segment_type == kind.0) {
            return Err(ElfError::Missing(what));
        }
    }
    Ok(())
}
