//! Edits of captures: copies with fewer records, in another order, with other executables, with what was read of files
//! instead of their paths, or without the data of a program and the paths of its machine.

use std::collections::{HashMap, HashSet};
use std::io::{Seek, Write};
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::sync::Arc;

use vireo_core::limits::{Charge, MemoryBudget};
use vireo_core::status::{Result, Status, StatusCode};
use vireo_hal::WHOLE_BUFFER;

use crate::captured_file::{CapturedFile, Files};
use crate::generated::dump::payload;
use crate::generated::format::{FileReferenceType, FileValidationType, RecordType};
use crate::generated::operations::operation;
use crate::generated::payloads::{
    DeviceQueueReadParts, DeviceQueueWriteParts, ExecutablePrepareParts, FileObject, FileObjectParts, RecordHeader,
};
use crate::operation::Operation;
use crate::options::{FileAccess, FileRemap, ParseError, Substitution};
use crate::plan::{Plan, damaged, size_of_buffer};
use crate::reader::Reader;
use crate::sequence::{Item, Sequence};
use crate::slice::Slice;
use crate::strip::{Stripped, strip_data, strip_path};

/// Numbers of records: `10`, `3-7`, `20-`, or several with commas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordRanges(Vec<RangeInclusive<u64>>);

impl FromStr for RecordRanges {
    type Err = ParseError;

    fn from_str(text: &str) -> std::result::Result<RecordRanges, ParseError> {
        const EXPECTED: &str = "expected numbers of records, such as `10`, `3-7`, `20-` or `3-7,12`";
        let number = |text: &str| text.parse::<u64>().map_err(|_| ParseError::new(EXPECTED));
        let ranges = text.split(',').map(|part| match part.split_once('-') {
            None => number(part).map(|one| one..=one),
            Some((first, "")) => number(first).map(|first| first..=u64::MAX),
            Some((first, last)) => match (number(first)?, number(last)?) {
                (first, last) if first <= last => Ok(first..=last),
                _ => Err(ParseError::new(EXPECTED)),
            },
        });
        ranges.collect::<std::result::Result<_, _>>().map(RecordRanges)
    }
}

impl RecordRanges {
    /// Whether a record is one of them.
    pub fn contains(&self, record: u64) -> bool {
        self.0.iter().any(|range| range.contains(&record))
    }
}

/// The edits of a copy. Records are chosen first, then changed.
#[derive(Clone, Debug, Default)]
pub struct EditOptions {
    /// These records alone, with what they need to do the same.
    pub keep: Option<RecordRanges>,
    /// Without these records, and those that need an object which one of them makes.
    pub drop: Option<RecordRanges>,
    /// In an order in which each submission waits for earlier ones alone. So are copies that leave records out.
    pub order: bool,
    /// Other executables.
    pub substitutions: Vec<Substitution>,
    /// With what was read of files, so that the files are not needed.
    pub inline: bool,
    /// Other places of these files.
    pub remaps: Vec<FileRemap>,
    /// With zeros for data that the host or files gave, and without expected outputs.
    pub strip_data: bool,
    /// Without the paths of files.
    pub strip_paths: bool,
}

/// The effects of an edit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edited {
    /// Records of the copy.
    pub records: u64,
    /// Records that it does not have.
    pub left_out: u64,
    /// Records that come after a later one of the capture.
    pub moved: u64,
    /// Barriers in place of submissions that are left out.
    pub barriers: u64,
    /// Executables that were replaced.
    pub substituted: u64,
    /// Reads of files that have their bytes now.
    pub inlined_reads: u64,
    /// Those bytes.
    pub inlined_bytes: u64,
    /// The paths of these files, as the capture has them.
    pub inlined_files: Vec<String>,
    /// Private parts that were removed.
    pub stripped: Stripped,
}

/// Writes a copy of a capture, whose headers and plan are charged to `memory`.
///
/// # Errors
/// Those of [`Plan::read`] where the plan is needed: to leave records out, and to order them; NOT_FOUND for an
/// executable that is not there; UNIMPLEMENTED for a file that is written and has to be in the copy; those of files;
/// UNAVAILABLE if `out` cannot be written.
pub fn edit(
    reader: &mut Reader,
    options: &EditOptions,
    memory: Option<&MemoryBudget>,
    out: impl Write + Seek,
) -> Result<Edited> {
    let sequence = Sequence::read(reader, memory)?;
    let items = items(reader, &sequence, options, memory)?;
    let mut edited = Edited::default();
    let mut last = None;
    for item in &items {
        match item {
            Item::Record(index) => {
                edited.moved += u64::from(last > Some(*index));
                last = last.max(Some(*index));
            }
            Item::Barrier { .. } => edited.barriers += 1,
        }
    }
    let mut changes = Changes { options, memory, files: HashMap::new(), sizes: HashMap::new(), found: HashSet::new() };
    if options.inline {
        changes.open_files(reader, &sequence, &items, &mut edited.inlined_files)?;
    }
    let mut change =
        |_: usize, header: &mut RecordHeader, payload: &mut Vec<u8>| changes.change(header, payload, &mut edited);
    let records = sequence.write(reader, &items, &mut change, out)?;
    for substitution in &options.substitutions {
        if let Some(id) = substitution.executable.filter(|id| !changes.found.contains(id)) {
            return Err(Status::new(StatusCode::NotFound, format!("executable {id} is not there")));
        }
    }
    edited.records = records;
    edited.left_out = (sequence.records.len() as u64 + edited.barriers).saturating_sub(records);
    Ok(edited)
}

