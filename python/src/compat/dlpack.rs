//! Capsules of DLPack over buffers of devices of the host.

use std::any::Any;
use std::ptr::NonNull;
use std::sync::Arc;

use pyo3::prelude::*;
use vireo::Status;
use vireo::hal::{
    BufferParams, BufferUsage, BufferView, Device, DlpackDeviceType, EncodingType, ExternalBuffer, ExternalBufferType,
    MemoryAccess, MemoryType,
};
use vireo::inference::Tensor;
use vireo::inference::dlpack::ManagedTensor;
use vireo::vm::Obj;

use super::buffer::PyBufferView;
use super::throw::OrThrow;
use crate::interpreter::{allow_forks, detached};
use crate::memory::{Exported, capsule, take};

/// A capsule with the elements of a view, where they are.
pub fn create(py: Python<'_>, view: Obj<BufferView>, device: (u32, i32)) -> PyResult<Py<PyAny>> {
    let what = "creating DLPack capsule";
    if device != (DlpackDeviceType::CPU.0, 0) {
        let message = format!("device {device:?} of DLPack: the elements are on the host, (1, 0)");
        return Err(Status::unimplemented(message)).or_throw(py, what);
    }
    allow_forks(py)?;
    let mapped = detached(py, || Tensor::from(view).map_shared()).or_throw(py, what)?;
    let exported = ManagedTensor::unversioned(Arc::new(mapped)).or_throw(py, what)?;
    capsule(py, Exported::Unversioned(exported))
}

/// A view over the elements of a capsule, without a copy.
pub fn import(device: &dyn Device, capsule: &Bound<'_, PyAny>) -> PyResult<Py<PyBufferView>> {
    let (py, what) = (capsule.py(), "importing DLPack capsule");
    allow_forks(py)?;
    let tensor = take(capsule)?.or_throw(py, what)?;
    let view = detached(py, || {
        if !tensor.is_on_host() {
            return Err(Status::unimplemented("a tensor that is not in memory of the host"));
        }
        let (shape, element_type) = (tensor.shape(), tensor.element_type()?);
        let strides = tensor.byte_strides();
        if !tensor.memory(&shape, strides.as_deref())?.is_dense() {
            return Err(Status::invalid_argument("the elements do not follow each other row by row"));
        }
        let bytes = |bytes: u64, size: &u64| bytes.checked_mul(*size);
        let size = shape.iter().try_fold(element_type.byte_count() as u64, bytes);
        let size = size.ok_or_else(|| Status::out_of_range("the tensor does not fit the address space"))?;
        let data = NonNull::new(tensor.data().cast_mut()).unwrap_or(NonNull::dangling());
        let owner: Arc<dyn Any + Send + Sync> = Arc::new(tensor);
        let external = ExternalBuffer { r#type: ExternalBufferType::HostAllocation, data, size, owner };
        let params = BufferParams {
            memory_type: MemoryType::DEVICE_LOCAL,
            usage: BufferUsage::DEFAULT | BufferUsage::MAPPING,
            access: MemoryAccess::ALL,
            ..BufferParams::default()
        };
        // SAFETY: the owner keeps all elements, which are reached through raw pointers alone. Who passes a capsule on
        // without a version lets its consumer write to them.
        let buffer = unsafe { device.allocator().import_buffer(params, &external) }?;
        BufferView::new(buffer, &shape, element_type, EncodingType::DENSE_ROW_MAJOR)
    });
    PyBufferView::of(py, Obj::new(view.or_throw(py, what)?))
}
