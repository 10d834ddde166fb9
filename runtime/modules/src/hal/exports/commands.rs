//! Exports that record command buffers: `command_buffer.*`.
#![expect(clippy::too_many_arguments, clippy::type_complexity, reason = "the spec lists the arguments")]

use vireo_macros::vm_module;

use super::Buffers;
use crate::Result;
use crate::abi::Span;
use crate::hal::HalModule;
use crate::hal::convert::{BorrowedRanges, bytes, collective_op, constant_words, object, pattern_bytes, range};
use crate::vm::{Buffer as VmBuffer, Obj};
use vireo_hal::*;

#[vm_module(spec = "hal", part("command_buffer"))]
impl HalModule {
    #[vm_export("command_buffer.advise_buffer")]
    fn command_buffer_advise_buffer(
        &self,
        command_buffer: &Obj<CommandBufferRef>,
        buffer: Option<&Obj<Buffers>>,
        flags: MemoryAdviseFlags,
        arg0: u64,
        arg1: u64,
        buffer_slot: u32,
    ) -> Result<()> {
        let range = range(buffer, buffer_slot, 0, WHOLE_BUFFER);
        command_buffer.advise_buffer(&range, flags, arg0, arg1)
    }

    #[vm_export("command_buffer.begin_debug_group")]
    fn command_buffer_begin_debug_group(&self, command_buffer: &Obj<CommandBufferRef>, label: &str) -> Result<()> {
        let (color, location) = (LabelColor::default(), LabelLocation::default());
        command_buffer.begin_debug_group(label, color, &location)
    }

    #[vm_export("command_buffer.collective")]
    fn command_buffer_collective(
        &self,
        command_buffer: &Obj<CommandBufferRef>,
        channel: &Obj<ChannelRef>,
        op: u32,
        param: u32,
        send_buffer_slot: u32,
        recv_buffer_slot: u32,
        send_buffer: Option<&Obj<Buffers>>,
        recv_buffer: Option<&Obj<Buffers>>,
        send_offset: u64,
        send_length: u64,
        recv_offset: u64,
        recv_length: u64,
        element_count: u64,
    ) -> Result<()> {
        let send = range(send_buffer, send_buffer_slot, send_offset, send_length);
        let recv = range(recv_buffer, recv_buffer_slot, recv_offset, recv_length);
        command_buffer.collective(&channel.0, collective_op(op)?, param, &send, &recv, element_count)
    }

    #[vm_export("command_buffer.copy_buffer")]
    fn command_buffer_copy_buffer(
        &self,
        command_buffer: &Obj<CommandBufferRef>,
        source_buffer_slot: u32,
        target_buffer_slot: u32,
        source_buffer: Option<&Obj<Buffers>>,
        source_offset: u64,
        target_buffer: Option<&Obj<Buffers>>,
        target_offset: u64,
        length: u64,
        flags: CopyFlags,
    ) -> Result<()> {
        let source = range(source_buffer, source_buffer_slot, source_offset, length);
        let target = range(target_buffer, target_buffer_slot, target_offset, length);
        command_buffer.copy_buffer(&source, &target, flags)
    }

    #[vm_export("command_buffer.create")]
    fn command_buffer_create(
        &self,
        device: &Obj<DeviceRef>,
        modes: CommandBufferMode,
        command_categories: CommandCategory,
        queue_affinity: QueueAffinity,
        binding_capacity: u32,
    ) -> Result<Obj<CommandBufferRef>> {
        let command_buffer =
            device.create_command_buffer(modes, command_categories, queue_affinity, binding_capacity)?;
        command_buffer.begin()?;
        Ok(object(command_buffer))
    }

    #[vm_export("command_buffer.dispatch")]
    fn command_buffer_dispatch(
        &self,
        command_buffer: &Obj<CommandBufferRef>,
        executable: &Obj<ExecutableRef>,
        function_id: ExecutableFunction,
        workgroup_x: u32,
        workgroup_y: u32,
        workgroup_z: u32,
        flags: DispatchFlags,
        constants: Span<'_, u32>,
        bindings: Span<'_, (u32, u32, Option<&Obj<Buffers>>, u64, u64)>,
    ) -> Result<()> {
        let config =
            DispatchConfig { workgroup_count: [workgroup_x, workgroup_y, workgroup_z], ..DispatchConfig::default() };
        command_buffer.dispatch(
            &executable.0,
            function_id,
            &config,
            &constant_words(constants),
            &BorrowedRanges::new(bindings),
            flags,
        )
    }

