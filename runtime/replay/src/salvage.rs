//! Salvage of captures that end in the middle of a record, or are damaged somewhere: the whole records before that.

use std::io::{self, Read, Seek, SeekFrom, Write};
use std::mem::{offset_of, size_of};

use vireo_core::record_file::{ReadError, Storage};
use vireo_core::status::{Result, Status, StatusCode};

use crate::generated::format::FileHeader;
use crate::reader::Reader;
use crate::writer::CaptureWriter;

/// The part of a capture that was saved.
#[derive(Clone, Debug)]
pub struct Salvaged {
    /// Whole records.
    pub records: u64,
    /// Bytes of the file after them.
    pub lost: u64,
    /// Why the next record is none; none if the file ends there.
    pub damage: Option<ReadError>,
}

/// Writes the whole records of `storage`, which errors call `name`, as a closed capture.
///
/// # Errors
/// Those of [`Reader::new`], but for the length in the header, which is not looked at; UNAVAILABLE if `out` cannot be
/// written.
pub fn salvage(name: &str, storage: Box<dyn Storage>, out: impl Write + Seek) -> Result<Salvaged> {
    let unwritable = |error: io::Error| Status::new(StatusCode::Unavailable, error.to_string());
    let storage = Box::new(Unclosed { storage, position: 0 });
    let mut reader = Reader::new(name, storage).map_err(|error| error.status())?;
    let mut writer = CaptureWriter::new(out).map_err(unwritable)?;
    let (mut records, mut end) = (0, u64::from(reader.header().header_length));
    let damage = loop {
        match reader.next_record() {
            Ok(Some(record)) => {
                // The record is within the file.
                let payload = reader.payload(&record, u64::MAX).map_err(|error| error.status())?;
                writer.record(&record.header, &payload).map_err(unwritable)?;
                records += 1;
                end = record.offset + record.header.record_length;
            }
            Ok(None) => break None,
            Err(error) => break Some(error),
        }
    };
    writer.finish().map_err(unwritable)?;
    Ok(Salvaged { records, lost: reader.end() - end, damage })
}

/// A file whose header says that it is in use, so that its records go to its end.
struct Unclosed {
    storage: Box<dyn Storage>,
    position: u64,
}

impl Read for Unclosed {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let count = self.storage.read(bytes)?;
        let start = offset_of!(FileHeader, file_length) as u64;
        let length = start..start + size_of::<u64>() as u64;
        for (place, byte) in (self.position..).zip(bytes.iter_mut().take(count)) {
            if length.contains(&place) {
                *byte = 0;
            }
        }
        self.position += count as u64;
        Ok(count)
    }
}

impl Seek for Unclosed {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.position = self.storage.seek(to)?;
        Ok(self.position)
    }
}
