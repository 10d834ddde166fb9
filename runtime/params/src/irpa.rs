//! The reader and writer of IREE parameter archives. The layouts are in `spec/schema/irpa.yaml`.

use std::io::{self, Write};

use super::contents::Contents;
use super::index::{Parameter, ParameterIndex, ParameterStorage, Splat};
use super::layout::{Ranges, bytes as count, refuse};
use crate::generated::schema::irpa::{
    DATA_ALIGNMENT, DataEntry, ENTRY_ALIGNMENT, EntryHeader, EntryType, FILE_ALIGNMENT, HEADER_ALIGNMENT, Header,
    HeaderPrefix, MAGIC, SplatEntry, VERSION_MAJOR, VERSION_MINOR,
};
use crate::status::{Result, Status};

/// Names and metadata may share bytes; in total they may have this many times the bytes of the metadata segment...
const MAX_SHARING: u64 = 16;
/// ...or so many bytes, if that is more.
const MIN_SHARED: u64 = 1 << 16;

/// Bytes of a whole header.
const HEADER_SIZE: u64 = (HeaderPrefix::SIZE + Header::SIZE) as u64;

/// Reads the index of all archives in a file.
pub(super) fn read(bytes: &[u8], contents: &Contents) -> Result<ParameterIndex> {
    let mut reader = Reader { bytes, contents, index: ParameterIndex::default(), ranges: Ranges::default(), tables: 0 };
    let mut next = Some(0);
    while let Some(base) = next {
        next = reader.archive(base)?;
    }
    let Reader { index, ranges, .. } = reader;
    let keys: Vec<&str> = index.iter().map(|parameter| parameter.key.as_str()).collect();
    ranges.check(true, |number| keys[number])?;
    Ok(index)
}

struct Reader<'a> {
    bytes: &'a [u8],
    contents: &'a Contents,
    index: ParameterIndex,
    ranges: Ranges,
    /// Bytes of all tables so far.
    tables: u64,
}

/// A segment of an archive, which is within the file.
#[derive(Clone, Copy)]
struct Segment {
    what: &'static str,
    start: u64,
    length: u64,
}

impl Segment {
    fn end(self) -> u64 {
        // The sum was checked when the segment was made.
        self.start + self.length
    }

    /// The absolute offset of a range of the segment.
    fn range(self, at: u64, what: &str, offset: u64, length: u64) -> Result<u64> {
        if length == 0 {
            return Ok(self.start);
        }
        let end = offset.checked_add(length).filter(|end| *end <= self.length);
        end.map(|_| self.start + offset).ok_or_else(|| {
            let message = format!(
                "{what} has {} at {offset:#x} of the {}, which has {}",
                count(length),
                self.what,
                count(self.length)
            );
            refuse(at, message)
        })
    }
}

