//! [`CodeObject`]: the ELF file as the loader of the HSA library sees it, by its segments, its dynamic table and its
//! notes. Sections are only looked at for what no loader needs: all symbols, and debug information.

use std::collections::HashMap;

use super::error::{CodeObjectError, MAX_METADATA, MAX_SEGMENTS};
use super::file::{Symbol, array, range, symbols, text};
use super::metadata::{self, KernelMetadata, Metadata};
use crate::code_object::{
    CODE_OBJECT_OS_ABI, CodeObjectVersion, KERNEL_GROUP_SIZE, KERNEL_KERNARG_SIZE, KERNEL_PRIVATE_SIZE,
    METADATA_NOTE_NAME, METADATA_NOTE_TYPE,
};
use crate::generated::elf::{
    DynamicEntry, DynamicTag, ELF_MAGIC, ElfClass, ElfData, ElfMachine, ElfType, FileHeader, HashHeader, NoteHeader,
    ProgramHeader, SectionHeader, SectionType, SegmentFlags, SegmentType,
};
use crate::kernel_descriptor::KernelDescriptor;
use crate::target::TargetId;

type Result<T> = std::result::Result<T, CodeObjectError>;

/// A segment to load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment<'a> {
    /// Its address.
    pub address: u64,
    /// Bytes in memory; those that the file lacks are zero.
    pub length: u64,
    /// Its bytes in the file, at most as many.
    pub bytes: &'a [u8],
    /// Where they begin in the file.
    pub file_offset: u64,
    /// Whether code may write it.
    pub write: bool,
    /// Whether it has code.
    pub execute: bool,
}

/// A code object. Addresses are those of the file.
#[derive(Clone, Debug)]
pub struct CodeObject<'a> {
    bytes: &'a [u8],
    header: FileHeader,
    /// The target of its code, by the flags of the header.
    pub target: TargetId,
    /// The segments to load, in the order of their headers.
    pub segments: Vec<Segment<'a>>,
    /// The dynamic symbols that are defined.
    pub symbols: Vec<Symbol<'a>>,
    /// Bytes of all kinds of relocations.
    pub relocation_bytes: u64,
    /// Whether it needs other code objects.
    pub needs_others: bool,
    /// Whether it has storage for each thread.
    pub has_thread_storage: bool,
    /// The segments of notes, with their offsets.
    notes: Vec<(u64, &'a [u8])>,
}

/// Whether a file begins like an ELF file.
pub fn is_elf(bytes: &[u8]) -> bool {
    bytes.starts_with(&ELF_MAGIC.to_le_bytes())
}

