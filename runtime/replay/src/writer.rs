//! The writer of captures: it numbers records, states their lengths, and closes the file with its length.

use std::io::{self, Seek, SeekFrom, Write};

use crate::generated::format::{FileHeader, MAGIC, VERSION_MAJOR, VERSION_MINOR};
use crate::generated::payloads::RecordHeader;

/// Bytes that are kept before they are written.
const BUFFER: usize = 64 << 10;

/// Writes a capture. Until [`finish`](CaptureWriter::finish) the header says that the file is in use, and what is
/// written ends with a whole record.
#[derive(Debug)]
pub struct CaptureWriter<W> {
    out: W,
    buffer: Vec<u8>,
    length: u64,
    ordinal: u64,
}

impl<W: Write + Seek> CaptureWriter<W> {
    /// Begins a file.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn new(mut out: W) -> io::Result<Self> {
        out.write_all(&header(0).to_bytes())?;
        Ok(CaptureWriter { out, buffer: Vec::new(), length: FileHeader::SIZE as u64, ordinal: 0 })
    }

    /// Appends a record. Its lengths and its ordinal are set here.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn record(&mut self, header: &RecordHeader, payload: &[u8]) -> io::Result<()> {
        let (start, payload_length) = (RecordHeader::SIZE as u64, payload.len() as u64);
        let header = RecordHeader {
            record_length: start + payload_length,
            payload_length,
            sequence_ordinal: self.ordinal,
            header_length: RecordHeader::SIZE as u32,
            ..*header
        };
        self.buffer.extend_from_slice(&header.to_bytes());
        self.buffer.extend_from_slice(payload);
        self.ordinal += 1;
        self.length += header.record_length;
        if self.buffer.len() >= BUFFER { self.flush() } else { Ok(()) }
    }

    /// Writes what is kept.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.write_all(&self.buffer)?;
        self.buffer.clear();
        self.out.flush()
    }

    /// Ends the file: its header gets its length.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn finish(mut self) -> io::Result<W> {
        self.flush()?;
        self.out.seek(SeekFrom::Start(0))?;
        self.out.write_all(&header(self.length).to_bytes())?;
        self.out.seek(SeekFrom::Start(self.length))?;
        self.out.flush()?;
        Ok(self.out)
    }
}

fn header(file_length: u64) -> FileHeader {
    FileHeader {
        magic: MAGIC,
        version_major: VERSION_MAJOR,
        version_minor: VERSION_MINOR,
        header_length: FileHeader::SIZE as u32,
        flags: 0,
        file_length,
    }
}
