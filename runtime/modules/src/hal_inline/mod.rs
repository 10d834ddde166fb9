//! The `hal_inline` module: tensors at the boundary of programs that compute in memory of the host.
//!
//! Its interface is `spec/abi/modules/hal_inline.yaml`. Such programs see the memory of a device buffer as a VM buffer, in place; it stays
//! as long as one of the two does. There are no devices and no queues: what the program calls is done when the call returns.

use std::sync::Arc;

use vireo_macros::vm_module;

use super::hal::TraceSink;
use super::hal::checks::check_view;
use super::hal::convert::{covers, import, object, text};
use crate::abi::Span;
use crate::vm::{Buffer as VmBuffer, Obj};
use crate::{Result, Status};
use vireo_hal::{
    Allocator, Buffer, BufferParams, BufferRefObject, BufferUsage, BufferView, BufferViewRef, ElementType,
    EncodingType, MappingMode, MemoryAccess, MemoryType, QueryCategory, WHOLE_BUFFER, host_kernels, subspan,
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
        let buffer = self.allocator.allocate_buffer(params, size)?;
        let storage = storage(&buffer)?;
        Ok((object(buffer), storage))
    }
}

/// The memory of a buffer.
fn storage(buffer: &Arc<dyn Buffer>) -> Result<Obj<VmBuffer>> {
    let mapping = buffer.map_range(MappingMode::PERSISTENT, MemoryAccess::ANY, 0, WHOLE_BUFFER)?;
    let length = usize::try_from(mapping.length)
        .map_err(|_| Status::resource_exhausted(format!("a buffer of {} bytes in memory", mapping.length)))?;
    let mutable = buffer.allowed_access().contains(MemoryAccess::WRITE);
    // The memory may belong to the mapping or to the buffer.
    let owner = Arc::new((mapping.owner, buffer.clone()));
    // SAFETY: a mapping keeps its bytes in place as long as its owner lives, and they are reached through raw pointers only.
    Ok(Obj::new(unsafe { VmBuffer::from_shared(owner, mapping.data, length, mutable) }))
}

#[vm_module(spec = "hal_inline")]
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

    #[vm_export("buffer_view.assert")]
    fn buffer_view_assert(
        &self,
        buffer_view: &Obj<BufferViewRef>,
        message: &Obj<VmBuffer>,
        element_type: u32,
        encoding_type: u32,
        shape: &[u64],
    ) -> Result<()> {
        check_view(buffer_view, message, ElementType(element_type), EncodingType(encoding_type), shape)
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
        shape: &[u64],
    ) -> Result<Obj<BufferViewRef>> {
        let buffer = if covers(&*buffer.0, source_offset, source_length) {
            buffer
        } else {
            object(subspan(&buffer.0, source_offset, source_length)?)
        };
        let view = BufferView::of(buffer, shape, ElementType(element_type), EncodingType(encoding_type))?;
        Ok(Obj::new(view))
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
    fn buffer_view_trace(&self, key: &Obj<VmBuffer>, operands: Span<'_, &Obj<BufferViewRef>>) -> Result<()> {
        if let Some(sink) = &self.trace_sink {
            let views: Vec<Obj<BufferView>> = operands.iter().cloned().collect();
            sink(&text("key", key)?, &views)?;
        }
        Ok(())
    }

    #[vm_export("device.query.i64")]
    fn device_query_i64(&self, category: &Obj<VmBuffer>, key: &Obj<VmBuffer>) -> Result<(bool, i64)> {
        let (category, key) = (text("category", category)?, text("key", key)?);
        let value = (category == QueryCategory::Cpu.name()).then(|| host_kernels::feature(&key)).flatten();
        Ok((value.is_some(), value.unwrap_or(false).into()))
    }
}
