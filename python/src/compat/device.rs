//! `HalDevice`: a device, and the operations of its queues.

use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use vireo::hal::{
    AllocaFlags, BufferParams, BufferUsage, CopyFlags, DeallocaFlags, Device, ExecuteFlags, ExternalCaptureOptions,
    MemoryType, QueueAffinity, SemaphoreFlags,
};

use super::allocator::PyAllocator;
use super::buffer::{PyBufferView, PyHalBuffer};
use super::command_buffer::PyCommandBuffer;
use super::dlpack;
use super::fence::{PySemaphore, timepoints};
use super::throw::OrThrow;
use crate::interpreter::detached;

/// A device.
#[pyclass(frozen, weakref, name = "HalDevice", module = "vireo.compat.iree._binding")]
pub struct PyDevice(pub Arc<dyn Device>);

#[pymethods]
impl PyDevice {
    /// Its allocator.
    #[getter]
    fn allocator(&self) -> PyAllocator {
        PyAllocator(self.0.allocator())
    }

    /// A timeline.
    fn create_semaphore(&self, py: Python<'_>, initial_value: u64) -> PyResult<Py<PySemaphore>> {
        let semaphore = self.0.create_semaphore(QueueAffinity::ANY, initial_value, SemaphoreFlags::DEFAULT);
        PySemaphore::of(py, semaphore.or_throw(py, "creating semaphore")?)
    }

    /// A buffer of the queue, which has memory once the points to signal are reached.
    fn queue_alloca(
        &self,
        py: Python<'_>,
        allocation_size: u64,
        wait_semaphores: &Bound<'_, PyAny>,
        signal_semaphores: &Bound<'_, PyAny>,
    ) -> PyResult<Py<PyHalBuffer>> {
        let (wait, signal) = (timepoints(wait_semaphores)?, timepoints(signal_semaphores)?);
        let params = BufferParams {
            memory_type: MemoryType::DEVICE_LOCAL,
            usage: BufferUsage::DEFAULT,
            ..BufferParams::default()
        };
        let (any, flags) = (QueueAffinity::ANY, AllocaFlags::empty());
        let buffer = detached(py, || self.0.queue_alloca(any, &wait, &signal, None, params, allocation_size, flags));
        PyHalBuffer::of(py, buffer.or_throw(py, "allocating memory on queue")?)
    }

    /// Returns the memory of a buffer of the queue.
    fn queue_dealloca(
        &self,
        py: Python<'_>,
        buffer: &Bound<'_, PyHalBuffer>,
        wait_semaphores: &Bound<'_, PyAny>,
        signal_semaphores: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let (wait, signal) = (timepoints(wait_semaphores)?, timepoints(signal_semaphores)?);
        let (buffer, flags) = (&buffer.get().0, DeallocaFlags::empty());
        let submitted = detached(py, || self.0.queue_dealloca(QueueAffinity::ANY, &wait, &signal, buffer, flags));
        submitted.or_throw(py, "deallocating memory on queue")
    }

    /// Copies all of a buffer to the begin of another one.
    fn queue_copy(
        &self,
        py: Python<'_>,
        source_buffer: &Bound<'_, PyHalBuffer>,
        target_buffer: &Bound<'_, PyHalBuffer>,
        wait_semaphores: &Bound<'_, PyAny>,
        signal_semaphores: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let (wait, signal) = (timepoints(wait_semaphores)?, timepoints(signal_semaphores)?);
        let (source, target) = (&source_buffer.get().0, &target_buffer.get().0);
        let (length, room) = (source.byte_length(), target.byte_length());
        if length > room {
            return Err(PyValueError::new_err(format!(
                "source length must be less than or equal to the target's: {length} bytes do not fit {room}"
            )));
        }
        let (any, flags) = (QueueAffinity::ANY, CopyFlags::empty());
        let submitted = detached(py, || self.0.queue_copy(any, &wait, &signal, source, 0, target, 0, length, flags));
        submitted.or_throw(py, "copying buffer on queue")
    }

    /// Executes a command buffer.
    fn queue_execute(
        &self,
        py: Python<'_>,
        command_buffer: &Bound<'_, PyCommandBuffer>,
        wait_semaphores: &Bound<'_, PyAny>,
        signal_semaphores: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let (wait, signal) = (timepoints(wait_semaphores)?, timepoints(signal_semaphores)?);
        let (commands, flags) = (&command_buffer.get().0, ExecuteFlags::empty());
        let submitted = detached(py, || self.0.queue_execute(QueueAffinity::ANY, &wait, &signal, commands, &[], flags));
        submitted.or_throw(py, "executing command buffer on queue")
    }

    /// Begins to record nothing; a mode, which says what to record, needs a sink, of which this interface has none.
    #[pyo3(signature = (mode=None))]
    fn begin_profiling(&self, mode: Option<String>) -> PyResult<()> {
        match mode {
            None => Ok(()),
            Some(mode) => Err(PyValueError::new_err(format!(
                "mode '{mode}' needs a profile sink for what is recorded, and this interface has none"
            ))),
        }
    }

    /// Nothing is recorded.
    fn flush_profiling(&self) {}

    /// Ends to record nothing.
    fn end_profiling(&self) {}

    /// Begins a capture by a tool.
    #[pyo3(signature = (provider, file_path=None, label=None))]
    fn begin_external_capture(
        &self,
        py: Python<'_>,
        provider: String,
        file_path: Option<String>,
        label: Option<String>,
    ) -> PyResult<()> {
        let options = ExternalCaptureOptions {
            provider,
            file_path: file_path.unwrap_or_default(),
            label: label.unwrap_or_default(),
            ..ExternalCaptureOptions::default()
        };
        self.0.external_capture_begin(&options).or_throw(py, "beginning external capture")
    }

    /// Ends a capture by a tool.
    fn end_external_capture(&self, py: Python<'_>) -> PyResult<()> {
        self.0.external_capture_end().or_throw(py, "ending external capture")
    }

    /// A capsule of DLPack with the elements, where they are. `device_type_code` and `device_id` are those of the host.
    fn create_dlpack_capsule(
        &self,
        buffer_view: &Bound<'_, PyBufferView>,
        device_type_code: u32,
        device_id: i32,
    ) -> PyResult<Py<PyAny>> {
        dlpack::create(buffer_view.py(), buffer_view.get().0.clone(), (device_type_code, device_id))
    }

    /// A buffer view over the elements of a capsule of DLPack, without a copy.
    #[expect(clippy::wrong_self_convention, reason = "the interface calls it so")]
    fn from_dlpack_capsule(&self, capsule: &Bound<'_, PyAny>) -> PyResult<Py<PyBufferView>> {
        dlpack::import(&*self.0, capsule)
    }

    fn __repr__(&self) -> String {
        self.0.id().to_string()
    }
}
