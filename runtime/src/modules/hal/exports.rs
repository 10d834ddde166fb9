//! The functions of the `hal` module, in the order of `spec/abi/modules/hal.yaml`. One `impl` holds them all, because `#[vm_module]` checks
//! that none is missing.
#![expect(clippy::too_many_arguments, clippy::type_complexity, reason = "the spec lists the arguments")]

use std::sync::Arc;

use vireo_macros::vm_module;

use super::checks::{check_buffer, check_view};
use super::convert::{
    BindingTable, bytes, covers, head, import, no_flags, object, params, points, range, ranges, scalar_length, text,
    words,
};
use super::file::File;
use super::{HalModule, HalState, waiting};
use crate::abi::Step;
use crate::hal::*;
use crate::status::StatusCode;
use crate::vm::{Buffer as VmBuffer, Obj};
use crate::{Result, Status};

type Buffers = BufferRefObject;

#[vm_module(
    spec = "hal",
    unimplemented("channel.create", "channel.rank_and_count", "channel.split", "command_buffer.collective",)
)]
impl HalModule {
    #[vm_state]
    fn create_state(&self) -> Result<HalState> {
        HalState::new(self.devices())
    }

    #[vm_export("allocator.allocate")]
    fn allocator_allocate(
        &self,
        allocator: &Obj<AllocatorRef>,
        queue_affinity: u64,
        memory_types: u32,
        buffer_usage: u32,
        allocation_size: u64,
    ) -> Result<Obj<Buffers>> {
        let params = params(queue_affinity, memory_types, buffer_usage)?;
        Ok(object(allocator.allocate_buffer(params, allocation_size)?))
    }

    #[vm_export("allocator.import")]
    fn allocator_import(
        &self,
        allocator: &Obj<AllocatorRef>,
        is_try: bool,
        queue_affinity: u64,
        memory_types: u32,
        buffer_usage: u32,
        source: &Obj<VmBuffer>,
        offset: u64,
        length: u64,
    ) -> Result<Option<Obj<Buffers>>> {
        let mut params = params(queue_affinity, memory_types, buffer_usage)?;
        let immutable = params.usage.contains(BufferUsage::SHARING_IMMUTABLE);
        if !immutable && !source.is_mutable() {
            return Err(Status::permission_denied("a read-only buffer can only be imported for immutable usage"));
        }
        params.access = if immutable { MemoryAccess::READ } else { MemoryAccess::READ | MemoryAccess::WRITE };
        let size = check_range(source.len() as u64, offset, length)?;
        // SAFETY: writing is asked for only where the usage is not immutable, and then the buffer is mutable.
        match unsafe { import(&*allocator.0, params, source, offset, size) } {
            Ok(buffer) => Ok(Some(object(buffer))),
            Err(_) if is_try => Ok(None),
            Err(error) => Err(error),
        }
    }

    // There is no policy yet that could prefer another pair than the first.
    #[vm_export("allocator.select")]
    fn allocator_select(
        &self,
        _memory_types: u32,
        _buffer_usage: u32,
        _flags: u64,
        from: Vec<(Obj<DeviceRef>, u64)>,
    ) -> Result<(Obj<DeviceRef>, u64)> {
        let first = from.into_iter().next();
        first.ok_or_else(|| Status::invalid_argument("at least one device and queue affinity must be given"))
    }

    #[vm_export("buffer.allocation.discard")]
    fn buffer_allocation_discard(&self, buffer: &Obj<Buffers>) -> Result<bool> {
        Ok(buffer.discard())
    }

    #[vm_export("buffer.allocation.is_terminal")]
    fn buffer_allocation_is_terminal(&self, buffer: &Obj<Buffers>) -> Result<bool> {
        Ok(buffer.is_terminal())
    }

    #[vm_export("buffer.allocation.preserve")]
    fn buffer_allocation_preserve(&self, buffer: &Obj<Buffers>) -> Result<()> {
        buffer.preserve();
        Ok(())
    }

