//! Devices and their queues: `device.*`.
#![expect(clippy::too_many_arguments, reason = "the spec lists the arguments")]

use vireo_macros::vm_module;

use super::Buffers;
use crate::abi::Span;
use crate::hal::HalModule;
use crate::hal::convert::{BindingTable, bytes, head, object, params, points, text};
use crate::vm::{Buffer as VmBuffer, Obj};
use crate::{Result, Status};
use vireo_hal::*;

#[vm_module(spec = "hal", part("device"))]
impl HalModule {
    #[vm_export("device.allocator")]
    fn device_allocator(&self, device: &Obj<DeviceRef>) -> Result<Obj<AllocatorRef>> {
        Ok(self.allocator(&device.0))
    }

    // A program asks for keys the device may not know, and takes another way if so: no failure of a query is an error.
    #[vm_export("device.query.i64")]
    fn device_query_i64(
        &self,
        device: &Obj<DeviceRef>,
        category: &Obj<VmBuffer>,
        key: &Obj<VmBuffer>,
    ) -> Result<(bool, i64)> {
        let value = device.query_i64(&text("category", category)?, &text("key", key)?);
        Ok((value.is_ok(), value.unwrap_or(0)))
    }

    #[vm_export("device.queue.alloca")]
    fn device_queue_alloca(
        &self,
        device: &Obj<DeviceRef>,
        queue_affinity: u64,
        wait_fence: Option<&Obj<FenceRef>>,
        signal_fence: Option<&Obj<FenceRef>>,
        pool: u64,
        memory_types: u32,
        buffer_usage: u32,
        allocation_size: u64,
        flags: u64,
    ) -> Result<Obj<Buffers>> {
        if pool != 0 {
            return Err(Status::unimplemented(format!(
                "hal.device.queue.alloca from pool {pool}: there is no other pool than 0"
            )));
        }
        let params = params(queue_affinity, memory_types, buffer_usage)?;
        let (wait, signal) = (points(wait_fence), points(signal_fence));
        let flags = AllocaFlags::from_number(flags)?;
        Ok(object(device.queue_alloca(params.queue_affinity, wait, signal, None, params, allocation_size, flags)?))
    }

    #[vm_export("device.queue.barrier")]
    fn device_queue_barrier(
        &self,
        device: &Obj<DeviceRef>,
        queue_affinity: u64,
        wait_fence: Option<&Obj<FenceRef>>,
        signal_fence: Option<&Obj<FenceRef>>,
        flags: u64,
    ) -> Result<()> {
        let affinity = QueueAffinity::from_number(queue_affinity)?;
        device.queue_barrier(affinity, points(wait_fence), points(signal_fence), ExecuteFlags::from_number(flags)?)
    }

    #[vm_export("device.queue.copy")]
    fn device_queue_copy(
        &self,
        device: &Obj<DeviceRef>,
        queue_affinity: u64,
        wait_fence: Option<&Obj<FenceRef>>,
        signal_fence: Option<&Obj<FenceRef>>,
        source_buffer: &Obj<Buffers>,
        source_offset: u64,
        target_buffer: &Obj<Buffers>,
        target_offset: u64,
        length: u64,
        flags: u64,
    ) -> Result<()> {
        let affinity = QueueAffinity::from_number(queue_affinity)?;
        let (wait, signal, flags) = (points(wait_fence), points(signal_fence), CopyFlags::from_number(flags)?);
        let (source, target) = (&source_buffer.0, &target_buffer.0);
        device.queue_copy(affinity, wait, signal, source, source_offset, target, target_offset, length, flags)
    }

    #[vm_export("device.queue.dealloca")]
    fn device_queue_dealloca(
        &self,
        device: &Obj<DeviceRef>,
        queue_affinity: u64,
        wait_fence: Option<&Obj<FenceRef>>,
        signal_fence: Option<&Obj<FenceRef>>,
        buffer: &Obj<Buffers>,
        flags: u64,
    ) -> Result<()> {
        let affinity = QueueAffinity::from_number(queue_affinity)?;
        let flags = DeallocaFlags::from_number(flags)?;
        device.queue_dealloca(affinity, points(wait_fence), points(signal_fence), &buffer.0, flags)
    }

    #[vm_export("device.queue.execute")]
    fn device_queue_execute(
        &self,
        device: &Obj<DeviceRef>,
        queue_affinity: u64,
        wait_fence: Option<&Obj<FenceRef>>,
        signal_fence: Option<&Obj<FenceRef>>,
        command_buffer: &Obj<CommandBufferRef>,
        flags: u64,
    ) -> Result<()> {
        let affinity = QueueAffinity::from_number(queue_affinity)?;
        let flags = ExecuteFlags::from_number(flags)?;
        device.queue_execute(affinity, points(wait_fence), points(signal_fence), &command_buffer.0, &[], flags)
    }

