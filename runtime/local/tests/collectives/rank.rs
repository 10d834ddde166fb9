//! A rank of a test: a device with a channel, and the command buffers that it executes.

use std::sync::Arc;

use vireo_hal::semaphore::timeline as host_timeline;
use vireo_hal::{
    Buffer, BufferBinding, BufferRef, Channel, CollectiveElementType, CollectiveKind, CollectiveOp,
    CollectiveReduction, CommandBuffer, CommandBufferMode, CommandCategory, CopyFlags, Device, ExecuteFlags,
    ExecutionBarrierFlags, ExecutionStage, QueueAffinity, Semaphore, Timepoint, WHOLE_BUFFER, buffer_from_bytes,
    buffer_to_vec,
};

pub const ANY: QueueAffinity = QueueAffinity::ANY;

pub struct Rank {
    pub device: Arc<dyn Device>,
    pub channel: Arc<dyn Channel>,
}

/// A collective operation.
pub struct Collective {
    pub kind: CollectiveKind,
    pub reduction: CollectiveReduction,
    pub element_type: CollectiveElementType,
    pub param: u32,
    pub element_count: u64,
}

impl Collective {
    pub fn op(&self) -> CollectiveOp {
        CollectiveOp { kind: self.kind, reduction: self.reduction, element_type: self.element_type }
    }
}

pub fn timeline() -> Arc<dyn Semaphore> {
    host_timeline(0)
}

pub fn at(semaphore: &Arc<dyn Semaphore>, value: u64) -> Timepoint {
    Timepoint { semaphore: semaphore.clone(), value }
}

pub fn slot(slot: u32, length: u64) -> BufferRef {
    BufferRef { buffer: None, slot, offset: 0, length }
}

pub fn whole(buffer: &Arc<dyn Buffer>) -> BufferRef {
    BufferRef { buffer: Some(buffer.clone()), slot: 0, offset: 0, length: WHOLE_BUFFER }
}

pub fn buffer(device: &dyn Device, bytes: &[u8]) -> Arc<dyn Buffer> {
    buffer_from_bytes(device, bytes).unwrap()
}

pub fn contents(buffer: &Arc<dyn Buffer>) -> Vec<u8> {
    buffer_to_vec(&**buffer, buffer.byte_length()).unwrap()
}

impl Rank {
    pub fn buffer(&self, bytes: &[u8]) -> Arc<dyn Buffer> {
        buffer(&*self.device, bytes)
    }

    pub fn begin(&self, slots: u32) -> Arc<dyn CommandBuffer> {
        let mode = CommandBufferMode::empty();
        let commands = self.device.create_command_buffer(mode, CommandCategory::ANY, ANY, slots).unwrap();
        commands.begin().unwrap();
        commands
    }

    /// A command buffer with so many slots.
    pub fn commands(&self, slots: u32, record: impl FnOnce(&Arc<dyn CommandBuffer>)) -> Arc<dyn CommandBuffer> {
        let commands = self.begin(slots);
        record(&commands);
        commands.end().unwrap();
        commands
    }

    pub fn copy(&self, commands: &Arc<dyn CommandBuffer>, from: &Arc<dyn Buffer>, to: &Arc<dyn Buffer>) {
        commands.copy_buffer(&whole(from), &whole(to), CopyFlags::empty()).unwrap();
    }

    pub fn barrier(&self, commands: &Arc<dyn CommandBuffer>) {
        let stages = ExecutionStage::TRANSFER;
        commands.execution_barrier(stages, stages, ExecutionBarrierFlags::empty(), &[], &[]).unwrap();
    }

    /// Records a collective operation between slots with these lengths.
    pub fn collective(
        &self,
        commands: &Arc<dyn CommandBuffer>,
        collective: &Collective,
        send: (u32, u64),
        recv: (u32, u64),
    ) {
        let (send, recv) = (slot(send.0, send.1), slot(recv.0, recv.1));
        let Collective { param, element_count, .. } = *collective;
        commands.collective(&self.channel, collective.op(), param, &send, &recv, element_count).unwrap();
    }

    /// Executes commands, and returns the point that they signal.
    pub fn execute(&self, wait: &[Timepoint], commands: &Arc<dyn CommandBuffer>, table: &[BufferBinding]) -> Timepoint {
        let done = at(&timeline(), 1);
        let signal = std::slice::from_ref(&done);
        self.device.queue_execute(ANY, wait, signal, commands, table, ExecuteFlags::empty()).unwrap();
        done
    }
}
