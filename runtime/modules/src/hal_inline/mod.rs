//! The `hal_inline` module: tensors for programs without devices, which compute in host memory.
//!
//! Its interface is `spec/abi/modules/hal_inline.yaml`. Such programs access the memory of a buffer as a VM buffer, in
//! place; it stays as long as one of the two does. There are no devices and no queues: a call has completed when it
//! returns.

use std::sync::Arc;

use vireo_macros::vm_module;

use super::hal::TraceSink;
use super::hal::convert::{MappedStorage, buffer_size, import, object};
use crate::vm::{Buffer as VmBuffer, Obj};
use crate::{Result, Status};
use vireo_hal::{
    Allocator, Buffer, BufferParams, BufferRefObject, BufferUsage, MappingMode, MemoryAccess, MemoryType,
    QueryCategory, WHOLE_BUFFER, host_kernels, subspan,
};

type Buffers = BufferRefObject;

/// The `hal_inline` module over an allocator of memory that the host can reach.
pub struct HalInlineModule {
    allocator: Arc<dyn Allocator>,
    trace_sink: Option<Arc<TraceSink>>,
}

impl HalInlineModule {
    /// A module whose buffers `allocator` allocates.
    pub fn new(allocator: Arc<dyn Allocator>) -> HalInlineModule {
        HalInlineModule { allocator, trace_sink: None }
    }

    /// The same module with `sink` receiving the tensors that programs trace. Without one they are ignored.
    pub fn with_trace_sink(mut self, sink: Arc<TraceSink>) -> HalInlineModule {
        self.trace_sink = Some(sink);
        self
    }

    fn allocate(&self, alignment: u32, size: u64) -> Result<(Obj<Buffers>, Obj<VmBuffer>)> {
        let params = BufferParams {
            usage: BufferUsage::TRANSFER | BufferUsage::DISPATCH_STORAGE | BufferUsage::MAPPING,
            access: MemoryAccess::ALL,
            memory_type: MemoryType::OPTIMAL_FOR_HOST,
            min_alignment: alignment.into(),
            ..BufferParams::default()
        };
        let buffer = self.allocator.allocate_buffer(params, buffer_size(size)?)?;
        let storage = storage(&buffer)?;
        Ok((object(buffer), storage))
    }
}

/// The memory of a buffer as a VM buffer.
fn storage(buffer: &Arc<dyn Buffer>) -> Result<Obj<VmBuffer>> {
    let mapping = buffer.map_range(MappingMode::PERSISTENT, MemoryAccess::ANY, 0, WHOLE_BUFFER)?;
    let length = usize::try_from(mapping.length)
        .map_err(|_| Status::resource_exhausted(format!("a buffer of {} bytes in memory", mapping.length)))?;
    let mutable = buffer.allowed_access().contains(MemoryAccess::WRITE);
    let owner = Arc::new(MappedStorage(mapping.owner));
    // SAFETY: a mapping keeps its bytes in place as long as its owner lives, and they are reached through raw pointers
    // only.
    Ok(Obj::new(unsafe { VmBuffer::from_shared(owner, mapping.data, length, mutable) }))
}

#[vm_module(spec = "hal_inline", parts("buffer_view"))]
impl HalInlineModule {
    #[vm_export("buffer.allocate")]
    fn buffer_allocate(&self, minimum_alignment: u32, allocation_size: u64) -> Result<(Obj<Buffers>, Obj<VmBuffer>)> {
        self.allocate(minimum_alignment, allocation_size)
    }

    #[vm_export("buffer.allocate.initialized")]
    fn buffer_allocate_initialized(
        &self,
        minimum_alignment: u32,
        source: &Obj<VmBuffer>,
        offset: u64,
        length: u64,
    ) -> Result<(Obj<Buffers>, Obj<VmBuffer>)> {
        let from = source.range(offset, length)?;
        let (buffer, storage) = self.allocate(minimum_alignment, length)?;
        let to = storage.range(0, length)?;
        // SAFETY: both ranges were checked, and the target is new.
        unsafe { from.copy_to_nonoverlapping(to, length as usize) };
        Ok((buffer, storage))
    }

    #[vm_export("buffer.length")]
    fn buffer_length(&self, buffer: &Obj<Buffers>) -> Result<u64> {
        Ok(buffer.byte_length())
    }

    #[vm_export("buffer.storage")]
    fn buffer_storage(&self, buffer: &Obj<Buffers>) -> Result<Obj<VmBuffer>> {
        storage(&buffer.0)
    }

    #[vm_export("buffer.subspan")]
    fn buffer_subspan(&self, source_buffer: &Obj<Buffers>, source_offset: u64, length: u64) -> Result<Obj<Buffers>> {
        Ok(object(subspan(&source_buffer.0, source_offset, length)?))
    }

    #[vm_export("buffer.wrap")]
    fn buffer_wrap(&self, source_buffer: &Obj<VmBuffer>, source_offset: u64, length: u64) -> Result<Obj<Buffers>> {
        let mutable = source_buffer.is_mutable();
        let params = BufferParams {
            usage: BufferUsage::TRANSFER | BufferUsage::DISPATCH_STORAGE | BufferUsage::MAPPING,
            access: if mutable { MemoryAccess::READ | MemoryAccess::WRITE } else { MemoryAccess::READ },
            memory_type: MemoryType::OPTIMAL_FOR_HOST,
            ..BufferParams::default()
        };
        // SAFETY: writing is allowed only if the memory is mutable.
        Ok(object(unsafe { import(&*self.allocator, params, source_buffer, source_offset, length) }?))
    }

    #[vm_export("device.query.i64")]
    fn device_query_i64(&self, category: &str, key: &str) -> Result<(bool, i64)> {
        let value = (category == QueryCategory::Cpu.name()).then(|| host_kernels::feature(key)).flatten();
        Ok((value.is_some(), value.unwrap_or(false).into()))
    }
}

// fact: the macro looks this module up in the specs
buffer_view_exports!("hal_inline", HalInlineModule);