/// The records of the copy in their order.
fn items(
    reader: &mut Reader,
    sequence: &Sequence,
    options: &EditOptions,
    memory: Option<&MemoryBudget>,
) -> Result<Vec<Item>> {
    if options.keep.is_none() && options.drop.is_none() && !options.order {
        return Ok(sequence.all());
    }
    let plan = Plan::read(reader, memory)?;
    let order = plan.serial_order()?;
    let count = sequence.records.len() as u64;
    for ranges in options.keep.iter().chain(&options.drop) {
        if let Some(range) = ranges.0.iter().find(|range| *range.start() >= count) {
            let message = format!("record {} is not there: the capture has {count}, which count from 0", range.start());
            return Err(Status::new(StatusCode::NotFound, message));
        }
    }
    let chosen =
        |ranges: &RecordRanges| plan.steps.iter().map(|step| ranges.contains(step.ordinal)).collect::<Vec<_>>();
    let slice = Slice::new(&plan)?;
    let mut kept = match &options.keep {
        Some(ranges) => slice.keep(&order, &chosen(ranges))?,
        None => vec![true; plan.steps.len()],
    };
    if let Some(ranges) = &options.drop {
        let without = slice.without(&order, &chosen(ranges))?;
        for (kept, stays) in kept.iter_mut().zip(without) {
            *kept &= stays;
        }
    }
    let others = |index: usize| {
        let is_kept = options.keep.as_ref().is_none_or(|ranges| ranges.contains(index as u64));
        let is_dropped = options.drop.as_ref().is_some_and(|ranges| ranges.contains(index as u64));
        sequence.is_device(index) || is_kept && !is_dropped
    };
    sequence.ordered(&plan, &order, &kept, &others)
}

/// The changes of records.
struct Changes<'a> {
    options: &'a EditOptions,
    memory: Option<&'a MemoryBudget>,
    /// The files that are read into the copy.
    files: HashMap<u64, CapturedFile>,
    /// Bytes of buffers.
    sizes: HashMap<u64, u64>,
    /// The executables that were replaced.
    found: HashSet<u64>,
}

/// Whether a record is a call that was successful.
fn is_call(header: &RecordHeader) -> bool {
    RecordType(header.record_type) == RecordType::OPERATION && header.status_code == 0
}

