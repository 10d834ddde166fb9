//! The records of a capture on their way to the file ([`Stream`]). Records are kept until there are 64 KiB of them, or
//! until somebody flushes; a longer record goes to the file in parts. The length in the header of the file is that of
//! the whole records in it, so a process that is killed at any time leaves a capture.

use std::io::{self, Seek, SeekFrom, Write};
use std::mem::offset_of;
use std::time::{Duration, Instant};

use smallvec::SmallVec;
use vireo_core::record_file::Part;
use vireo_core::status::{Result, Status, StatusCode};

use crate::generated::format::{FileHeader, MAGIC, VERSION_MAJOR, VERSION_MINOR};
use crate::generated::payloads::RecordHeader;

/// Bytes of records that are kept before they are written.
const BUFFER: usize = 64 << 10;

/// Bytes of a part that are copied at a time.
pub(crate) const CHUNK: usize = 16 << 10;

/// The time after which kept records are written, if somebody asks.
const INTERVAL: Duration = Duration::from_millis(50);

/// The file of a capture.
pub trait CaptureFile: Write + Seek + Send + 'static {}

impl<T: Write + Seek + Send + 'static> CaptureFile for T {}

/// A part of a payload: bytes that follow its fields.
pub(crate) trait PartSource {
    /// Number of bytes.
    fn byte_length(&self) -> u64;

    /// Appends the bytes to `out`, which has room for them.
    fn append_to(&self, out: &mut Vec<u8>) -> Result<()>;

    /// Hands the bytes to `sink`, one piece after the other. Long parts do it without memory for all of them.
    fn write(&self, sink: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let mut bytes = Vec::new();
        self.append_to(&mut bytes)?;
        sink(&bytes)
    }
}

impl PartSource for &[u8] {
    fn byte_length(&self) -> u64 {
        self.len() as u64
    }

    fn append_to(&self, out: &mut Vec<u8>) -> Result<()> {
        out.extend_from_slice(self);
        Ok(())
    }

    fn write(&self, sink: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        sink(self)
    }
}

impl PartSource for &str {
    fn byte_length(&self) -> u64 {
        self.len() as u64
    }

    fn append_to(&self, out: &mut Vec<u8>) -> Result<()> {
        self.as_bytes().append_to(out)
    }
}

impl PartSource for Vec<u8> {
    fn byte_length(&self) -> u64 {
        self.len() as u64
    }

    fn append_to(&self, out: &mut Vec<u8>) -> Result<()> {
        self.as_slice().append_to(out)
    }

    fn write(&self, sink: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        sink(self)
    }
}

impl PartSource for &[u32] {
    fn byte_length(&self) -> u64 {
        size_of_val::<[u32]>(*self) as u64
    }

    fn append_to(&self, out: &mut Vec<u8>) -> Result<()> {
        self.iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
        Ok(())
    }
}

/// Elements of a part, few of them in most calls.
pub(crate) type Parts<P> = SmallVec<[P; 4]>;

impl<P: Part> PartSource for Parts<P> {
    fn byte_length(&self) -> u64 {
        (self.len() * P::SIZE) as u64
    }

    fn append_to(&self, out: &mut Vec<u8>) -> Result<()> {
        self.iter().for_each(|part| part.write_part(out));
        Ok(())
    }
}

/// The number of elements of `size` bytes.
pub(crate) fn elements<N: TryFrom<u64>>(bytes: u64, size: u64) -> Result<N> {
    let count = bytes / size.max(1);
    N::try_from(count).map_err(|_| Status::out_of_range(format!("{count} elements are more than a record can have")))
}

/// The records that go to a file.
pub(crate) struct Stream {
    out: Box<dyn CaptureFile>,
    kept: Vec<u8>,
    /// Bytes that are in the file.
    written: u64,
    ordinal: u64,
    last_flush: Instant,
    /// The first failure, after which nothing is written.
    failure: Option<Status>,
    finished: bool,
    /// Whether the file ends within a record, which its header does not count.
    is_torn: bool,
}

impl Stream {
    /// Begins a file.
    pub(crate) fn new(mut out: Box<dyn CaptureFile>) -> Result<Stream> {
        let start = FileHeader {
            magic: MAGIC,
            version_major: VERSION_MAJOR,
            version_minor: VERSION_MINOR,
            header_length: FileHeader::SIZE as u32,
            flags: 0,
            file_length: FileHeader::SIZE as u64,
        };
        out.write_all(&start.to_bytes()).and_then(|()| out.flush()).map_err(cannot_write)?;
        Ok(Stream {
            out,
            kept: Vec::with_capacity(BUFFER),
            written: FileHeader::SIZE as u64,
            ordinal: 0,
            last_flush: Instant::now(),
            failure: None,
            finished: false,
            is_torn: false,
        })
    }

    /// Appends a record and returns its place. Its lengths and its ordinal are set here. A failure is kept for
    /// [`finish`](Stream::finish): what is recorded goes on without a capture.
    pub(crate) fn append(&mut self, header: &RecordHeader, head: &[u8], parts: &[&dyn PartSource]) -> u64 {
        let place = self.written + self.kept.len() as u64;
        if self.failure.is_none()
            && !self.finished
            && let Err(status) = self.try_append(header, head, parts)
        {
            self.fail(status);
        }
        place
    }

