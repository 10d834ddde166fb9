//! Plans: captures that were read and checked once, so that they can be replayed many times. All that a capture says of
//! itself is compared here: objects are named after they were made, once, and with the type that they have; ranges are
//! within buffers; payloads have the lengths of their counts.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use vireo_core::limits::{Charge, MemoryBudget};
use vireo_core::record_file::{Elements, TrailingError};
use vireo_core::status::{Result, Status, StatusCode};
use vireo_hal::{Executable, WHOLE_BUFFER};

use crate::generated::executor::{points, references};
use crate::generated::format::{ObjectType, RecordType};
use crate::generated::operations::operation;
use crate::generated::payloads::{
    AllocatorAllocateBuffer, AllocatorImportBuffer, BufferRange, BufferRangeDataParts, BufferRef, DeviceQueueAlloca,
    ReplayScopeParts, SemaphoreObject, Timepoint,
};
use crate::objects::ObjectTable;
use crate::operation::{Operation, Replay};
use crate::reader::{Reader, Record};
use crate::timelines::{Point, Timelines};

/// The points that a submission waits for, and those that it signals.
pub(crate) type Points<'a> = (Elements<'a, Timepoint>, Elements<'a, Timepoint>);

/// An object that a payload names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reference {
    /// Its type.
    object: ObjectType,
    /// Its number; 0 if there is none.
    id: u64,
    /// The first byte and the length of the range of a buffer.
    range: Option<(u64, u64)>,
}

impl Reference {
    /// An object.
    pub(crate) fn object(object: ObjectType, id: u64) -> Reference {
        Reference { object, id, range: None }
    }

    /// A range of a buffer.
    pub(crate) fn range(range: &BufferRef) -> Reference {
        let BufferRef { buffer_id: id, offset, length, .. } = *range;
        Reference { object: ObjectType::BUFFER, id, range: Some((offset, length)) }
    }

    /// Its type.
    pub(crate) fn kind(&self) -> ObjectType {
        self.object
    }

    /// Its number; 0 if there is none.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }
}

/// A step of a replay: a call, a scope, or a range that the host read.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    /// The place of its record in the file.
    pub(crate) offset: u64,
    /// The number of its record.
    pub(crate) ordinal: u64,
    /// The number of its operation.
    pub(crate) code: u32,
    /// The number of its payload.
    pub(crate) payload_type: u32,
    /// The object that is called.
    pub(crate) object: u64,
    /// The object that it makes, or has to do with in another way.
    pub(crate) related: u64,
    /// Its payload among the bytes of the plan.
    pub(crate) payload: Range<usize>,
    /// Among the points of the plan, those that a submission waits for; those that it signals follow.
    points: Range<u32>,
    signals: u32,
}

impl Step {
    /// The object that it makes. Steps that make none may have a related object, too.
    pub(crate) fn made(&self) -> Option<u64> {
        Operation::find(self.code)?.made().map(|_| self.related)
    }
}

/// A buffer, semaphore or other object, as a plan knows it.
#[derive(Clone, Copy, Debug)]
struct Known {
    object: ObjectType,
    place: u32,
    /// Bytes of a buffer.
    size: u64,
    /// The index of the last step that names it.
    last: u32,
}

/// The end of an object: no step after this one names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ending {
    /// The index of the step.
    pub(crate) step: u32,
    /// The place of the object in tables of objects.
    pub(crate) place: u32,
}

/// A capture that can be replayed.
#[derive(Debug)]
pub struct Plan {
    file: String,
    pub(crate) bytes: Arc<Vec<u8>>,
    pub(crate) steps: Vec<Step>,
    /// The points of submissions, so that no replay reads them from payloads.
    points: Vec<Point>,
    pub(crate) objects: ObjectTable,
    /// Places in tables of objects.
    pub(crate) places: usize,
    /// The numbers of devices, in the order in which a replay takes devices, each with that of its allocator.
    pub(crate) devices: Vec<(u64, Option<u64>)>,
    /// The ends of buffers, semaphores, command buffers and events, in order.
    pub(crate) endings: Vec<Ending>,
    /// The executables of the last replay, whose code the next one need not make again.
    pub(crate) executables: Mutex<Vec<Arc<dyn Executable>>>,
    /// Why a replay would wait for ever, if it would.
    pub(crate) hopeless: Option<Status>,
    _charge: Charge,
}

