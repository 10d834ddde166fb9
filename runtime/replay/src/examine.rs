//! The needs and the contents of a capture: files that it names, executables and whether they are machine code, bytes
//! of its program's data; and whether this replay and that of IREE run it.

use vireo_core::limits::MemoryBudget;
use vireo_core::status::{Result, Status};

use crate::expected::Expected;
use crate::extract::extract;
use crate::generated::dump::payload;
use crate::generated::format::{FileReferenceType, RecordType};
use crate::generated::payloads::{ExecutablePrepareParts, FileObject, FileObjectParts};
use crate::plan::{Plan, damaged};
use crate::reader::Reader;
use crate::summary::Summary;

/// Most files and executables that are listed.
const MOST_LISTED: usize = 1000;

/// A file that a capture names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedFile {
    /// The number of the record.
    pub record: u64,
    /// Its path. What is not UTF-8 in it is replaced.
    pub path: String,
    /// Whether it was open for writing.
    pub writable: bool,
    /// Whether it has to be there: what was read of others is in the capture.
    pub needed: bool,
}

/// An executable of a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapturedExecutable {
    /// Its number.
    pub id: u64,
    /// Its format. What is not UTF-8 in it is replaced.
    pub format: String,
    /// Its bytes.
    pub bytes: u64,
}

/// The needs and the contents of a capture.
#[derive(Clone, Debug)]
pub struct Examined {
    /// Counts of records and files.
    pub summary: Summary,
    /// The files that it names, at most 1000.
    pub files: Vec<NamedFile>,
    /// Its executables, at most 1000.
    pub executables: Vec<CapturedExecutable>,
    /// Bytes of files and of what the host wrote: data of the program.
    pub data_bytes: u64,
    /// Expected outputs.
    pub expected: u64,
    /// Why it cannot be replayed, if it cannot.
    pub refused: Option<Status>,
    /// The record at which IREE's replay waits for ever, if it does.
    pub blocks_serial_replay: Option<u64>,
}

impl Examined {
    /// Reads a capture. What a plan of it keeps is charged to `memory`.
    ///
    /// # Errors
    /// Those of records and of payloads that name files.
    pub fn read(reader: &mut Reader, memory: Option<&MemoryBudget>) -> Result<Examined> {
        let summary = Summary::read(reader).map_err(|error| error.status())?;
        let mut examined = Examined {
            summary,
            files: Vec::new(),
            executables: Vec::new(),
            data_bytes: 0,
            expected: 0,
            refused: None,
            blocks_serial_replay: None,
        };
        while let Some(record) = reader.next_record().map_err(|error| error.status())? {
            let header = &record.header;
            match RecordType(header.record_type) {
                RecordType::OPERATION if header.status_code == 0 => {
                    let is_listed = [payload::FILE_OBJECT, payload::EXECUTABLE_PREPARE].contains(&header.payload_type);
                    if is_listed && examined.files.len().max(examined.executables.len()) < MOST_LISTED {
                        let bytes = reader.payload(&record, u64::MAX).map_err(|error| error.status())?;
                        let (number, made) = (header.sequence_ordinal, header.related_object_id);
                        let added = examined.add(header.payload_type, &bytes, number, made);
                        added.map_err(|status| status.context(format!("record {number} (byte {})", record.offset)))?;
                    }
                }
                _ => {}
            }
        }
        extract(reader, &mut |part| {
            if !part.name.starts_with("executable") {
                examined.data_bytes = examined.data_bytes.saturating_add(part.bytes.len() as u64);
            }
            Ok(())
        })?;
        examined.expected = Expected::read(reader)?.count();
        match Plan::read(reader, memory) {
            Ok(plan) => {
                examined.blocks_serial_replay = plan.blocks_serial_replay()?;
                examined.refused = plan.hopeless;
            }
            Err(status) => examined.refused = Some(status),
        }
        Ok(examined)
    }

    fn add(&mut self, payload_type: u32, bytes: &[u8], record: u64, id: u64) -> Result<()> {
        if payload_type == payload::EXECUTABLE_PREPARE {
            let parts = ExecutablePrepareParts::read(bytes).map_err(damaged)?;
            let format = String::from_utf8_lossy(parts.format).into_owned();
            self.executables.push(CapturedExecutable { id, format, bytes: parts.data.len() as u64 });
            return Ok(());
        }
        let FileObjectParts { head: FileObject { reference_type, access, .. }, reference } =
            FileObjectParts::read(bytes).map_err(damaged)?;
        let needed = reference_type == FileReferenceType::EXTERNAL_PATH;
        if needed || reference_type == FileReferenceType::CAPTURED_RANGES {
            let writable = access & u32::from(vireo_hal::MemoryAccess::WRITE.bits()) != 0;
            let path = String::from_utf8_lossy(reference).into_owned();
            self.files.push(NamedFile { record, path, writable, needed });
        }
        Ok(())
    }
}
