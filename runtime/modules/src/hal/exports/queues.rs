//! Exports for devices and their queues: `device.*`.
#![expect(clippy::too_many_arguments, reason = "the spec lists the arguments")]

use vireo_macros::vm_module;

use super::Buffers;
use crate::abi::Span;
use crate::hal::convert::{buffer_size, bytes, object, params, pattern_bytes, with_binding_table};
use crate::hal::{HalModule, HalState};
use crate::vm::{Buffer as VmBuffer, Obj};
use crate::{Result, Status};
use vireo_hal::*;

#[vm_module(spec = "hal", part("device"), state = HalState)]
impl HalModule {
    #[vm_export("device.allocator")]
    fn device_allocator(&self, state: &mut HalState, device: &Obj<DeviceRef>) -> Result<Obj<AllocatorRef>> {
        Ok(state.allocator(&device.0))
    }

    // Programs query keys that the device may not know and handle their absence, so a failed query is no error.
    #[vm_export("device.query.i64")]
    fn device_query_i64(&self, device: &Obj<DeviceRef>, category: &str, key: &str) -> Result<(bool, i64)> {
        let value = device.query_i64(category, key);
        Ok((value.is_ok(), value.unwrap_or(0)))
    }

    #[vm_export("device.queue.alloca")]
    fn device_queue_alloca(
        &self,
        device: &Obj<DeviceRef>,
        queue_affinity: QueueAffinity,
        wait_fence: Timepoints<'_>,
        signal_fence: Timepoints<'_>,
        pool: u64,
        memory_types: MemoryType,
        buffer_usage: BufferUsage,
        allocation_size: u64,
        flags: AllocaFlags,
    ) -> Result<Obj<Buffers>> {
        if pool != 0 {
            return Err(Status::unimplemented(format!(
                "hal.device.queue.alloca from pool {pool}: there is no other pool than 0"
            )));
        }
        let (params, size) = (params(queue_affinity, memory_types, buffer_usage), buffer_size(allocation_size)?);
        let (wait, signal) = (&*wait_fence, &*signal_fence);
        Ok(object(device.queue_alloca(queue_affinity, wait, signal, None, params, size, flags)?))
    }

    #[vm_export("device.queue.barrier")]
    fn device_queue_barrier(
        &self,
        device: &Obj<DeviceRef>,
        queue_affinity: QueueAffinity,
        wait_fence: Timepoints<'_>,
        signal_fence: Timepoints<'_>,
        flags: ExecuteFlags,
    ) -> Result<()> {
        device.queue_barrier(queue_affinity, &wait_fence, &signal_fence, flags)
    }

    #[vm_export("device.queue.copy")]
    fn device_queue_copy(
        &self,
        device: &Obj<DeviceRef>,
        queue_affinity: QueueAffinity,
        wait_fence: Timepoints<'_>,
        signal_fence: Timepoints<'_>,
        source_buffer: &Obj<Buffers>,
        source_offset: u64,
        target_buffer: &Obj<Buffers>,
        target_offset: u64,
        length: u64,
        flags: CopyFlags,
    ) -> Result<()> {
        let (source, target) = (&source_buffer.0, &target_buffer.0);
        device.queue_copy(
            queue_affinity,
            &wait_fence,
            &signal_fence,
            source,
            source_offset,
            target,
            target_offset,
            length,
            flags,
        )
    }

    #[vm_export("device.queue.dealloca")]
    fn device_queue_dealloca(
        &self,
        device: &Obj<DeviceRef>,
        queue_affinity: QueueAffinity,
        wait_fence: Timepoints<'_>,
        signal_fence: Timepoints<'_>,
        buffer: &Obj<Buffers>,
        flags: DeallocaFlags,
    ) -> Result<()> {
        device.queue_dealloca(queue_affinity, &wait_fence, &signal_fence, &buffer.0, flags)
    }

