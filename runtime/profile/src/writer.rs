//! The writer of profiles: it states lengths of records and chunks, and closes the file with its length.

use std::io::{self, Seek, SeekFrom, Write};

use crate::generated::contents::Content;
use crate::generated::format::{CONTENT_TYPE_PREFIX, FileHeader, MAGIC, RecordHeader, VERSION_MAJOR, VERSION_MINOR};

/// Writes a profile. Until [`finish`](ProfileWriter::finish) the header says that the file is in use.
#[derive(Debug)]
pub struct ProfileWriter<W> {
    out: W,
    length: u64,
}

impl<W: Write + Seek> ProfileWriter<W> {
    /// Begins a file.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn new(mut out: W) -> io::Result<Self> {
        out.write_all(&header(0).to_bytes())?;
        Ok(ProfileWriter { out, length: FileHeader::SIZE as u64 })
    }

    /// Appends a chunk of `content`. `records` are its records one after the other, each as long as its first word
    /// says; `name` is that of the device.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn chunk(&mut self, header: &RecordHeader, content: Content, name: &str, records: &[u8]) -> io::Result<()> {
        self.record(header, content.text(), name, records)
    }

    /// Appends a record. The content type is without the prefix of all, and lengths are set here.
    ///
    /// # Errors
    /// INVALID_INPUT if a name is too long, and those of `out`.
    pub fn record(&mut self, header: &RecordHeader, content: &str, name: &str, payload: &[u8]) -> io::Result<()> {
        let content = format!("{CONTENT_TYPE_PREFIX}{content}");
        let length = |text: &str| u32::try_from(text.len()).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput));
        let (content_type_length, name_length) = (length(&content)?, length(name)?);
        let names = u64::from(content_type_length) + u64::from(name_length);
        let header = RecordHeader {
            record_length: RecordHeader::SIZE as u64 + names + payload.len() as u64,
            payload_length: payload.len() as u64,
            header_length: RecordHeader::SIZE as u32,
            content_type_length,
            name_length,
            flags: 0,
            ..*header
        };
        self.out.write_all(&header.to_bytes())?;
        self.out.write_all(content.as_bytes())?;
        self.out.write_all(name.as_bytes())?;
        self.out.write_all(payload)?;
        self.length += header.record_length;
        Ok(())
    }

    /// Ends the file: its header gets its length.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn finish(mut self) -> io::Result<W> {
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
