//! `HalModuleDebugSink`, which gets the tensors that programs trace, and the module `hal`.

use std::sync::{Arc, Mutex, PoisonError};

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyList;
use pyo3::{PyTraverseError, PyVisit};
use vireo::Status;
use vireo::hal::BufferView;
use vireo::modules::hal::HalModule;
use vireo::vm::{Module, Obj};

use super::buffer::PyBufferView;
use super::device::PyDevice;
use super::module::{PyInstance, PyVmModule};
use super::throw::{OrThrow, status_of};
use crate::interpreter::attached;
use crate::memory::describe_type;

/// A function that is called with the tensors that a program traces.
#[pyclass(frozen, weakref, name = "HalModuleDebugSink", module = "vireo.compat.iree._binding")]
pub struct PyDebugSink(Mutex<Option<Py<PyAny>>>);

impl PyDebugSink {
    fn callback(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        let callback = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        callback.as_ref().map(|callback| callback.clone_ref(py))
    }
}

#[pymethods]
impl PyDebugSink {
    #[new]
    #[pyo3(signature = (buffer_view_trace_callback))]
    fn new(buffer_view_trace_callback: Option<Bound<'_, PyAny>>) -> PyResult<PyDebugSink> {
        if let Some(callback) = &buffer_view_trace_callback
            && !callback.is_callable()
        {
            return Err(PyTypeError::new_err(format!("expected a function, got {}", describe_type(callback))));
        }
        Ok(PyDebugSink(Mutex::new(buffer_view_trace_callback.map(Bound::unbind))))
    }

    /// The function.
    #[getter]
    fn buffer_view_trace_callback(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.callback(py)
    }

    // The function may refer to the sink.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        // Without the interpreter's other threads, no thread holds the lock now.
        match self.0.try_lock() {
            Ok(callback) => callback.as_ref().map_or(Ok(()), |callback| visit.call(callback)),
            Err(_) => Ok(()),
        }
    }

    fn __clear__(&self) {
        let callback = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(callback);
    }
}

/// Calls the function of a sink.
fn trace(sink: &Py<PyDebugSink>, key: &str, views: &[Obj<BufferView>]) -> vireo::Result<()> {
    let called = attached(|py| {
        let Some(callback) = sink.get().callback(py) else { return Ok(()) };
        let call = || {
            let views = views.iter().map(|view| PyBufferView::of(py, view.clone())).collect::<PyResult<Vec<_>>>()?;
            callback.call1(py, (key, PyList::new(py, views)?)).map(drop)
        };
        call().map_err(|error| status_of(py, error))
    });
    called.unwrap_or_else(|| Err(Status::new(vireo::StatusCode::Unavailable, "the interpreter is at its end")))
}

/// The module `hal` over devices, for programs that use any.
#[pyfunction]
#[pyo3(signature = (instance, device=None, devices=None, debug_sink=None))]
pub fn create_hal_module(
    py: Python<'_>,
    instance: &PyInstance,
    device: Option<Py<PyDevice>>,
    devices: Option<Vec<Py<PyDevice>>>,
    debug_sink: Option<Py<PyDebugSink>>,
) -> PyResult<PyVmModule> {
    let _ = instance;
    let devices = match (device, devices) {
        (Some(device), None) => vec![device],
        (None, Some(devices)) => devices,
        (None, None) => return Err(PyValueError::new_err("the module `hal` needs `device` or `devices`")),
        (Some(_), Some(_)) => {
            return Err(PyValueError::new_err("the module `hal` takes `device` or `devices`, not both"));
        }
    };
    let what = "Error creating hal module";
    if devices.is_empty() {
        return Err(Status::invalid_argument("there is no device")).or_throw(py, what);
    }
    let mut module = HalModule::new(devices.iter().map(|device| device.get().0.clone()).collect());
    if let Some(sink) = debug_sink {
        module = module.with_trace_sink(Arc::new(move |key, views| trace(&sink, key, views)));
    }
    Ok(PyVmModule::of(Module::native(module).or_throw(py, what)?))
}