impl<'a> CodeObject<'a> {
    /// Reads the headers and the dynamic symbols.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn parse(bytes: &'a [u8]) -> Result<Self> {
        let header = FileHeader::read(array(bytes, 0, "the file header")?);
        check_header(&header)?;
        let target = TargetId::of_elf_flags(header.flags)?;
        let mut object = CodeObject {
            bytes,
            header,
            target,
            segments: Vec::new(),
            symbols: Vec::new(),
            relocation_bytes: 0,
            needs_others: false,
            has_thread_storage: false,
            notes: Vec::new(),
        };
        let mut dynamic = None;
        for index in 0..u64::from(object.header.segment_count) {
            let at = object.header.segments_offset.saturating_add(index * ProgramHeader::SIZE as u64);
            let segment = ProgramHeader::read(array(bytes, at, "a program header")?);
            let contents = |what| range(bytes, segment.offset, segment.file_size, what);
            match SegmentType(segment.segment_type) {
                SegmentType::LOAD if segment.memory_size != 0 => {
                    object.segments.push(loaded(&segment, contents("a segment to load")?)?);
                }
                SegmentType::NOTE => object.notes.push((segment.offset, contents("a segment of notes")?)),
                SegmentType::DYNAMIC => {
                    dynamic.get_or_insert((segment.offset, contents("the dynamic table")?));
                }
                SegmentType::TLS => object.has_thread_storage = true,
                _ => {}
            }
        }
        if let Some((at, table)) = dynamic {
            object.read_dynamic(at, table)?;
        }
        Ok(object)
    }

    fn read_dynamic(&mut self, at: u64, dynamic: &[u8]) -> Result<()> {
        let (mut hash, mut names, mut table) = (None, None, None);
        for entry in dynamic.as_chunks::<{ DynamicEntry::SIZE }>().0.iter().map(DynamicEntry::read) {
            match DynamicTag(entry.tag) {
                DynamicTag::END => break,
                DynamicTag::HASH => hash = Some(entry.value),
                DynamicTag::STRTAB => names = Some(entry.value),
                DynamicTag::SYMTAB => table = Some(entry.value),
                DynamicTag::RELASZ | DynamicTag::RELSZ | DynamicTag::PLTRELSZ | DynamicTag::RELRSZ => {
                    self.relocation_bytes = self.relocation_bytes.saturating_add(entry.value);
                }
                DynamicTag::NEEDED => self.needs_others = true,
                _ => {}
            }
        }
        let lacks = |what| CodeObjectError::Dynamic { at, what };
        let hash = hash.ok_or(lacks("the hash table of symbols"))?;
        let (table_at, names) = (table.ok_or(lacks("symbols"))?, names.ok_or(lacks("the names of symbols"))?);
        let head = self.loaded_from(hash).and_then(<[u8]>::first_chunk);
        let unloaded = |what, address| CodeObjectError::Unloaded { what, address };
        let head = HashHeader::read(head.ok_or(unloaded("the hash table of symbols", hash))?);
        let names = self.loaded_from(names).ok_or(unloaded("the names of symbols", names))?;
        let table = self.loaded_from(table_at).ok_or(unloaded("the symbols", table_at))?;
        let (table, expected) = (table.as_chunks().0, u64::from(head.symbol_count));
        let listed = usize::try_from(expected).ok().and_then(|count| table.get(..count));
        let short = CodeObjectError::SymbolCount { at: table_at, there: table.len(), expected };
        self.symbols = symbols(listed.ok_or(short)?, names)?;
        Ok(())
    }

    /// The bytes of the file that are loaded from `address` on, as far as they are in one segment.
    pub fn loaded_from(&self, address: u64) -> Option<&'a [u8]> {
        self.segments.iter().find_map(|segment| {
            let offset = usize::try_from(address.checked_sub(segment.address)?).ok()?;
            segment.bytes.get(offset..)
        })
    }

    /// The metadata; none if there is no note with them.
    ///
    /// # Errors
    /// If they are malformed, or for another processor.
    pub fn metadata(&self) -> Result<Option<Metadata<'a>>> {
        for (at, notes) in &self.notes {
            let Some((origin, note)) = self.metadata_note(*at, notes)? else { continue };
            if note.len() > MAX_METADATA {
                return Err(CodeObjectError::MetadataLength(note.len()));
            }
            let metadata = metadata::read(note).map_err(|error| CodeObjectError::Metadata { origin, error })?;
            // Triples differ between compilers, and the states of features are those of the header.
            let found = metadata.target.unwrap_or_default();
            let processor = TargetId::parse(found).map(|target| target.processor());
            if processor.ok() != Some(self.target.processor()) {
                let (found, expected) = (found.escape_debug().to_string(), self.target.processor());
                return Err(CodeObjectError::MetadataTarget { found, expected });
            }
            return Ok(Some(metadata));
        }
        Ok(None)
    }

    /// The note with metadata among `notes`, which are at `origin` in the file, and its offset.
    fn metadata_note(&self, origin: u64, notes: &'a [u8]) -> Result<Option<(u64, &'a [u8])>> {
        let mut at = 0;
        let length = self.bytes.len();
        let inside = |at: u64, bytes: u64, what| {
            let outside = |_| CodeObjectError::Truncated { what, at: origin.saturating_add(at), length };
            range(notes, at, bytes, what).map_err(outside)
        };
        while at + NoteHeader::SIZE as u64 <= notes.len() as u64 {
            let head = inside(at, NoteHeader::SIZE as u64, "a note")?.first_chunk();
            let Some(note) = head.map(NoteHeader::read) else { break };
            let name_at = at + NoteHeader::SIZE as u64;
            let name = inside(name_at, note.name_size.into(), "the name of a note")?;
            let content_at = name_at + u64::from(note.name_size).next_multiple_of(4);
            let content = inside(content_at, note.description_size.into(), "the contents of a note")?;
            let is_named = name.strip_suffix(&[0]).is_some_and(|name| name == METADATA_NOTE_NAME.as_bytes());
            if is_named && note.note_type == METADATA_NOTE_TYPE {
                return Ok(Some((origin.saturating_add(content_at), content)));
            }
            // At least the header of the note is skipped, so this ends.
            at = content_at + u64::from(note.description_size).next_multiple_of(4);
        }
        Ok(None)
    }

    /// The descriptor that a symbol names, and the address of the first instruction.
    ///
    /// # Errors
    /// If it is not aligned or not in the file, or the first instruction is in no code.
    pub fn descriptor(&self, symbol: &Symbol<'_>) -> Result<(KernelDescriptor, u64)> {
        let wrong = |what, address, expected| {
            let symbol = symbol.name.to_string();
            Err(CodeObjectError::Place { symbol, what, address, expected })
        };
        let address = symbol.address;
        if !address.is_multiple_of(KernelDescriptor::SIZE as u64) {
            return wrong("the descriptor", address, "a multiple of its size");
        }
        let Some(descriptor) = self.loaded_from(address).and_then(<[u8]>::first_chunk).map(KernelDescriptor::read)
        else {
            return wrong("the descriptor", address, "one in a segment of the file");
        };
        let entry = address.wrapping_add_signed(descriptor.kernel_code_entry_byte_offset);
        let holds = |segment: &Segment<'_>| entry.checked_sub(segment.address).is_some_and(|at| at < segment.length);
        if !self.segments.iter().any(|segment| segment.execute && holds(segment)) {
            return wrong("the first instruction", entry, "one in a segment with code");
        }
        Ok((descriptor, entry))
    }

    /// The kernels that the metadata list. The descriptor of each, which the packet processor reads, agrees with the
    /// metadata, which packets are made from.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn kernels(&self) -> Result<Vec<KernelMetadata>> {
        let kernels = self.metadata()?.ok_or(CodeObjectError::NoMetadata)?.kernels;
        let symbols: HashMap<&str, &Symbol<'_>> = self.symbols.iter().map(|symbol| (symbol.name, symbol)).collect();
        for kernel in &kernels {
            let missing =
                || CodeObjectError::NoDescriptor { kernel: kernel.name.clone(), symbol: kernel.symbol.clone() };
            let symbol = symbols.get(kernel.symbol.as_str()).ok_or_else(missing)?;
            check_agreement(kernel, symbol.address, &self.descriptor(symbol)?.0)?;
        }
        Ok(kernels)
    }

    fn sections(&self) -> impl Iterator<Item = Result<SectionHeader>> {
        (0..self.header.section_count).map(|index| self.section_header(index.into()))
    }

    fn section_header(&self, index: u32) -> Result<SectionHeader> {
        let at = self.header.sections_offset.saturating_add(u64::from(index) * SectionHeader::SIZE as u64);
        array(self.bytes, at, "a section header").map(SectionHeader::read)
    }

    fn section_bytes(&self, section: &SectionHeader, what: &'static str) -> Result<&'a [u8]> {
        match SectionType(section.section_type) {
            SectionType::NO_BITS => Ok(&[]),
            _ => range(self.bytes, section.offset, section.size, what),
        }
    }

    /// All symbols that are defined, if the file has kept their table.
    ///
    /// # Errors
    /// If the table is not in the file, or a symbol has no name.
    pub fn all_symbols(&self) -> Result<Vec<Symbol<'a>>> {
        // A file has one such section at most. More are not looked at: they could all have the same bytes.
        for section in self.sections() {
            let section = section?;
            if SectionType(section.section_type) == SectionType::SYMBOLS {
                let names = self.section_bytes(&self.section_header(section.link)?, "the names of symbols")?;
                let table = self.section_bytes(&section, "the symbols")?;
                return symbols(table.as_chunks().0, names);
            }
        }
        Ok(Vec::new())
    }

    /// The bytes of a section, if the file has one with this name.
    pub fn section(&self, name: &str) -> Option<&'a [u8]> {
        let names = self.section_header(self.header.section_names.into()).ok()?;
        let names = self.section_bytes(&names, "the names of sections").ok()?;
        let section = self.sections().find_map(|section| section.ok().filter(|it| text(names, it.name) == Some(name)));
        self.section_bytes(&section?, "a section").ok()
    }
}