impl Plan {
    /// Reads all records. What is kept is charged to `memory`.
    ///
    /// # Errors
    /// Those of [`Reader::next_record`]; DATA_LOSS for payloads that are damaged; FAILED_PRECONDITION, ALREADY_EXISTS
    /// and OUT_OF_RANGE for objects and ranges that are not there; UNIMPLEMENTED for records that cannot be replayed;
    /// RESOURCE_EXHAUSTED if the capture is larger than the budget.
    pub fn read(reader: &mut Reader, memory: Option<&MemoryBudget>) -> Result<Plan> {
        // A step takes no more than the header of its record, and a point no more than twice its bytes in a payload.
        const { assert!(size_of::<Step>() <= crate::generated::payloads::RecordHeader::SIZE) };
        const { assert!(size_of::<Point>() <= 2 * Timepoint::SIZE) };
        let charge = Charge::new(memory, reader.end().saturating_mul(3), "capture")?;
        let mut planner = Planner::default();
        reader.rewind();
        while let Some(record) = reader.next_record().map_err(|error| error.status())? {
            planner.add(reader, &record)?;
        }
        reader.rewind();
        let Planner { bytes, steps, known, devices, .. } = planner;
        if devices.is_empty() {
            return Err(failed(reader, reader.end(), "the capture has no device: expected at least one"));
        }
        let places = known.len();
        let ends = |known: &&Known| {
            matches!(
                known.object,
                ObjectType::BUFFER | ObjectType::SEMAPHORE | ObjectType::COMMAND_BUFFER | ObjectType::EVENT
            )
        };
        let ending = |known: &Known| Ending { step: known.last, place: known.place };
        let mut endings: Vec<Ending> = known.values().filter(ends).map(ending).collect();
        endings.sort_unstable();
        let objects = ObjectTable::new(known.into_iter().map(|(id, known)| (id, known.place)).collect());
        let file = reader.source().name().to_string();
        let bytes = Arc::new(bytes);
        let (points, executables, hopeless) = (Vec::new(), Mutex::default(), None);
        let mut plan = Plan {
            file,
            bytes,
            steps,
            points,
            objects,
            places,
            devices,
            endings,
            executables,
            hopeless,
            _charge: charge,
        };
        plan.resolve_points()?;
        plan.hopeless = plan.check_waits().err();
        Ok(plan)
    }

    /// How many devices a replay takes.
    pub fn device_count(&self) -> usize {
        self.devices.len()
    }

    /// True if it has a scope with this name.
    pub fn has_scope(&self, name: &str) -> bool {
        let mut scopes = self.steps.iter().filter(|step| step.code == operation::REPLAY_SCOPE_BEGIN);
        scopes.any(|step| ReplayScopeParts::read(self.payload(step)).is_ok_and(|scope| scope.name == name.as_bytes()))
    }

    /// The number of the first record that waits for a point which only a later record signals, or none, if there is
    /// one: IREE's replay, which waits for each submission before the next one, does not go beyond.
    ///
    /// # Errors
    /// Those of damaged payloads, which a plan does not have.
    pub fn blocks_serial_replay(&self) -> Result<Option<u64>> {
        let mut timelines = Timelines::new(self.places);
        for (index, step) in self.steps.iter().enumerate() {
            let (waits, signals) = self.points_of(step, &mut timelines)?;
            if timelines.missing(waits).is_some() {
                return Ok(Some(step.ordinal));
            }
            timelines.submit(index, waits, signals);
        }
        Ok(None)
    }

