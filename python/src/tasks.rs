//! Calls as futures of asyncio: the timeline that a call waits for wakes the event loop, and no thread waits.

use std::ops::ControlFlow;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use pyo3::{intern, prelude::*};
use vireo::Result;
use vireo::inference::{Call, Outputs};

use crate::error::{OrRaise, raise};
use crate::function::results;
use crate::interpreter::{allow_forks, detached, later};

/// A call under way, with the future that gets its results.
struct Task {
    /// None once the call is over, so that a finished task keeps neither the loop nor the future.
    running: Mutex<Option<Running>>,
    /// Whether the loop has been asked to poll, and has not yet.
    is_scheduled: AtomicBool,
}

struct Running {
    /// None while the call is polled.
    call: Option<Call>,
    event_loop: Py<PyAny>,
    future: Py<PyAny>,
}

/// Starts the call that `make` makes, and returns its future.
pub fn start(py: Python<'_>, make: impl FnOnce() -> Result<Call> + Send) -> PyResult<Py<PyAny>> {
    allow_forks(py)?;
    let asyncio = py.import(intern!(py, "asyncio"))?;
    let event_loop = asyncio.call_method0(intern!(py, "get_running_loop"))?;
    let future = event_loop.call_method0(intern!(py, "create_future"))?;
    let call = detached(py, make).or_raise(py)?;
    let running = Running { call: Some(call), event_loop: event_loop.unbind(), future: future.clone().unbind() };
    let task = Arc::new(Task { running: Mutex::new(Some(running)), is_scheduled: AtomicBool::new(true) });
    future.call_method1(intern!(py, "add_done_callback"), (Done(task.clone()),))?;
    task.step(py)?;
    Ok(future.unbind())
}

impl Task {
    fn with<T>(&self, work: impl FnOnce(&mut Option<Running>) -> T) -> T {
        // Nothing that needs the interpreter, or that may wait, runs under the lock.
        work(&mut self.running.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Polls the call, on the thread of the loop.
    fn step(self: &Arc<Task>, py: Python<'_>) -> PyResult<()> {
        self.is_scheduled.store(false, Ordering::SeqCst);
        let Some(mut call) = self.with(|running| running.as_mut().and_then(|running| running.call.take())) else {
            return Ok(());
        };
        let waker = Waker::from(self.clone());
        let polled = detached(py, || match Pin::new(&mut call).poll(&mut Context::from_waker(&waker)) {
            Poll::Pending => ControlFlow::Continue(call),
            Poll::Ready(outcome) => {
                drop(call);
                ControlFlow::Break(outcome)
            }
        });
        match polled {
            ControlFlow::Continue(call) => {
                // Meanwhile the future may have been cancelled.
                let left = self.with(|running| match running {
                    Some(running) => {
                        running.call = Some(call);
                        None
                    }
                    None => Some(call),
                });
                detached(py, || drop(left));
                Ok(())
            }
            ControlFlow::Break(outcome) => {
                let Some(running) = self.with(Option::take) else { return Ok(()) };
                resolve(py, running.future.bind(py), outcome)
            }
        }
    }

    /// Ends the call, if it is not over.
    fn cancel(&self, py: Python<'_>) {
        let running = self.with(Option::take);
        detached(py, || drop(running));
    }
}

fn resolve(py: Python<'_>, future: &Bound<'_, PyAny>, outcome: Result<Outputs>) -> PyResult<()> {
    if future.call_method0(intern!(py, "done"))?.is_truthy()? {
        return Ok(());
    }
    let value = outcome.map_err(|status| raise(py, &status)).and_then(|outputs| results(py, outputs));
    match value {
        Ok(value) => future.call_method1(intern!(py, "set_result"), (value,))?,
        Err(error) => future.call_method1(intern!(py, "set_exception"), (error.into_value(py),))?,
    };
    Ok(())
}

impl Wake for Task {
    fn wake(self: Arc<Task>) {
        if self.is_scheduled.swap(true, Ordering::SeqCst) {
            return;
        }
        // The thread of a device calls this, which must not wait for the interpreter.
        later(move |py| {
            let event_loop = self.with(|running| running.as_ref().map(|running| running.event_loop.clone_ref(py)));
            let Some(event_loop) = event_loop else { return };
            let asked = event_loop.call_method1(py, intern!(py, "call_soon_threadsafe"), (Step(self.clone()),));
            if asked.is_err() {
                // The loop is closed, so its futures are never looked at again.
                self.cancel(py);
            }
        });
    }
}

/// The callback of the event loop, once the call can go on.
#[pyclass(frozen, module = "vireo._vireo")]
struct Step(Arc<Task>);

#[pymethods]
impl Step {
    fn __call__(&self, py: Python<'_>) -> PyResult<()> {
        self.0.step(py)
    }
}

/// The callback of the future, once it is done or cancelled.
#[pyclass(frozen, module = "vireo._vireo")]
struct Done(Arc<Task>);

#[pymethods]
impl Done {
    fn __call__(&self, future: &Bound<'_, PyAny>) {
        self.0.cancel(future.py());
    }
}