    #[vm_export("buffer.assert")]
    fn buffer_assert(
        &self,
        buffer: &Obj<Buffers>,
        message: &Obj<VmBuffer>,
        _allocator: &Obj<AllocatorRef>,
        minimum_length: u64,
        memory_types: u32,
        buffer_usage: u32,
    ) -> Result<()> {
        let memory_types = MemoryType::from_number(memory_types)?;
        let usage = BufferUsage::from_number(buffer_usage)?;
        check_buffer(&*buffer.0, message, minimum_length, memory_types, usage)
    }

    #[vm_export("buffer.length")]
    fn buffer_length(&self, buffer: &Obj<Buffers>) -> Result<u64> {
        Ok(buffer.byte_length())
    }

    #[vm_export("buffer.load")]
    fn buffer_load(&self, source_buffer: &Obj<Buffers>, source_offset: u64, length: u32) -> Result<u32> {
        let mut value = [0; 4];
        let target = value.get_mut(..length as usize).ok_or_else(|| scalar_length(length))?;
        buffer_read(&*source_buffer.0, source_offset, target)?;
        Ok(u32::from_le_bytes(value))
    }

    #[vm_export("buffer.store")]
    fn buffer_store(&self, value: u32, target_buffer: &Obj<Buffers>, target_offset: u64, length: u32) -> Result<()> {
        let value = value.to_le_bytes();
        let source = value.get(..length as usize).ok_or_else(|| scalar_length(length))?;
        buffer_write(&*target_buffer.0, target_offset, source)
    }

    #[vm_export("buffer.subspan")]
    fn buffer_subspan(&self, source_buffer: &Obj<Buffers>, source_offset: u64, length: u64) -> Result<Obj<Buffers>> {
        Ok(object(subspan(&source_buffer.0, source_offset, length)?))
    }

    #[vm_export("buffer_view.assert")]
    fn buffer_view_assert(
        &self,
        buffer_view: &Obj<BufferViewRef>,
        message: &Obj<VmBuffer>,
        element_type: u32,
        encoding_type: u32,
        shape: Vec<u64>,
    ) -> Result<()> {
        check_view(buffer_view, message, ElementType(element_type), EncodingType(encoding_type), &shape)
    }

    #[vm_export("buffer_view.buffer")]
    fn buffer_view_buffer(&self, buffer_view: &Obj<BufferViewRef>) -> Result<Obj<Buffers>> {
        Ok(buffer_view.buffer_reference().clone())
    }

    #[vm_export("buffer_view.create")]
    fn buffer_view_create(
        &self,
        buffer: Obj<Buffers>,
        source_offset: u64,
        source_length: u64,
        element_type: u32,
        encoding_type: u32,
        shape: Vec<u64>,
    ) -> Result<Obj<BufferViewRef>> {
        let buffer = if covers(&*buffer.0, source_offset, source_length) {
            buffer
        } else {
            object(subspan(&buffer.0, source_offset, source_length)?)
        };
        let view = BufferView::of(buffer, &shape, ElementType(element_type), EncodingType(encoding_type))?;
        Ok(object(Arc::new(view)))
    }

    #[vm_export("buffer_view.dim")]
    fn buffer_view_dim(&self, buffer_view: &Obj<BufferViewRef>, index: u32) -> Result<u64> {
        Ok(buffer_view.shape().get(index as usize).copied().unwrap_or(0))
    }

    #[vm_export("buffer_view.element_type")]
    fn buffer_view_element_type(&self, buffer_view: &Obj<BufferViewRef>) -> Result<u32> {
        Ok(buffer_view.element_type().0)
    }

    #[vm_export("buffer_view.encoding_type")]
    fn buffer_view_encoding_type(&self, buffer_view: &Obj<BufferViewRef>) -> Result<u32> {
        Ok(buffer_view.encoding().0)
    }

    #[vm_export("buffer_view.rank")]
    fn buffer_view_rank(&self, buffer_view: &Obj<BufferViewRef>) -> Result<u32> {
        Ok(buffer_view.shape().len() as u32)
    }

