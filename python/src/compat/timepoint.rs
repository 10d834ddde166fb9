//! `HalExternalTimepoint`: events of other APIs that stand for points of timelines.

use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use vireo::Status;
use vireo::hal::{ExternalTimepoint, ExternalTimepointFlags, ExternalTimepointType, SemaphoreCompatibility};

use super::throw::OrThrow;

/// An event of another API.
#[pyclass(frozen, weakref, name = "HalExternalTimepoint", module = "vireo.compat.iree._binding")]
pub struct PyExternalTimepoint(Mutex<ExternalTimepoint>);

impl PyExternalTimepoint {
    /// The event.
    pub fn get(&self) -> ExternalTimepoint {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the event.
    pub fn set(&self, timepoint: ExternalTimepoint) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = timepoint;
    }

    fn with(&self, change: impl FnOnce(&mut ExternalTimepoint)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// The handle of an event of this type.
    fn handle(&self, py: Python<'_>, r#type: ExternalTimepointType) -> PyResult<u64> {
        let timepoint = self.get();
        let found = timepoint.r#type;
        let is = (found == r#type).then_some(timepoint.handle);
        let wrong = || Status::invalid_argument(format!("the timepoint is {found:?}, not {:?}", r#type));
        is.ok_or_else(wrong).or_throw(py, "reading external timepoint")
    }
}

#[pymethods]
impl PyExternalTimepoint {
    #[new]
    fn new() -> PyExternalTimepoint {
        PyExternalTimepoint(Mutex::default())
    }

    /// The number of its `ExternalTimepointType`.
    #[getter]
    fn r#type(&self) -> u32 {
        self.get().r#type.0
    }

    #[setter]
    fn set_type(&self, value: u32) {
        self.with(|timepoint| timepoint.r#type = ExternalTimepointType(value));
    }

    /// The bits of its `ExternalTimepointFlags`.
    #[getter]
    fn flags(&self) -> u32 {
        self.get().flags.bits()
    }

    #[setter]
    fn set_flags(&self, py: Python<'_>, value: u32) -> PyResult<()> {
        let flags = ExternalTimepointFlags::from_number(value).or_throw(py, "setting flags of a timepoint")?;
        self.with(|timepoint| timepoint.flags = flags);
        Ok(())
    }

    /// The bits of its `SemaphoreCompatibility`.
    #[getter]
    fn compatibility(&self) -> u32 {
        self.get().compatibility.bits()
    }

    #[setter]
    fn set_compatibility(&self, py: Python<'_>, value: u32) -> PyResult<()> {
        let bits = SemaphoreCompatibility::from_number(value).or_throw(py, "setting compatibility of a timepoint")?;
        self.with(|timepoint| timepoint.compatibility = bits);
        Ok(())
    }

    /// The handle of an event of CUDA.
    #[getter]
    fn cuda_event(&self, py: Python<'_>) -> PyResult<u64> {
        self.handle(py, ExternalTimepointType::CUDA_EVENT)
    }

    #[setter]
    fn set_cuda_event(&self, value: u64) {
        self.with(|timepoint| timepoint.handle = value);
    }

    /// The handle of an event of HIP.
    #[getter]
    fn hip_event(&self, py: Python<'_>) -> PyResult<u64> {
        self.handle(py, ExternalTimepointType::HIP_EVENT)
    }

    #[setter]
    fn set_hip_event(&self, value: u64) {
        self.with(|timepoint| timepoint.handle = value);
    }
}
