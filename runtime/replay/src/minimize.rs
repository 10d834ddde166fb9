//! Captures of one dispatch: its executable, the contents of its bindings before it, and those after it as expected
//! outputs. The contents are those of a replay up to there.

use std::collections::HashSet;
use std::io::{self, Seek, Write};

use vireo_core::limits::{Charge, scope};
use vireo_core::status::{Result, Status, StatusCode};
use vireo_hal::{BufferUsage, MappingMode, MemoryAccess, MemoryType};

use crate::diff::DiffSide;
use crate::digest::fnv1a;
use crate::expected::{LONGEST_OUTPUT, expected_read};
use crate::generated::dump::payload;
use crate::generated::format::{FNV1A_OFFSET_BASIS, ObjectType, RecordType};
use crate::generated::operations::operation;
use crate::generated::payloads::{
    AllocatorAllocateBuffer, BufferRange, BufferRangeData, BufferRef, DeviceQueueFill, DispatchParts,
    ExecutablePrepareParts, RecordHeader, SemaphoreObject, Timepoint,
};
use crate::options::Substitution;
use crate::plan::{Plan, Step, damaged};
use crate::stepper::{BoundRange, CHUNK, SteppedDispatch, Stepper, Stop};
use crate::writer::CaptureWriter;

/// Ranges begin at multiples of this, counted from the begin of a buffer, so that they are aligned as they were.
const ALIGNMENT: u64 = 256;

/// The numbers of the objects that each of these captures has.
const DEVICE: u64 = 1;
const ALLOCATOR: u64 = 2;
const CACHE: u64 = 3;
const EXECUTABLE: u64 = 4;
const SEMAPHORE: u64 = 5;
const FIRST_BUFFER: u64 = 6;

/// A capture of one dispatch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Minimized {
    /// The dispatch.
    pub dispatch: SteppedDispatch,
    /// Bytes of its buffers.
    pub buffer_bytes: u64,
    /// Expected outputs.
    pub outputs: u64,
}

/// Replays `side` up to the dispatch with this number, which counts from 0, and writes a capture of it alone. Its
/// expected outputs are the results of that replay, or those of the dispatch with this number of `expected`, such as
/// the capture of a build that computes right.
///
/// # Errors
/// NOT_FOUND if there are fewer dispatches; FAILED_PRECONDITION if `expected` dispatches another function there, or one
/// with other bindings; UNAVAILABLE if `out` cannot be written; those of [`Plan::run`].
pub fn minimize<'a>(
    side: DiffSide<'a>,
    number: u64,
    expected: Option<DiffSide<'a>>,
    out: impl Write + Seek,
) -> Result<Minimized> {
    let _started = scope::start(&side.options.limits);
    let _charge = Charge::of_call(4 * CHUNK as u64, "contents of buffers")?;
    let mut stepper = Stepper::new(side.plan, side.devices, side.options)?;
    let dispatch = dispatch_at(&mut stepper, number)?;
    let regions = Regions::of(&dispatch);
    let writer = CaptureWriter::new(out).map_err(unwritable)?;
    let mut capture = Capture { writer, value: 0, bytes: vec![0; CHUNK] };
    capture.begin(&stepper, side, &dispatch)?;
    for (region, buffer) in regions.0.iter().zip(FIRST_BUFFER..) {
        capture.region(&mut stepper, region, buffer)?;
    }
    capture.dispatch(side.plan, &dispatch, &regions)?;
    let (mut stepper, results) = match expected {
        None => (stepper, dispatch.clone()),
        Some(expected) => {
            // The memory of the first replay goes before that of the second one comes.
            drop(stepper);
            let mut other = Stepper::new(expected.plan, expected.devices, expected.options)?;
            let found = dispatch_at(&mut other, number)?;
            check_same(&dispatch, &found)?;
            (other, found)
        }
    };
    stepper.pass()?;
    let (mut outputs, mut seen) = (0, HashSet::new());
    for (binding, result) in dispatch.bindings.iter().zip(&results.bindings) {
        if binding.length > 0 && seen.insert(*binding) {
            capture.output(&mut stepper, regions.place(binding), result)?;
            outputs += 1;
        }
    }
    capture.writer.finish().map_err(unwritable)?;
    let buffer_bytes = regions.0.iter().map(Region::size).sum();
    Ok(Minimized { dispatch, buffer_bytes, outputs })
}

fn unwritable(error: io::Error) -> Status {
    Status::new(StatusCode::Unavailable, error.to_string())
}