/// Refuses what is not a code object for HSA.
fn check_header(header: &FileHeader) -> Result<()> {
    let has_sections = header.section_count != 0;
    let section_size = if has_sections { SectionHeader::SIZE as u64 } else { header.section_size.into() };
    let expected = [
        ("magic", u64::from(header.magic), u64::from(ELF_MAGIC)),
        ("class", header.class.into(), ElfClass::BITS_64.0.into()),
        ("data", header.data.into(), ElfData::LITTLE.0.into()),
        ("machine", header.machine.into(), ElfMachine::AMDGPU.0.into()),
        ("os_abi", header.os_abi.into(), CODE_OBJECT_OS_ABI.into()),
        ("file_type", header.file_type.into(), ElfType::SHARED.0.into()),
        ("segment_size", header.segment_size.into(), ProgramHeader::SIZE as u64),
        ("section_size", header.section_size.into(), section_size),
    ];
    for (field, value, expected) in expected {
        if value != expected {
            return Err(CodeObjectError::Header { field, value, expected });
        }
    }
    if header.segment_count > MAX_SEGMENTS {
        return Err(CodeObjectError::SegmentCount(header.segment_count));
    }
    if CodeObjectVersion(header.abi_version).name().is_none() {
        return Err(CodeObjectError::Version(header.abi_version));
    }
    Ok(())
}