    /// Fails if a submission waits for a point that nothing signals: a replay would wait for ever.
    fn check_waits(&self) -> Result<()> {
        let mut timelines = Timelines::new(self.places);
        for (index, step) in self.steps.iter().enumerate() {
            let (waits, signals) = self.points_of(step, &mut timelines)?;
            timelines.submit(index, waits, signals);
        }
        let Some((step, point)) = timelines.first_blocked() else { return Ok(()) };
        let Point { semaphore, value, .. } = point;
        let message = format!("it waits for value {value} of semaphore {semaphore}, which nothing signals");
        let status = Status::new(StatusCode::FailedPrecondition, message);
        Err(self.steps.get(step).map_or(status.clone(), |step| self.context(step, status)))
    }

    /// Reads the points of all submissions.
    fn resolve_points(&mut self) -> Result<()> {
        let (mut resolved, mut places) = (Vec::new(), Vec::with_capacity(self.steps.len()));
        for step in &self.steps {
            let first = resolved.len() as u32;
            if let Some((waits, signals)) = points(step.payload_type, self.payload(step))?
                && is_submission(step.code)
            {
                resolved.extend(waits.iter().map(|point| self.point(point)));
                let middle = resolved.len() as u32;
                resolved.extend(signals.iter().map(|point| self.point(point)));
                places.push((first..middle, resolved.len() as u32 - middle));
            } else {
                places.push((first..first, 0));
            }
        }
        if u32::try_from(resolved.len()).is_err() {
            let message = format!("the submissions of a capture have {} points: expected fewer", resolved.len());
            return Err(Status::new(StatusCode::ResourceExhausted, message));
        }
        for (step, (points, signals)) in self.steps.iter_mut().zip(places) {
            (step.points, step.signals) = (points, signals);
        }
        self.points = resolved;
        Ok(())
    }

    /// The points that a submission waits for.
    pub(crate) fn waits(&self, step: &Step) -> &[Point] {
        self.points.get(step.points.start as usize..step.points.end as usize).unwrap_or_default()
    }

    /// The points that a submission signals.
    pub(crate) fn signals(&self, step: &Step) -> &[Point] {
        let (first, count) = (step.points.end as usize, step.signals as usize);
        self.points.get(first..first + count).unwrap_or_default()
    }

    /// The points that a step waits for and signals, if it is a submission; the timelines that it makes begin.
    pub(crate) fn points_of(&self, step: &Step, timelines: &mut Timelines) -> Result<(&[Point], &[Point])> {
        if step.code == operation::DEVICE_CREATE_SEMAPHORE {
            let semaphore = SemaphoreObject::read(whole("semaphore_object", self.payload(step))?);
            timelines.begin(self.objects.place(step.related).unwrap_or(usize::MAX), semaphore.initial_value);
        }
        Ok((self.waits(step), self.signals(step)))
    }

    /// A point with the place of its semaphore.
    fn point(&self, point: Timepoint) -> Point {
        let Timepoint { semaphore_id: semaphore, value } = point;
        // The plan was made with semaphores that are there.
        Point { semaphore, place: self.objects.place(semaphore).unwrap_or(usize::MAX), value }
    }

    /// The payload of a step.
    pub(crate) fn payload(&self, step: &Step) -> &[u8] {
        self.bytes.get(step.payload.clone()).unwrap_or_default()
    }

    /// A failure of a step, with its place.
    pub(crate) fn context(&self, step: &Step, status: Status) -> Status {
        let Step { offset, ordinal, code, .. } = *step;
        let name = Operation::find(code).map_or("?", |operation| operation.name);
        status.context(format!("{}: byte {offset}: record {ordinal}, {name}", self.file))
    }
}

/// True for operations of queues: commands have no points.
fn is_submission(code: u32) -> bool {
    code != operation::COMMAND_BUFFER_DISPATCH
}

/// The bytes of a payload without parts.
pub(crate) fn whole<'a, const N: usize>(name: &'static str, payload: &'a [u8]) -> Result<&'a [u8; N]> {
    let bytes = payload.try_into().ok();
    bytes.ok_or_else(|| damaged(TrailingError::length(name, N as u64, payload.len() as u64)))
}

