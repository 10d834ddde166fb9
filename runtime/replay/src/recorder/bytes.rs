//! Bytes of buffers and of mappings as parts of records. Long ones are read piece by piece.

use std::sync::Arc;

use vireo_core::status::{Result, Status};
use vireo_hal::{Buffer, WrittenRange, buffer_read};

use super::stream::{CHUNK, PartSource};

/// The number of bytes of memory.
pub(super) fn fitting(length: u64) -> Result<usize> {
    usize::try_from(length).map_err(|_| Status::out_of_range(format!("{length} bytes do not fit the address space")))
}

/// The bytes of a range of a buffer that the host can map.
pub(crate) struct BufferBytes {
    pub(super) buffer: Arc<dyn Buffer>,
    pub(super) offset: u64,
    pub(super) length: u64,
}

impl PartSource for BufferBytes {
    fn byte_length(&self) -> u64 {
        self.length
    }

    fn append_to(&self, out: &mut Vec<u8>) -> Result<()> {
        let start = out.len();
        out.resize(start + fitting(self.length)?, 0);
        buffer_read(&*self.buffer, self.offset, out.get_mut(start..).unwrap_or_default())
    }

    fn write(&self, sink: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let mut bytes = [0; CHUNK];
        let mut done = 0;
        while done < self.length {
            let left = usize::try_from(self.length - done).unwrap_or(CHUNK).min(CHUNK);
            let part = bytes.get_mut(..left).unwrap_or_default();
            buffer_read(&*self.buffer, self.offset + done, part)?;
            sink(part)?;
            done += left as u64;
        }
        Ok(())
    }
}

/// A part of a mapping.
pub(super) struct MappedBytes<'a> {
    pub(super) range: WrittenRange<'a>,
    pub(super) start: u64,
    pub(super) length: u64,
}

impl PartSource for MappedBytes<'_> {
    fn byte_length(&self) -> u64 {
        self.length
    }

    fn append_to(&self, out: &mut Vec<u8>) -> Result<()> {
        let start = out.len();
        out.resize(start + fitting(self.length)?, 0);
        self.range.read(self.start, out.get_mut(start..).unwrap_or_default())
    }

    fn write(&self, sink: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let mut bytes = [0; CHUNK];
        let mut done = 0;
        while done < self.length {
            let length = usize::try_from(self.length - done).unwrap_or(CHUNK).min(CHUNK);
            let piece = bytes.get_mut(..length).unwrap_or_default();
            self.range.read(self.start + done, piece)?;
            sink(piece)?;
            done += length as u64;
        }
        Ok(())
    }
}
