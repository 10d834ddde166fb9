//! `vireo.Signature` and `vireo.Value`: the names and types of what a function takes and returns.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyTuple;
use vireo::inference::{Signature, ValueInfo, ValueType};

use crate::dtype::Dtype;

/// The arguments and results of a function.
#[pyclass(frozen, name = "Signature", module = "vireo")]
pub struct PySignature(pub Arc<Signature>);

#[pymethods]
impl PySignature {
    /// The name of the function.
    #[getter]
    fn name(&self) -> &str {
        &self.0.name
    }

    /// The arguments.
    #[getter]
    fn arguments<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.0.arguments.iter().cloned().map(PyValue))
    }

    /// The results.
    #[getter]
    fn results<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.0.results.iter().cloned().map(PyValue))
    }

    /// Whether the function takes fences, which sessions make.
    #[getter]
    fn is_async(&self) -> bool {
        self.0.is_async
    }

    fn __str__(&self) -> String {
        self.0.to_string()
    }

    fn __repr__(&self) -> String {
        format!("<vireo.Signature {}>", self.0)
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast_exact::<PySignature>().is_ok_and(|other| other.get().0 == self.0)
    }

    fn __hash__(&self) -> u64 {
        use std::hash::{DefaultHasher, Hash, Hasher};
        let mut hasher = DefaultHasher::new();
        self.0.to_string().hash(&mut hasher);
        hasher.finish()
    }
}

/// An argument or a result.
#[pyclass(frozen, name = "Value", module = "vireo")]
pub struct PyValue(ValueInfo);

#[pymethods]
impl PyValue {
    /// Its name; empty if nothing is known of it.
    #[getter]
    fn name(&self) -> &str {
        &self.0.name
    }

    /// Its type as the source declares it, such as `tensor<?x4xf32>`.
    #[getter]
    fn r#type(&self) -> String {
        self.0.to_string()
    }

    /// The sizes of the dimensions of a tensor, of which those that only a call knows are None; None for others.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        match &self.0.r#type {
            ValueType::Tensor(r#type) => PyTuple::new(py, &r#type.shape).map(Some),
            _ => Ok(None),
        }
    }

    /// The name of the element type of a tensor in `numpy`, or in `ml_dtypes`; None for others.
    #[getter]
    fn dtype(&self) -> Option<&'static str> {
        match &self.0.r#type {
            ValueType::Tensor(r#type) => Dtype::of(r#type.element_type).map(|dtype| dtype.name),
            _ => None,
        }
    }

    fn __repr__(&self) -> String {
        match self.0.name.as_str() {
            "" => format!("<vireo.Value {}>", self.0),
            name => format!("<vireo.Value {name}: {}>", self.0),
        }
    }
}

/// The rows of a table of functions, for notebooks.
pub fn html<'a>(title: &str, signatures: impl IntoIterator<Item = &'a Signature>) -> String {
    let escape = |text: &str| text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let values = |values: &[ValueInfo]| {
        let value = |value: &ValueInfo| match value.name.as_str() {
            "" => escape(&value.to_string()),
            name => format!("{}: {}", escape(name), escape(&value.to_string())),
        };
        values.iter().map(value).collect::<Vec<_>>().join("<br>")
    };
    let row = |signature: &Signature| {
        let (arguments, results) = (values(&signature.arguments), values(&signature.results));
        format!("<tr><td>{}</td><td>{arguments}</td><td>{results}</td></tr>", escape(&signature.name))
    };
    let rows: String = signatures.into_iter().map(row).collect();
    format!(
        "<table><caption>{}</caption><tr><th>function</th><th>arguments</th><th>results</th></tr>{rows}</table>",
        escape(title)
    )
}
