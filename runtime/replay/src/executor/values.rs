//! Arguments of methods, made of fields and parts of payloads.

use std::sync::Arc;

use smallvec::SmallVec;
use vireo_core::record_file::Elements;
use vireo_core::status::{Result, Status, StatusCode};
use vireo_hal::{
    AccessScope, Buffer, BufferBarrier, BufferBinding, BufferParams, BufferRef, BufferUsage, DispatchConfig, Event,
    ExecutableFunction, MemoryAccess, MemoryBarrier, MemoryType, QueueAffinity, Timepoint, WHOLE_BUFFER,
};

use super::{Object, Run, not_there};
use crate::generated::payloads;
use crate::plan::Step;
use crate::timelines::Point;

/// Lists of arguments are short.
type List<T> = SmallVec<[T; 4]>;

/// A number as the type of an argument.
pub(crate) fn number<T: TryFrom<u64>>(name: &str, value: impl Into<u64>) -> Result<T> {
    let value = value.into();
    T::try_from(value).map_err(|_| Status::out_of_range(format!("`{name}` is {value}: expected a smaller number")))
}

/// A text of a payload.
pub(crate) fn text<'a>(name: &str, bytes: &'a [u8]) -> Result<&'a str> {
    std::str::from_utf8(bytes).map_err(|_| Status::new(StatusCode::DataLoss, format!("`{name}` is not UTF-8")))
}

/// Words of a payload.
pub(crate) fn words(name: &str, bytes: &[u8]) -> Result<List<u32>> {
    let (words, rest) = bytes.as_chunks();
    if rest.is_empty() {
        return Ok(words.iter().map(|word| u32::from_le_bytes(*word)).collect());
    }
    let message = format!("`{name}` has {} bytes: expected a multiple of 4", bytes.len());
    Err(Status::new(StatusCode::DataLoss, message))
}

/// The parameters of a buffer.
pub(crate) fn buffer_params(
    queue_affinity: u64,
    min_alignment: u64,
    usage: u32,
    memory_type: u32,
    access: u16,
) -> Result<BufferParams> {
    Ok(BufferParams {
        usage: BufferUsage::from_number(usage)?,
        access: MemoryAccess::from_number(access)?,
        memory_type: MemoryType::from_number(memory_type)?,
        queue_affinity: QueueAffinity::from_number(queue_affinity)?,
        min_alignment,
    })
}