    #[vm_export("device.queue.execute")]
    fn device_queue_execute(
        &self,
        device: &Obj<DeviceRef>,
        queue_affinity: QueueAffinity,
        wait_fence: Timepoints<'_>,
        signal_fence: Timepoints<'_>,
        command_buffer: Option<&Obj<CommandBufferRef>>,
        flags: ExecuteFlags,
    ) -> Result<()> {
        match command_buffer {
            Some(commands) => device.queue_execute(queue_affinity, &wait_fence, &signal_fence, &commands.0, &[], flags),
            None => device.queue_barrier(queue_affinity, &wait_fence, &signal_fence, flags),
        }
    }

    #[vm_export("device.queue.execute.indirect")]
    fn device_queue_execute_indirect(
        &self,
        device: &Obj<DeviceRef>,
        queue_affinity: QueueAffinity,
        wait_fence: Timepoints<'_>,
        signal_fence: Timepoints<'_>,
        command_buffer: &Obj<CommandBufferRef>,
        flags: ExecuteFlags,
        binding_table: Span<'_, (Option<&Obj<Buffers>>, u64, u64)>,
    ) -> Result<()> {
        with_binding_table(binding_table, |table| {
            device.queue_execute(queue_affinity, &wait_fence, &signal_fence, &command_buffer.0, table, flags)
        })
    }

    #[vm_export("device.queue.fill")]
    fn device_queue_fill(
        &self,
        device: &Obj<DeviceRef>,
        queue_affinity: QueueAffinity,
        wait_fence: Timepoints<'_>,
        signal_fence: Timepoints<'_>,
        target_buffer: &Obj<Buffers>,
        target_offset: u64,
        length: u64,
        pattern: u64,
        pattern_length: u32,
        flags: FillFlags,
    ) -> Result<()> {
        let pattern = pattern.to_le_bytes();
        let pattern = pattern_bytes(&pattern, pattern_length)?;
        device.queue_fill(
            queue_affinity,
            &wait_fence,
            &signal_fence,
            &target_buffer.0,
            target_offset,
            length,
            pattern,
            flags,
        )
    }

    #[vm_export("device.queue.flush")]
    fn device_queue_flush(&self, device: &Obj<DeviceRef>, queue_affinity: QueueAffinity) -> Result<()> {
        device.queue_flush(queue_affinity)
    }

    #[vm_export("device.queue.read")]
    fn device_queue_read(
        &self,
        device: &Obj<DeviceRef>,
        queue_affinity: QueueAffinity,
        wait_fence: Timepoints<'_>,
        signal_fence: Timepoints<'_>,
        source_file: &Obj<FileRef>,
        source_offset: u64,
        target_buffer: &Obj<Buffers>,
        target_offset: u64,
        length: u64,
        flags: ReadFlags,
    ) -> Result<()> {
        let (source, target) = (&source_file.0, &target_buffer.0);
        device.queue_read(
            queue_affinity,
            &wait_fence,
            &signal_fence,
            source,
            source_offset,
            target,
            target_offset,
            length,
            flags,
        )
    }

    #[vm_export("device.queue.update")]
    fn device_queue_update(
        &self,
        device: &Obj<DeviceRef>,
        queue_affinity: QueueAffinity,
        wait_fence: Timepoints<'_>,
        signal_fence: Timepoints<'_>,
        source_buffer: &Obj<VmBuffer>,
        source_offset: u64,
        target_buffer: &Obj<Buffers>,
        target_offset: u64,
        length: u64,
        flags: UpdateFlags,
    ) -> Result<()> {
        let source = bytes(source_buffer, source_offset, length)?;
        device.queue_update(queue_affinity, &wait_fence, &signal_fence, &source, &target_buffer.0, target_offset, flags)
    }

    #[vm_export("device.queue.write")]
    fn device_queue_write(
        &self,
        device: &Obj<DeviceRef>,
        queue_affinity: QueueAffinity,
        wait_fence: Timepoints<'_>,
        signal_fence: Timepoints<'_>,
        source_buffer: &Obj<Buffers>,
        source_offset: u64,
        target_file: &Obj<FileRef>,
        target_offset: u64,
        length: u64,
        flags: WriteFlags,
    ) -> Result<()> {
        let (source, target) = (&source_buffer.0, &target_file.0);
        device.queue_write(
            queue_affinity,
            &wait_fence,
            &signal_fence,
            source,
            source_offset,
            target,
            target_offset,
            length,
            flags,
        )
    }
}
