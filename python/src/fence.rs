//! `vireo.Fence`: a point that programs wait for, which the host signals.

use std::time::Instant;

use pyo3::prelude::*;
use vireo::Status;
use vireo::hal::Fence;

use crate::error::OrRaise;
use crate::interpreter::detached;
use crate::limits::seconds;

/// A fence for functions that take one.
#[pyclass(frozen, weakref, name = "Fence", module = "vireo")]
pub struct PyFence(pub Fence);

#[pymethods]
impl PyFence {
    #[new]
    fn new() -> PyFence {
        PyFence(Fence::create())
    }

    /// Whether it has been signaled. A failure of it is raised.
    #[getter]
    fn is_signaled(&self, py: Python<'_>) -> PyResult<bool> {
        self.0.query().or_raise(py)
    }

    /// Lets everything that waits for it go on.
    fn signal(&self, py: Python<'_>) -> PyResult<()> {
        // Tasks that wait are woken, for which they need the interpreter.
        detached(py, || self.0.signal()).or_raise(py)
    }

    /// Fails everything that waits for it.
    fn fail(&self, py: Python<'_>, message: String) {
        detached(py, || self.0.fail(&Status::new(vireo::StatusCode::Aborted, message)));
    }

    /// Waits until it is signaled, at most `timeout` seconds.
    #[pyo3(signature = (timeout=None))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        let timeout = timeout.map(|timeout| seconds(py, "timeout", timeout)).transpose()?;
        // A time that no clock reaches is none.
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        detached(py, || self.0.wait(deadline)).or_raise(py)
    }

    fn __repr__(&self) -> &'static str {
        match self.0.query() {
            Ok(true) => "<vireo.Fence signaled>",
            Ok(false) => "<vireo.Fence>",
            Err(_) => "<vireo.Fence failed>",
        }
    }
}