impl Reader<'_> {
    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// The bytes from `offset` on; none past the end.
    fn from(&self, offset: u64) -> &[u8] {
        usize::try_from(offset).ok().and_then(|offset| self.bytes.get(offset..)).unwrap_or_default()
    }

    /// Reads the archive whose header is at `base`, and returns the offset of the next one.
    fn archive(&mut self, base: u64) -> Result<Option<u64>> {
        let short = |what: &str, size: usize| {
            let message = format!("the file ends before byte {:#x}: expected {what} of {size} bytes", self.len());
            refuse(base, message)
        };
        let prefix = HeaderPrefix::read(self.from(base)).ok_or_else(|| short("a header", HeaderPrefix::SIZE))?;
        if prefix.magic != MAGIC {
            let (expected, found) = (MAGIC.to_le_bytes(), prefix.magic.to_le_bytes());
            let message =
                format!("expected an archive with \"{}\", found \"{}\"", expected.escape_ascii(), found.escape_ascii());
            return Err(refuse(base, message));
        }
        if !base.is_multiple_of(HEADER_ALIGNMENT) {
            return Err(refuse(base, format!("the header is not aligned to {HEADER_ALIGNMENT} bytes")));
        }
        let (major, minor) = (prefix.version_major, prefix.version_minor);
        if major != VERSION_MAJOR || minor > VERSION_MINOR {
            let message = format!(
                "at {base:#x}: archives of version {major}.{minor}; this runtime reads {VERSION_MAJOR}.{VERSION_MINOR}"
            );
            return Err(Status::unimplemented(message));
        }
        if prefix.header_size != HEADER_SIZE {
            let message = format!("the header has {}: expected {HEADER_SIZE}", count(prefix.header_size));
            return Err(refuse(base, message));
        }
        let header = Header::read(self.from(base + HeaderPrefix::SIZE as u64));
        let header = header.ok_or_else(|| short("the rest of the header", Header::SIZE))?;
        let entries = self.segment(base, "table of entries", header.entry_offset, header.entry_length)?;
        let metadata = self.segment(base, "metadata", header.metadata_offset, header.metadata_length)?;
        let storage = self.segment(base, "storage", header.storage_offset, header.storage_length)?;
        self.ranges.header("the header", base, base + HEADER_SIZE);
        self.ranges.header("the table of entries", entries.start, entries.end());
        self.ranges.header("the metadata", metadata.start, metadata.end());
        // Many headers could refer to the same large tables, so their total is bounded.
        self.tables = self.tables.saturating_add(entries.length).saturating_add(metadata.length);
        if self.tables > self.len() {
            return Err(refuse(base, format!("the tables have {} in total, more than the file", count(self.tables))));
        }
        self.entries(&header, entries, metadata, storage)?;
        if prefix.next_header_offset == 0 {
            return Ok(None);
        }
        let next = base.checked_add(prefix.next_header_offset).filter(|next| *next < self.len());
        next.map(Some).ok_or_else(|| {
            let next = prefix.next_header_offset;
            refuse(base, format!("the next header is {next:#x} bytes further, but the file ends at {:#x}", self.len()))
        })
    }

    fn segment(&self, base: u64, what: &'static str, offset: u64, length: u64) -> Result<Segment> {
        if length == 0 {
            return Ok(Segment { what, start: base, length: 0 });
        }
        let start = base.checked_add(offset);
        let end = start.and_then(|start| start.checked_add(length)).filter(|end| *end <= self.len());
        match (start, end) {
            (Some(start), Some(_)) => Ok(Segment { what, start, length }),
            _ => {
                let message = format!(
                    "the {what} has {} at {offset:#x} from the header, but the file ends at {:#x}",
                    count(length),
                    self.len()
                );
                Err(refuse(base, message))
            }
        }
    }

    fn entries(&mut self, header: &Header, table: Segment, metadata: Segment, storage: Segment) -> Result<()> {
        if header.entry_count > table.length / EntryHeader::SIZE as u64 {
            let message = format!(
                "{} entries cannot be in a table of {}: each has {} at least",
                header.entry_count,
                count(table.length),
                EntryHeader::SIZE
            );
            return Err(refuse(table.start, message));
        }
        let mut named = 0_u64;
        let mut at = table.start;
        for number in 0..header.entry_count {
            let left = table.end().saturating_sub(at);
            let entry = EntryHeader::read(self.from(at)).filter(|_| left >= EntryHeader::SIZE as u64);
            let size = entry.map(|entry| entry.entry_size).filter(|size| *size >= EntryHeader::SIZE as u64);
            let (Some(entry), Some(size)) = (entry, size.filter(|size| *size <= left)) else {
                let message = format!(
                    "entry {number} of {} does not fit the {} that are left of the table",
                    header.entry_count,
                    count(left)
                );
                return Err(refuse(at, message));
            };
            named = named.saturating_add(entry.name_length).saturating_add(entry.metadata_length);
            if named > metadata.length.saturating_mul(MAX_SHARING).max(MIN_SHARED) {
                let message = format!("names and metadata of {} share {}", count(named), count(metadata.length));
                return Err(refuse(at, message));
            }
            self.entry(at, number, &entry, metadata, storage)?;
            // The table ends within the file, so the sum does not wrap.
            at += size.next_multiple_of(ENTRY_ALIGNMENT).min(left);
        }
        Ok(())
    }

    fn entry(&mut self, at: u64, number: u64, entry: &EntryHeader, metadata: Segment, storage: Segment) -> Result<()> {
        let known = [EntryType::SKIP, EntryType::SPLAT, EntryType::DATA, EntryType::EXTERNAL];
        let Some(ty) = known.into_iter().find(|known| known.0 == entry.entry_type) else {
            let message = format!("at {at:#x}: entry {number} has the unknown type {}", entry.entry_type);
            return Err(Status::unimplemented(message));
        };
        if ty == EntryType::SKIP {
            return Ok(());
        }
        let name = metadata.range(at, &format!("the name of entry {number}"), entry.name_offset, entry.name_length)?;
        let name = &self.from(name)[..entry.name_length as usize];
        let key = std::str::from_utf8(name).map_err(|error| {
            refuse(at, format!("the name of entry {number}, \"{}\", is not UTF-8: {error}", name.escape_ascii()))
        })?;
        let key = key.to_string();
        let what = format!("`{}`", key.escape_debug());
        if entry.minimum_alignment != 0 && !entry.minimum_alignment.is_power_of_two() {
            let message = format!("{what} is to be aligned to {}, which is no power of two", entry.minimum_alignment);
            return Err(refuse(at, message));
        }
        let extra =
            metadata.range(at, &format!("the metadata of {what}"), entry.metadata_offset, entry.metadata_length)?;
        let extra = self.from(extra)[..entry.metadata_length as usize].to_vec();
        let (length, storage) = match ty {
            EntryType::SPLAT => self.splat(at, &what, entry)?,
            EntryType::DATA => {
                let data = DataEntry::read(self.rest(at, &what, entry, DataEntry::SIZE)?);
                let data = data.ok_or_else(|| refuse(at, format!("{what} is cut short")))?;
                let offset = storage.range(at, &what, data.storage_offset, data.storage_length)?;
                self.ranges.parameter(self.index.len(), offset, offset + data.storage_length);
                (data.storage_length, ParameterStorage::Stored { contents: self.contents.clone(), offset })
            }
            _ => return Err(Status::unimplemented(format!("at {at:#x}: {what} is in another file"))),
        };
        let parameter = Parameter { key, length, storage, metadata: extra, tensor: None };
        self.index.add(parameter).map_err(|status| status.context(format!("at {at:#x}")))
    }

    /// The bytes after the header of an entry, at least `size`.
    fn rest(&self, at: u64, what: &str, entry: &EntryHeader, size: usize) -> Result<&[u8]> {
        let needed = (EntryHeader::SIZE + size) as u64;
        if entry.entry_size < needed {
            let message = format!("the entry of {what} has {}: expected {needed}", count(entry.entry_size));
            return Err(refuse(at, message));
        }
        Ok(self.from(at + EntryHeader::SIZE as u64))
    }

    fn splat(&self, at: u64, what: &str, entry: &EntryHeader) -> Result<(u64, ParameterStorage)> {
        let splat = SplatEntry::read(self.rest(at, what, entry, SplatEntry::SIZE)?);
        let splat = splat.ok_or_else(|| refuse(at, format!("{what} is cut short")))?;
        let mut pattern = [0; Splat::MAX_LENGTH];
        pattern[..8].copy_from_slice(&splat.pattern_low.to_le_bytes());
        pattern[8..].copy_from_slice(&splat.pattern_high.to_le_bytes());
        let pattern = pattern.get(..usize::from(splat.pattern_length)).map(Splat::new).and_then(Result::ok);
        let Some(pattern) = pattern.filter(|_| splat.length.is_multiple_of(splat.pattern_length.into())) else {
            let message = format!(
                "{what} repeats a pattern of {} over {}: expected 1, 2, 4, 8 or 16 that divide it",
                count(splat.pattern_length.into()),
                count(splat.length)
            );
            return Err(refuse(at, message));
        };
        Ok((splat.length, ParameterStorage::Splat(pattern)))
    }
}

