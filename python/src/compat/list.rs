//! `VmVariantList`: arguments and results of calls, and lists of programs.

use std::fmt::Write;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use vireo::hal::{BufferRefObject, BufferView, Fence};
use vireo::vm::list::{Element, ListType};
use vireo::vm::{List, Obj, Ref};

use super::object::{PyVmObject, PyVmRef, to_ref};
use super::throw::{OrThrow, unimplemented, wrong_type};
use crate::interpreter::detached;

/// How deep lists in lists are shown.
const MAX_DEPTH: usize = 16;

/// A list of numbers and references.
#[pyclass(frozen, extends = PyVmObject, name = "VmVariantList", module = "vireo.compat.iree._binding")]
pub struct PyVariantList(pub Obj<List>);

impl PyVariantList {
    /// A list of a program.
    pub fn of(py: Python<'_>, list: Obj<List>) -> PyResult<Py<PyVariantList>> {
        PyVmObject::make(py, list.clone().into_ref(), PyVariantList(list))
    }

    fn element(&self, py: Python<'_>, index: usize) -> PyResult<Element> {
        self.0.get(index).or_throw(py, "reading a list")
    }

    fn reference(&self, py: Python<'_>, index: usize) -> PyResult<Option<Ref>> {
        match self.element(py, index)? {
            Element::Ref(reference) => Ok(reference),
            _ => Err(PyValueError::new_err("the element is a number, not a reference")),
        }
    }
}

#[pymethods]
impl PyVariantList {
    #[new]
    fn new(py: Python<'_>, capacity: usize) -> PyResult<PyClassInitializer<PyVariantList>> {
        let list = Obj::new(List::new(ListType::Variant, capacity).or_throw(py, "Error allocating variant list")?);
        Ok(PyVmObject::over(list.clone().into_ref(), PyVariantList(list)))
    }

    /// How many elements there are.
    #[getter]
    fn size(&self) -> usize {
        self.0.len()
    }

    fn __len__(&self) -> usize {
        self.0.len()
    }

    /// Appends an integer of 64 bits.
    fn push_int(&self, py: Python<'_>, value: i64) -> PyResult<()> {
        self.0.push(Element::I64(value)).or_throw(py, "Could not push int")
    }

    /// Appends a float of 64 bits.
    fn push_float(&self, py: Python<'_>, value: f64) -> PyResult<()> {
        self.0.push(Element::F64(value)).or_throw(py, "Could not push float")
    }

    /// Appends a list.
    fn push_list(&self, py: Python<'_>, value: &Bound<'_, PyVariantList>) -> PyResult<()> {
        self.0.push(Element::Ref(Some(value.get().0.clone().into_ref()))).or_throw(py, "Could not push list")
    }

