//! Lines of the source of instructions ([`SourceLines`]), from the DWARF sections of a code object.

use std::path::Path;
use vireo_core::visible_text::visible;

use addr2line::Context;
use addr2line::gimli::{Dwarf, EndianSlice, LittleEndian, SectionId};
use vireo_hsa::object::CodeObject;

/// The lines of a code object.
pub struct SourceLines<'a>(Option<Context<EndianSlice<'a, LittleEndian>>>);

impl<'a> SourceLines<'a> {
    /// The lines of a file; none if it has no debug information, or this cannot be read.
    pub fn of(object: &CodeObject<'a>) -> Self {
        let section = |id: SectionId| -> Result<_, addr2line::gimli::Error> {
            Ok(EndianSlice::new(object.section(id.name()).unwrap_or_default(), LittleEndian))
        };
        SourceLines(Dwarf::load(section).and_then(Context::from_dwarf).ok())
    }

    /// The line of the instruction at an address of the code object: the last part of the file's path, and the number.
    pub fn at(&self, address: u64) -> Option<String> {
        let location = self.0.as_ref()?.find_location(address).ok()??;
        let name = Path::new(location.file?).file_name()?.to_string_lossy();
        // A line of zero is none.
        location.line.filter(|line| *line != 0).map(|line| visible(&format!("{name}:{line}")))
    }
}

/// The line of the instruction at an address of the code object with these bytes.
pub fn source_line(bytes: &[u8], address: u64) -> Option<String> {
    SourceLines::of(&CodeObject::parse(bytes).ok()?).at(address)
}
