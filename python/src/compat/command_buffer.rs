//! `HalCommandBuffer`: recorded copies and fills.

use std::sync::Arc;

use pyo3::prelude::*;
use vireo::hal::{
    AccessScope, Buffer, BufferRef, CommandBuffer, CommandBufferMode, CommandBufferRef, CommandCategory, CopyFlags,
    ExecutionBarrierFlags, ExecutionStage, FillFlags, MemoryBarrier, QueueAffinity,
};
use vireo::{Result, Status};

use super::buffer::PyHalBuffer;
use super::bytes::HostBytes;
use super::device::PyDevice;
use super::object::PyVmObject;
use super::throw::OrThrow;
use crate::interpreter::detached;

/// Recorded commands.
#[pyclass(frozen, extends = PyVmObject, name = "HalCommandBuffer", module = "vireo.compat.iree._binding")]
pub struct PyCommandBuffer(pub Arc<dyn CommandBuffer>);

impl PyCommandBuffer {
    /// A command buffer of a program.
    pub fn of(py: Python<'_>, commands: Arc<dyn CommandBuffer>) -> PyResult<Py<PyCommandBuffer>> {
        PyVmObject::make(py, CommandBufferRef::to_ref(commands.clone()), PyCommandBuffer(commands))
    }

    /// Ends the recording, or lets commands that are recorded later see what those before it have written.
    fn finish(&self, ends: bool) -> Result<()> {
        if ends {
            return self.0.end();
        }
        let barrier = MemoryBarrier { source_scope: AccessScope::TRANSFER_WRITE, target_scope: AccessScope::all() };
        let (source, target) = (ExecutionStage::TRANSFER, ExecutionStage::TRANSFER | ExecutionStage::DISPATCH);
        self.0.execution_barrier(source, target, ExecutionBarrierFlags::empty(), &[barrier], &[])
    }
}

/// A range of a buffer; without a length all that is after the offset.
fn range(buffer: &Arc<dyn Buffer>, offset: u64, length: Option<u64>) -> Result<BufferRef> {
    let room = buffer.byte_length().checked_sub(offset);
    let room = room.ok_or_else(|| {
        Status::out_of_range(format!("offset {offset} is after the end of {} bytes", buffer.byte_length()))
    })?;
    Ok(BufferRef { buffer: Some(buffer.clone()), offset, length: length.unwrap_or(room), ..BufferRef::default() })
}

#[pymethods]
impl PyCommandBuffer {
    #[new]
    #[pyo3(signature = (device, binding_capacity=0, begin=true))]
    fn new(
        py: Python<'_>,
        device: &PyDevice,
        binding_capacity: u32,
        begin: bool,
    ) -> PyResult<PyClassInitializer<PyCommandBuffer>> {
        let what = "creating command buffer";
        let (mode, any) = (CommandBufferMode::empty(), QueueAffinity::ANY);
        let commands = device.0.create_command_buffer(mode, CommandCategory::ANY, any, binding_capacity);
        let commands = commands.or_throw(py, what)?;
        if begin {
            commands.begin().or_throw(py, "beginning command buffer")?;
        }
        Ok(PyVmObject::over(CommandBufferRef::to_ref(commands.clone()), PyCommandBuffer(commands)))
    }

    /// Begins the recording.
    fn begin(&self, py: Python<'_>) -> PyResult<()> {
        self.0.begin().or_throw(py, "beginning command buffer")
    }

    /// Ends the recording.
    fn end(&self, py: Python<'_>) -> PyResult<()> {
        detached(py, || self.0.end()).or_throw(py, "ending command buffer")
    }

    /// Records a copy; without a length, of all that is after `source_offset`.
    #[pyo3(signature = (source_buffer, target_buffer, source_offset=0, target_offset=0, length=None, end=false))]
    #[expect(clippy::too_many_arguments, reason = "the interface has them")]
    fn copy(
        &self,
        py: Python<'_>,
        source_buffer: &Bound<'_, PyHalBuffer>,
        target_buffer: &Bound<'_, PyHalBuffer>,
        source_offset: u64,
        target_offset: u64,
        length: Option<u64>,
        end: bool,
    ) -> PyResult<()> {
        let (source, target) = (&source_buffer.get().0, &target_buffer.get().0);
        let recorded = detached(py, || {
            let source = range(source, source_offset, length)?;
            let target = range(target, target_offset, Some(source.length))?;
            self.0.copy_buffer(&source, &target, CopyFlags::empty())?;
            self.finish(end)
        });
        recorded.or_throw(py, "copying buffer")
    }

    /// Records a fill with a pattern of 1, 2, 4 or 8 bytes; without a length, of all that is after `target_offset`.
    #[pyo3(signature = (target_buffer, pattern, target_offset=0, length=None, end=false))]
    fn fill(
        &self,
        py: Python<'_>,
        target_buffer: &Bound<'_, PyHalBuffer>,
        pattern: &Bound<'_, PyAny>,
        target_offset: u64,
        length: Option<u64>,
        end: bool,
    ) -> PyResult<()> {
        let (target, pattern) = (&target_buffer.get().0, HostBytes::of(pattern)?);
        let recorded = detached(py, || {
            let target = range(target, target_offset, length)?;
            self.0.fill_buffer(&target, pattern.as_slice(), FillFlags::empty())?;
            self.finish(end)
        });
        recorded.or_throw(py, "filling buffer")
    }
}
