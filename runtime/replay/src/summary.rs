//! The summary of a capture: how many records it has of each type, and what it needs of its environment.

use vireo_core::record_file::ReadError;

use crate::generated::dump::payload;
use crate::generated::format::{FileReferenceType, FileValidationType, RecordType};
use crate::generated::operations::operation;
use crate::generated::payloads::{DeviceQueueRead, FileObject};
use crate::payload::PayloadReader;
use crate::reader::{Reader, Record};

/// Counts of files, or of their bytes, by the way in which a capture has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileCounts {
    /// Of files that are named.
    pub external: u64,
    /// Of files whose contents are in the capture.
    pub inline: u64,
    /// Of files of which the capture has what was read.
    pub ranges: u64,
    /// Of files with another reference.
    pub unknown: u64,
}

/// Counts of files by the way in which they are checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ValidationCounts {
    /// By identity.
    pub identity: u64,
    /// By a digest.
    pub digest: u64,
    /// By their length.
    pub none: u64,
    /// In another way.
    pub unknown: u64,
}

/// The summary of a capture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Records.
    pub records: u64,
    /// Records of objects.
    pub objects: u64,
    /// Records of operations.
    pub operations: u64,
    /// Records of calls that the format cannot repeat.
    pub unsupported: u64,
    /// Beginnings of scopes.
    pub scope_begins: u64,
    /// Ends of scopes.
    pub scope_ends: u64,
    /// Files.
    pub files: u64,
    /// Files by reference.
    pub file_counts: FileCounts,
    /// Bytes of files by reference.
    pub file_bytes: FileCounts,
    /// Bytes that reads of files carry.
    pub captured_reads: u64,
    /// Files by validation.
    pub validation: ValidationCounts,
}

impl Summary {
    /// Reads all records of `reader`, which is at the first one then.
    ///
    /// # Errors
    /// Those of records, and of payloads that name files.
    pub fn read(reader: &mut Reader) -> Result<Summary, ReadError> {
        let mut summary = Summary::default();
        reader.rewind();
        while let Some(record) = reader.next_record()? {
            summary.add(reader, &record)?;
        }
        reader.rewind();
        Ok(summary)
    }

    /// True if it needs files of its environment.
    pub fn environment_referenced(&self) -> bool {
        self.file_counts.external != 0
    }

    /// True if all that it needs is in it.
    pub fn hermetic(&self) -> bool {
        !self.environment_referenced() && self.file_counts.unknown == 0
    }

    /// True if every record can be replayed.
    pub fn strict_replay_supported(&self) -> bool {
        self.unsupported == 0 && self.file_counts.unknown == 0 && self.validation.unknown == 0
    }

    fn add(&mut self, reader: &mut Reader, record: &Record) -> Result<(), ReadError> {
        self.records += 1;
        let header = &record.header;
        let mut content = PayloadReader::new(reader.source(), record.payload_offset(), header.payload_length);
        match RecordType(header.record_type) {
            RecordType::OBJECT => {
                self.objects += 1;
                if header.payload_type == payload::FILE_OBJECT {
                    let file = FileObject::read(&content.head("file_object")?);
                    let ranges = content.check_counts(file.ranges())?;
                    content.check_end("file_object", ranges.end)?;
                    self.add_file(&file);
                }
            }
            RecordType::OPERATION => {
                self.operations += 1;
                match header.operation_code {
                    operation::REPLAY_SCOPE_BEGIN => self.scope_begins += 1,
                    operation::REPLAY_SCOPE_END => self.scope_ends += 1,
                    _ => {}
                }
                if header.payload_type == payload::DEVICE_QUEUE_READ {
                    let read = DeviceQueueRead::read(&content.head("device_queue_read")?);
                    add(&mut self.captured_reads, read.captured_data_length);
                }
            }
            RecordType::UNSUPPORTED => self.unsupported += 1,
            _ => {}
        }
        Ok(())
    }

    fn add_file(&mut self, file: &FileObject) {
        self.files += 1;
        let (counts, bytes) = (&mut self.file_counts, &mut self.file_bytes);
        let (count, total, length) = match file.reference_type {
            FileReferenceType::EXTERNAL_PATH => (&mut counts.external, &mut bytes.external, file.file_length),
            FileReferenceType::INLINE_BYTES => (&mut counts.inline, &mut bytes.inline, file.reference_length),
            FileReferenceType::CAPTURED_RANGES => (&mut counts.ranges, &mut bytes.ranges, file.file_length),
            _ => (&mut counts.unknown, &mut bytes.unknown, 0),
        };
        *count += 1;
        add(total, length);
        let validation = &mut self.validation;
        *match file.validation_type {
            FileValidationType::NONE => &mut validation.none,
            FileValidationType::IDENTITY => &mut validation.identity,
            FileValidationType::CONTENT_DIGEST => &mut validation.digest,
            _ => &mut validation.unknown,
        } += 1;
    }
}

/// Adds lengths that a file states: they may be anything, and wrap as those of IREE's tool do.
fn add(total: &mut u64, length: u64) {
    *total = total.wrapping_add(length);
}