    #[vm_export("command_buffer.dispatch.indirect")]
    fn command_buffer_dispatch_indirect(
        &self,
        command_buffer: &Obj<CommandBufferRef>,
        executable: &Obj<ExecutableRef>,
        function_id: ExecutableFunction,
        workgroups_buffer_slot: u32,
        workgroups_buffer: Option<&Obj<Buffers>>,
        workgroups_offset: u64,
        mut flags: DispatchFlags,
        constants: Span<'_, u32>,
        bindings: Span<'_, (u32, u32, Option<&Obj<Buffers>>, u64, u64)>,
    ) -> Result<()> {
        const COUNTS_SIZE: u64 = size_of::<[u32; 3]>() as u64;
        let counts = range(workgroups_buffer, workgroups_buffer_slot, workgroups_offset, COUNTS_SIZE);
        let config = DispatchConfig { workgroup_count_ref: counts.clone(), ..DispatchConfig::default() };
        if !flags.contains(DispatchFlags::STATIC_INDIRECT_PARAMETERS) {
            flags |= DispatchFlags::DYNAMIC_INDIRECT_PARAMETERS;
        }
        command_buffer.dispatch(
            &executable.0,
            function_id,
            &config,
            &constant_words(constants),
            &BorrowedRanges::new(bindings),
            flags,
        )
    }

    #[vm_export("command_buffer.end_debug_group")]
    fn command_buffer_end_debug_group(&self, command_buffer: &Obj<CommandBufferRef>) -> Result<()> {
        command_buffer.end_debug_group()
    }

    #[vm_export("command_buffer.execution_barrier")]
    fn command_buffer_execution_barrier(
        &self,
        command_buffer: &Obj<CommandBufferRef>,
        source_stage_mask: ExecutionStage,
        target_stage_mask: ExecutionStage,
        flags: ExecutionBarrierFlags,
    ) -> Result<()> {
        // Programs name only stages, so the barrier covers every access in them.
        let all = MemoryBarrier {
            source_scope: AccessScope::MEMORY_WRITE,
            target_scope: AccessScope::MEMORY_READ | AccessScope::MEMORY_WRITE,
        };
        command_buffer.execution_barrier(source_stage_mask, target_stage_mask, flags, &[all], &[])
    }

    #[vm_export("command_buffer.fill_buffer")]
    fn command_buffer_fill_buffer(
        &self,
        command_buffer: &Obj<CommandBufferRef>,
        target_buffer: Option<&Obj<Buffers>>,
        target_offset: u64,
        length: u64,
        target_buffer_slot: u32,
        pattern: u64,
        pattern_length: u32,
        flags: FillFlags,
    ) -> Result<()> {
        let target = range(target_buffer, target_buffer_slot, target_offset, length);
        let pattern = pattern.to_le_bytes();
        command_buffer.fill_buffer(&target, pattern_bytes(&pattern, pattern_length)?, flags)
    }

    #[vm_export("command_buffer.finalize")]
    fn command_buffer_finalize(&self, command_buffer: &Obj<CommandBufferRef>) -> Result<()> {
        command_buffer.end()
    }

    #[vm_export("command_buffer.flush_buffer")]
    fn command_buffer_flush_buffer(
        &self,
        command_buffer: &Obj<CommandBufferRef>,
        buffer_slot: u32,
        buffer: Option<&Obj<Buffers>>,
        offset: u64,
        length: u64,
    ) -> Result<()> {
        command_buffer.flush_buffer(&range(buffer, buffer_slot, offset, length))
    }

    #[vm_export("command_buffer.invalidate_buffer")]
    fn command_buffer_invalidate_buffer(
        &self,
        command_buffer: &Obj<CommandBufferRef>,
        buffer_slot: u32,
        buffer: Option<&Obj<Buffers>>,
        offset: u64,
        length: u64,
    ) -> Result<()> {
        command_buffer.invalidate_buffer(&range(buffer, buffer_slot, offset, length))
    }

    #[vm_export("command_buffer.update_buffer")]
    fn command_buffer_update_buffer(
        &self,
        command_buffer: &Obj<CommandBufferRef>,
        source_buffer: &Obj<VmBuffer>,
        source_offset: u64,
        target_buffer: Option<&Obj<Buffers>>,
        target_offset: u64,
        length: u64,
        target_buffer_slot: u32,
        flags: UpdateFlags,
    ) -> Result<()> {
        let source = bytes(source_buffer, source_offset, length)?;
        let target = range(target_buffer, target_buffer_slot, target_offset, length);
        command_buffer.update_buffer(&source, &target, flags)
    }
}
