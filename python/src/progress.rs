//! The callback `progress=`: called with the bytes that are done, and all of them, while a model is loaded.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use vireo::hal::Progress;

/// Calls a function of Python, on the threads that load.
pub struct PyProgress {
    callback: Py<PyAny>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    done: u64,
    all: u64,
    /// The exception of a call, after which there are no others.
    error: Option<PyErr>,
}

impl PyProgress {
    /// Progress that `callback` is told.
    pub fn new(callback: Py<PyAny>) -> PyProgress {
        PyProgress { callback, state: Mutex::default() }
    }

    /// The exception that the callback has raised.
    pub fn take_error(&self, _py: Python<'_>) -> Option<PyErr> {
        self.with(|state| state.error.take())
    }

    fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        // The callback does not run under the lock, as it may load another model.
        work(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn tell(&self, change: impl FnOnce(&mut State)) {
        let told = self.with(|state| {
            change(state);
            state.error.is_none().then_some((state.done, state.all))
        });
        let Some(told) = told else { return };
        Python::try_attach(|py| {
            if let Err(error) = self.callback.call1(py, told) {
                self.with(|state| drop(state.error.replace(error)));
            }
        });
    }
}

impl fmt::Debug for PyProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PyProgress")
    }
}

impl Progress for PyProgress {
    fn scheduled(&self, bytes: u64) {
        self.tell(|state| state.all = state.all.saturating_add(bytes));
    }

    fn done(&self, bytes: u64) {
        self.tell(|state| state.done = state.done.saturating_add(bytes));
    }
}
