//! The dynamic table of a loaded image, and the tables it refers to, checked. [`super::ElfImage`] reads it after
//! loading segments.

use std::ops::Range;

use super::error::ElfError;
use super::parse::{Header, array};
use crate::hal::elf_format::{DynamicEntry, DynamicTag, HashHeader, Relocation, SectionIndex, Symbol, SymbolBinding};

/// The parsed dynamic table.
#[derive(Debug)]
pub(super) struct DynamicTable {
    /// The range of the image that holds the names of symbols.
    pub(super) strings: Range<usize>,
    /// Every symbol; relocations refer to them by index.
    pub(super) symbols: Vec<LoadedSymbol>,
    /// Ranges of the image that hold relocations.
    pub(super) relocations: Vec<Range<usize>>,
    init: Option<u64>,
    init_array: Range<usize>,
}

/// A symbol.
#[derive(Clone, Debug)]
pub(super) struct LoadedSymbol {
    /// Offset of its name in the strings. Names are not copied: many symbols may share one long name.
    pub(super) name: usize,
    /// Its address as the file has it.
    pub(super) value: u64,
    /// True if other libraries may use it.
    pub(super) exported: bool,
    /// True if it is defined in this file.
    pub(super) defined: bool,
}

/// The entries with known tags. Of a repeated tag the last entry counts.
#[derive(Default)]
struct DynamicEntries(Vec<TableEntry>);

struct TableEntry {
    tag: DynamicTag,
    value: u64,
    /// Its address as the file has it.
    address: u64,
}

impl DynamicEntries {
    fn find(&self, tag: DynamicTag) -> Option<&TableEntry> {
        self.0.iter().rev().find(|entry| entry.tag == tag)
    }

    fn get(&self, tag: DynamicTag) -> Option<u64> {
        self.find(tag).map(|entry| entry.value)
    }

    /// Checks a size that the format fixes, if it is stated.
    fn check(&self, tag: DynamicTag, field: &'static str, wanted: u64, expected: &'static str) -> Result<(), ElfError> {
        match self.find(tag) {
            Some(entry) if entry.value != wanted => {
                Err(ElfError::Entry { address: entry.address, field, value: entry.value, expected })
            }
            _ => Ok(()),
        }
    }
}

impl DynamicTable {
    /// The symbols of another table with one table of relocations.
    #[cfg(test)]
    pub(super) fn with_relocations(other: &DynamicTable, relocations: Range<usize>) -> DynamicTable {
        let (strings, symbols) = (other.strings.clone(), other.symbols.clone());
        DynamicTable { strings, symbols, relocations: vec![relocations], init: None, init_array: 0..0 }
    }

    pub(super) fn parse(image: &[u8], table: Range<usize>, header: &Header) -> Result<DynamicTable, ElfError> {
        let mut entries = DynamicEntries::default();
        let start = header.origin() + table.start as u64;
        for (index, entry) in image[table].chunks_exact(DynamicEntry::SIZE).enumerate() {
            let DynamicEntry { tag, value } = DynamicEntry::read(&array(entry, 0, "a dynamic entry")?);
            let address = start + (index * DynamicEntry::SIZE) as u64;
            match DynamicTag(tag) {
                DynamicTag::END => break,
                tag if tag.name().is_some() => entries.0.push(TableEntry { tag, value, address }),
                // Hints, and tables that are not needed.
                _ => {}
            }
        }
        for (tag, what) in [
            (DynamicTag::NEEDED, "depending on other libraries"),
            (DynamicTag::REL, "relocations without addends"),
            (DynamicTag::RELR, "packed relative relocations"),
        ] {
            if entries.get(tag).is_some() {
                return Err(ElfError::Unsupported(what.to_string()));
            }
        }
        entries.check(DynamicTag::SYMENT, "DT_SYMENT", Symbol::SIZE as u64, "24")?;
        entries.check(DynamicTag::RELAENT, "DT_RELAENT", Relocation::SIZE as u64, "24")?;
        entries.check(DynamicTag::PLTREL, "DT_PLTREL", DynamicTag::RELA.0, "7 (relocations with addends)")?;
        let mut relocations = Vec::new();
        for (address, size) in [(DynamicTag::RELA, DynamicTag::RELASZ), (DynamicTag::JMPREL, DynamicTag::PLTRELSZ)] {
            if let Some(address) = entries.get(address) {
                let size = entries.get(size).ok_or(ElfError::Missing("size of its relocations"))?;
                relocations.push(header.table(address, size, "the relocation table")?);
            }
        }
        let init_array = match entries.get(DynamicTag::INIT_ARRAY) {
            Some(address) => {
                let size =
                    entries.get(DynamicTag::INIT_ARRAYSZ).ok_or(ElfError::Missing("size of its initialisers"))?;
                header.table(address, size, "the array of initialisers")?
            }
            None => 0..0,
        };
        // A zero means that there is none.
        let init = entries.get(DynamicTag::INIT).filter(|address| *address != 0);
        let (strings, symbols) = symbols(image, &entries, header)?;
        Ok(DynamicTable { strings, symbols, relocations, init, init_array })
    }