/// The layout of a new archive. Tools add entries, write the header, and then the contents at their data ranges.
#[derive(Debug, Default)]
pub struct Builder {
    entries: Vec<NewEntry>,
    names: u64,
    storage: u64,
    alignment: u64,
}

#[derive(Debug)]
struct NewEntry {
    key: String,
    metadata: Vec<u8>,
    length: u64,
    /// A pattern, or the offset in the storage segment.
    storage: NewStorage,
}

#[derive(Debug)]
enum NewStorage {
    Splat(Splat),
    Data { offset: u64, alignment: u64 },
}

impl Builder {
    /// An archive without entries, whose contents are aligned to `alignment` bytes, a power of two; runtimes expect 64.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if the alignment is no power of two.
    pub fn new(alignment: u64) -> Result<Builder> {
        if !alignment.is_power_of_two() {
            return Err(Status::invalid_argument(format!("alignment {alignment}: expected a power of two")));
        }
        Ok(Builder { alignment, ..Builder::default() })
    }

    /// An archive with the alignment that runtimes expect.
    pub fn with_default_alignment() -> Builder {
        Builder { alignment: DATA_ALIGNMENT, ..Builder::default() }
    }

    /// Adds a repeated pattern, whose length must divide `length`.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if it does not.
    pub fn splat(&mut self, key: &str, metadata: &[u8], length: u64, splat: Splat) -> Result<()> {
        if !length.is_multiple_of(splat.pattern().len() as u64) {
            let pattern = splat.pattern().len();
            return Err(Status::invalid_argument(format!("`{key}` has {length} bytes, which {pattern} do not divide")));
        }
        self.add(key, metadata, length, NewStorage::Splat(splat))
    }

    /// Adds an entry with contents.
    ///
    /// # Errors
    /// `OUT_OF_RANGE` if the archive would be longer than offsets can express.
    pub fn data(&mut self, key: &str, metadata: &[u8], length: u64) -> Result<()> {
        let offset = self.storage.checked_next_multiple_of(self.alignment);
        let end = offset.and_then(|offset| offset.checked_add(length)).filter(|end| *end < 1 << 62);
        let (Some(offset), Some(end)) = (offset, end) else {
            return Err(Status::out_of_range(format!("`{key}`: {length} bytes are too many for an archive")));
        };
        self.storage = end;
        self.add(key, metadata, length, NewStorage::Data { offset, alignment: self.alignment })
    }

