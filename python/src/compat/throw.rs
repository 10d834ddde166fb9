//! Exceptions as programs for `iree.runtime` catch them: `ValueError`, `IndexError` and `RuntimeError`, with the name
//! of the status in the text. Each is of the class of `vireo` for its status, too.

use std::error::Error as _;

use pyo3::exceptions::{PyIndexError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple, PyType};
use vireo::{Status, StatusCode};

use crate::error::{class_of, complete, shown_message};
use crate::memory::describe_type;

/// Results of the runtime as those of Python, with what was done.
pub trait OrThrow<T> {
    /// The value, or the exception of the status.
    fn or_throw(self, py: Python<'_>, what: &str) -> PyResult<T>;
}

impl<T> OrThrow<T> for vireo::Result<T> {
    fn or_throw(self, py: Python<'_>, what: &str) -> PyResult<T> {
        self.map_err(|status| throw(py, what, &status))
    }
}

/// The exception of a status: the text is what was done, the code, and the message with the frames of the program.
#[cold]
pub fn throw(py: Python<'_>, what: &str, status: &Status) -> PyErr {
    exception(py, what, status).unwrap_or_else(|error| error)
}

/// The exception for a value of another type.
#[cold]
pub fn wrong_type(expected: &str, found: &Bound<'_, PyAny>) -> PyErr {
    PyTypeError::new_err(format!("expected {expected}, got {}", describe_type(found)))
}

/// The exception for something that this package does not have.
#[cold]
pub fn unimplemented(py: Python<'_>, what: &str) -> PyErr {
    throw(py, "vireo.compat.iree", &Status::unimplemented(what))
}

fn exception(py: Python<'_>, what: &str, status: &Status) -> PyResult<PyErr> {
    let mut text = format!("{what}: {}", status.code().name());
    let message = shown_message(status);
    if !message.is_empty() {
        text.push_str("; ");
        text.push_str(&message);
    }
    let error = class(py, status.code())?.call1((text,))?;
    complete(&error, status, &message)?;
    let error = PyErr::from_value(error);
    // The exception of a function in Python that the program called.
    let mut causes =
        std::iter::successors(status.source(), |source: &&(dyn std::error::Error + 'static)| (*source).source());
    if let Some(cause) = causes.find_map(|source| source.downcast_ref::<Raised>()) {
        error.set_cause(py, Some(cause.0.clone_ref(py)));
    }
    Ok(error)
}

/// The class of the exceptions of a status: that of `vireo`, and that of `iree.runtime`.
fn class(py: Python<'_>, code: StatusCode) -> PyResult<Bound<'_, PyType>> {
    static CLASSES: PyOnceLock<Py<PyDict>> = PyOnceLock::new();
    let classes = CLASSES.get_or_init(py, || PyDict::new(py).unbind()).bind(py);
    if let Some(class) = classes.get_item(code.name())? {
        return Ok(class.cast_into::<PyType>()?);
    }
    let expected = match code {
        StatusCode::InvalidArgument | StatusCode::NotFound => py.get_type::<PyValueError>(),
        StatusCode::OutOfRange => py.get_type::<PyIndexError>(),
        _ => py.get_type::<PyRuntimeError>(),
    };
    let ours = class_of(py, code);
    let class = match ours {
        None => expected,
        Some(ours) if ours.is_subclass(&expected)? => ours,
        Some(ours) => {
            let members = PyDict::new(py);
            members.set_item("__module__", "vireo.compat.iree")?;
            let bases = PyTuple::new(py, [&ours, &expected])?;
            py.get_type::<PyType>().call1((ours.name()?, bases, members))?.cast_into::<PyType>()?
        }
    };
    classes.set_item(code.name(), &class)?;
    Ok(class)
}

/// An exception of Python on its way through a program.
#[derive(Debug)]
pub struct Raised(pub PyErr);

impl std::fmt::Display for Raised {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Raised {}

/// The status of a call in which Python raised an exception.
pub fn status_of(py: Python<'_>, error: PyErr) -> Status {
    let name = error.get_type(py).name().map_or_else(|_| "Exception".into(), |name| name.to_string());
    Status::new(StatusCode::Unknown, format!("{name}: {}", error.value(py))).with_source(Raised(error))
}