/// The error of a payload whose counts are wrong.
pub(crate) fn damaged(error: TrailingError) -> Status {
    Status::new(StatusCode::DataLoss, error.to_string())
}

fn failed(reader: &mut Reader, offset: u64, message: impl Into<String>) -> Status {
    reader.source().error(StatusCode::FailedPrecondition, offset, message).status()
}

/// The state while records are read.
#[derive(Default)]
struct Planner {
    bytes: Vec<u8>,
    steps: Vec<Step>,
    known: HashMap<u64, Known>,
    devices: Vec<(u64, Option<u64>)>,
}

impl Planner {
    fn add(&mut self, reader: &mut Reader, record: &Record) -> Result<()> {
        let header = &record.header;
        let refused = |reader: &mut Reader, message: String| {
            Err(reader.source().error(StatusCode::Unimplemented, record.offset, message).status())
        };
        match RecordType(header.record_type) {
            RecordType::SESSION => Ok(()),
            RecordType::OBJECT => self.add_object(reader, record),
            RecordType::OPERATION if header.status_code != 0 => Ok(()),
            RecordType::OPERATION => {
                let Some(operation) = Operation::find(header.operation_code) else {
                    return refused(reader, format!("operation {} is not known", header.operation_code));
                };
                match operation.replay {
                    Replay::Refuse => refused(reader, format!("`{}` cannot be replayed", operation.name)),
                    Replay::Skip if operation.code != operation::BUFFER_MAP_RANGE => Ok(()),
                    _ => {
                        let place = record.payload_offset();
                        let added = self.add_step(reader, record, operation);
                        added.map_err(|status| {
                            let name = reader.source().name().to_string();
                            let number = header.sequence_ordinal;
                            status.context(format!("{name}: byte {place}: record {number}, {}", operation.name))
                        })
                    }
                }
            }
            RecordType::UNSUPPORTED if header.status_code != 0 => Ok(()),
            other => {
                let name = other.name().unwrap_or("of an unknown type");
                refused(reader, format!("the record is {name}, which cannot be replayed"))
            }
        }
    }

    /// Devices and allocators are there before the first call; other objects are what calls make.
    fn add_object(&mut self, reader: &mut Reader, record: &Record) -> Result<()> {
        let (object, id) = (ObjectType(record.header.object_type), record.header.object_id);
        match object {
            ObjectType::DEVICE => self.devices.push((id, None)),
            ObjectType::ALLOCATOR => {
                let device = self.devices.iter_mut().find(|(device, _)| *device == record.header.device_id);
                let Some((_, allocator)) = device else {
                    let message = format!("the device {} of an allocator is not there", record.header.device_id);
                    return Err(failed(reader, record.offset, message));
                };
                *allocator = Some(id);
            }
            _ => return Ok(()),
        }
        self.make(object, id, 0)
            .map_err(|status| status.context(format!("{}: byte {}", reader.source().name(), record.offset)))
    }

