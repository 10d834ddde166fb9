//! The ELF file of a code object: checks its headers, places its segments, and reads its dynamic symbols and notes from
//! the file.

use std::ops::Range;

use vireo_hsa::code_object::{CODE_OBJECT_OS_ABI, CodeObjectFlags, CodeObjectVersion};

use super::CodeObjectError as Error;
use crate::generated::elf::{
    DynamicEntry, DynamicTag, ELF_MAGIC, ElfClass, ElfData, ElfMachine, ElfType, FileHeader, HashHeader, NoteHeader,
    ProgramHeader, SectionIndex, SegmentFlags, SegmentType, Symbol as RawSymbol, SymbolType,
};

type Result<T> = std::result::Result<T, Error>;

/// Bytes that the segments of a code object may span.
const MAX_SPAN: u64 = 1 << 30;

/// Segments begin on pages of their own, so that each is an allocation.
const PAGE: u64 = 4096;

/// A segment to load; addresses count from the first page of the code object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    /// Its bytes in the file.
    pub(crate) file: Range<usize>,
    /// Where they begin in memory.
    pub(crate) address: u64,
    /// Bytes in memory; those that the file lacks are zero.
    pub(crate) length: u64,
    pub(crate) write: bool,
    pub(crate) execute: bool,
}

/// A dynamic symbol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Symbol {
    pub(crate) name: String,
    /// Its address, which counts from the first page of the code object.
    pub(crate) address: u64,
    pub(crate) size: u64,
    pub(crate) is_data: bool,
}

/// A checked file.
#[derive(Debug)]
pub(crate) struct CodeObject<'a> {
    bytes: &'a [u8],
    /// The processor that it is for.
    pub(crate) flags: CodeObjectFlags,
    /// The address in the file of the first page.
    pub(crate) origin: u64,
    /// Bytes that the segments span, a multiple of a page.
    pub(crate) span: u64,
    /// The segments in ascending order, of which no two share a page.
    pub(crate) segments: Vec<Segment>,
    /// The dynamic symbols that are defined.
    pub(crate) symbols: Vec<Symbol>,
    notes: Vec<Range<usize>>,
}

/// `N` bytes of the file at `at`.
fn array<const N: usize>(bytes: &[u8], at: u64, what: &str) -> Result<[u8; N]> {
    let start = usize::try_from(at).ok();
    let slice = start.and_then(|start| bytes.get(start..start.checked_add(N)?));
    slice
        .and_then(|slice| slice.try_into().ok())
        .ok_or_else(|| Error::new(format!("{what} at {at:#x} ends after the file, which has {} bytes", bytes.len())))
}

/// The range of the file of `length` bytes from `at` on.
fn file_range(bytes: &[u8], at: u64, length: u64, what: &str) -> Result<Range<usize>> {
    let outside = || Error::new(format!("{what}: {length} bytes at {at:#x} are not in the file of {}", bytes.len()));
    let end = at.checked_add(length).filter(|end| *end <= bytes.len() as u64).ok_or_else(outside)?;
    // Both are at most the length of the file.
    Ok(at as usize..end as usize)
}