    #[vm_export("device.queue.execute.indirect")]
    fn device_queue_execute_indirect(
        &self,
        device: &Obj<DeviceRef>,
        queue_affinity: u64,
        wait_fence: Option<&Obj<FenceRef>>,
        signal_fence: Option<&Obj<FenceRef>>,
        command_buffer: &Obj<CommandBufferRef>,
        flags: u64,
        binding_table: Span<'_, (Option<&Obj<Buffers>>, u64, u64)>,
    ) -> Result<()> {
        let affinity = QueueAffinity::from_number(queue_affinity)?;
        let flags = ExecuteFlags::from_number(flags)?;
        let (wait, signal) = (points(wait_fence), points(signal_fence));
        let table = BindingTable::new(binding_table);
        device.queue_execute(affinity, wait, signal, &command_buffer.0, table.bindings(), flags)
    }

    #[vm_export("device.queue.fill")]
    fn device_queue_fill(
        &self,
        device: &Obj<DeviceRef>,
        queue_affinity: u64,
        wait_fence: Option<&Obj<FenceRef>>,
        signal_fence: Option<&Obj<FenceRef>>,
        target_buffer: &Obj<Buffers>,
        target_offset: u64,
        length: u64,
        pattern: u64,
        pattern_length: u32,
        flags: u64,
    ) -> Result<()> {
        let affinity = QueueAffinity::from_number(queue_affinity)?;
        let (wait, signal, flags) = (points(wait_fence), points(signal_fence), FillFlags::from_number(flags)?);
        let pattern = pattern.to_le_bytes();
        let pattern = head(&pattern, pattern_length)?;
        device.queue_fill(affinity, wait, signal, &target_buffer.0, target_offset, length, pattern, flags)
    }

    #[vm_export("device.queue.flush")]
    fn device_queue_flush(&self, device: &Obj<DeviceRef>, queue_affinity: u64) -> Result<()> {
        device.queue_flush(QueueAffinity::from_number(queue_affinity)?)
    }

    #[vm_export("device.queue.read")]
    fn device_queue_read(
        &self,
        device: &Obj<DeviceRef>,
        queue_affinity: u64,
        wait_fence: Option<&Obj<FenceRef>>,
        signal_fence: Option<&Obj<FenceRef>>,
        source_file: &Obj<FileRef>,
        source_offset: u64,
        target_buffer: &Obj<Buffers>,
        target_offset: u64,
        length: u64,
        flags: u64,
    ) -> Result<()> {
        let affinity = QueueAffinity::from_number(queue_affinity)?;
        let (wait, signal, flags) = (points(wait_fence), points(signal_fence), ReadFlags::from_number(flags)?);
        let (source, target) = (&source_file.0, &target_buffer.0);
        device.queue_read(affinity, wait, signal, source, source_offset, target, target_offset, length, flags)
    }

    #[vm_export("device.queue.update")]
    fn device_queue_update(
        &self,
        device: &Obj<DeviceRef>,
        queue_affinity: u64,
        wait_fence: Option<&Obj<FenceRef>>,
        signal_fence: Option<&Obj<FenceRef>>,
        source_buffer: &Obj<VmBuffer>,
        source_offset: u64,
        target_buffer: &Obj<Buffers>,
        target_offset: u64,
        length: u64,
        flags: u64,
    ) -> Result<()> {
        let affinity = QueueAffinity::from_number(queue_affinity)?;
        let (wait, signal, flags) = (points(wait_fence), points(signal_fence), UpdateFlags::from_number(flags)?);
        let source = bytes(source_buffer, source_offset, length)?;
        device.queue_update(affinity, wait, signal, &source, &target_buffer.0, target_offset, flags)
    }

    #[vm_export("device.queue.write")]
    fn device_queue_write(
        &self,
        device: &Obj<DeviceRef>,
        queue_affinity: u64,
        wait_fence: Option<&Obj<FenceRef>>,
        signal_fence: Option<&Obj<FenceRef>>,
        source_buffer: &Obj<Buffers>,
        source_offset: u64,
        target_file: &Obj<FileRef>,
        target_offset: u64,
        length: u64,
        flags: u64,
    ) -> Result<()> {
        let affinity = QueueAffinity::from_number(queue_affinity)?;
        let (wait, signal, flags) = (points(wait_fence), points(signal_fence), WriteFlags::from_number(flags)?);
        let (source, target) = (&source_buffer.0, &target_file.0);
        device.queue_write(affinity, wait, signal, source, source_offset, target, target_offset, length, flags)
    }
}