impl Run<'_> {
    /// The points that a submission waits for.
    pub(crate) fn waits(&self, step: &Step) -> Result<List<Timepoint>> {
        self.timepoints(self.plan.waits(step))
    }

    /// The points that a submission signals.
    pub(crate) fn signals(&self, step: &Step) -> Result<List<Timepoint>> {
        self.timepoints(self.plan.signals(step))
    }

    fn timepoints(&self, points: &[Point]) -> Result<List<Timepoint>> {
        let mut list = List::with_capacity(points.len());
        for point in points {
            list.push(Timepoint { semaphore: self.semaphore_of(point)?.clone(), value: point.value });
        }
        Ok(list)
    }

    fn named(&self, id: u64) -> Result<Option<Arc<dyn Buffer>>> {
        if id == 0 { Ok(None) } else { Ok(Some(self.buffer(id)?.clone())) }
    }

    pub(crate) fn buffer_ref(&self, range: &payloads::BufferRef) -> Result<BufferRef> {
        let payloads::BufferRef { buffer_id, offset, length, buffer_slot, .. } = *range;
        Ok(BufferRef { buffer: self.named(buffer_id)?, slot: buffer_slot, offset, length })
    }

    pub(crate) fn buffer_ref_list(&self, ranges: &Elements<'_, payloads::BufferRef>) -> Result<List<BufferRef>> {
        ranges.iter().map(|range| self.buffer_ref(&range)).collect()
    }

    pub(crate) fn buffer_binding_list(
        &self,
        ranges: &Elements<'_, payloads::BufferRef>,
    ) -> Result<List<BufferBinding>> {
        let mut bindings = List::with_capacity(ranges.len());
        for payloads::BufferRef { buffer_id, offset, length, .. } in ranges.iter() {
            bindings.push(BufferBinding { buffer: self.named(buffer_id)?, offset, length });
        }
        Ok(bindings)
    }

    pub(crate) fn memory_barrier_list(
        &self,
        barriers: &Elements<'_, payloads::MemoryBarrier>,
    ) -> Result<List<MemoryBarrier>> {
        let barriers = barriers.iter().map(|barrier| {
            Ok(MemoryBarrier {
                source_scope: AccessScope::from_number(barrier.source_scope)?,
                target_scope: AccessScope::from_number(barrier.target_scope)?,
            })
        });
        barriers.collect()
    }

    pub(crate) fn buffer_barrier_list(
        &self,
        barriers: &Elements<'_, payloads::BufferBarrier>,
    ) -> Result<List<BufferBarrier>> {
        let barriers = barriers.iter().map(|barrier| {
            Ok(BufferBarrier {
                source_scope: AccessScope::from_number(barrier.source_scope)?,
                target_scope: AccessScope::from_number(barrier.target_scope)?,
                buffer_ref: self.buffer_ref(&barrier.buffer_ref)?,
            })
        });
        barriers.collect()
    }

    pub(crate) fn event_list(&self, events: &Elements<'_, u64>) -> Result<List<Arc<dyn Event>>> {
        events.iter().map(|id| self.event(id).cloned()).collect()
    }

    pub(crate) fn device_queue_flush_queue_affinity(&self) -> Result<QueueAffinity> {
        Ok(QueueAffinity::ANY)
    }

    pub(crate) fn allocator_allocate_buffer_params(
        &self,
        head: &payloads::AllocatorAllocateBuffer,
    ) -> Result<BufferParams> {
        let params = buffer_params(head.queue_affinity, head.min_alignment, head.usage, head.r#type, head.access)?;
        Ok(self.visible(params))
    }

    pub(crate) fn device_queue_alloca_params(
        &self,
        parts: &payloads::DeviceQueueAllocaParts<'_>,
    ) -> Result<BufferParams> {
        let params = &parts.head.allocation;
        let params =
            buffer_params(params.queue_affinity, params.min_alignment, params.usage, params.r#type, params.access)?;
        Ok(self.visible(params))
    }

    /// Parameters of a buffer whose contents a stepper copies.
    fn visible(&self, params: BufferParams) -> BufferParams {
        match self.in_steps {
            true => BufferParams {
                usage: params.usage | BufferUsage::TRANSFER,
                access: params.access | MemoryAccess::ALL,
                ..params
            },
            false => params,
        }
    }

    pub(crate) fn device_queue_dealloca_buffer(
        &self,
        parts: &payloads::DeviceQueueDeallocaParts<'_>,
    ) -> Result<&Arc<dyn Buffer>> {
        self.buffer(parts.head.buffer_ref.buffer_id)
    }

    pub(crate) fn device_queue_update_source<'a>(
        &self,
        parts: &payloads::DeviceQueueUpdateParts<'a>,
    ) -> Result<&'a [u8]> {
        source(parts.data, parts.head.source_offset, parts.head.target_ref.length)
    }

    pub(crate) fn command_buffer_update_buffer_source<'a>(
        &self,
        parts: &payloads::CommandBufferUpdateBufferParts<'a>,
    ) -> Result<&'a [u8]> {
        source(parts.data, parts.head.source_offset, parts.head.target_ref.length)
    }

    pub(crate) fn device_queue_copy_length(&self, parts: &payloads::DeviceQueueCopyParts<'_>) -> Result<u64> {
        let (source, target) = (parts.head.source_ref.length, parts.head.target_ref.length);
        if source == target {
            return Ok(source);
        }
        Err(Status::invalid_argument(format!("a copy of {source} bytes to {target}: expected as many")))
    }

    pub(crate) fn dispatch_function(&self, parts: &payloads::DispatchParts<'_>) -> Result<ExecutableFunction> {
        let payloads::Dispatch { executable_id: id, function_ordinal: ordinal, .. } = parts.head;
        let Some(Object::Executable(_, functions)) = self.object(id) else { return Err(not_there("executable", id)) };
        functions.get(ordinal as usize).copied().ok_or_else(|| {
            let count = functions.len();
            Status::out_of_range(format!("function {ordinal} of executable {id}: expected one of its {count}"))
        })
    }

    pub(crate) fn dispatch_config(&self, parts: &payloads::DispatchParts<'_>) -> Result<DispatchConfig> {
        let head = &parts.head;
        Ok(DispatchConfig {
            workgroup_size: head.workgroup_size,
            workgroup_count: head.workgroup_count,
            workgroup_count_ref: self.buffer_ref(&head.workgroup_count_ref)?,
            dynamic_workgroup_local_memory: head.dynamic_workgroup_local_memory,
        })
    }
}

/// The bytes of an update. Captures have those of the range alone, or all that the offset counts in.
fn source(data: &[u8], offset: u64, length: u64) -> Result<&[u8]> {
    let within = || {
        let start = usize::try_from(offset).ok()?;
        data.get(start..start.checked_add(usize::try_from(length).ok()?)?)
    };
    match within() {
        Some(source) => Ok(source),
        None if data.len() as u64 == length || length == WHOLE_BUFFER => Ok(data),
        None => {
            let message = format!("{length} bytes at {offset} of the {} of an update", data.len());
            Err(Status::new(StatusCode::DataLoss, format!("{message}: expected a range of them")))
        }
    }
}
