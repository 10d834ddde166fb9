//! `HalDeviceLoopBridge`: futures of asyncio for points of timelines. The timeline wakes the loop, and no thread waits.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Wake, Waker};

use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit, intern};
use vireo::hal::{MultiWait, Timepoint};
use vireo::{Status, StatusCode};

use super::device::PyDevice;
use super::fence::PySemaphore;
use super::throw::throw;
use crate::interpreter::{allow_forks, detached, later};

/// A source of futures for an event loop.
#[pyclass(frozen, weakref, name = "HalDeviceLoopBridge", module = "vireo.compat.iree._binding")]
pub struct PyLoopBridge {
    /// None once it has been stopped.
    event_loop: Mutex<Option<Py<PyAny>>>,
}

#[pymethods]
impl PyLoopBridge {
    #[new]
    fn new(py: Python<'_>, device: &PyDevice, r#loop: Py<PyAny>) -> PyResult<PyLoopBridge> {
        // Any timeline will do: they wake the loop themselves.
        let _ = device;
        allow_forks(py)?;
        Ok(PyLoopBridge { event_loop: Mutex::new(Some(r#loop)) })
    }

    /// Ends the bridge: there are no futures any more. Those that there are stay as they are.
    fn stop(&self) {
        let event_loop = self.event_loop.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(event_loop);
    }

    /// A future that gets `value` when the semaphore reaches `payload`.
    fn on_semaphore(
        &self,
        py: Python<'_>,
        semaphore: &Bound<'_, PySemaphore>,
        payload: u64,
        value: Py<PyAny>,
    ) -> PyResult<Py<PyAny>> {
        let event_loop = self.event_loop.lock().unwrap_or_else(PoisonError::into_inner);
        let event_loop = event_loop.as_ref().map(|event_loop| event_loop.clone_ref(py));
        let stopped =
            || throw(py, "waiting for semaphore", &Status::new(StatusCode::Cancelled, "the bridge is stopped"));
        let event_loop = event_loop.ok_or_else(stopped)?;
        let future = event_loop.call_method0(py, intern!(py, "create_future"))?;
        let point = Timepoint { semaphore: semaphore.get().0.clone(), value: payload };
        let wait = detached(py, || MultiWait::new(&[point]));
        let waiting = Waiting { wait, event_loop, future: future.clone_ref(py), value };
        let waiter = Arc::new(Waiter(Mutex::new(Some(waiting))));
        // A future that is cancelled waits for nothing.
        future.call_method1(py, intern!(py, "add_done_callback"), (Done(waiter.clone()),))?;
        waiter.poll(py)?;
        Ok(future)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        match self.event_loop.try_lock() {
            Ok(event_loop) => event_loop.as_ref().map_or(Ok(()), |event_loop| visit.call(event_loop)),
            Err(_) => Ok(()),
        }
    }

    fn __clear__(&self) {
        self.stop();
    }
}

/// A future that waits for a point.
struct Waiter(Mutex<Option<Waiting>>);

struct Waiting {
    wait: MultiWait,
    event_loop: Py<PyAny>,
    future: Py<PyAny>,
    value: Py<PyAny>,
}

impl Waiter {
    fn with<T>(&self, work: impl FnOnce(&mut Option<Waiting>) -> T) -> T {
        // Nothing that needs the interpreter, or that may wait, runs under the lock.
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Looks whether the point is reached, on the thread of the loop.
    fn poll(self: &Arc<Waiter>, py: Python<'_>) -> PyResult<()> {
        let Some(wait) = self.with(|waiting| waiting.as_ref().map(|waiting| waiting.wait.clone())) else {
            return Ok(());
        };
        let waker = Waker::from(self.clone());
        let Poll::Ready(outcome) = detached(py, || wait.poll_outcome(&waker)) else { return Ok(()) };
        let Some(waiting) = self.with(Option::take) else { return Ok(()) };
        let future = waiting.future.bind(py);
        if future.call_method0(intern!(py, "done"))?.is_truthy()? {
            return Ok(());
        }
        match outcome {
            Ok(()) => future.call_method1(intern!(py, "set_result"), (&waiting.value,))?,
            Err(status) => {
                let error = throw(py, "waiting for semaphore", &status);
                future.call_method1(intern!(py, "set_exception"), (error.into_value(py),))?
            }
        };
        Ok(())
    }
}

impl Wake for Waiter {
    fn wake(self: Arc<Waiter>) {
        // The thread that signals calls this, which must not wait for the interpreter.
        later(move |py| {
            let event_loop = self.with(|waiting| waiting.as_ref().map(|waiting| waiting.event_loop.clone_ref(py)));
            let Some(event_loop) = event_loop else { return };
            let asked = event_loop.call_method1(py, intern!(py, "call_soon_threadsafe"), (Step(self.clone()),));
            if asked.is_err() {
                // The loop is closed, so its futures are never looked at again.
                drop(self.with(Option::take));
            }
        });
    }
}

/// The callback of the event loop, once the point is reached.
#[pyclass(frozen, module = "vireo.compat.iree._binding")]
struct Step(Arc<Waiter>);

#[pymethods]
impl Step {
    fn __call__(&self, py: Python<'_>) -> PyResult<()> {
        self.0.poll(py)
    }
}

/// The callback of the future, once it is done or cancelled.
#[pyclass(frozen, module = "vireo.compat.iree._binding")]
struct Done(Arc<Waiter>);

#[pymethods]
impl Done {
    fn __call__(&self, _future: &Bound<'_, PyAny>) {
        drop(self.0.with(Option::take));
    }
}
