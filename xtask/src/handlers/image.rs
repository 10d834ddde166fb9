//! The functions of an ELF file, with the symbols that they refer to. `handlers` gets their code from it.
//!
//! A library is an archive of relocatable files: what an instruction refers to is a relocation there. In a linked file
//! it is an address, or a slot that the loader fills in with one.

use std::collections::HashMap;

use object::read::archive::ArchiveFile;
use object::{Object, ObjectSection, ObjectSymbol, RelocationTarget, SectionIndex, SymbolKind};

/// One function.
#[derive(Debug)]
pub struct Function<'d> {
    /// The path, without hashes.
    pub name: String,
    pub section: usize,
    /// In the section of a relocatable file, in memory of a linked one.
    pub address: u64,
    pub bytes: &'d [u8],
}

/// One object or linked file.
#[derive(Debug, Default)]
pub struct Image<'d> {
    functions: Vec<Function<'d>>,
    /// Names of functions by section and address.
    names: HashMap<(usize, u64), String>,
    /// The targets of relocations, by the section and the address of the field.
    relocations: HashMap<(usize, u64), String>,
    /// The targets of slots, by address.
    slots: HashMap<u64, String>,
}

impl<'d> Image<'d> {
    /// The files in `bytes`: those of a library, or one.
    pub fn all(bytes: &'d [u8]) -> object::Result<Vec<Image<'d>>> {
        let Ok(archive) = ArchiveFile::parse(bytes) else { return Ok(vec![Image::parse(bytes)?]) };
        let members = archive.members().map(|member| member?.data(bytes));
        let objects = members.filter(|data| data.as_ref().map_or(true, |data| data.starts_with(b"\x7fELF")));
        objects.map(|data| Image::parse(data?)).collect()
    }

    fn parse(bytes: &'d [u8]) -> object::Result<Image<'d>> {
        let file = object::File::parse(bytes)?;
        let mut image = Image::default();
        for symbol in file.symbols().filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.size() > 0) {
            let Some(section) = symbol.section_index() else { continue };
            let (name, address) = (plain(symbol.name()?), symbol.address());
            let Some(code) = file.section_by_index(section)?.data_range(address, symbol.size())? else { continue };
            // Functions that turned out the same may share one body.
            if image.names.insert((section.0, address), name.clone()).is_none() {
                image.functions.push(Function { name, section: section.0, address, bytes: code });
            }
        }
        for section in file.sections() {
            for (offset, relocation) in section.relocations() {
                let RelocationTarget::Symbol(symbol) = relocation.target() else { continue };
                let symbol = file.symbol_by_index(symbol)?;
                // Distances count from the end of the field.
                let address = symbol.address().wrapping_add_signed(relocation.addend() + 4);
                let section_name = symbol.section_index().filter(|_| symbol.kind() == SymbolKind::Section);
                let name = section_name.and_then(|section| image.name(section, address));
                let name = name.unwrap_or_else(|| plain(symbol.name().unwrap_or_default()));
                image.relocations.insert((section.index().0, offset), name);
            }
        }
        for (address, relocation) in file.dynamic_relocations().into_iter().flatten() {
            let name = match relocation.target() {
                RelocationTarget::Symbol(symbol) => {
                    let symbols = file.dynamic_symbol_table();
                    symbols.and_then(|table| {
                        object::ObjectSymbolTable::symbol_by_index(&table, symbol).ok()?.name().ok().map(plain)
                    })
                }
                _ => image.at(relocation.addend() as u64),
            };
            image.slots.extend(name.map(|name| (address, name)));
        }
        Ok(image)
    }

    fn name(&self, section: SectionIndex, address: u64) -> Option<String> {
        self.names.get(&(section.0, address)).cloned()
    }

    /// The function at an address of a linked file.
    fn at(&self, address: u64) -> Option<String> {
        self.functions.iter().find(|function| function.address == address).map(|function| function.name.clone())
    }

    /// The functions.
    pub fn functions(&self) -> impl Iterator<Item = &Function<'d>> {
        self.functions.iter()
    }

    /// The target of the relocation in these bytes of a section.
    pub fn relocated(&self, section: usize, addresses: std::ops::Range<u64>) -> Option<&str> {
        addresses.into_iter().find_map(|address| self.relocations.get(&(section, address))).map(String::as_str)
    }

    /// The function at an address.
    pub fn function_at(&self, section: usize, address: u64) -> Option<&str> {
        self.names.get(&(section, address)).map(String::as_str)
    }

    /// The target of the slot at an address.
    pub fn slot(&self, address: u64) -> Option<&str> {
        self.slots.get(&address).map(String::as_str)
    }
}

#[cfg(test)]
impl Image<'_> {
    /// An object file whose only section refers to these names at these addresses.
    pub fn with_relocations(relocations: &[(u64, &str)]) -> Self {
        let relocations = relocations.iter().map(|(address, name)| ((0, *address), (*name).to_string())).collect();
        Image { relocations, ..Image::default() }
    }
}

/// A name as in the source, without hashes.
fn plain(name: &str) -> String {
    format!("{:#}", rustc_demangle::demangle(name))
}
