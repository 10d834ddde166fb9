//! The targets of events, in the order of the file.

use std::collections::{BTreeMap, HashSet};

use vireo_core::record_file::ReadError;

use super::each_record;
use crate::clock::ClockFit;
use crate::generated::contents::Content;
use crate::generated::format::TRUNCATED_CHUNK;
use crate::generated::records::{
    CommandBuffer, CommandOperation, Executable, ExecutableFunction, ExecutableFunctionParts, Queue,
};
use crate::model::Model;
use crate::reader::Reader;

/// Executables, functions, command buffers, commands and queues.
#[derive(Debug, Default)]
pub(crate) struct Catalog {
    pub(super) model: Model,
    pub(super) executables: Vec<Executable>,
    pub(super) functions: Vec<ExecutableFunction>,
    pub(super) command_buffers: Vec<CommandBuffer>,
    pub(super) operations: Vec<CommandOperation>,
    pub(super) queues: Vec<Queue>,
    /// The device, number and stream of each queue: a file may have as many queues as events.
    known_queues: HashSet<(u32, u32, u64)>,
    /// Chunks that lack records, and how many these are.
    truncated: BTreeMap<Content, (u64, u64)>,
}

impl Catalog {
    /// Reads the file once for the model, and once more.
    pub(super) fn read(reader: &mut Reader) -> Result<Catalog, ReadError> {
        let mut catalog = Catalog { model: Model::read(reader)?, ..Catalog::default() };
        while let Some(chunk) = reader.next_record()? {
            if let Some(content) = chunk.content().filter(|_| chunk.header.chunk_flags & TRUNCATED_CHUNK != 0) {
                let (chunks, records) = catalog.truncated.entry(content).or_default();
                *chunks += 1;
                *records = records.wrapping_add(chunk.header.dropped_record_count);
            }
        }
        each_record(reader, |_, content, record| {
            match content {
                Content::Executables => catalog.executables.push(Executable::read(&record.head()?)),
                Content::ExecutableFunctions => {
                    let bytes = record.bytes()?;
                    let parts = record.check_parts(ExecutableFunctionParts::read(&bytes))?;
                    catalog.functions.push(parts.head);
                }
                Content::CommandBuffers => catalog.command_buffers.push(CommandBuffer::read(&record.head()?)),
                Content::CommandOperations => catalog.operations.push(CommandOperation::read(&record.head()?)),
                Content::Queues => {
                    let queue = Queue::read(&record.head()?);
                    let Queue { physical_device_ordinal: device, queue_ordinal, stream_id, .. } = queue;
                    catalog.known_queues.insert((device, queue_ordinal, stream_id));
                    catalog.queues.push(queue);
                }
                _ => {}
            }
            Ok(())
        })?;
        Ok(catalog)
    }

    /// How many chunks of some types lack records, and how many they lack.
    pub(super) fn truncated(&self, contents: &[Content]) -> (u64, u64) {
        let of = self.truncated.iter().filter(|(content, _)| contents.contains(content));
        of.fold((0, 0), |sum, (_, one)| (sum.0 + one.0, sum.1.wrapping_add(one.1)))
    }

    /// The name of the function of a dispatch.
    pub(super) fn key(&self, device: u32, executable: u64, function: u32) -> Vec<u8> {
        let numbers = || format!("device{device}/executable{executable}#{function}").into_bytes();
        self.model.function_key(device, executable, function).unwrap_or_else(numbers)
    }

    pub(super) fn has_queue(&self, device: u32, queue: u32, stream: u64) -> bool {
        self.known_queues.contains(&(device, queue, stream))
    }

    /// The clock of a device.
    pub(super) fn fit(&self, device: u32) -> Option<ClockFit> {
        self.model.clocks(device).and_then(ClockFit::new)
    }
}