    fn try_append(&mut self, header: &RecordHeader, head: &[u8], parts: &[&dyn PartSource]) -> Result<()> {
        let follows = parts.iter().fold(0_u64, |length, part| length.saturating_add(part.byte_length()));
        let payload_length = follows.saturating_add(head.len() as u64);
        let header = RecordHeader {
            record_length: payload_length.saturating_add(RecordHeader::SIZE as u64),
            payload_length,
            sequence_ordinal: self.ordinal,
            header_length: RecordHeader::SIZE as u32,
            ..*header
        };
        if header.record_length > (BUFFER - self.kept.len()) as u64 {
            self.try_flush()?;
        }
        let start = self.kept.len();
        self.kept.extend_from_slice(&header.to_bytes());
        self.kept.extend_from_slice(head);
        let outcome = match header.record_length <= BUFFER as u64 {
            true => self.append_parts(parts),
            false => self.write_parts(parts),
        };
        if let Err(status) = outcome {
            // The file ends with the record before: its header does not count what follows.
            self.kept.truncate(start);
            return Err(status);
        }
        self.ordinal += 1;
        Ok(())
    }

    fn append_parts(&mut self, parts: &[&dyn PartSource]) -> Result<()> {
        for part in parts {
            let start = self.kept.len();
            part.append_to(&mut self.kept)?;
            check_length(*part, (self.kept.len() - start) as u64)?;
        }
        Ok(())
    }

    /// Writes the parts of a record that is longer than the memory for records.
    fn write_parts(&mut self, parts: &[&dyn PartSource]) -> Result<()> {
        self.is_torn = true;
        for part in parts {
            let Stream { out, kept, written, .. } = &mut *self;
            let mut bytes = 0;
            part.write(&mut |piece| {
                for piece in [kept.as_slice(), piece] {
                    out.write_all(piece).map_err(cannot_write)?;
                    *written += piece.len() as u64;
                }
                kept.clear();
                bytes += piece.len() as u64;
                Ok(())
            })?;
            check_length(*part, bytes)?;
        }
        self.is_torn = false;
        self.try_flush()
    }

    /// Sets the status of the record at `place`.
    pub(crate) fn set_status(&mut self, place: u64, code: StatusCode) {
        let place = place + offset_of!(RecordHeader, status_code) as u64;
        let bytes = u32::from(code as u8).to_le_bytes();
        if self.failure.is_some() || self.finished {
            return;
        }
        match place.checked_sub(self.written) {
            Some(kept) => {
                let kept = usize::try_from(kept).ok().and_then(|start| self.kept.get_mut(start..start + bytes.len()));
                if let Some(status) = kept {
                    status.copy_from_slice(&bytes);
                }
            }
            None => {
                if let Err(error) = self.overwrite(place, &bytes) {
                    self.fail(cannot_write(error));
                }
            }
        }
    }

    /// Writes what is kept, if the last time was long ago.
    pub(crate) fn flush_sometimes(&mut self) {
        if self.last_flush.elapsed() >= INTERVAL {
            self.flush();
        }
    }

    /// Writes what is kept.
    pub(crate) fn flush(&mut self) {
        if self.failure.is_none()
            && !self.finished
            && let Err(status) = self.try_flush()
        {
            self.fail(status);
        }
    }

    fn try_flush(&mut self) -> Result<()> {
        self.last_flush = Instant::now();
        self.out.write_all(&self.kept).map_err(cannot_write)?;
        self.written += self.kept.len() as u64;
        self.kept.clear();
        // Only now the file has these records.
        let length = self.written.to_le_bytes();
        self.overwrite(offset_of!(FileHeader, file_length) as u64, &length).map_err(cannot_write)
    }

    fn overwrite(&mut self, place: u64, bytes: &[u8]) -> io::Result<()> {
        self.out.seek(SeekFrom::Start(place))?;
        self.out.write_all(bytes)?;
        self.out.seek(SeekFrom::Start(self.written))?;
        self.out.flush()
    }

    /// Keeps the first failure.
    pub(crate) fn fail(&mut self, status: Status) {
        if self.failure.is_none() {
            self.failure = Some(status);
            if !self.is_torn {
                // The first failure is the one to tell of.
                let _ = self.try_flush();
            }
        }
    }

    /// Ends the file.
    ///
    /// # Errors
    /// The first failure.
    pub(crate) fn finish(&mut self) -> Result<()> {
        self.flush();
        self.finished = true;
        self.failure.clone().map_or(Ok(()), Err)
    }
}

fn check_length(part: &dyn PartSource, written: u64) -> Result<()> {
    let expected = part.byte_length();
    if written == expected {
        return Ok(());
    }
    Err(Status::new(StatusCode::DataLoss, format!("a part of a record has {written} bytes, of {expected}")))
}

fn cannot_write(error: io::Error) -> Status {
    let code = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => StatusCode::ResourceExhausted,
        _ => StatusCode::Unavailable,
    };
    Status::new(code, "cannot write the capture").with_source(error)
}
