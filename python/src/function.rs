//! `vireo.Function` and `vireo.PreparedCall`: functions of sessions, which are called with values of Python.

use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use smallvec::SmallVec;
use vireo::inference::{Function, Output, Outputs, PreparedCall};

use crate::argument::{argument, arguments, bind, inputs};
use crate::error::{OrRaise, invalid};
use crate::interpreter::detached;
use crate::interrupts::interruptible;
use crate::limits::seconds;
use crate::memory::describe_type;
use crate::signature::{PySignature, html};
use crate::tasks;
use crate::tensor::PyTensor;

/// A function of a session.
#[pyclass(frozen, weakref, name = "Function", module = "vireo")]
pub struct PyFunction(pub Function);

#[pymethods]
impl PyFunction {
    /// Its name.
    #[getter]
    fn name(&self) -> &str {
        &self.0.signature().name
    }

    #[getter]
    fn __name__(&self) -> &str {
        &self.0.signature().name
    }

    /// The names and types of what it takes and returns.
    #[getter]
    fn signature(&self) -> PySignature {
        PySignature(self.0.shared_signature().clone())
    }

    /// Calls it and waits for the results.
    #[pyo3(signature = (*args, **kwargs))]
    fn __call__<'py>(
        &self,
        py: Python<'py>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Py<PyAny>> {
        let signature = self.0.signature();
        let given = bind(signature, args, kwargs)?;
        let arguments = arguments(signature, &given)?;
        let called = interruptible(py, self.0.limits(), || self.0.call(inputs(&self.0, &arguments)?))?;
        results(py, called.or_raise(py)?)
    }

    /// Prepares a call that is made again and again.
    #[pyo3(signature = (*args, **kwargs))]
    fn prepare<'py>(
        &self,
        py: Python<'py>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<PyPreparedCall> {
        let signature = self.0.signature();
        let given = bind(signature, args, kwargs)?;
        let arguments = arguments(signature, &given)?;
        let prepared = detached(py, || self.0.prepare(inputs(&self.0, &arguments)?));
        Ok(PyPreparedCall { call: Mutex::new(prepared.or_raise(py)?), function: self.0.clone() })
    }

    /// Starts a call in the running event loop of asyncio; awaiting it gives the results. To cancel it ends the call,
    /// and so does the time `timeout`, in seconds.
    #[pyo3(signature = (*args, timeout=None, **kwargs))]
    fn start<'py>(
        &self,
        py: Python<'py>,
        args: &Bound<'py, PyTuple>,
        timeout: Option<f64>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Py<PyAny>> {
        let signature = self.0.signature();
        let given = bind(signature, args, kwargs)?;
        let arguments = arguments(signature, &given)?;
        let mut limits = self.0.limits().clone();
        if let Some(timeout) = timeout {
            let timeout = seconds(py, "timeout", timeout)?;
            limits.timeout = Some(limits.timeout.map_or(timeout, |limit| limit.min(timeout)));
        }
        tasks::start(py, || self.0.start_with(inputs(&self.0, &arguments)?, &limits))
    }

    fn __repr__(&self) -> String {
        format!("<vireo.Function {}>", self.0.signature())
    }

    fn _repr_html_(&self) -> String {
        html("function", [self.0.signature()])
    }
}

/// A call with its arguments, made again and again.
#[pyclass(frozen, weakref, name = "PreparedCall", module = "vireo")]
pub struct PyPreparedCall {
    /// Locked by a thread that does not hold the interpreter.
    call: Mutex<PreparedCall>,
    function: Function,
}

impl PyPreparedCall {
    fn index(&self, place: &Bound<'_, PyAny>) -> PyResult<usize> {
        let (py, signature) = (place.py(), self.function.signature());
        if let Ok(index) = place.extract::<usize>() {
            return Ok(index);
        }
        let Ok(name) = place.extract::<String>() else {
            return Err(invalid(
                py,
                format!("expected the number or the name of an argument, got {}", describe_type(place)),
            ));
        };
        let mut named = (0..signature.arguments.len()).filter(|index| signature.arguments[*index].name == name);
        match (named.next(), named.next()) {
            (Some(index), None) => Ok(index),
            (Some(_), Some(_)) => Err(invalid(py, format!("several arguments of `{signature}` are called `{name}`"))),
            _ => Err(invalid(py, format!("no argument of `{signature}` is called `{name}`"))),
        }
    }
}

#[pymethods]
impl PyPreparedCall {
    /// Replaces an argument, by its number or its name.
    fn set(&self, place: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = place.py();
        let index = self.index(place)?;
        let argument = argument(self.function.signature(), index, value)?;
        detached(py, || {
            let input = argument.input(&**self.function.device())?;
            self.call.lock().unwrap_or_else(PoisonError::into_inner).set(index, input)
        })
        .or_raise(py)
    }

    /// Makes the call and waits for the results.
    fn run(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let called = interruptible(py, self.function.limits(), || {
            let mut call = self.call.lock().unwrap_or_else(PoisonError::into_inner);
            call.run()?;
            Ok(call.take_results())
        })?;
        results(py, called.or_raise(py)?)
    }

    /// The names and types of what it takes and returns.
    #[getter]
    fn signature(&self) -> PySignature {
        PySignature(self.function.shared_signature().clone())
    }

    fn __repr__(&self) -> String {
        format!("<vireo.PreparedCall {}>", self.function.signature())
    }
}

/// The results of a call: nothing, one value, or a tuple of them.
pub fn results(py: Python<'_>, outputs: Outputs) -> PyResult<Py<PyAny>> {
    let mut values: SmallVec<[Py<PyAny>; 4]> = SmallVec::new();
    for output in outputs {
        values.push(result(py, output)?);
    }
    match values.len() {
        0 => Ok(py.None()),
        1 => Ok(values.remove(0)),
        _ => Ok(PyTuple::new(py, values)?.into_any().unbind()),
    }
}

fn result(py: Python<'_>, output: Output) -> PyResult<Py<PyAny>> {
    Ok(match output {
        Output::I32(value) => value.into_pyobject(py)?.into_any().unbind(),
        Output::I64(value) => value.into_pyobject(py)?.into_any().unbind(),
        Output::F32(value) => f64::from(value).into_pyobject(py)?.into_any().unbind(),
        Output::F64(value) => value.into_pyobject(py)?.into_any().unbind(),
        Output::Tensor(tensor) => Py::new(py, PyTensor::of_result(tensor))?.into_any(),
        Output::Reference(None) => py.None(),
        Output::Reference(Some(reference)) => Py::new(py, PyReference(Arc::new(reference)))?.into_any(),
    })
}

/// A reference to an object of a program, such as a list, which later calls of the program may take.
#[pyclass(frozen, weakref, name = "Reference", module = "vireo")]
pub struct PyReference(pub Arc<vireo::vm::Ref>);

#[pymethods]
impl PyReference {
    fn __repr__(&self) -> String {
        format!("<vireo.Reference !{}>", self.0.type_name())
    }
}
