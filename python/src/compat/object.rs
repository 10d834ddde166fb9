//! `VmRef`, and the base of all classes whose objects programs can refer to.

use std::hash::{DefaultHasher, Hash, Hasher};

use pyo3::PyClass;
use pyo3::exceptions::{PyAttributeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::PyType;
use vireo::hal::{BufferRefObject, BufferView, CommandBufferRef, Fence, SemaphoreRef};
use vireo::vm::{Buffer, List, Object, Ref};

use super::buffer::{PyBufferView, PyHalBuffer, PyVmBuffer};
use super::command_buffer::PyCommandBuffer;
use super::fence::{PyHalFence, PySemaphore};
use super::list::PyVariantList;
use super::throw::wrong_type;

/// An object that programs can refer to.
#[pyclass(frozen, subclass, weakref, name = "VmObject", module = "vireo.compat.iree._binding")]
pub struct PyVmObject {
    reference: Ref,
}

impl PyVmObject {
    /// An object of a class of this module over one of the library.
    pub fn over<T>(reference: Ref, object: T) -> PyClassInitializer<T>
    where
        T: PyClass<BaseType = PyVmObject>,
    {
        PyClassInitializer::from(PyVmObject { reference }).add_subclass(object)
    }

    /// The same, made already.
    pub fn make<T>(py: Python<'_>, reference: Ref, object: T) -> PyResult<Py<T>>
    where
        T: PyClass<BaseType = PyVmObject>,
    {
        Py::new(py, PyVmObject::over(reference, object))
    }
}

#[pymethods]
impl PyVmObject {
    /// A reference to it.
    #[getter]
    fn __iree_vm_ref__(slf: &Bound<'_, Self>) -> PyResult<PyVmRef> {
        Ok(PyVmRef(reference_of(slf)?))
    }

    /// A reference to it.
    #[getter]
    fn r#ref(slf: &Bound<'_, Self>) -> PyResult<PyVmRef> {
        Ok(PyVmRef(reference_of(slf)?))
    }

    /// The object of this class that a reference refers to, or nothing if it is another one.
    #[classmethod]
    fn __iree_vm_cast__(cls: &Bound<'_, PyType>, reference: &Bound<'_, PyVmRef>) -> PyResult<Option<Py<PyAny>>> {
        let object = object_of(cls.py(), &reference.get().0)?;
        match object {
            Some(object) if object.bind(cls.py()).is_instance(cls)? => Ok(Some(object)),
            _ => Ok(None),
        }
    }

    /// The name of the type that programs have for it.
    #[classmethod]
    fn __iree_vm_type__(cls: &Bound<'_, PyType>) -> PyResult<&'static str> {
        type_name(cls)
    }

    fn __eq__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<bool> {
        match other.cast::<PyVmObject>() {
            Ok(other) => Ok(slf.is(other) || reference_of(slf)? == reference_of(other)?),
            Err(_) => Ok(false),
        }
    }

    fn __hash__(slf: &Bound<'_, Self>) -> PyResult<u64> {
        Ok(hash(&reference_of(slf)?))
    }
}

/// A reference to an object. That of a fence has the points that it has now.
fn reference_of(object: &Bound<'_, PyVmObject>) -> PyResult<Ref> {
    match object.cast::<PyHalFence>() {
        Ok(fence) => Ok(fence.get().reference()),
        Err(_) => Ok(object.get().reference.clone()),
    }
}

fn hash(reference: &Ref) -> u64 {
    let mut hasher = DefaultHasher::new();
    reference.identity().hash(&mut hasher);
    hasher.finish()
}

/// The classes of objects that programs can refer to, with the names of their types.
fn type_name(class: &Bound<'_, PyType>) -> PyResult<&'static str> {
    let names: [(bool, &'static str); 7] = [
        (class.is_subclass_of::<PyVariantList>()?, List::TYPE_NAME),
        (class.is_subclass_of::<PyVmBuffer>()?, Buffer::TYPE_NAME),
        (class.is_subclass_of::<PyHalBuffer>()?, BufferRefObject::TYPE_NAME),
        (class.is_subclass_of::<PyBufferView>()?, BufferView::TYPE_NAME),
        (class.is_subclass_of::<PyHalFence>()?, Fence::TYPE_NAME),
        (class.is_subclass_of::<PySemaphore>()?, SemaphoreRef::TYPE_NAME),
        (class.is_subclass_of::<PyCommandBuffer>()?, CommandBufferRef::TYPE_NAME),
    ];
    let found = names.into_iter().find(|(is_class, _)| *is_class).map(|(_, name)| name);
    found.ok_or_else(|| PyAttributeError::new_err(format!("{} stands for no type of programs", class)))
}

/// The object that a reference refers to, in the class of its type; nothing if it has none.
pub fn object_of(py: Python<'_>, reference: &Ref) -> PyResult<Option<Py<PyAny>>> {
    if let Ok(list) = reference.cast_ref::<List>() {
        return PyVariantList::of(py, list.clone()).map(|list| Some(list.into_any()));
    }
    if let Ok(buffer) = reference.cast_ref::<Buffer>() {
        return PyVmBuffer::of(py, buffer.clone()).map(|buffer| Some(buffer.into_any()));
    }
    if let Some(buffer) = reference.get::<BufferRefObject>() {
        return PyHalBuffer::of(py, buffer.0.clone()).map(|buffer| Some(buffer.into_any()));
    }
    if let Ok(view) = reference.cast_ref::<BufferView>() {
        return PyBufferView::of(py, view.clone()).map(|view| Some(view.into_any()));
    }
    if let Some(fence) = reference.get::<Fence>() {
        return PyHalFence::of(py, fence.clone()).map(|fence| Some(fence.into_any()));
    }
    if let Some(semaphore) = reference.get::<SemaphoreRef>() {
        return PySemaphore::of(py, semaphore.0.clone()).map(|semaphore| Some(semaphore.into_any()));
    }
    if let Some(commands) = reference.get::<CommandBufferRef>() {
        return PyCommandBuffer::of(py, commands.0.clone()).map(|commands| Some(commands.into_any()));
    }
    Ok(None)
}

/// The reference that an object stands for: by its attribute `__iree_vm_ref__`.
pub fn to_ref(object: &Bound<'_, PyAny>) -> PyResult<Ref> {
    let reference = object.getattr(pyo3::intern!(object.py(), "__iree_vm_ref__"))?;
    match reference.cast::<PyVmRef>() {
        Ok(reference) => Ok(reference.get().0.clone()),
        Err(_) => Err(wrong_type("a VmRef", &reference)),
    }
}

/// A reference of a program to an object.
#[pyclass(frozen, weakref, name = "VmRef", module = "vireo.compat.iree._binding")]
pub struct PyVmRef(pub Ref);

#[pymethods]
impl PyVmRef {
    #[getter]
    fn __iree_vm_ref__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    /// The object as one of `value`. With `optional` an object of another class is none.
    #[pyo3(signature = (value, optional=false))]
    fn deref<'py>(
        slf: &Bound<'py, Self>,
        value: &Bound<'py, PyAny>,
        optional: bool,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let object = value.call_method1(pyo3::intern!(slf.py(), "__iree_vm_cast__"), (slf,))?;
        if !object.is_none() {
            return Ok(Some(object));
        }
        if optional {
            return Ok(None);
        }
        let name = slf.get().0.type_name();
        Err(PyTypeError::new_err(format!("a !{name} is no {value}")))
    }

    /// Whether the object is one of this class.
    fn isinstance(&self, ref_type: &Bound<'_, PyAny>) -> PyResult<bool> {
        let name = ref_type.call_method0(pyo3::intern!(ref_type.py(), "__iree_vm_type__"))?;
        Ok(name.extract::<String>().is_ok_and(|name| name == self.0.type_name()))
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<PyVmRef>().is_ok_and(|other| other.get().0 == self.0)
    }

    fn __hash__(&self) -> u64 {
        hash(&self.0)
    }

    fn __repr__(&self) -> String {
        format!("<VmRef {} at {:p}>", self.0.type_name(), self.0.identity())
    }
}