/// Goes on to before the dispatch with this number.
fn dispatch_at(stepper: &mut Stepper<'_>, number: u64) -> Result<SteppedDispatch> {
    let mut count = 0;
    loop {
        match stepper.advance()? {
            Stop::Dispatch(dispatch) if dispatch.number == number => return Ok(dispatch),
            Stop::Dispatch(_) => {
                count += 1;
                stepper.pass()?;
            }
            Stop::Read(_) => {}
            Stop::End => {
                let message = format!("dispatch {number} is not there: the capture has {count}, which count from 0");
                return Err(Status::new(StatusCode::NotFound, message));
            }
        }
    }
}

/// Fails unless two dispatches are of one function, and have bindings of one size.
fn check_same(one: &SteppedDispatch, other: &SteppedDispatch) -> Result<()> {
    let lengths = |dispatch: &SteppedDispatch| dispatch.bindings.iter().map(|bound| bound.length).collect::<Vec<_>>();
    let message = if one.function != other.function {
        format!("dispatch {} is of `{}`: expected `{}`", one.number, other.function, one.function)
    } else if lengths(one) != lengths(other) {
        let (found, expected) = (lengths(other), lengths(one));
        format!("the bindings of dispatch {} have {found:?} bytes: expected {expected:?}", one.number)
    } else {
        return Ok(());
    };
    Err(Status::failed_precondition(message))
}

/// A part of a buffer that ranges of a dispatch share; it becomes a buffer of its own.
#[derive(Clone, Copy, Debug)]
struct Region {
    buffer: u64,
    /// Its first byte in the buffer, and that of the new buffer.
    first: u64,
    start: u64,
    end: u64,
}

impl Region {
    /// Bytes of the new buffer: one at least.
    fn size(&self) -> u64 {
        (self.end - self.start).max(1)
    }
}

/// The parts of buffers that a dispatch uses, without overlaps.
struct Regions(Vec<Region>);

impl Regions {
    fn of(dispatch: &SteppedDispatch) -> Regions {
        let mut ranges: Vec<BoundRange> = dispatch.bindings.iter().chain(&dispatch.counts).copied().collect();
        ranges.retain(|range| range.buffer != 0);
        ranges.sort_unstable_by_key(|range| (range.buffer, range.offset));
        let mut regions: Vec<Region> = Vec::new();
        for BoundRange { buffer, offset: first, length } in ranges {
            // The range is within its buffer.
            let end = first + length;
            match regions.last_mut().filter(|region| region.buffer == buffer && first <= region.end) {
                Some(region) => region.end = region.end.max(end),
                None => regions.push(Region { buffer, first, start: first - first % ALIGNMENT, end }),
            }
        }
        Regions(regions)
    }

    /// The new buffer that a range is in, and its offset there; none for nothing.
    fn place(&self, range: &BoundRange) -> BufferRef {
        let is_in =
            |region: &Region| region.buffer == range.buffer && (region.first..=region.end).contains(&range.offset);
        // Of two regions that a range without bytes is in, either will do; others are in the last alone.
        let Some(index) = self.0.iter().rposition(is_in) else { return BufferRef::default() };
        let start = self.0.get(index).map_or(0, |region| region.start);
        let buffer_id = FIRST_BUFFER + index as u64;
        BufferRef { buffer_id, offset: range.offset - start, length: range.length, ..BufferRef::default() }
    }
}

/// The capture that is written.
struct Capture<W: Write + Seek> {
    writer: CaptureWriter<W>,
    /// The last value of the semaphore that a submission signals.
    value: u64,
    bytes: Vec<u8>,
}

impl<W: Write + Seek> Capture<W> {
    fn append(&mut self, header: &RecordHeader, payload: &[u8]) -> Result<()> {
        self.writer.record(header, payload).map_err(unwritable)
    }

    fn call(&mut self, code: u32, (object, kind): (u64, ObjectType), made: u64, payload: (u32, &[u8])) -> Result<()> {
        let header = RecordHeader {
            record_type: RecordType::OPERATION.0,
            payload_type: payload.0,
            operation_code: code,
            device_id: DEVICE,
            object_id: object,
            object_type: kind.0,
            related_object_id: made,
            ..RecordHeader::default()
        };
        self.append(&header, payload.1)
    }

    fn on_device(&mut self, code: u32, made: u64, payload: (u32, &[u8])) -> Result<()> {
        self.call(code, (DEVICE, ObjectType::DEVICE), made, payload)
    }