    #[vm_export("buffer_view.trace")]
    fn buffer_view_trace(&self, key: &Obj<VmBuffer>, operands: Vec<Obj<BufferViewRef>>) -> Result<()> {
        if let Some(sink) = &self.trace_sink {
            let views: Vec<Arc<BufferView>> = operands.iter().map(|view| view.0.clone()).collect();
            sink(&text("key", key)?, &views);
        }
        Ok(())
    }

    #[vm_export("command_buffer.advise_buffer")]
    fn command_buffer_advise_buffer(
        &self,
        command_buffer: &Obj<CommandBufferRef>,
        buffer: Option<&Obj<Buffers>>,
        flags: u64,
        arg0: u64,
        arg1: u64,
        buffer_slot: u32,
    ) -> Result<()> {
        let range = range(buffer, buffer_slot, 0, WHOLE_BUFFER);
        command_buffer.advise_buffer(&range, MemoryAdviseFlags::from_number(flags)?, arg0, arg1)
    }

    #[vm_export("command_buffer.begin_debug_group")]
    fn command_buffer_begin_debug_group(
        &self,
        command_buffer: &Obj<CommandBufferRef>,
        label: &Obj<VmBuffer>,
    ) -> Result<()> {
        let (color, location) = (LabelColor::default(), LabelLocation::default());
        command_buffer.begin_debug_group(&text("label", label)?, color, &location)
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
        flags: u64,
    ) -> Result<()> {
        let source = range(source_buffer, source_buffer_slot, source_offset, length);
        let target = range(target_buffer, target_buffer_slot, target_offset, length);
        command_buffer.copy_buffer(&source, &target, CopyFlags::from_number(flags)?)
    }

    #[vm_export("command_buffer.create")]
    fn command_buffer_create(
        &self,
        device: &Obj<DeviceRef>,
        modes: u32,
        command_categories: u32,
        queue_affinity: u64,
        binding_capacity: u32,
    ) -> Result<Obj<CommandBufferRef>> {
        let command_buffer = device.create_command_buffer(
            CommandBufferMode::from_number(modes)?,
            CommandCategory::from_number(command_categories)?,
            QueueAffinity::from_number(queue_affinity)?,
            binding_capacity,
        )?;
        command_buffer.begin()?;
        Ok(object(command_buffer))
    }

    #[vm_export("command_buffer.dispatch")]
    fn command_buffer_dispatch(
        &self,
        command_buffer: &Obj<CommandBufferRef>,
        executable: &Obj<ExecutableRef>,
        function_id: u64,
        workgroup_x: u32,
        workgroup_y: u32,
        workgroup_z: u32,
        flags: u64,
        constants: Vec<u32>,
        bindings: Vec<(u32, u32, Option<Obj<Buffers>>, u64, u64)>,
    ) -> Result<()> {
        let config =
            DispatchConfig { workgroup_count: [workgroup_x, workgroup_y, workgroup_z], ..DispatchConfig::default() };
        let (function, flags) = (ExecutableFunction(function_id), DispatchFlags::from_number(flags)?);
        command_buffer.dispatch(&executable.0, function, &config, &constants, &ranges(bindings), flags)
    }

    #[vm_export("command_buffer.dispatch.indirect")]
    fn command_buffer_dispatch_indirect(
        &self,
        command_buffer: &Obj<CommandBufferRef>,
        executable: &Obj<ExecutableRef>,
        function_id: u64,
        workgroups_buffer_slot: u32,
        workgroups_buffer: Option<&Obj<Buffers>>,
        workgroups_offset: u64,
        flags: u64,
        constants: Vec<u32>,
        bindings: Vec<(u32, u32, Option<Obj<Buffers>>, u64, u64)>,
    ) -> Result<()> {
        const COUNTS_SIZE: u64 = size_of::<[u32; 3]>() as u64;
        let counts = range(workgroups_buffer, workgroups_buffer_slot, workgroups_offset, COUNTS_SIZE);
        let config = DispatchConfig { workgroup_count_ref: counts, ..DispatchConfig::default() };
        let mut flags = DispatchFlags::from_number(flags)?;
        if !flags.contains(DispatchFlags::STATIC_INDIRECT_PARAMETERS) {
            flags |= DispatchFlags::DYNAMIC_INDIRECT_PARAMETERS;
        }
        let function = ExecutableFunction(function_id);
        command_buffer.dispatch(&executable.0, function, &config, &constants, &ranges(bindings), flags)
    }