    fn add(&mut self, key: &str, metadata: &[u8], length: u64, storage: NewStorage) -> Result<()> {
        self.names += (key.len() + metadata.len()) as u64;
        self.entries.push(NewEntry { key: key.into(), metadata: metadata.to_vec(), length, storage });
        Ok(())
    }

    /// The header, with the offsets of all segments.
    fn header(&self) -> Header {
        let mut table = 0_u64;
        for entry in &self.entries {
            table = table.next_multiple_of(ENTRY_ALIGNMENT) + entry.size();
        }
        let entry_offset = HEADER_SIZE.next_multiple_of(ENTRY_ALIGNMENT);
        let metadata_offset = entry_offset + table;
        // As in the reference runtime, the storage is aligned only if there are data entries.
        let aligned = self.entries.iter().any(|entry| matches!(entry.storage, NewStorage::Data { .. }));
        let alignment = if aligned { self.alignment } else { 1 };
        Header {
            entry_count: self.entries.len() as u64,
            entry_offset,
            entry_length: table,
            metadata_offset,
            metadata_length: self.names,
            storage_offset: (metadata_offset + self.names).next_multiple_of(alignment),
            storage_length: self.storage,
        }
    }

    /// Bytes of the whole file.
    pub fn file_length(&self) -> u64 {
        let header = self.header();
        (header.storage_offset + header.storage_length).next_multiple_of(FILE_ALIGNMENT)
    }

    /// The ranges of the file for the contents of data entries: number of the entry, offset and length.
    pub fn data_ranges(&self) -> impl Iterator<Item = (usize, u64, u64)> {
        let storage = self.header().storage_offset;
        self.entries.iter().enumerate().filter_map(move |(number, entry)| match entry.storage {
            NewStorage::Data { offset, .. } => Some((number, storage + offset, entry.length)),
            NewStorage::Splat(_) => None,
        })
    }

    /// Writes everything before the contents.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_header(&self, out: &mut dyn Write) -> io::Result<()> {
        let header = self.header();
        let prefix = HeaderPrefix {
            magic: MAGIC,
            version_major: VERSION_MAJOR,
            version_minor: VERSION_MINOR,
            header_size: HEADER_SIZE,
            next_header_offset: 0,
            flags: 0,
        };
        out.write_all(&prefix.to_bytes())?;
        out.write_all(&header.to_bytes())?;
        let mut position = HEADER_SIZE;
        let mut names = 0_u64;
        for entry in &self.entries {
            position = pad(out, position, ENTRY_ALIGNMENT)?;
            let name_offset = names;
            names += entry.key.len() as u64;
            let metadata_offset = if entry.metadata.is_empty() { 0 } else { names };
            names += entry.metadata.len() as u64;
            let (entry_type, minimum_alignment) = match entry.storage {
                NewStorage::Splat(_) => (EntryType::SPLAT, 0),
                NewStorage::Data { alignment, .. } => (EntryType::DATA, alignment),
            };
            let head = EntryHeader {
                entry_size: entry.size(),
                entry_type: entry_type.0,
                flags: 0,
                name_offset,
                name_length: entry.key.len() as u64,
                metadata_offset,
                metadata_length: entry.metadata.len() as u64,
                minimum_alignment,
            };
            out.write_all(&head.to_bytes())?;
            match entry.storage {
                NewStorage::Splat(splat) => {
                    let pattern = u128::from_le_bytes(splat.pattern);
                    let splat = SplatEntry {
                        length: entry.length,
                        pattern_low: pattern as u64,
                        pattern_high: (pattern >> u64::BITS) as u64,
                        pattern_length: splat.length,
                    };
                    out.write_all(&splat.to_bytes())?;
                }
                NewStorage::Data { offset, .. } => {
                    let data = DataEntry { storage_offset: offset, storage_length: entry.length };
                    out.write_all(&data.to_bytes())?;
                }
            }
            position += entry.size();
        }
        for entry in &self.entries {
            out.write_all(entry.key.as_bytes())?;
            out.write_all(&entry.metadata)?;
        }
        Ok(())
    }
}

impl NewEntry {
    fn size(&self) -> u64 {
        let rest = match self.storage {
            NewStorage::Splat(_) => SplatEntry::SIZE,
            NewStorage::Data { .. } => DataEntry::SIZE,
        };
        (EntryHeader::SIZE + rest) as u64
    }
}

/// Writes zeros up to a multiple of `alignment`, which is small.
fn pad(out: &mut dyn Write, position: u64, alignment: u64) -> io::Result<u64> {
    let aligned = position.next_multiple_of(alignment);
    out.write_all(&vec![0; (aligned - position) as usize])?;
    Ok(aligned)
}
