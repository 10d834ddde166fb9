//! `HalAllocator`: memory of a device.

use std::any::Any;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use vireo::Result;
use vireo::hal::{
    Allocator, Buffer, BufferParams, BufferUsage, BufferView, CopyFlags, Device, ElementType, EncodingType,
    ExternalBuffer, ExternalBufferType, Fence, MemoryAccess, MemoryType, QueueAffinity, buffer_write,
};
use vireo::vm::Obj;

use super::buffer::{PyBufferView, PyHalBuffer};
use super::bytes::HostBytes;
use super::device::PyDevice;
use super::throw::OrThrow;
use crate::interpreter::{allow_forks, detached};

/// The allocator of a device.
#[pyclass(frozen, weakref, name = "HalAllocator", module = "vireo.compat.iree._binding")]
pub struct PyAllocator(pub Arc<dyn Allocator>);

fn params(memory_type: u32, usage: u32) -> Result<BufferParams> {
    Ok(BufferParams {
        memory_type: MemoryType::from_number(memory_type)?,
        usage: BufferUsage::from_number(usage)?,
        ..BufferParams::default()
    })
}

/// Allocates a buffer with a copy of bytes, of whatever memory.
fn copy_of(
    allocator: &dyn Allocator,
    device: &dyn Device,
    params: BufferParams,
    bytes: &HostBytes,
) -> Result<Arc<dyn Buffer>> {
    let length = bytes.len() as u64;
    let buffer = allocator.allocate_buffer(params, length)?;
    let is_mappable = buffer.memory_type().contains(MemoryType::HOST_VISIBLE)
        && buffer.allowed_usage().contains(BufferUsage::MAPPING_SCOPED);
    if is_mappable {
        buffer_write(&*buffer, 0, bytes.as_slice())?;
        return Ok(buffer);
    }
    let staging = BufferParams {
        memory_type: MemoryType::HOST_VISIBLE | MemoryType::DEVICE_VISIBLE,
        usage: BufferUsage::TRANSFER | BufferUsage::MAPPING,
        ..BufferParams::default()
    };
    let staging = allocator.allocate_buffer(staging, length)?;
    buffer_write(&*staging, 0, bytes.as_slice())?;
    let done = Fence::create();
    let (any, flags) = (QueueAffinity::ANY, CopyFlags::empty());
    device.queue_copy(any, &[], done.timepoints(), &staging, 0, &buffer, 0, length, flags)?;
    done.wait(None)?;
    Ok(buffer)
}

#[pymethods]
impl PyAllocator {
    /// Releases memory that nothing uses.
    fn trim(&self, py: Python<'_>) -> PyResult<()> {
        detached(py, || self.0.trim()).or_throw(py, "Error trim()'ing HAL allocator")
    }

    /// Whether it counts the bytes that are in use.
    #[getter]
    fn has_statistics(&self) -> bool {
        true
    }