impl<'a> CodeObject<'a> {
    /// Checks the headers and reads the symbols.
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self> {
        let header = FileHeader::read(&array(bytes, 0, "the file header")?);
        check(bytes, &header)?;
        let mut headers = Vec::with_capacity(header.segment_count.into());
        for index in 0..u64::from(header.segment_count) {
            let at = header.segments_offset.saturating_add(index * ProgramHeader::SIZE as u64);
            headers.push(ProgramHeader::read(&array(bytes, at, "a program header")?));
        }
        let of_type = |wanted: SegmentType| headers.iter().filter(move |header| header.segment_type == wanted.0);
        if of_type(SegmentType::TLS).next().is_some() {
            return Err(Error::new("thread-local storage is not supported"));
        }
        let first = of_type(SegmentType::LOAD).next().ok_or_else(|| Error::new("there is no segment to load"))?;
        let origin = first.address / PAGE * PAGE;
        let (mut segments, mut end): (Vec<Segment>, u64) = (Vec::new(), 0);
        for header in of_type(SegmentType::LOAD).filter(|header| header.memory_size != 0) {
            let segment = place(bytes, header, origin, end)?;
            // The span is checked in `place`.
            end = (segment.address + segment.length).next_multiple_of(PAGE);
            segments.push(segment);
        }
        let mut notes = Vec::new();
        for header in of_type(SegmentType::NOTE) {
            notes.push(file_range(bytes, header.offset, header.file_size, "a segment of notes")?);
        }
        let mut object = CodeObject {
            bytes,
            flags: CodeObjectFlags(header.flags),
            origin,
            span: end,
            segments,
            symbols: Vec::new(),
            notes,
        };
        if let Some(dynamic) = of_type(SegmentType::DYNAMIC).next() {
            let range = file_range(bytes, dynamic.offset, dynamic.file_size, "the dynamic table")?;
            object.symbols = object.read_symbols(&bytes[range])?;
        }
        Ok(object)
    }

    /// The bytes of the file that are loaded at `address` of the file's addresses, as far as they are in one segment.
    fn at(&self, address: u64, what: &str) -> Result<&'a [u8]> {
        let outside = || Error::new(format!("{what} at {address:#x} is in no segment"));
        let relative = address.checked_sub(self.origin).ok_or_else(outside)?;
        let find = |segment: &Segment| {
            let offset = relative.checked_sub(segment.address).and_then(|offset| usize::try_from(offset).ok())?;
            self.bytes.get(segment.file.clone())?.get(offset..)
        };
        self.segments.iter().find_map(find).ok_or_else(outside)
    }

    fn read_symbols(&self, dynamic: &[u8]) -> Result<Vec<Symbol>> {
        let (mut hash, mut names, mut table) = (None, None, None);
        for entry in dynamic.as_chunks::<{ DynamicEntry::SIZE }>().0.iter().map(DynamicEntry::read) {
            match DynamicTag(entry.tag) {
                DynamicTag::END => break,
                DynamicTag::HASH => hash = Some(entry.value),
                DynamicTag::STRTAB => names = Some(entry.value),
                DynamicTag::SYMTAB => table = Some(entry.value),
                DynamicTag::RELASZ | DynamicTag::RELSZ | DynamicTag::PLTRELSZ | DynamicTag::RELRSZ
                    if entry.value != 0 =>
                {
                    return Err(Error::new("relocations are not supported"));
                }
                DynamicTag::NEEDED => return Err(Error::new("code that needs other code objects is not supported")),
                _ => {}
            }
        }
        let (Some(hash), Some(names), Some(table)) = (hash, names, table) else {
            return Err(Error::new("the dynamic table lacks the symbols, their names or their hash table"));
        };
        let header = HashHeader::read(&array(self.at(hash, "the hash table")?, 0, "the hash table")?);
        let (names, table) = (self.at(names, "the string table")?, self.at(table, "the symbol table")?);
        let count = usize::try_from(header.symbol_count).unwrap_or(usize::MAX);
        let (entries, _) = table.as_chunks::<{ RawSymbol::SIZE }>();
        let entries = entries.get(..count).ok_or_else(|| Error::new(format!("there are no {count} symbols")))?;
        let mut symbols = Vec::new();
        for raw in entries.iter().map(RawSymbol::read).filter(|raw| raw.section != SectionIndex::UNDEFINED.0) {
            let name = names.get(raw.name as usize..).and_then(|rest| rest.split(|byte| *byte == 0).next());
            let name = name.and_then(|name| std::str::from_utf8(name).ok());
            let name = name.ok_or_else(|| Error::new("the name of a symbol is not in the string table"))?;
            let address = raw
                .value
                .checked_sub(self.origin)
                .filter(|address| address.checked_add(raw.size).is_some_and(|end| end <= self.span));
            let address = address.ok_or_else(|| Error::new(format!("`{name}` is not in the loaded code")))?;
            let is_data = SymbolType(raw.info & 0xf) == SymbolType::OBJECT;
            symbols.push(Symbol { name: name.to_string(), address, size: raw.size, is_data });
        }
        Ok(symbols)
    }

    /// The bytes of the note with this name and type.
    pub(crate) fn note(&self, name: &str, note_type: u32) -> Option<&'a [u8]> {
        self.notes.iter().find_map(|range| {
            let mut rest = self.bytes.get(range.clone())?;
            while let Some((head, after)) = rest.split_first_chunk::<{ NoteHeader::SIZE }>() {
                let header = NoteHeader::read(head);
                let padded = |size: u32| (size as usize).checked_next_multiple_of(4);
                let owner = after.get(..header.name_size as usize)?;
                let after = after.get(padded(header.name_size)?..)?;
                let description = after.get(..header.description_size as usize)?;
                if owner.strip_suffix(&[0]) == Some(name.as_bytes()) && header.note_type == note_type {
                    return Some(description);
                }
                rest = after.get(padded(header.description_size)?..)?;
            }
            None
        })
    }
}