    #[vm_export("command_buffer.end_debug_group")]
    fn command_buffer_end_debug_group(&self, command_buffer: &Obj<CommandBufferRef>) -> Result<()> {
        command_buffer.end_debug_group()
    }

    #[vm_export("command_buffer.execution_barrier")]
    fn command_buffer_execution_barrier(
        &self,
        command_buffer: &Obj<CommandBufferRef>,
        source_stage_mask: u32,
        target_stage_mask: u32,
        flags: u64,
    ) -> Result<()> {
        // Programs name stages only, so the barrier covers every access in them.
        let all = MemoryBarrier {
            source_scope: AccessScope::MEMORY_WRITE,
            target_scope: AccessScope::MEMORY_READ | AccessScope::MEMORY_WRITE,
        };
        command_buffer.execution_barrier(
            ExecutionStage::from_number(source_stage_mask)?,
            ExecutionStage::from_number(target_stage_mask)?,
            ExecutionBarrierFlags::from_number(flags)?,
            &[all],
            &[],
        )
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
        flags: u64,
    ) -> Result<()> {
        let target = range(target_buffer, target_buffer_slot, target_offset, length);
        let pattern = pattern.to_le_bytes();
        command_buffer.fill_buffer(&target, head(&pattern, pattern_length)?, FillFlags::from_number(flags)?)
    }