    /// The bytes that are in use.
    #[getter]
    fn statistics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let statistics = self.0.statistics();
        let fields = PyDict::new(py);
        fields.set_item("host_bytes_peak", statistics.host_bytes_peak)?;
        fields.set_item("host_bytes_allocated", statistics.host_bytes_allocated)?;
        fields.set_item("host_bytes_freed", statistics.host_bytes_freed)?;
        fields.set_item("device_bytes_peak", statistics.device_bytes_peak)?;
        fields.set_item("device_bytes_allocated", statistics.device_bytes_allocated)?;
        fields.set_item("device_bytes_freed", statistics.device_bytes_freed)?;
        Ok(fields)
    }

    /// The bytes that are in use, in two lines of text.
    #[getter]
    fn formatted_statistics(&self) -> String {
        let statistics = self.0.statistics();
        let line = |name: &str, peak: u64, allocated: u64, freed: u64| {
            let live = allocated.saturating_sub(freed);
            format!(
                "{name:>12}: {peak:>12}B peak / {allocated:>12}B allocated / {freed:>12}B freed / {live:>12}B live\n"
            )
        };
        let host = (statistics.host_bytes_peak, statistics.host_bytes_allocated, statistics.host_bytes_freed);
        let device = (statistics.device_bytes_peak, statistics.device_bytes_allocated, statistics.device_bytes_freed);
        line("HOST_LOCAL", host.0, host.1, host.2) + &line("DEVICE_LOCAL", device.0, device.1, device.2)
    }

    /// The bits of what can be done with buffers of a kind.
    #[pyo3(signature = (memory_type, allowed_usage, intended_usage, allocation_size))]
    fn query_buffer_compatibility(
        &self,
        py: Python<'_>,
        memory_type: u32,
        allowed_usage: u32,
        intended_usage: u32,
        allocation_size: u64,
    ) -> PyResult<u32> {
        let what = "querying buffer compatibility";
        let intended = BufferUsage::from_number(intended_usage).or_throw(py, what)?;
        let mut params = params(memory_type, allowed_usage).or_throw(py, what)?;
        params.usage = params.usage & intended;
        Ok(self.0.buffer_compatibility(params, allocation_size).compatibility.bits())
    }

    /// A buffer of so many bytes.
    fn allocate_buffer(
        &self,
        py: Python<'_>,
        memory_type: u32,
        allowed_usage: u32,
        allocation_size: u64,
    ) -> PyResult<Py<PyHalBuffer>> {
        let allocated = detached(py, || self.0.allocate_buffer(params(memory_type, allowed_usage)?, allocation_size));
        PyHalBuffer::of(py, allocated.or_throw(py, "could not allocate buffer")?)
    }

    /// A buffer with a copy of the bytes of an array; a view of it with the shape of the array if `element_type` is
    /// given.
    #[pyo3(signature = (memory_type, allowed_usage, device, buffer, element_type=None))]
    fn allocate_buffer_copy(
        &self,
        py: Python<'_>,
        memory_type: u32,
        allowed_usage: u32,
        device: &PyDevice,
        buffer: &Bound<'_, PyAny>,
        element_type: Option<u32>,
    ) -> PyResult<Py<PyAny>> {
        let bytes = HostBytes::of(buffer)?;
        let device = &device.0;
        let copied = detached(py, || copy_of(&*self.0, &**device, params(memory_type, allowed_usage)?, &bytes));
        let copied = copied.or_throw(py, "Failed to allocate device visible buffer")?;
        let Some(element_type) = element_type else { return Ok(PyHalBuffer::of(py, copied)?.into_any()) };
        let element_type = ElementType(element_type);
        let view = BufferView::new(copied, &bytes.shape(), element_type, EncodingType::DENSE_ROW_MAJOR);
        Ok(PyBufferView::of(py, Obj::new(view.or_throw(py, "Error allocating buffer_view")?))?.into_any())
    }

    /// A buffer with a copy of bytes, from which queues copy to memory of devices.
    fn allocate_host_staging_buffer_copy(
        &self,
        py: Python<'_>,
        device: &PyDevice,
        initial_contents: &Bound<'_, PyAny>,
    ) -> PyResult<Py<PyHalBuffer>> {
        let bytes = HostBytes::of(initial_contents)?;
        let params = BufferParams {
            memory_type: MemoryType::HOST_VISIBLE | MemoryType::DEVICE_LOCAL,
            usage: BufferUsage::TRANSFER | BufferUsage::MAPPING,
            ..BufferParams::default()
        };
        let device = &device.0;
        let copied = detached(py, || copy_of(&*self.0, &**device, params, &bytes));
        PyHalBuffer::of(py, copied.or_throw(py, "Failed to allocate staging buffer")?)
    }

    /// A buffer over the memory of an array, without a copy. Memory that is not aligned may be used for transfers
    /// alone.
    fn import_host_allocation(
        &self,
        py: Python<'_>,
        buffer_obj: &Bound<'_, PyAny>,
        memory_type: u32,
        allowed_usage: u32,
    ) -> PyResult<Py<PyHalBuffer>> {
        // A device may release the memory on a thread of its own.
        allow_forks(py)?;
        let what = "importing host allocation";
        let bytes = Arc::new(HostBytes::writable(buffer_obj)?);
        let params = params(memory_type, allowed_usage).or_throw(py, what)?;
        let (data, size) = (bytes.data(), bytes.len() as u64);
        let owner: Arc<dyn Any + Send + Sync> = bytes;
        let external = ExternalBuffer { r#type: ExternalBufferType::HostAllocation, data, size, owner };
        let access = MemoryAccess::ALL | MemoryAccess::UNALIGNED;
        // SAFETY: the exporter keeps the bytes, which may be written, as long as the owner lives. Python and devices
        // reach them through raw pointers alone.
        let imported = unsafe { self.0.import_buffer(BufferParams { access, ..params }, &external) };
        PyHalBuffer::of(py, imported.or_throw(py, what)?)
    }
}
