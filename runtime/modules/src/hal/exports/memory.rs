//! Exports for memory: `allocator.*`, `buffer.*` and `buffer_view.*`, the last of which `hal_inline` shares.
#![expect(clippy::too_many_arguments, reason = "the spec lists the arguments")]

use vireo_macros::vm_module;

use super::Buffers;
use crate::abi::Span;
use crate::hal::HalModule;
use crate::hal::checks::check_buffer;
use crate::hal::convert::{buffer_size, import, object, params, scalar_length};
use crate::vm::{Buffer as VmBuffer, Obj};
use crate::{Result, Status};
use vireo_hal::*;

#[vm_module(spec = "hal", part("allocator", "buffer"))]
impl HalModule {
    #[vm_export("allocator.allocate")]
    fn allocator_allocate(
        &self,
        allocator: &Obj<AllocatorRef>,
        queue_affinity: QueueAffinity,
        memory_types: MemoryType,
        buffer_usage: BufferUsage,
        allocation_size: u64,
    ) -> Result<Obj<Buffers>> {
        let params = params(queue_affinity, memory_types, buffer_usage);
        Ok(object(allocator.allocate_buffer(params, buffer_size(allocation_size)?)?))
    }

    #[vm_export("allocator.import")]
    fn allocator_import(
        &self,
        allocator: &Obj<AllocatorRef>,
        is_try: bool,
        queue_affinity: QueueAffinity,
        memory_types: MemoryType,
        buffer_usage: BufferUsage,
        source: &Obj<VmBuffer>,
        offset: u64,
        length: u64,
    ) -> Result<Option<Obj<Buffers>>> {
        let mut params = params(queue_affinity, memory_types, buffer_usage);
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

    #[vm_export("allocator.select")]
    fn allocator_select(
        &self,
        memory_types: u32,
        buffer_usage: u32,
        flags: u64,
        from: Span<'_, (&Obj<DeviceRef>, u64)>,
    ) -> Result<(Obj<DeviceRef>, u64)> {
        let index = match &self.allocator_policy {
            None => 0,
            Some(policy) => {
                let (memory_types, usage) =
                    (MemoryType::from_number(memory_types)?, BufferUsage::from_number(buffer_usage)?);
                let candidate = |(device, affinity): (&Obj<DeviceRef>, u64)| {
                    Ok((device.0.clone(), QueueAffinity::from_number(affinity)?))
                };
                let candidates = from.iter().map(candidate).collect::<Result<Vec<_>>>()?;
                policy(&candidates, memory_types, usage, flags)?
            }
        };
        let (count, chosen) = (from.len(), from.iter().nth(index));
        let chosen = chosen.map(|(device, affinity)| (device.clone(), affinity));
        chosen.ok_or_else(|| match count {
            0 => Status::invalid_argument("at least one device and queue affinity must be given"),
            count => Status::out_of_range(format!("the policy chose place {index} of {count}")),
        })
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
        memory_types: MemoryType,
        buffer_usage: BufferUsage,
    ) -> Result<()> {
        check_buffer(&*buffer.0, message, minimum_length, memory_types, buffer_usage)
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
}

buffer_view_exports!("hal", HalModule);
