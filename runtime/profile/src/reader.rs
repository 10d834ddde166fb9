//! The reader of profiles: it checks the header of a file, the header and names of each record, and the length of each
//! record in a chunk.

use std::fmt;
use std::io;
use std::mem::offset_of;
use std::path::Path;

use vireo_core::record_file::{Field, FileStart, ReadError, Source, Storage, TrailingError, open};
use vireo_core::status::{Status, StatusCode};

use crate::generated::contents::Content;
use crate::generated::format::{CONTENT_TYPE_PREFIX, FileHeader, MAGIC, RecordHeader, RecordType, VERSION_MAJOR};

/// Bytes of the longest content type or name of a device.
const LONGEST_NAME: u32 = 64 << 10;

/// Bytes of the longest record in a chunk that is read with what follows it. Code and traces are never read.
const LONGEST_RECORD: u32 = 1 << 20;

/// The error of a report.
#[derive(Debug)]
pub enum OutputError {
    /// The profile is damaged.
    Read(ReadError),
    /// The report cannot be written.
    Write(io::Error),
}

impl fmt::Display for OutputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OutputError::Read(error) => error.fmt(f),
            OutputError::Write(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for OutputError {}

impl From<ReadError> for OutputError {
    fn from(error: ReadError) -> Self {
        OutputError::Read(error)
    }
}

impl From<io::Error> for OutputError {
    fn from(error: io::Error) -> Self {
        OutputError::Write(error)
    }
}

/// A record and its place in the file.
#[derive(Clone, Debug)]
pub struct Record {
    /// Its ordinal.
    pub index: u64,
    /// Its first byte.
    pub offset: u64,
    /// Its header.
    pub header: RecordHeader,
    /// Its content type, as it is written.
    pub content_type: Vec<u8>,
    /// The name of the device.
    pub name: Vec<u8>,
    /// The first byte of its payload.
    pub payload_offset: u64,
}

impl Record {
    /// Its content type, if it is a chunk of a type that is known.
    pub fn content(&self) -> Option<Content> {
        let text = std::str::from_utf8(&self.content_type).ok()?.strip_prefix(CONTENT_TYPE_PREFIX)?;
        let is_chunk = RecordType(self.header.record_type) == RecordType::CHUNK;
        Content::ALL.iter().copied().find(|content| content.text() == text).filter(|_| is_chunk)
    }
}

/// The records of a profile.
#[derive(Debug)]
pub struct Reader {
    source: Source,
    header: FileHeader,
    /// The end of the last record.
    end: u64,
    next: u64,
    index: u64,
}

impl Reader {
    /// Opens a file.
    ///
    /// # Errors
    /// NOT_FOUND or UNAVAILABLE if the file cannot be opened, and those of [`Reader::new`].
    pub fn open(path: &Path) -> Result<Reader, Status> {
        let (name, storage) = open(path)?;
        Reader::new(name, storage).map_err(|error| error.status())
    }

    /// A reader of `storage`, which errors call `name`.
    ///
    /// # Errors
    /// INVALID_ARGUMENT if it is no profile of this version, DATA_LOSS if its header is damaged.
    pub fn new(name: impl Into<String>, storage: Box<dyn Storage>) -> Result<Reader, ReadError> {
        let mut source = Source::new(name, storage)?;
        let mut bytes = [0; FileHeader::SIZE];
        source.read_at(0, &mut bytes)?;
        let header = FileHeader::read(&bytes);
        let end = source.check_start(&FileStart {
            what: "profile",
            magic: (Field { offset: offset_of!(FileHeader, magic), value: header.magic }, MAGIC),
            version: (
                Field { offset: offset_of!(FileHeader, version_major), value: header.version_major },
                VERSION_MAJOR,
            ),
            header_length: Field { offset: offset_of!(FileHeader, header_length), value: header.header_length },
            least: FileHeader::SIZE,
            flags: Field { offset: offset_of!(FileHeader, flags), value: header.flags },
            file_length: Field { offset: offset_of!(FileHeader, file_length), value: header.file_length },
        })?;
        Ok(Reader { source, header, end, next: u64::from(header.header_length), index: 0 })
    }

    /// The header of the file.
    pub fn header(&self) -> &FileHeader {
        &self.header
    }

    /// Goes back to the first record.
    pub fn rewind(&mut self) {
        (self.next, self.index) = (u64::from(self.header.header_length), 0);
    }

    /// The next record, if there is one.
    ///
    /// # Errors
    /// DATA_LOSS if it is damaged, RESOURCE_EXHAUSTED if its names are too long.
    pub fn next_record(&mut self) -> Result<Option<Record>, ReadError> {
        let (offset, left) = (self.next, self.end - self.next);
        if left == 0 {
            return Ok(None);
        }
        let source = &mut self.source;
        if left < RecordHeader::SIZE as u64 {
            let message = format!("{left} bytes are left: expected the {} of a record", RecordHeader::SIZE);
            return Err(source.damaged(offset, message));
        }
        let mut bytes = [0; RecordHeader::SIZE];
        source.read_at(offset, &mut bytes)?;
        let header = RecordHeader::read(&bytes);
        if header.flags != 0 {
            return Err(source.damaged(
                place_of(offset, offset_of!(RecordHeader, flags)),
                format!("the flags are {:#x}: expected 0", header.flags),
            ));
        }
        if header.record_length > left {
            let message = format!("the record has {} bytes: expected at most {left}", header.record_length);
            return Err(source.damaged(offset, message));
        }
        let start = u64::from(header.header_length);
        if start < RecordHeader::SIZE as u64 || start > header.record_length {
            let message = format!(
                "the header of the record has {start} bytes: expected {} to {}",
                RecordHeader::SIZE,
                header.record_length
            );
            return Err(source.damaged(place_of(offset, offset_of!(RecordHeader, header_length)), message));
        }
        let names = u64::from(header.content_type_length) + u64::from(header.name_length);
        let expected = start.checked_add(names).and_then(|end| end.checked_add(header.payload_length));
        if expected != Some(header.record_length) {
            let message = format!(
                "the names have {names} bytes and the payload has {}: expected {} together",
                header.payload_length,
                header.record_length - start
            );
            return Err(source.damaged(place_of(offset, offset_of!(RecordHeader, payload_length)), message));
        }
        if header.content_type_length > LONGEST_NAME || header.name_length > LONGEST_NAME {
            let message = format!("a name has {names} bytes: expected at most {LONGEST_NAME}");
            return Err(source.error(
                StatusCode::ResourceExhausted,
                place_of(offset, offset_of!(RecordHeader, content_type_length)),
                message,
            ));
        }
        let mut content_type = vec![0; header.content_type_length as usize];
        let mut name = vec![0; header.name_length as usize];
        source.read_at(offset + start, &mut content_type)?;
        source.read_at(offset + start + u64::from(header.content_type_length), &mut name)?;
        let record =
            Record { index: self.index, offset, header, content_type, name, payload_offset: offset + start + names };
        self.index += 1;
        self.next = offset + header.record_length;
        Ok(Some(record))
    }

    /// The records of a chunk.
    pub fn typed<'a>(&'a mut self, chunk: &Record, content: Content) -> TypedRecords<'a> {
        TypedRecords {
            source: &mut self.source,
            content,
            next: chunk.payload_offset,
            end: chunk.payload_offset + chunk.header.payload_length,
            is_done: false,
        }
    }

    /// The name of the file in errors.
    pub fn name(&self) -> &str {
        self.source.name()
    }
}

