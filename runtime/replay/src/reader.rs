//! The reader of captures: it checks the header of a file and the header of each record, in their order.

use std::mem::offset_of;
use std::path::Path;

use vireo_core::record_file::{Field, FileStart, ReadError, Source, Storage, open};
use vireo_core::status::{Status, StatusCode};

use crate::generated::format::{FileHeader, MAGIC, OPTIONAL_RECORD, RecordType, VERSION_MAJOR};
use crate::generated::payloads::RecordHeader;

/// A record and its place in the file.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    /// Its first byte.
    pub offset: u64,
    /// Its header.
    pub header: RecordHeader,
}

impl Record {
    /// The first byte of its payload, which has `header.payload_length` bytes.
    pub fn payload_offset(&self) -> u64 {
        // The reader has checked that the record ends in the file.
        self.offset + u64::from(self.header.header_length)
    }
}

/// The records of a capture.
#[derive(Debug)]
pub struct Reader {
    source: Source,
    header: FileHeader,
    /// The end of the last record.
    end: u64,
    next: u64,
    ordinal: u64,
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
    /// INVALID_ARGUMENT if it is no capture of this version, DATA_LOSS if its header is damaged.
    pub fn new(name: impl Into<String>, storage: Box<dyn Storage>) -> Result<Reader, ReadError> {
        let mut source = Source::new(name, storage)?;
        let mut bytes = [0; FileHeader::SIZE];
        source.read_at(0, &mut bytes)?;
        let header = FileHeader::read(&bytes);
        let end = source.check_start(&FileStart {
            what: "capture",
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
        let first = u64::from(header.header_length);
        Ok(Reader { source, header, end, next: first, ordinal: 0 })
    }

    /// The header of the file.
    pub fn header(&self) -> &FileHeader {
        &self.header
    }

    /// The end of the last record.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// The file, for payloads.
    pub fn source(&mut self) -> &mut Source {
        &mut self.source
    }

    /// Goes back to the first record.
    pub fn rewind(&mut self) {
        (self.next, self.ordinal) = (u64::from(self.header.header_length), 0);
    }

    /// The next record, if there is one.
    ///
    /// # Errors
    /// DATA_LOSS if it is damaged or not the next one, UNIMPLEMENTED for a type that is not known and not optional.
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
        if header.record_flags & !OPTIONAL_RECORD != 0 {
            let message = format!("the flags of the record are {:#x}: expected 0 or 1", header.record_flags);
            return Err(source.damaged(place_of(offset, offset_of!(RecordHeader, record_flags)), message));
        }
        let is_known = header.record_type != 0 && RecordType(header.record_type).name().is_some();
        if !is_known && header.record_flags & OPTIONAL_RECORD == 0 {
            let message = format!("the type of the record is {}: expected 1 to 5", header.record_type);
            return Err(source.error(
                StatusCode::Unimplemented,
                place_of(offset, offset_of!(RecordHeader, record_type)),
                message,
            ));
        }
        if !header.reserved_is_zero() {
            return Err(source.damaged(
                place_of(offset, offset_of!(RecordHeader, reserved0)),
                "a reserved field of the record is not 0: expected zeros",
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
        if header.payload_length != header.record_length - start {
            let expected = header.record_length - start;
            let message = format!("the payload has {} bytes: expected {expected}", header.payload_length);
            return Err(source.damaged(place_of(offset, offset_of!(RecordHeader, payload_length)), message));
        }
        if header.sequence_ordinal != self.ordinal {
            let message = format!("the record is number {}: expected {}", header.sequence_ordinal, self.ordinal);
            return Err(source.damaged(place_of(offset, offset_of!(RecordHeader, sequence_ordinal)), message));
        }
        self.ordinal += 1;
        self.next = offset + header.record_length;
        Ok(Some(Record { offset, header }))
    }

    /// The payload of a record, if it is not longer than `limit`.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED if it is longer, and those of the file.
    pub fn payload(&mut self, record: &Record, limit: u64) -> Result<Vec<u8>, ReadError> {
        let (offset, length) = (record.payload_offset(), record.header.payload_length);
        if length > limit {
            let message = format!("the payload has {length} bytes: expected at most {limit}");
            return Err(self.source.error(StatusCode::ResourceExhausted, offset, message));
        }
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(usize::MAX)];
        self.source.read_at(offset, &mut bytes)?;
        Ok(bytes)
    }
}

/// The place of a field of a record.
fn place_of(record: u64, field: usize) -> u64 {
    record + field as u64
}
