//! The parts of an ELF file, read with checks: ranges of its bytes, tables of records, and strings.

use super::error::{CodeObjectError, MAX_NAME};
use crate::generated::elf::{SectionIndex, Symbol as RawSymbol, SymbolType};

type Result<T> = std::result::Result<T, CodeObjectError>;

/// `length` bytes at the file offset `at`.
pub(super) fn range<'a>(bytes: &'a [u8], at: u64, length: u64, what: &'static str) -> Result<&'a [u8]> {
    let start = usize::try_from(at).ok();
    let end = at.checked_add(length).and_then(|end| usize::try_from(end).ok());
    let range = start.zip(end).and_then(|(start, end)| bytes.get(start..end));
    range.ok_or(CodeObjectError::Truncated { what, at, length: bytes.len() })
}

/// `N` bytes at the file offset `at`.
pub(super) fn array<'a, const N: usize>(bytes: &'a [u8], at: u64, what: &'static str) -> Result<&'a [u8; N]> {
    let range = range(bytes, at, N as u64, what)?;
    range.first_chunk().ok_or(CodeObjectError::Truncated { what, at, length: bytes.len() })
}

/// The text at an offset of a string table, up to its zero.
pub(super) fn text(names: &[u8], at: u32) -> Option<&str> {
    let rest = names.get(at as usize..)?;
    let end = rest.iter().take(MAX_NAME + 1).position(|byte| *byte == 0)?;
    std::str::from_utf8(&rest[..end]).ok()
}

/// The kind of thing that a symbol names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SymbolKind {
    /// Data, such as a variable or a kernel's descriptor.
    Data,
    /// Code.
    Code,
    /// Something else.
    Other,
}

/// A symbol that the file defines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Symbol<'a> {
    /// Its name.
    pub name: &'a str,
    /// The address in the file's own addresses.
    pub address: u64,
    /// Bytes; zero if that is not said.
    pub size: u64,
    /// The kind of thing that it names.
    pub kind: SymbolKind,
}

/// The symbols of a table that are defined, with their names in `names`.
pub(super) fn symbols<'a>(table: &[[u8; RawSymbol::SIZE]], names: &'a [u8]) -> Result<Vec<Symbol<'a>>> {
    let mut symbols = Vec::new();
    for (index, raw) in table.iter().map(RawSymbol::read).enumerate() {
        if raw.section == SectionIndex::UNDEFINED.0 {
            continue;
        }
        let name = text(names, raw.name).ok_or(CodeObjectError::SymbolName { index, at: raw.name })?;
        // The upper half is the binding.
        let kind = match SymbolType(raw.info & 0xf) {
            SymbolType::OBJECT => SymbolKind::Data,
            SymbolType::FUNCTION => SymbolKind::Code,
            _ => SymbolKind::Other,
        };
        symbols.push(Symbol { name, address: raw.value, size: raw.size, kind });
    }
    Ok(symbols)
}
