//! `vireo.Fence`: a point that programs wait for, which the host signals.

use std::time::Instant;

use pyo3::prelude::*;
use vireo::hal::Fence;
use vireo::{Status, StatusCode};

use crate::error::OrRaise;
use crate::interpreter::detached;
use crate::interrupts::INTERVAL;
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
        detached(py, || self.0.fail(&Status::new(StatusCode::Aborted, message)));
    }

    /// Waits until it is signaled, at most `timeout` seconds.
    #[pyo3(signature = (timeout=None))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        let timeout = timeout.map(|timeout| seconds(py, "timeout", timeout)).transpose()?;
        // A time that no clock reaches is none.
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            let turn = Instant::now() + INTERVAL;
            let turn = deadline.map_or(turn, |deadline| deadline.min(turn));
            let waited = detached(py, || self.0.wait(Some(turn)));
            // It is the time of this turn that is up, unless the fence failed with that code.
            let is_over = match &waited {
                Err(status) if status.code() == StatusCode::DeadlineExceeded => self.0.query().or_raise(py)?,
                _ => true,
            };
            if is_over || deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return if self.0.query().or_raise(py)? { Ok(()) } else { waited.or_raise(py) };
            }
            py.check_signals()?;
        }
    }

    fn __repr__(&self) -> &'static str {
        match self.0.query() {
            Ok(true) => "<vireo.Fence signaled>",
            Ok(false) => "<vireo.Fence>",
            Err(_) => "<vireo.Fence failed>",
        }
    }
}