    fn add_step(&mut self, reader: &mut Reader, record: &Record, operation: &Operation) -> Result<()> {
        let header = &record.header;
        let payload_type = header.payload_type;
        if payload_type != operation.payload && (operation.or == 0 || payload_type != operation.or) {
            let message = format!("the payload has type {payload_type}: expected {}", operation.payload);
            return Err(Status::new(StatusCode::DataLoss, message));
        }
        let payload = reader.payload(record, u64::MAX).map_err(|error| error.status())?;
        if payload_type == 0 && !payload.is_empty() {
            let message = format!("it has a payload of {} bytes: expected none", payload.len());
            return Err(Status::new(StatusCode::DataLoss, message));
        }
        if let Some(object) = operation.receiver() {
            self.named(Reference::object(object, header.object_id), true)?;
        }
        references(payload_type, &payload, &mut |reference| self.named(reference, false))?;
        match operation.code {
            operation::REPLAY_SCOPE_BEGIN | operation::REPLAY_SCOPE_END => {
                let scope = ReplayScopeParts::read(&payload).map_err(damaged)?;
                if scope.name.is_empty() || std::str::from_utf8(scope.name).is_err() || scope.head.flags != 0 {
                    return Err(Status::new(StatusCode::DataLoss, "a scope has a name in UTF-8, and no flags"));
                }
            }
            operation::BUFFER_MAP_RANGE => {
                let range = BufferRange::read(whole("buffer_range", &payload)?);
                self.within(header.object_id, range.byte_offset, range.byte_length)?;
            }
            operation::BUFFER_UNMAP_RANGE | operation::BUFFER_FLUSH_RANGE if payload_type == operation.payload => {
                let range = BufferRangeDataParts::read(&payload).map_err(damaged)?.head;
                self.within(header.object_id, range.byte_offset, range.data_length)?;
            }
            _ => {}
        }
        if let Some(made) = operation.made() {
            self.make(made, header.related_object_id, size_of_buffer(operation.code, &payload)?)?;
        }
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&payload);
        self.steps.push(Step {
            offset: record.offset,
            ordinal: header.sequence_ordinal,
            code: operation.code,
            payload_type,
            object: header.object_id,
            related: header.related_object_id,
            payload: start..self.bytes.len(),
            points: 0..0,
            signals: 0,
        });
        Ok(())
    }

    fn make(&mut self, object: ObjectType, id: u64, size: u64) -> Result<()> {
        let name = object.name().unwrap_or("object");
        if id == 0 {
            return Err(Status::new(StatusCode::FailedPrecondition, format!("a {name} has the number 0")));
        }
        let (place, last) = (self.known.len() as u32, self.steps.len() as u32);
        match self.known.insert(id, Known { object, place, size, last }) {
            None => Ok(()),
            Some(_) => Err(Status::new(StatusCode::AlreadyExists, format!("object {id} is made again, as {name}"))),
        }
    }

    /// Checks that an object is there, and that its type and range are right. The step that is added names it.
    fn named(&mut self, reference: Reference, is_needed: bool) -> Result<()> {
        let Reference { object, id, range } = reference;
        if id == 0 && !is_needed {
            return Ok(());
        }
        let name = object.name().unwrap_or("object");
        let step = self.steps.len() as u32;
        let message = match self.known.get_mut(&id) {
            Some(known) if known.object == object => {
                known.last = step;
                return range.map_or(Ok(()), |(offset, length)| self.within(id, offset, length));
            }
            Some(known) => format!("object {id} is a {}: expected a {name}", known.object.name().unwrap_or("?")),
            None => format!("the {name} {id} is not there yet"),
        };
        Err(Status::new(StatusCode::FailedPrecondition, message))
    }
    /// Checks that a range is within a buffer.
    fn within(&self, buffer: u64, offset: u64, length: u64) -> Result<()> {
        let size = self.known.get(&buffer).map_or(0, |known| known.size);
        let end = if length == WHOLE_BUFFER { Some(offset) } else { offset.checked_add(length) };
        if end.is_some_and(|end| end <= size) {
            return Ok(());
        }
        let message = format!("{length} bytes at {offset} of buffer {buffer}: expected a range of its {size} bytes");
        Err(Status::new(StatusCode::OutOfRange, message))
    }
}

/// Bytes of the buffer that a call makes.
pub(crate) fn size_of_buffer(code: u32, payload: &[u8]) -> Result<u64> {
    Ok(match code {
        operation::ALLOCATOR_ALLOCATE_BUFFER => {
            AllocatorAllocateBuffer::read(whole("allocator_allocate_buffer", payload)?).allocation_size
        }
        operation::ALLOCATOR_IMPORT_BUFFER => {
            let head = payload.first_chunk().map(AllocatorImportBuffer::read);
            head.map_or(0, |head| head.allocation.allocation_size)
        }
        operation::DEVICE_QUEUE_ALLOCA => {
            payload.first_chunk().map(DeviceQueueAlloca::read).map_or(0, |head| head.allocation.allocation_size)
        }
        _ => 0,
    })
}
