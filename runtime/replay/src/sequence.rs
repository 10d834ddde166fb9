//! The records of a capture, which of them a copy has, and in which order. Edits and reductions write copies.

use std::collections::HashMap;
use std::io::{self, Seek, Write};

use vireo_core::limits::{Charge, MemoryBudget};
use vireo_core::status::{Result, Status, StatusCode};

use crate::generated::dump::payload;
use crate::generated::format::{ObjectType, PRIVATE_PAYLOAD, RecordType};
use crate::generated::operations::operation;
use crate::generated::payloads::{DeviceQueueExecute, RecordHeader, Timepoint};
use crate::operation::Operation;
use crate::plan::{Plan, damaged};
use crate::reader::{Reader, Record};
use crate::timelines::{Point, Timelines};
use crate::writer::CaptureWriter;

/// A record of a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Item {
    /// The record with this number.
    Record(usize),
    /// A barrier that signals points, in place of submissions that the copy does not have.
    Barrier { device: u64, signals: Vec<Timepoint> },
}

/// Changes a record, with its number and its payload; false if a copy does not have it.
pub(crate) type Change<'a> = dyn FnMut(usize, &mut RecordHeader, &mut Vec<u8>) -> Result<bool> + 'a;

/// The records of a capture.
pub(crate) struct Sequence {
    pub(crate) records: Vec<Record>,
    /// The record that each one belongs to: that of an object to the call that made it, an expected output to the read.
    owners: Vec<Option<u32>>,
    _charge: Charge,
}

impl Sequence {
    /// Reads the headers of all records, which are charged to `memory`.
    pub(crate) fn read(reader: &mut Reader, memory: Option<&MemoryBudget>) -> Result<Sequence> {
        // The capture has a header for each record.
        const { assert!(size_of::<Record>() + size_of::<Option<u32>>() <= 2 * RecordHeader::SIZE) };
        let charge = Charge::new(memory, reader.end().saturating_mul(4), "records")?;
        let (mut records, mut owners, mut makers) = (Vec::new(), Vec::new(), HashMap::new());
        reader.rewind();
        while let Some(record) = reader.next_record().map_err(|error| error.status())? {
            let header = &record.header;
            let number = u32::try_from(records.len())
                .map_err(|_| Status::resource_exhausted("the capture has more than 4294967295 records"))?;
            let owner = match RecordType(header.record_type) {
                RecordType::SESSION if header.payload_type == PRIVATE_PAYLOAD => number.checked_sub(1),
                RecordType::OBJECT => makers.get(&header.object_id).copied(),
                RecordType::OPERATION if header.status_code == 0 => {
                    if Operation::find(header.operation_code).is_some_and(|operation| operation.made().is_some()) {
                        makers.insert(header.related_object_id, number);
                    }
                    None
                }
                _ => None,
            };
            records.push(record);
            owners.push(owner);
        }
        reader.rewind();
        Ok(Sequence { records, owners, _charge: charge })
    }

    /// Whether a record says that there is a device or an allocator.
    pub(crate) fn is_device(&self, index: usize) -> bool {
        self.records.get(index).is_some_and(|record| {
            let kind = ObjectType(record.header.object_type);
            RecordType(record.header.record_type) == RecordType::OBJECT
                && (kind == ObjectType::DEVICE || kind == ObjectType::ALLOCATOR)
        })
    }

    /// The record that each step of a plan is, by the indices of steps.
    pub(crate) fn of_steps(plan: &Plan) -> Vec<usize> {
        // The number of a record is the index in the list of all.
        plan.steps.iter().map(|step| step.ordinal as usize).collect()
    }

    /// All records in their order.
    pub(crate) fn all(&self) -> Vec<Item> {
        (0..self.records.len()).map(Item::Record).collect()
    }

