//! Operations that are more than the call of a method; `spec/replay/operations.yaml` says why.

use std::collections::HashSet;
use std::sync::Arc;

use vireo_core::status::{Result, Status, StatusCode};
use vireo_hal::{
    Executable, ExecutableCachingMode, ExecutableFunction, ExecuteFlags, ExternalBufferType, QueueAffinity, ReadFlags,
    UpdateFlags, buffer_write,
};

use super::values::{buffer_params, number, text};
use super::{Object, Run};
use crate::captured_file::{CapturedFile, Files};
use crate::generated::dump::payload;
use crate::generated::payloads::{
    AllocatorImportBufferParts, BufferRangeDataParts, DeviceQueueExecuteParts, DeviceQueueReadParts,
    ExecutableMetadataParts, ExecutablePrepareParts, FileObjectParts,
};
use crate::options::Substitution;
use crate::plan::{Step, damaged};

impl Run<'_> {
    pub(crate) fn device_import_file(&mut self, step: &Step, parts: &FileObjectParts<'_>) -> Result<()> {
        let files = Files { access: self.options.files, remaps: &self.options.remaps };
        let file = CapturedFile::open(parts, (&self.plan.bytes, &step.payload), files)?;
        self.made(step, Object::File(Arc::new(file)))
    }

    pub(crate) fn device_queue_read(&mut self, step: &Step, parts: &DeviceQueueReadParts<'_>) -> Result<()> {
        let head = &parts.head;
        self.before_submission(step)?;
        let device = self.device(step.object)?;
        let affinity = QueueAffinity::from_number(head.queue_affinity)?;
        let (wait, signal) = (&self.waits(step)?, &self.signals(step)?);
        let target = &head.target_ref;
        let buffer = self.buffer(target.buffer_id)?;
        let flags = ReadFlags::from_number(head.flags)?;
        if parts.captured_data.is_empty() {
            let file = self.file(head.source_file_id)?;
            let (from, to) = (head.source_offset, target.offset);
            device.queue_read(affinity, wait, signal, file, from, buffer, to, target.length, flags)?;
        } else {
            let (data, length) = (parts.captured_data, target.length);
            if data.len() as u64 != length {
                let message = format!("{} bytes were captured of a read of {length}: expected all", data.len());
                return Err(Status::new(StatusCode::DataLoss, message));
            }
            device.queue_update(affinity, wait, signal, data, buffer, target.offset, UpdateFlags::empty())?;
        }
        self.submitted(step)
    }

    pub(crate) fn device_queue_execute(&mut self, step: &Step, parts: &DeviceQueueExecuteParts<'_>) -> Result<()> {
        let head = &parts.head;
        self.before_submission(step)?;
        let device = self.device(step.object)?;
        let affinity = QueueAffinity::from_number(head.queue_affinity)?;
        let (wait, signal) = (&self.waits(step)?, &self.signals(step)?);
        let flags = ExecuteFlags::from_number(head.flags)?;
        if head.command_buffer_id != 0 {
            let commands = self.command_buffer(head.command_buffer_id)?;
            let bindings = self.buffer_binding_list(&parts.bindings)?;
            device.queue_execute(affinity, wait, signal, commands, &bindings, flags)?;
        } else if parts.bindings.is_empty() {
            device.queue_barrier(affinity, wait, signal, flags)?;
        } else {
            return Err(Status::new(StatusCode::DataLoss, "there are bindings for no command buffer"));
        }
        self.submitted(step)
    }

    pub(crate) fn allocator_import_buffer(
        &mut self,
        step: &Step,
        parts: &AllocatorImportBufferParts<'_>,
    ) -> Result<()> {
        let (head, data) = (&parts.head, parts.data);
        if head.external_type != ExternalBufferType::HostAllocation as u32 {
            return Err(Status::unimplemented(format!("an external buffer has type {}", head.external_type)));
        }
        let params = &head.allocation;
        let size = params.allocation_size;
        if data.len() as u64 != size {
            let message = format!("a buffer of {size} bytes has {}: expected all", data.len());
            return Err(Status::new(StatusCode::DataLoss, message));
        }
        let mut params =
            buffer_params(params.queue_affinity, params.min_alignment, params.usage, params.r#type, params.access)?;
        // The memory was that of the host, which wrote it.
        params.memory_type |= vireo_hal::MemoryType::HOST_VISIBLE;
        params.usage |= vireo_hal::BufferUsage::MAPPING;
        let access = params.access;
        params.access = vireo_hal::MemoryAccess::ALL | access;
        let buffer = self.allocator(step.object)?.allocate_buffer(params, size)?;
        buffer_write(&*buffer, 0, data)?;
        self.made_buffer(step, buffer)
    }

    pub(crate) fn buffer_unmap_range(&mut self, step: &Step, bytes: &[u8]) -> Result<()> {
        if step.payload_type != payload::BUFFER_RANGE_DATA {
            return Ok(());
        }
        let parts = BufferRangeDataParts::read(bytes).map_err(damaged)?;
        self.wait()?;
        buffer_write(&**self.buffer(step.object)?, parts.head.byte_offset, parts.data)
    }

    pub(crate) fn buffer_flush_range(&mut self, step: &Step, bytes: &[u8]) -> Result<()> {
        self.buffer_unmap_range(step, bytes)
    }

    pub(crate) fn executable_cache_prepare_executable(
        &mut self,
        step: &Step,
        parts: &ExecutablePrepareParts<'_>,
    ) -> Result<()> {
        let head = &parts.head;
        let cache = self.executable_cache(step.object)?;
        // The bytes are those of the plan, and not of the program that was captured.
        let mode = ExecutableCachingMode::from_number(head.caching_mode)? - ExecutableCachingMode::ALIAS_PROVIDED_DATA;
        let substitution = Substitution::of(&self.options.substitutions, step.related);
        let (format, data) = match substitution {
            None => (text("format", parts.format)?.to_string(), parts.data),
            Some(Substitution { format: Some(format), data, .. }) => (format.clone(), &**data),
            Some(Substitution { data, .. }) => (cache.infer_format(mode, data)?, &**data),
        };
        let constants: Vec<u32> = parts.constants.iter().collect();
        let affinity = QueueAffinity::from_number(head.queue_affinity)?;
        let executable = cache.prepare_executable(affinity, mode, &format, data, &constants)?;
        let functions = functions(&*executable, parts.metadata).map_err(|status| match substitution {
            Some(_) => status.context(format!("what takes the place of executable {}", step.related)),
            None => status,
        })?;
        self.made(step, Object::Executable(executable, functions))
    }
}

