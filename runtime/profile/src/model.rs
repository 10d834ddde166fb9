//! Executables, functions, command buffers, clocks and metrics of chunks, by the numbers that events have.

use std::collections::{BTreeMap, BTreeSet};

use vireo_core::record_file::ReadError;

use crate::generated::contents::Content;
use crate::generated::format::{BLOCK_STRUCTURE, CLOCK_UNALIGNED, NONE};
use crate::generated::records::{
    ClockCorrelation, CommandBuffer, CommandOperation, DeviceMetricDescriptor, DeviceMetricDescriptorParts, Executable,
    ExecutableFunctionParts,
};
use crate::reader::{Reader, TypedRecord};

/// The samples of the clocks of a device.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clocks {
    /// How many there are.
    pub samples: u64,
    /// How many have ticks that are not aligned with those of events.
    pub unaligned: u64,
    /// The first one.
    pub first: Option<ClockCorrelation>,
    /// The last one.
    pub last: Option<ClockCorrelation>,
}

impl Clocks {
    /// Adds a sample.
    pub fn add(&mut self, sample: &ClockCorrelation) {
        self.samples += 1;
        self.unaligned += u64::from(sample.flags & CLOCK_UNALIGNED != 0);
        self.first.get_or_insert(*sample);
        self.last = Some(*sample);
    }
}

/// A metric and its name.
#[derive(Clone, Debug)]
pub struct Metric {
    /// Its record.
    pub record: DeviceMetricDescriptor,
    /// Its name.
    pub name: Vec<u8>,
}

/// The targets of events. Of several records with the same number the first one counts.
#[derive(Clone, Debug, Default)]
pub struct Model {
    executables: BTreeSet<u64>,
    functions: BTreeMap<(u64, u32), Vec<u8>>,
    command_buffers: BTreeMap<u64, u32>,
    clocks: BTreeMap<u32, Clocks>,
    metrics: BTreeMap<(u64, u64), Metric>,
}

impl Model {
    /// Reads all records of `reader`, which is at the first one then.
    ///
    /// # Errors
    /// Those of records, and DATA_LOSS if one refers to another that is not there.
    pub fn read(reader: &mut Reader) -> Result<Model, ReadError> {
        let mut model = Model::default();
        reader.rewind();
        while let Some(chunk) = reader.next_record()? {
            let Some(content) = chunk.content() else { continue };
            let mut records = reader.typed(&chunk, content);
            while let Some(record) = records.next_record()? {
                model.add(content, record)?;
            }
        }
        reader.rewind();
        Ok(model)
    }

    fn add(&mut self, content: Content, mut record: TypedRecord<'_>) -> Result<(), ReadError> {
        match content {
            Content::Executables => {
                let executable = Executable::read(&record.head()?);
                self.executables.insert(executable.executable_id);
            }
            Content::ExecutableFunctions => {
                let bytes = record.bytes()?;
                let parts = record.check_parts(ExecutableFunctionParts::read(&bytes))?;
                let key = (parts.head.executable_id, parts.head.function_ordinal);
                if !self.executables.contains(&key.0) {
                    let message = format!("function {} is of the executable {}: expected one of before", key.1, key.0);
                    return Err(record.damaged(message));
                }
                self.functions.entry(key).or_insert_with(|| parts.name.to_vec());
            }
            Content::CommandBuffers => {
                let command_buffer = CommandBuffer::read(&record.head()?);
                let device = command_buffer.physical_device_ordinal;
                self.command_buffers.entry(command_buffer.command_buffer_id).or_insert(device);
            }
            Content::CommandOperations => {
                let operation = CommandOperation::read(&record.head()?);
                self.check_operation(&operation, &record)?;
            }
            Content::ClockCorrelations => {
                let sample = ClockCorrelation::read(&record.head()?);
                self.clocks.entry(sample.physical_device_ordinal).or_default().add(&sample);
            }
            Content::DeviceMetricDescriptors => {
                let bytes = record.bytes()?;
                let parts = record.check_parts(DeviceMetricDescriptorParts::read(&bytes))?;
                let key = (parts.head.source_id, parts.head.metric_id);
                let metric = || Metric { record: parts.head, name: parts.name.to_vec() };
                self.metrics.entry(key).or_insert_with(metric);
            }
            _ => {}
        }
        Ok(())
    }

    /// A command is of a command buffer of before, and has places among blocks if it says so.
    fn check_operation(&self, operation: &CommandOperation, record: &TypedRecord<'_>) -> Result<(), ReadError> {
        let own = [operation.block_ordinal, operation.block_command_ordinal];
        let others = [operation.target_block_ordinal, operation.alternate_block_ordinal];
        let is_wrong = match operation.flags & BLOCK_STRUCTURE {
            0 => own.into_iter().chain(others).any(|ordinal| ordinal != NONE),
            _ => own.contains(&NONE),
        };
        if is_wrong {
            let message = format!(
                "command {} has the flags {:#x} and the blocks {own:?}: expected blocks with bit 6 alone",
                operation.command_index, operation.flags
            );
            return Err(record.damaged(message));
        }
        match self.command_buffers.contains_key(&operation.command_buffer_id) {
            true => Ok(()),
            false => Err(record.damaged(format!(
                "command {} is of the command buffer {}: expected one of before",
                operation.command_index, operation.command_buffer_id
            ))),
        }
    }

    /// The clocks of a device.
    pub fn clocks(&self, device: u32) -> Option<&Clocks> {
        self.clocks.get(&device)
    }

    /// The device of a command buffer.
    pub fn command_buffer_device(&self, command_buffer: u64) -> Option<u32> {
        self.command_buffers.get(&command_buffer).copied()
    }

    /// The name of a function, or one of numbers if it has none. None if it is not known.
    pub fn function_key(&self, device: u32, executable: u64, function: u32) -> Option<Vec<u8>> {
        let name = self.functions.get(&(executable, function))?;
        Some(match name.is_empty() {
            false => name.clone(),
            true if device == NONE => format!("executable{executable}#{function}").into_bytes(),
            true => format!("device{device}/executable{executable}#{function}").into_bytes(),
        })
    }

    /// The name of a function, if it has one.
    pub fn function_name(&self, executable: u64, function: u32) -> Option<&[u8]> {
        self.functions.get(&(executable, function)).map(Vec::as_slice).filter(|name| !name.is_empty())
    }

    /// A metric of a source.
    pub fn metric(&self, source: u64, metric: u64) -> Option<&Metric> {
        self.metrics.get(&(source, metric))
    }
}
