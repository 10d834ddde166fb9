//! A sink that writes a profile to a file, or to anything else that can be written and sought.

use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter, Seek, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use vireo_core::status::{Result, Status, StatusCode};
use vireo_hal::{ProfileChunkMetadata, ProfileSink};

use crate::generated::format::{CONTENT_TYPE_PREFIX, RecordHeader, RecordType};
use crate::writer::ProfileWriter;

/// Writes the chunks of all sessions to one profile. The profile is complete after [`finish`](Self::finish); before, it
/// can be read up to its last whole record.
pub struct ProfileFile<W: Write + Seek> {
    name: String,
    /// None once it has ended.
    writer: Mutex<Option<ProfileWriter<W>>>,
}

impl ProfileFile<BufWriter<File>> {
    /// Creates a file.
    ///
    /// # Errors
    /// UNAVAILABLE if it cannot be written.
    pub fn create(path: &Path) -> Result<Arc<Self>> {
        let name = path.display().to_string();
        let failed = |error| failed(&name, &error);
        let file = File::create(path).map_err(failed)?;
        Ok(Arc::new(ProfileFile::new(name.as_str(), BufWriter::new(file))?))
    }
}

impl<W: Write + Seek> ProfileFile<W> {
    /// Begins a profile in `out`, which errors call `name`.
    ///
    /// # Errors
    /// UNAVAILABLE if `out` fails.
    pub fn new(name: impl Into<String>, out: W) -> Result<Self> {
        let name = name.into();
        let writer = ProfileWriter::new(out).map_err(|error| failed(&name, &error))?;
        Ok(ProfileFile { name, writer: Mutex::new(Some(writer)) })
    }

    /// Ends the profile. What is written later fails.
    ///
    /// # Errors
    /// FAILED_PRECONDITION if it has ended, UNAVAILABLE if `out` fails.
    pub fn finish(&self) -> Result<W> {
        let writer = self.lock().take().ok_or_else(|| self.has_ended())?;
        writer.finish().map_err(|error| failed(&self.name, &error))
    }

    fn lock(&self) -> MutexGuard<'_, Option<ProfileWriter<W>>> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has_ended(&self) -> Status {
        Status::failed_precondition(format!("the profile `{}` has ended", self.name))
    }

    fn record(
        &self,
        record_type: RecordType,
        metadata: &ProfileChunkMetadata,
        status: u32,
        parts: &[&[u8]],
    ) -> Result<()> {
        let Some(content) = metadata.content_type.strip_prefix(CONTENT_TYPE_PREFIX) else {
            let message = format!("the content type is `{}`: expected `{CONTENT_TYPE_PREFIX}*`", metadata.content_type);
            return Err(Status::invalid_argument(message));
        };
        let header = RecordHeader {
            session_id: metadata.session_id,
            stream_id: metadata.stream_id,
            event_id: metadata.event_id,
            executable_id: metadata.executable_id,
            command_buffer_id: metadata.command_buffer_id,
            physical_device_ordinal: metadata.physical_device_ordinal,
            queue_ordinal: metadata.queue_ordinal,
            chunk_flags: metadata.flags.bits(),
            dropped_record_count: metadata.dropped_record_count,
            session_status_code: status,
            record_type: record_type.0,
            ..RecordHeader::read(&[0; RecordHeader::SIZE])
        };
        let mut writer = self.lock();
        let writer = writer.as_mut().ok_or_else(|| self.has_ended())?;
        let written = match parts {
            [part] => writer.record(&header, content, &metadata.name, part),
            parts => writer.record(&header, content, &metadata.name, &parts.concat()),
        };
        written.map_err(|error| failed(&self.name, &error))
    }
}

impl<W: Write + Seek + Send + 'static> ProfileSink for ProfileFile<W> {
    fn begin_session(&self, metadata: &ProfileChunkMetadata) -> Result<()> {
        self.record(RecordType::SESSION_BEGIN, metadata, 0, &[])
    }

    fn write(&self, metadata: &ProfileChunkMetadata, parts: &[&[u8]]) -> Result<()> {
        self.record(RecordType::CHUNK, metadata, 0, parts)
    }

    fn end_session(&self, metadata: &ProfileChunkMetadata, session_status_code: u32) -> Result<()> {
        self.record(RecordType::SESSION_END, metadata, session_status_code, &[])
    }
}

impl<W: Write + Seek> fmt::Debug for ProfileFile<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "profile `{}`", self.name)
    }
}

fn failed(name: &str, error: &io::Error) -> Status {
    Status::new(StatusCode::Unavailable, format!("cannot write the profile `{name}`: {error}"))
}