    #[vm_export("command_buffer.finalize")]
    fn command_buffer_finalize(&self, command_buffer: &Obj<CommandBufferRef>) -> Result<()> {
        command_buffer.end()
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
        flags: u64,
    ) -> Result<()> {
        let source = bytes(source_buffer, source_offset, length)?;
        let target = range(target_buffer, target_buffer_slot, target_offset, length);
        command_buffer.update_buffer(&source, &target, UpdateFlags::from_number(flags)?)
    }

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
        binding_table: Vec<(Option<Obj<Buffers>>, u64, u64)>,
    ) -> Result<()> {
        let affinity = QueueAffinity::from_number(queue_affinity)?;
        let flags = ExecuteFlags::from_number(flags)?;
        let (wait, signal) = (points(wait_fence), points(signal_fence));
        let table = BindingTable::new(&binding_table);
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
        source_file: &Obj<File>,
        source_offset: u64,
        target_buffer: &Obj<Buffers>,
        target_offset: u64,
        length: u64,
        flags: u64,
    ) -> Result<()> {
        no_flags("hal.device.queue.read", flags)?;
        let affinity = QueueAffinity::from_number(queue_affinity)?;
        let (wait, signal) = (points(wait_fence), points(signal_fence));
        let source = source_file.as_buffer(&*device.0, source_offset, length)?;
        device.queue_copy(
            affinity,
            wait,
            signal,
            &source,
            0,
            &target_buffer.0,
            target_offset,
            length,
            CopyFlags::empty(),
        )
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
        _device: &Obj<DeviceRef>,
        _queue_affinity: u64,
        _wait_fence: Option<&Obj<FenceRef>>,
        _signal_fence: Option<&Obj<FenceRef>>,
        _source_buffer: &Obj<Buffers>,
        _source_offset: u64,
        _target_file: &Obj<File>,
        _target_offset: u64,
        _length: u64,
        _flags: u64,
    ) -> Result<()> {
        Err(Status::permission_denied("hal.device.queue.write: files made from memory are read-only"))
    }

    #[vm_export("devices.count")]
    fn devices_count(&self) -> Result<u32> {
        Ok(self.devices().len() as u32)
    }

    #[vm_export("devices.get")]
    fn devices_get(&self, index: u32) -> Result<Option<Obj<DeviceRef>>> {
        Ok(self.devices().get(index as usize).cloned().map(object))
    }

    #[vm_export("ex.file.from_memory")]
    fn ex_file_from_memory(
        &self,
        _device: &Obj<DeviceRef>,
        _queue_affinity: u64,
        access: u32,
        buffer: Obj<VmBuffer>,
        offset: u64,
        length: u64,
        flags: u32,
    ) -> Result<Obj<File>> {
        no_flags("hal.ex.file.from_memory", flags.into())?;
        if access & !u32::from(MemoryAccess::READ.bits()) != 0 {
            return Err(Status::permission_denied("memory can only be read through a file"));
        }
        Ok(Obj::new(File::from_memory(buffer, offset, length)?))
    }

    #[vm_export("executable.create")]
    fn executable_create(
        &self,
        state: &mut HalState,
        device: &Obj<DeviceRef>,
        queue_affinity: u64,
        executable_format: &Obj<VmBuffer>,
        executable_data: &Obj<VmBuffer>,
        constants: Option<&Obj<VmBuffer>>,
    ) -> Result<Obj<ExecutableRef>> {
        let format = text("executable_format", executable_format)?;
        let constants = constants.map_or(Ok(Vec::new()), |constants| words("constants", constants))?;
        // The bytes are copied: a program may write to a buffer that is mutable while the loader reads it.
        let executable = state.executable_cache(&device.0)?.prepare_executable(
            QueueAffinity::from_number(queue_affinity)?,
            ExecutableCachingMode::empty(),
            &format,
            &executable_data.to_vec(),
            &constants,
        )?;
        Ok(object(executable))
    }

    #[vm_export("executable.lookup.function")]
    fn executable_lookup_function(
        &self,
        executable: &Obj<ExecutableRef>,
        function_name: &Obj<VmBuffer>,
    ) -> Result<u64> {
        Ok(executable.lookup_function(&text("function_name", function_name)?)?.0)
    }

    #[vm_export("fence.await")]
    fn fence_await(
        &self,
        state: &mut HalState,
        timeout_millis: u32,
        _flags: u64,
        fences: Vec<Option<Obj<FenceRef>>>,
    ) -> Result<Step<i32>> {
        state.timeouts.wait(fences.iter().flatten().map(|fence| &**fence), timeout_millis)
    }

    #[vm_export("fence.create")]
    fn fence_create(&self, device: &Obj<DeviceRef>, _flags: u64) -> Result<Obj<FenceRef>> {
        let semaphore = device.create_semaphore(QueueAffinity::ANY, 0, SemaphoreFlags::DEFAULT)?;
        Ok(Obj::new(Fence::at(semaphore, 1)))
    }

    #[vm_export("fence.fail")]
    fn fence_fail(&self, fence: &Obj<FenceRef>, status: i32) -> Result<()> {
        fence.fail(&waiting::failure(status));
        Ok(())
    }

    #[vm_export("fence.join")]
    fn fence_join(&self, _flags: u64, fences: Vec<Option<Obj<FenceRef>>>) -> Result<Option<Obj<FenceRef>>> {
        let joined = Fence::join(fences.iter().flatten().flat_map(|fence| fence.timepoints()));
        Ok((!joined.timepoints().is_empty()).then(|| Obj::new(joined)))
    }

    #[vm_export("fence.query")]
    fn fence_query(&self, fence: &Obj<FenceRef>) -> Result<i32> {
        Ok(match fence.query() {
            Ok(true) => 0,
            Ok(false) => StatusCode::Deferred as i32,
            Err(failure) => failure.code() as i32,
        })
    }

    #[vm_export("fence.signal")]
    fn fence_signal(&self, fence: &Obj<FenceRef>) -> Result<()> {
        fence.signal()
    }
}