/// Refuses what is not a code object for HSA.
fn check(bytes: &[u8], header: &FileHeader) -> Result<()> {
    let value = |field: &str, value: u64, wanted: u64| match value == wanted {
        true => Ok(()),
        false => Err(Error::new(format!("{field} is {value:#x} instead of {wanted:#x}"))),
    };
    value("the magic number", header.magic.into(), ELF_MAGIC.into())?;
    value("the class", header.class.into(), ElfClass::BITS_64.0.into())?;
    value("the byte order", header.data.into(), ElfData::LITTLE.0.into())?;
    value("the operating system", header.os_abi.into(), CODE_OBJECT_OS_ABI.into())?;
    value("the type", header.file_type.into(), ElfType::SHARED.0.into())?;
    value("the machine", header.machine.into(), ElfMachine::AMDGPU.0.into())?;
    value("the size of a program header", header.segment_size.into(), ProgramHeader::SIZE as u64)?;
    if CodeObjectVersion(header.abi_version).name().is_none() {
        return Err(Error::new(format!("version {} of the ABI is not supported", header.abi_version)));
    }
    let headers = u64::from(header.segment_count) * ProgramHeader::SIZE as u64;
    file_range(bytes, header.segments_offset, headers, "the program headers").map(|_| ())
}

/// Places a segment after those that end at `end`.
fn place(bytes: &[u8], header: &ProgramHeader, origin: u64, end: u64) -> Result<Segment> {
    let name = format!("the segment at {:#x}", header.address);
    let file = file_range(bytes, header.offset, header.file_size, &name)?;
    if header.file_size > header.memory_size {
        return Err(Error::new(format!("{name} is longer in the file than in memory")));
    }
    let address = header.address.checked_sub(origin).filter(|address| *address >= end);
    let address = address.ok_or_else(|| Error::new(format!("{name} shares a page with one before it")))?;
    let fits = address.checked_add(header.memory_size).is_some_and(|end| end <= MAX_SPAN);
    if !fits {
        return Err(Error::new(format!("{name} ends more than {MAX_SPAN} bytes after the first one")));
    }
    let (write, execute) = (SegmentFlags::WRITE.are_in(header.flags), SegmentFlags::EXECUTE.are_in(header.flags));
    // Code has no bytes that the file lacks: what is decoded is bounded by the length of the file.
    if execute && header.file_size != header.memory_size {
        return Err(Error::new(format!("{name} is code that is longer in memory than in the file")));
    }
    // Programs are decoded once, which would be wrong if a kernel could change them.
    if write && execute {
        return Err(Error::new(format!("{name} is both written and executed")));
    }
    Ok(Segment { file, address, length: header.memory_size, write, execute })
}