impl Changes<'_> {
    /// Opens the files that the records of the copy name, and fails if one of them is written.
    fn open_files(
        &mut self,
        reader: &mut Reader,
        sequence: &Sequence,
        items: &[Item],
        paths: &mut Vec<String>,
    ) -> Result<()> {
        for item in items {
            let Item::Record(index) = item else { continue };
            let Some(record) = sequence.records.get(*index).filter(|record| is_call(&record.header)) else { continue };
            let header = &record.header;
            let opens = [payload::FILE_OBJECT, payload::DEVICE_QUEUE_WRITE].contains(&header.payload_type);
            let makes_buffer =
                Operation::find(header.operation_code).is_some_and(|other| other.makes == Some("buffer"));
            if !opens && !makes_buffer {
                continue;
            }
            let bytes = reader.payload(record, u64::MAX).map_err(|error| error.status())?;
            let place = |status: Status| status.context(format!("record {index} (byte {})", record.offset));
            if makes_buffer {
                let size = size_of_buffer(header.operation_code, &bytes).map_err(place)?;
                self.sizes.insert(header.related_object_id, size);
            } else if header.payload_type == payload::DEVICE_QUEUE_WRITE {
                let file =
                    DeviceQueueWriteParts::read(&bytes).map_err(|error| place(damaged(error)))?.head.target_file_id;
                if self.files.contains_key(&file) {
                    let message = format!("file {file} is written: only files that are read can be in the capture");
                    return Err(place(Status::unimplemented(message)));
                }
            } else {
                let parts = FileObjectParts::read(&bytes).map_err(|error| place(damaged(error)))?;
                if parts.head.reference_type == FileReferenceType::EXTERNAL_PATH {
                    let files = Files { access: FileAccess::Read, remaps: &self.options.remaps };
                    let empty = (&Arc::new(Vec::new()), &(0..0));
                    let file = CapturedFile::open(&parts, empty, files).map_err(place)?;
                    self.files.insert(header.related_object_id, file);
                    paths.push(String::from_utf8_lossy(parts.reference).into_owned());
                }
            }
        }
        Ok(())
    }

    /// Changes a record; false if the copy does not have it.
    fn change(&mut self, header: &mut RecordHeader, bytes: &mut Vec<u8>, edited: &mut Edited) -> Result<bool> {
        let options = self.options;
        if is_call(header) && header.payload_type == payload::EXECUTABLE_PREPARE {
            self.substitute(header, bytes, edited)?;
        }
        if !self.files.is_empty() {
            if is_call(header) && header.operation_code == operation::DEVICE_QUEUE_READ {
                self.inline_read(bytes, edited)?;
            }
            self.inline_file(header, bytes)?;
        }
        if options.strip_paths {
            strip_path(header, bytes, &mut edited.stripped)?;
        }
        if options.strip_data {
            return strip_data(header, bytes, &mut edited.stripped);
        }
        Ok(true)
    }

    fn substitute(&mut self, header: &RecordHeader, bytes: &mut Vec<u8>, edited: &mut Edited) -> Result<()> {
        let id = header.related_object_id;
        let Some(substitution) = Substitution::of(&self.options.substitutions, id) else { return Ok(()) };
        let parts = ExecutablePrepareParts::read(bytes).map_err(damaged)?;
        let format = substitution.format.as_deref().map_or(parts.format, str::as_bytes);
        let constants: Vec<u32> = parts.constants.iter().collect();
        let mut replaced = Vec::new();
        let written = parts.head.write(&mut replaced, format, &substitution.data, &constants, parts.metadata);
        written.map_err(damaged)?;
        *bytes = replaced;
        self.found.insert(id);
        edited.substituted += 1;
        Ok(())
    }

    /// Gives a read of a file its bytes.
    fn inline_read(&self, bytes: &mut Vec<u8>, edited: &mut Edited) -> Result<()> {
        let parts = DeviceQueueReadParts::read(bytes).map_err(damaged)?;
        let mut head = parts.head;
        let Some(file) = self.files.get(&head.source_file_id).filter(|_| parts.captured_data.is_empty()) else {
            return Ok(());
        };
        let target = &mut head.target_ref;
        if target.length == WHOLE_BUFFER {
            let size = self.sizes.get(&target.buffer_id).copied().unwrap_or_default();
            target.length = size.saturating_sub(target.offset);
        }
        let length = target.length;
        let _charge = Charge::new(self.memory, length, "what is read of a file")?;
        let data = file.bytes(head.source_offset, length)?;
        let (wait, signal): (Vec<_>, Vec<_>) = (parts.wait.iter().collect(), parts.signal.iter().collect());
        let mut read = Vec::new();
        head.write(&mut read, &wait, &signal, &data).map_err(damaged)?;
        *bytes = read;
        edited.inlined_reads += 1;
        edited.inlined_bytes += length;
        Ok(())
    }

    /// Says of a file that what is read of it is in the reads.
    fn inline_file(&self, header: &RecordHeader, bytes: &mut Vec<u8>) -> Result<()> {
        let id = if is_call(header) { header.related_object_id } else { header.object_id };
        if header.payload_type != payload::FILE_OBJECT || !self.files.contains_key(&id) {
            return Ok(());
        }
        let parts = FileObjectParts::read(bytes).map_err(damaged)?;
        let head = FileObject {
            reference_type: FileReferenceType::CAPTURED_RANGES,
            validation_type: FileValidationType::NONE,
            file_device: 0,
            file_inode: 0,
            file_mtime_ns: 0,
            digest_type: 0,
            digest: [0; 32],
            ..parts.head
        };
        let mut file = Vec::new();
        head.write(&mut file, parts.reference).map_err(damaged)?;
        *bytes = file;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_numbers_of_records() {
        let ranges: RecordRanges = "3-7,12,20-".parse().expect("ranges");
        for (record, is_in) in [(2, false), (3, true), (7, true), (8, false), (12, true), (13, false), (u64::MAX, true)]
        {
            assert_eq!(ranges.contains(record), is_in, "{record}");
        }
        for text in ["", "-", "-3", "7-3", "a", "1,", "1--2", "1-2-3"] {
            assert!(text.parse::<RecordRanges>().is_err(), "{text}");
        }
    }
}