    /// Appends a reference to an object.
    fn push_ref(&self, r#ref: &Bound<'_, PyAny>) -> PyResult<()> {
        if r#ref.is_none() {
            return Err(wrong_type("an object that programs can refer to", r#ref));
        }
        self.0.push(Element::Ref(Some(to_ref(r#ref)?))).or_throw(r#ref.py(), "Could not push ref")
    }

    /// An element: a number, a `VmRef`, or nothing for a null reference.
    fn get_variant(&self, py: Python<'_>, index: usize) -> PyResult<Py<PyAny>> {
        Ok(match self.element(py, index)? {
            Element::Ref(Some(reference)) => Py::new(py, PyVmRef(reference))?.into_any(),
            Element::Ref(None) | Element::None => py.None(),
            number => number_of(py, &number)?,
        })
    }

    /// An element that is a reference.
    fn get_as_ref(&self, py: Python<'_>, index: usize) -> PyResult<Option<PyVmRef>> {
        Ok(self.reference(py, index)?.map(PyVmRef))
    }

    /// An element that is a list.
    fn get_as_list(&self, py: Python<'_>, index: usize) -> PyResult<Py<PyVariantList>> {
        let list = match self.element(py, index)? {
            Element::Ref(Some(reference)) => reference.cast::<List>().ok(),
            _ => None,
        };
        let list = list.ok_or_else(|| vireo::Status::failed_precondition(format!("element {index} is no list")));
        PyVariantList::of(py, list.or_throw(py, "reading a list")?)
    }

    /// An element as an object of a class, nothing if it is one of another.
    fn get_as_object<'py>(
        &self,
        py: Python<'py>,
        index: usize,
        clazz: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(reference) = self.reference(py, index)? else { return Ok(None) };
        let object = clazz.call_method1(pyo3::intern!(py, "__iree_vm_cast__"), (PyVmRef(reference),))?;
        Ok((!object.is_none()).then_some(object))
    }

    /// An element as numbers, bytes and dictionaries, such as a file of traces has.
    fn get_serialized_trace_value<'py>(&self, py: Python<'py>, index: usize) -> PyResult<Bound<'py, PyDict>> {
        let element = self.element(py, index)?;
        serialized(py, &element, 0)
    }

    fn __repr__(&self) -> String {
        let mut text = format!("<VmVariantList({}): [", self.0.len());
        show(&self.0, &mut text, 0);
        text.push_str("]>");
        text
    }
}

/// A number of Python for one of a list.
fn number_of(py: Python<'_>, element: &Element) -> PyResult<Py<PyAny>> {
    Ok(match *element {
        Element::I8(value) => value.into_pyobject(py)?.into_any().unbind(),
        Element::I16(value) => value.into_pyobject(py)?.into_any().unbind(),
        Element::I32(value) => value.into_pyobject(py)?.into_any().unbind(),
        Element::I64(value) => value.into_pyobject(py)?.into_any().unbind(),
        Element::F32(value) => f64::from(value).into_pyobject(py)?.into_any().unbind(),
        Element::F64(value) => value.into_pyobject(py)?.into_any().unbind(),
        Element::Ref(_) | Element::None => return Err(PyTypeError::new_err("the element is no number")),
    })
}

/// Writes the elements of a list, separated by commas.
fn show(list: &List, text: &mut String, depth: usize) {
    for index in 0..list.len() {
        if index > 0 {
            text.push_str(", ");
        }
        // The list may have become shorter meanwhile.
        let Ok(element) = list.get(index) else { return };
        let _ = match element {
            Element::I8(value) => write!(text, "{value}"),
            Element::I16(value) => write!(text, "{value}"),
            Element::I32(value) => write!(text, "{value}"),
            Element::I64(value) => write!(text, "{value}"),
            Element::F32(value) => write!(text, "{value:.6}"),
            Element::F64(value) => write!(text, "{value:.6}"),
            Element::Ref(None) | Element::None => write!(text, "None"),
            Element::Ref(Some(reference)) => {
                show_object(&reference, text, depth);
                Ok(())
            }
        };
    }
}

fn show_object(reference: &Ref, text: &mut String, depth: usize) {
    let _ = if let Some(list) = reference.get::<List>() {
        text.push_str("List[");
        // A list may be in itself.
        if depth < MAX_DEPTH {
            show(list, text, depth + 1)
        } else {
            text.push_str("...")
        }
        write!(text, "]")
    } else if let Some(view) = reference.get::<BufferView>() {
        let shape = view.shape().iter().map(u64::to_string).collect::<Vec<_>>().join("x");
        write!(text, "HalBufferView({shape}:{:#010x})", view.element_type().0.swap_bytes())
    } else if let Some(buffer) = reference.get::<BufferRefObject>() {
        write!(text, "HalBuffer({})", buffer.0.byte_length())
    } else if let Some(fence) = reference.get::<Fence>() {
        write!(text, "fence({})", fence.timepoints().len())
    } else {
        write!(text, "{}", reference.type_name())
    };
}

fn serialized<'py>(py: Python<'py>, element: &Element, depth: usize) -> PyResult<Bound<'py, PyDict>> {
    let record = PyDict::new(py);
    let (key, is_number) = match element {
        Element::I8(_) => ("i8", true),
        Element::I16(_) => ("i16", true),
        Element::I32(_) => ("i32", true),
        Element::I64(_) => ("i64", true),
        Element::F32(_) => ("f32", true),
        Element::F64(_) => ("f64", true),
        Element::Ref(_) | Element::None => ("", false),
    };
    if is_number {
        record.set_item("type", "value")?;
        record.set_item(key, number_of(py, element)?)?;
        return Ok(record);
    }
    let Element::Ref(Some(reference)) = element else {
        record.set_item("type", "null")?;
        return Ok(record);
    };
    record.set_item("type", reference.type_name())?;
    if let Some(list) = reference.get::<List>() {
        if depth == MAX_DEPTH {
            return Err(PyValueError::new_err(format!("lists are in lists more than {MAX_DEPTH} deep")));
        }
        let items = PyList::empty(py);
        for index in 0..list.len() {
            let element = list.get(index).or_throw(py, "reading a list")?;
            items.append(serialized(py, &element, depth + 1)?)?;
        }
        record.set_item("items", items)?;
    } else if let Some(view) = reference.get::<BufferView>() {
        let contents = detached(py, || view.to_vec()).or_throw(py, "reading buffer view")?;
        record.set_item("shape", view.shape())?;
        record.set_item("element_type", view.element_type().to_string())?;
        record.set_item("contents", pyo3::types::PyBytes::new(py, &contents))?;
    } else {
        let what = format!("VmVariantList.get_serialized_trace_value of a !{}", reference.type_name());
        return Err(unimplemented(py, &what));
    }
    Ok(record)
}