    /// The points that the next submission waits for and signals.
    fn points(&mut self) -> (Vec<Timepoint>, [Timepoint; 1]) {
        let point = |value| Timepoint { semaphore_id: SEMAPHORE, value };
        let wait = (self.value > 0).then(|| point(self.value)).into_iter().collect();
        self.value += 1;
        (wait, [point(self.value)])
    }

    /// The device, the executable and a semaphore.
    fn begin(&mut self, stepper: &Stepper<'_>, side: DiffSide<'_>, dispatch: &SteppedDispatch) -> Result<()> {
        self.append(&RecordHeader { record_type: RecordType::SESSION.0, ..RecordHeader::default() }, &[])?;
        for (id, kind) in [(DEVICE, ObjectType::DEVICE), (ALLOCATOR, ObjectType::ALLOCATOR)] {
            let header = RecordHeader {
                record_type: RecordType::OBJECT.0,
                device_id: DEVICE,
                object_id: id,
                object_type: kind.0,
                ..RecordHeader::default()
            };
            self.append(&header, &[])?;
        }
        let plan = side.plan;
        let executable = dispatch_parts(plan, dispatch)?.head.executable_id;
        let prepare = maker(plan, executable)?;
        let cache = plan.payload(maker(plan, prepare.object)?);
        self.on_device(operation::DEVICE_CREATE_EXECUTABLE_CACHE, CACHE, (payload::EXECUTABLE_CACHE_OBJECT, cache))?;
        let captured = plan.payload(prepare);
        let replaced = Substitution::of(&side.options.substitutions, executable);
        let mut bytes = Vec::new();
        if let Some(substitution) = replaced {
            let parts = ExecutablePrepareParts::read(captured).map_err(damaged)?;
            let format = match &substitution.format {
                Some(format) => format.clone(),
                None => stepper.infer_format(prepare.object, &substitution.data)?,
            };
            let constants: Vec<u32> = parts.constants.iter().collect();
            let written =
                parts.head.write(&mut bytes, format.as_bytes(), &substitution.data, &constants, parts.metadata);
            written.map_err(damaged)?;
        }
        let prepared = if replaced.is_some() { &bytes } else { captured };
        self.call(
            operation::EXECUTABLE_CACHE_PREPARE_EXECUTABLE,
            (CACHE, ObjectType::EXECUTABLE_CACHE),
            EXECUTABLE,
            (payload::EXECUTABLE_PREPARE, prepared),
        )?;
        let semaphore = SemaphoreObject { queue_affinity: u64::MAX, ..SemaphoreObject::default() }.to_bytes();
        self.on_device(operation::DEVICE_CREATE_SEMAPHORE, SEMAPHORE, (payload::SEMAPHORE_OBJECT, &semaphore))
    }

    /// A buffer with the contents of a region.
    fn region(&mut self, stepper: &mut Stepper<'_>, region: &Region, buffer: u64) -> Result<()> {
        let allocate = AllocatorAllocateBuffer {
            allocation_size: region.size(),
            queue_affinity: u64::MAX,
            min_alignment: 0,
            usage: (BufferUsage::DEFAULT | BufferUsage::MAPPING).bits(),
            r#type: (MemoryType::DEVICE_LOCAL | MemoryType::HOST_VISIBLE).bits(),
            access: MemoryAccess::ALL.bits(),
            ..AllocatorAllocateBuffer::default()
        };
        self.call(
            operation::ALLOCATOR_ALLOCATE_BUFFER,
            (ALLOCATOR, ObjectType::ALLOCATOR),
            buffer,
            (payload::ALLOCATOR_ALLOCATE_BUFFER, &allocate.to_bytes()),
        )?;
        let mut place = region.first;
        while place < region.end {
            scope::check()?;
            let length = (region.end - place).min(CHUNK as u64);
            let mut bytes = std::mem::take(&mut self.bytes);
            let part = bytes.get_mut(..length as usize).unwrap_or_default();
            let written = stepper.read(region.buffer, place, part).and_then(|()| {
                // Most of what a dispatch writes is zero before, since a stepper clears memory.
                match part.iter().all(|byte| *byte == 0) {
                    true => self.zeros(buffer, place - region.start, length),
                    false => self.contents(buffer, place - region.start, part),
                }
            });
            self.bytes = bytes;
            written?;
            place += length;
        }
        Ok(())
    }