/// The functions of an executable in the order of the capture. They must be as the capture has them.
fn functions(executable: &dyn Executable, metadata: &[u8]) -> Result<Box<[ExecutableFunction]>> {
    let parts = ExecutableMetadataParts::read(metadata).map_err(damaged)?;
    let changed = |name: &str, what: &str, found: &dyn std::fmt::Debug, expected: &dyn std::fmt::Debug| {
        let message = format!("function `{name}` has {what} {found:?}: the capture has {expected:?}");
        Err(Status::failed_precondition(message))
    };
    let count = u64::from(executable.function_count());
    if count != parts.head.function_count {
        let expected = parts.head.function_count;
        return Err(Status::failed_precondition(format!("it has {count} functions: the capture has {expected}")));
    }
    let (mut names, mut parameters) = (parts.names, parts.parameters.iter());
    let (mut functions, mut seen) = (Vec::new(), HashSet::new());
    for captured in parts.functions.iter() {
        let length = usize::from(captured.name_length);
        let Some((name, rest)) = names.split_at_checked(length) else {
            return Err(Status::new(StatusCode::DataLoss, "the names of functions are longer than all of them"));
        };
        names = rest;
        let name = text("name of a function", name)?;
        let function = executable.lookup_function(name)?;
        if !seen.insert(function) {
            return Err(Status::failed_precondition(format!("function `{name}` is there twice")));
        }
        let info = executable.function_info(function)?;
        if info.flags.bits() != captured.flags {
            return changed(name, "flags", &info.flags.bits(), &captured.flags);
        }
        let counts = [
            ("constants", info.constant_count, captured.constant_count),
            ("bindings", info.binding_count, captured.binding_count),
            ("parameters", info.parameter_count, captured.parameter_count),
        ];
        for (what, found, expected) in counts {
            if found != expected {
                return changed(name, what, &found, &expected);
            }
        }
        if info.workgroup_size != captured.workgroup_size {
            return changed(name, "workgroups of", &info.workgroup_size, &captured.workgroup_size);
        }
        let found = if info.parameter_count == 0 { Vec::new() } else { executable.function_parameters(function)? };
        for index in 0..usize::from(captured.parameter_count) {
            let Some(expected) = parameters.next() else {
                return Err(Status::new(StatusCode::DataLoss, "a function has more parameters than all have"));
            };
            let found = found.get(index).map(|other| (other.offset, other.flags.bits(), other.r#type.0, other.size));
            let expected = (expected.offset, expected.flags, expected.r#type, expected.size);
            if found != Some(expected) {
                return changed(name, &format!("parameter {index}"), &found, &expected);
            }
        }
        functions.push(function);
    }
    if !names.is_empty() || parameters.next().is_some() {
        return Err(Status::new(StatusCode::DataLoss, "the metadata of an executable is longer than its functions"));
    }
    let _: u64 = number("function_count", functions.len() as u64)?;
    Ok(functions.into_boxed_slice())
}