/// The records of a chunk, each of which begins with its length.
#[derive(Debug)]
pub struct TypedRecords<'a> {
    source: &'a mut Source,
    content: Content,
    next: u64,
    end: u64,
    /// True if one was read.
    is_done: bool,
}

impl TypedRecords<'_> {
    /// The next record, if there is one.
    ///
    /// # Errors
    /// DATA_LOSS if its length is out of range.
    pub fn next_record(&mut self) -> Result<Option<TypedRecord<'_>>, ReadError> {
        let (offset, left) = (self.next, self.end - self.next);
        let least = self.content.record_size() as u64;
        let is_trace = self.content == Content::ExecutableTraces;
        // A chunk has one trace, whose bytes are not part of the record.
        if if is_trace { self.is_done } else { left == 0 } {
            return Ok(None);
        }
        let name = self.content.text();
        if left < least {
            let message = format!("a record of `{name}` has {left} bytes: expected at least {least}");
            return Err(self.source.damaged(offset, message));
        }
        let mut bytes = [0; 4];
        self.source.read_at(offset, &mut bytes)?;
        let length = u32::from_le_bytes(bytes);
        if u64::from(length) < least || u64::from(length) > left || (is_trace && u64::from(length) != least) {
            let message = format!("a record of `{name}` has the length {length}: expected {least} to {left}");
            return Err(self.source.damaged(offset, message));
        }
        let rest = left - u64::from(length);
        self.next = offset + u64::from(length);
        self.is_done = true;
        Ok(Some(TypedRecord { source: self.source, name, offset, length, rest }))
    }
}

/// A record of a chunk.
#[derive(Debug)]
pub struct TypedRecord<'a> {
    source: &'a mut Source,
    name: &'static str,
    offset: u64,
    length: u32,
    rest: u64,
}

impl TypedRecord<'_> {
    /// Its fields; later versions may have more.
    ///
    /// # Errors
    /// Those of the file.
    pub fn head<const N: usize>(&mut self) -> Result<[u8; N], ReadError> {
        let mut bytes = [0; N];
        self.source.read_at(self.offset, &mut bytes)?;
        Ok(bytes)
    }

    /// All of it.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED if it is too long, and those of the file.
    pub fn bytes(&mut self) -> Result<Vec<u8>, ReadError> {
        if self.length > LONGEST_RECORD {
            let message =
                format!("a record of `{}` has {} bytes: expected at most {LONGEST_RECORD}", self.name, self.length);
            return Err(self.source.error(StatusCode::ResourceExhausted, self.offset, message));
        }
        let mut bytes = vec![0; self.length as usize];
        self.source.read_at(self.offset, &mut bytes)?;
        Ok(bytes)
    }

    /// Bytes of the record.
    pub fn length(&self) -> u32 {
        self.length
    }

    /// Bytes of the chunk after the record.
    pub fn rest(&self) -> u64 {
        self.rest
    }

    /// The parts that were read of it, or the error at its place.
    ///
    /// # Errors
    /// DATA_LOSS for an error of its parts.
    pub fn check_parts<T>(&self, parts: Result<T, TrailingError>) -> Result<T, ReadError> {
        parts.map_err(|error| self.damaged(error.to_string()))
    }

    /// The error of a record that is not as its type says.
    pub fn damaged(&self, message: impl Into<String>) -> ReadError {
        self.source.damaged(self.offset, message)
    }

    /// The error of sums that are out of range.
    pub fn out_of_range(&self, message: impl Into<String>) -> ReadError {
        self.source.error(StatusCode::OutOfRange, self.offset, message)
    }
}

/// The place of a field of a record.
fn place_of(record: u64, field: usize) -> u64 {
    record + field as u64
}