    /// The addresses of the initialisers in the order in which they run. The array has been relocated.
    pub(super) fn initializers(&self, image: &[u8], base: u64, header: &Header) -> Result<Vec<u64>, ElfError> {
        let is_code = |address: u64| {
            let offset = address.checked_sub(base).and_then(|offset| usize::try_from(offset).ok());
            offset.is_some_and(|offset| header.is_code(offset))
        };
        let mut out = Vec::new();
        if let Some(init) = self.init {
            let address = init.wrapping_sub(header.origin()).wrapping_add(base);
            if !is_code(address) {
                return Err(ElfError::Address { address: init, what: "the code of an initialiser", length: 1 });
            }
            out.push(address);
        }
        for (index, entry) in image[self.init_array.clone()].chunks_exact(8).enumerate() {
            match u64::from_le_bytes(array(entry, 0, "an initialiser")?) {
                // Placeholders.
                0 | u64::MAX => {}
                address if is_code(address) => out.push(address),
                // The error names the entry of the array: its value is an address of the process.
                _ => {
                    let entry = (self.init_array.start + index * 8) as u64;
                    let address = header.origin().wrapping_add(entry);
                    return Err(ElfError::Address { address, what: "the code of an initialiser", length: 1 });
                }
            }
        }
        Ok(out)
    }
}

/// Longest name that is shown in an error.
const SHOWN_NAME: usize = 100;

fn symbols(
    image: &[u8],
    entries: &DynamicEntries,
    header: &Header,
) -> Result<(Range<usize>, Vec<LoadedSymbol>), ElfError> {
    let find = |tag, what| entries.get(tag).ok_or(ElfError::Missing(what));
    let strings_size = find(DynamicTag::STRSZ, "size of its string table")?;
    let strings = header.table(find(DynamicTag::STRTAB, "string table")?, strings_size, "the string table")?;
    // Only the hash table has the number of symbols.
    let hash = find(DynamicTag::HASH, "symbol hash table")?;
    let hash = header.table(hash, HashHeader::SIZE as u64, "the symbol hash table")?;
    let count = HashHeader::read(&array(&image[hash], 0, "the symbol hash table")?).symbol_count;
    let size = u64::from(count) * Symbol::SIZE as u64;
    let table = header.table(find(DynamicTag::SYMTAB, "symbol table")?, size, "the symbol table")?;
    let mut symbols = Vec::with_capacity(count as usize);
    for (index, entry) in image[table].chunks_exact(Symbol::SIZE).enumerate() {
        let symbol = Symbol::read(&array(entry, 0, "a symbol")?);
        let binding = SymbolBinding(symbol.info >> 4);
        let name = symbol.name as usize;
        let defined = symbol.section != SectionIndex::UNDEFINED.0;
        // The first symbol is a placeholder.
        if index > 0 && !defined {
            let name =
                image[strings].get(name..).and_then(|rest| rest.split(|byte| *byte == 0).next()).unwrap_or_default();
            let name = &name[..name.len().min(SHOWN_NAME)];
            return Err(ElfError::Import(String::from_utf8_lossy(name).into_owned()));
        }
        let visible = binding == SymbolBinding::GLOBAL || binding == SymbolBinding::WEAK;
        symbols.push(LoadedSymbol { name, value: symbol.value, exported: defined && visible, defined });
    }
    Ok((strings, symbols))
}