    fn zeros(&mut self, buffer: u64, offset: u64, length: u64) -> Result<()> {
        let (wait, signal) = self.points();
        let fill = DeviceQueueFill {
            target_ref: BufferRef { buffer_id: buffer, offset, length, ..BufferRef::default() },
            queue_affinity: u64::MAX,
            ..DeviceQueueFill::default()
        };
        let mut bytes = Vec::new();
        fill.write(&mut bytes, &wait, &signal, &[0]).map_err(damaged)?;
        self.on_device(operation::DEVICE_QUEUE_FILL, 0, (payload::DEVICE_QUEUE_FILL, &bytes))
    }

    fn contents(&mut self, buffer: u64, offset: u64, contents: &[u8]) -> Result<()> {
        let (length, access) = (contents.len() as u64, MemoryAccess::WRITE | MemoryAccess::DISCARD);
        let range = range_of(offset, length, access);
        let on = (buffer, ObjectType::BUFFER);
        self.call(operation::BUFFER_MAP_RANGE, on, 0, (payload::BUFFER_RANGE, &range.to_bytes()))?;
        let head = BufferRangeData {
            byte_offset: offset,
            byte_length: length,
            memory_access: access.bits(),
            ..BufferRangeData::default()
        };
        let mut bytes = Vec::with_capacity(BufferRangeData::SIZE + contents.len());
        head.write(&mut bytes, contents).map_err(damaged)?;
        self.call(operation::BUFFER_UNMAP_RANGE, on, 0, (payload::BUFFER_RANGE_DATA, &bytes))
    }

    fn dispatch(&mut self, plan: &Plan, dispatch: &SteppedDispatch, regions: &Regions) -> Result<()> {
        let parts = dispatch_parts(plan, dispatch)?;
        let mut head = parts.head;
        (head.executable_id, head.queue_affinity) = (EXECUTABLE, u64::MAX);
        head.workgroup_count_ref = dispatch.counts.as_ref().map(|counts| regions.place(counts)).unwrap_or_default();
        let bindings: Vec<BufferRef> = dispatch.bindings.iter().map(|range| regions.place(range)).collect();
        let (wait, signal) = self.points();
        let mut bytes = Vec::new();
        head.write(&mut bytes, &wait, &signal, parts.constants, &bindings).map_err(damaged)?;
        self.on_device(operation::DEVICE_QUEUE_DISPATCH, 0, (payload::DISPATCH, &bytes))
    }

    /// A read of the host of the range `read`, which is expected to be as `result` is now.
    fn output(&mut self, stepper: &mut Stepper<'_>, read: BufferRef, result: &BoundRange) -> Result<()> {
        let BufferRef { buffer_id: buffer, offset, length, .. } = read;
        let on = (buffer, ObjectType::BUFFER);
        let mut range = range_of(offset, length, MemoryAccess::READ);
        self.call(operation::BUFFER_MAP_RANGE, on, 0, (payload::BUFFER_RANGE, &range.to_bytes()))?;
        let (mut digest, mut kept, mut done) = (FNV1A_OFFSET_BASIS, Vec::new(), 0);
        while done < length {
            scope::check()?;
            let part = (length - done).min(CHUNK as u64);
            let bytes = self.bytes.get_mut(..part as usize).unwrap_or_default();
            stepper.read(result.buffer, result.offset + done, bytes)?;
            digest = fnv1a(digest, bytes);
            if length <= LONGEST_OUTPUT as u64 {
                kept.extend_from_slice(bytes);
            }
            done += part;
        }
        let (header, payload) = expected_read(buffer, offset, length, digest, &kept)?;
        self.append(&header, &payload)?;
        range.mapping_mode = 0;
        self.call(operation::BUFFER_UNMAP_RANGE, on, 0, (payload::BUFFER_RANGE, &range.to_bytes()))
    }
}

fn range_of(byte_offset: u64, byte_length: u64, access: MemoryAccess) -> BufferRange {
    let (mapping_mode, memory_access) = (MappingMode::SCOPED.bits(), access.bits());
    BufferRange { byte_offset, byte_length, mapping_mode, memory_access, ..BufferRange::default() }
}

fn dispatch_parts<'a>(plan: &'a Plan, dispatch: &SteppedDispatch) -> Result<DispatchParts<'a>> {
    let bytes = plan.steps.get(dispatch.step).map_or(&[][..], |step| plan.payload(step));
    DispatchParts::read(bytes).map_err(damaged)
}

/// The step that makes an object.
fn maker(plan: &Plan, id: u64) -> Result<&Step> {
    let missing = || Status::new(StatusCode::FailedPrecondition, format!("object {id} is not there"));
    plan.steps.iter().find(|step| step.made() == Some(id)).ok_or_else(missing)
}