/// A segment to load with its bytes in the file.
fn loaded<'a>(segment: &ProgramHeader, bytes: &'a [u8]) -> Result<Segment<'a>> {
    let (address, in_file, in_memory) = (segment.address, segment.file_size, segment.memory_size);
    if in_file > in_memory {
        return Err(CodeObjectError::SegmentLength { address, in_file, in_memory });
    }
    let (write, execute) = (SegmentFlags::WRITE.are_in(segment.flags), SegmentFlags::EXECUTE.are_in(segment.flags));
    Ok(Segment { address, length: in_memory, bytes, file_offset: segment.offset, write, execute })
}

/// Checks the descriptor of a kernel against its metadata.
fn check_agreement(kernel: &KernelMetadata, address: u64, descriptor: &KernelDescriptor) -> Result<()> {
    let (group, private) = (descriptor.group_segment_fixed_size, descriptor.private_segment_fixed_size);
    let fields = [
        ("kernarg_size", descriptor.kernarg_size, KERNEL_KERNARG_SIZE, kernel.kernarg_size),
        ("group_segment_fixed_size", group, KERNEL_GROUP_SIZE, kernel.group_size),
        ("private_segment_fixed_size", private, KERNEL_PRIVATE_SIZE, kernel.private_size),
    ];
    for (field, descriptor, key, metadata) in fields {
        // Assemblers that are not told the size of the arguments leave it out.
        if descriptor != metadata && (descriptor != 0 || field != "kernarg_size") {
            let kernel = kernel.name.clone();
            return Err(CodeObjectError::Descriptor { kernel, address, field, descriptor, key, metadata });
        }
    }
    Ok(())
}
