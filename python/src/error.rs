//! Exceptions: `vireo.Error`, with a class below it for each status code, which is also the class of Python's own that
//! callers would catch.

use pyo3::exceptions::{
    PyException, PyFileExistsError, PyIndexError, PyLookupError, PyMemoryError, PyNotImplementedError,
    PyPermissionError, PyRuntimeError, PyTimeoutError, PyValueError,
};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple, PyType};
use vireo::{Status, StatusCode};

/// The class of each code, in the order of their numbers.
static CLASSES: PyOnceLock<Vec<(StatusCode, Py<PyType>)>> = PyOnceLock::new();

/// Most number of a code that is looked for.
const MAX_CODE: u32 = 64;

/// Makes the classes and adds them to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    let base = class(py, "Error", "A failure of a model, or of what is asked of it.", &[py.get_type::<PyException>()])?;
    base.setattr("code", "")?;
    base.setattr("message", "")?;
    base.setattr("frames", PyTuple::empty(py))?;
    let codes = (0..MAX_CODE).filter_map(StatusCode::from_number);
    let classes = codes.map(|code| {
        let bases = [Some(base.clone()), python_class(py, code)];
        let bases: Vec<_> = bases.into_iter().flatten().collect();
        let class = class(py, &format!("{code:?}"), &format!("The status {}.", code.name()), &bases)?;
        class.setattr("code", code.name())?;
        module.add(format!("{code:?}").as_str(), &class)?;
        Ok((code, class.unbind()))
    });
    let classes = classes.collect::<PyResult<Vec<_>>>()?;
    // A second interpreter would share the classes of the first; there is one, as PyO3 sees to.
    let _ = CLASSES.set(py, classes);
    module.add("Error", base)
}

fn class<'py>(py: Python<'py>, name: &str, doc: &str, bases: &[Bound<'py, PyType>]) -> PyResult<Bound<'py, PyType>> {
    let members = PyDict::new(py);
    members.set_item("__module__", "vireo")?;
    members.set_item("__doc__", doc)?;
    let made = py.get_type::<PyType>().call1((name, PyTuple::new(py, bases)?, members))?;
    Ok(made.cast_into::<PyType>()?)
}

/// The class of Python for failures of the kind.
fn python_class(py: Python<'_>, code: StatusCode) -> Option<Bound<'_, PyType>> {
    Some(match code {
        StatusCode::InvalidArgument => py.get_type::<PyValueError>(),
        StatusCode::OutOfRange => py.get_type::<PyIndexError>(),
        StatusCode::NotFound => py.get_type::<PyLookupError>(),
        StatusCode::AlreadyExists => py.get_type::<PyFileExistsError>(),
        StatusCode::PermissionDenied => py.get_type::<PyPermissionError>(),
        StatusCode::DeadlineExceeded => py.get_type::<PyTimeoutError>(),
        StatusCode::ResourceExhausted => py.get_type::<PyMemoryError>(),
        StatusCode::Unimplemented => py.get_type::<PyNotImplementedError>(),
        StatusCode::Cancelled => return None,
        _ => py.get_type::<PyRuntimeError>(),
    })
}

/// The exception of a status.
#[cold]
pub fn raise(py: Python<'_>, status: &Status) -> PyErr {
    exception(py, status).unwrap_or_else(|error| error)
}

fn exception(py: Python<'_>, status: &Status) -> PyResult<PyErr> {
    let Some(class) = class_of(py, status.code()) else { return Ok(PyRuntimeError::new_err(status.to_string())) };
    let text = shown_message(status);
    let error = class.call1((if text.is_empty() { status.code().name() } else { &text },))?;
    complete(&error, status, &text)?;
    Ok(PyErr::from_value(error))
}

/// The class of exceptions with this code.
pub fn class_of(py: Python<'_>, code: StatusCode) -> Option<Bound<'_, PyType>> {
    let class = CLASSES.get(py)?.iter().find(|(known, _)| *known == code);
    class.map(|(_, class)| class.bind(py).clone())
}

/// The message of a status. Texts of files may have any characters; it has them in a form that a terminal can print.
pub fn shown_message(status: &Status) -> String {
    let shown = status.to_string();
    let text = shown.strip_prefix(status.code().name()).and_then(|rest| rest.strip_prefix(": ")).unwrap_or("");
    text.to_string()
}

/// Gives an exception the attributes that all of `vireo` have.
pub fn complete(error: &Bound<'_, PyAny>, status: &Status, text: &str) -> PyResult<()> {
    error.setattr("message", text)?;
    let frames = status.backtrace().iter().map(ToString::to_string).collect::<Vec<_>>();
    if !frames.is_empty() {
        error.setattr("frames", PyTuple::new(error.py(), &frames)?)?;
        // Tracebacks print notes.
        error.call_method1("add_note", (frames.join("\n"),))?;
    }
    Ok(())
}

/// The exception for a value that a function does not take.
#[cold]
pub fn invalid(py: Python<'_>, message: impl Into<String>) -> PyErr {
    raise(py, &Status::invalid_argument(message))
}

/// Results of the runtime as those of Python.
pub trait OrRaise<T> {
    /// The value, or the exception of the status.
    fn or_raise(self, py: Python<'_>) -> PyResult<T>;
}

impl<T> OrRaise<T> for vireo::Result<T> {
    fn or_raise(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|status| raise(py, &status))
    }
}