    /// The records of a copy: steps in the order of `order`, as far as they are `kept`, each with what belongs to it,
    /// and between them the records that are no steps and are `others`. Points that a kept submission waits for, and
    /// that none before it signals any more, are signalled by barriers.
    pub(crate) fn ordered(
        &self,
        plan: &Plan,
        order: &[usize],
        kept: &[bool],
        others: &dyn Fn(usize) -> bool,
    ) -> Result<Vec<Item>> {
        let of_steps = Sequence::of_steps(plan);
        let mut belongings: HashMap<u32, Vec<usize>> = HashMap::new();
        for (index, owner) in self.owners.iter().enumerate() {
            if let Some(owner) = owner {
                belongings.entry(*owner).or_default().push(index);
            }
        }
        let mut is_step = vec![false; self.records.len()];
        for record in &of_steps {
            if let Some(is_step) = is_step.get_mut(*record) {
                *is_step = true;
            }
        }
        let owners = &self.owners;
        let is_lone = |index: &usize| !is_step[*index] && owners[*index].is_none();
        let mut items = Vec::new();
        let mut timelines = Timelines::new(plan.places);
        // Records below this number that are no steps were looked at.
        let mut reached = 0;
        let add = |items: &mut Vec<Item>, record: usize| {
            let mut stack = vec![record];
            while let Some(record) = stack.pop() {
                items.push(Item::Record(record));
                stack.extend(belongings.get(&(record as u32)).into_iter().flatten().rev());
            }
        };
        for index in order {
            let (Some(step), Some(record)) = (plan.steps.get(*index), of_steps.get(*index).copied()) else { continue };
            for lone in (reached..record).filter(is_lone).filter(|lone| others(*lone)) {
                add(&mut items, lone);
            }
            reached = reached.max(record);
            if !kept.get(*index).copied().unwrap_or(false) {
                continue;
            }
            let (waits, signals) = plan.points_of(step, &mut timelines)?;
            let missing: Vec<Point> =
                waits.iter().copied().filter(|point| timelines.missing(&[*point]).is_some()).collect();
            if !missing.is_empty() {
                timelines.promise(&missing);
                let point = |point: &Point| Timepoint { semaphore_id: point.semaphore, value: point.value };
                items.push(Item::Barrier { device: step.object, signals: missing.iter().map(point).collect() });
            }
            timelines.promise(signals);
            add(&mut items, record);
        }
        for lone in (reached..self.records.len()).filter(is_lone).filter(|lone| others(*lone)) {
            add(&mut items, lone);
        }
        Ok(items)
    }

    /// Writes a copy. `change` gets each record with its payload, and says whether the copy has it.
    pub(crate) fn write(
        &self,
        reader: &mut Reader,
        items: &[Item],
        change: &mut Change<'_>,
        out: impl Write + Seek,
    ) -> Result<u64> {
        let unwritable = |error: io::Error| Status::new(StatusCode::Unavailable, error.to_string());
        let mut writer = CaptureWriter::new(out).map_err(unwritable)?;
        let mut count = 0;
        for item in items {
            vireo_core::limits::scope::check()?;
            match item {
                Item::Record(index) => {
                    let Some(record) = self.records.get(*index) else { continue };
                    let mut payload = reader.payload(record, u64::MAX).map_err(|error| error.status())?;
                    let mut header = RecordHeader { padding: [0; 4], ..record.header };
                    let name = reader.source().name().to_string();
                    let stays = change(*index, &mut header, &mut payload)
                        .map_err(|status| status.context(format!("{name}: byte {}: record {index}", record.offset)))?;
                    if !stays {
                        continue;
                    }
                    writer.record(&header, &payload).map_err(unwritable)?;
                }
                Item::Barrier { device, signals } => {
                    let (header, payload) = barrier(*device, signals)?;
                    writer.record(&header, &payload).map_err(unwritable)?;
                }
            }
            count += 1;
        }
        writer.finish().map_err(unwritable)?;
        Ok(count)
    }
}

/// A submission that waits for nothing and signals points.
fn barrier(device: u64, signals: &[Timepoint]) -> Result<(RecordHeader, Vec<u8>)> {
    let execute = DeviceQueueExecute { queue_affinity: u64::MAX, ..DeviceQueueExecute::default() };
    let mut bytes = Vec::new();
    execute.write(&mut bytes, &[], signals, &[]).map_err(damaged)?;
    let header = RecordHeader {
        record_type: RecordType::OPERATION.0,
        payload_type: payload::DEVICE_QUEUE_EXECUTE,
        operation_code: operation::DEVICE_QUEUE_EXECUTE,
        device_id: device,
        object_id: device,
        object_type: ObjectType::DEVICE.0,
        ..RecordHeader::default()
    };
    Ok((header, bytes))
}
