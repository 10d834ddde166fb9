//! `VmInstance`, `VmModule` and `VmFunction`: modules, before they are in a context.

use std::sync::atomic::{AtomicU64, Ordering};

use pyo3::exceptions::{PyUserWarning, PyValueError};
use pyo3::types::PyDict;
use pyo3::{intern, prelude::*};
use vireo::Status;
use vireo::vm::{Convention, Module};

use super::bytes::HostBytes;
use super::throw::{OrThrow, throw, unimplemented};
use crate::interpreter::{allow_forks, detached, with_interpreter};

/// The number of `Linkage.EXPORT`.
const EXPORT: u32 = 2;
/// The number of `Linkage.EXPORT_OPTIONAL`.
const EXPORT_OPTIONAL: u32 = 4;

/// Alignment of files in memory that are wrapped.
const ALIGNMENT: usize = 64;

/// The instance of the virtual machine that its objects share. It holds nothing, since each object knows its types.
#[pyclass(frozen, weakref, name = "VmInstance", module = "vireo.compat.iree._binding")]
pub struct PyInstance;

#[pymethods]
impl PyInstance {
    #[new]
    fn new() -> PyInstance {
        PyInstance
    }
}

/// A module: one of bytecode, or one in Rust or Python.
#[pyclass(frozen, weakref, name = "VmModule", module = "vireo.compat.iree._binding")]
pub struct PyVmModule {
    /// A number that no other module has.
    id: u64,
    module: Module,
    /// The object with the bytes of the file.
    blob: Option<Py<PyAny>>,
    _release: Option<Release>,
}

/// A function to call when nothing refers to a module any more.
struct Release {
    /// Called without arguments.
    callback: Option<Py<PyAny>>,
    /// Closed.
    close: Option<Py<PyAny>>,
}

impl Drop for Release {
    fn drop(&mut self) {
        let (callback, close) = (self.callback.take(), self.close.take());
        with_interpreter(move |py| {
            let called = callback.as_ref().map(|callback| callback.call0(py));
            let closed = close.as_ref().map(|buffer| buffer.call_method0(py, intern!(py, "close")));
            for result in [called, closed].into_iter().flatten() {
                if let Err(error) = result {
                    error.write_unraisable(py, callback.as_ref().map(|callback| callback.bind(py)));
                }
            }
        });
    }
}

impl PyVmModule {
    /// A module of the library.
    pub fn of(module: Module) -> PyVmModule {
        PyVmModule::new(module, None, None)
    }

    fn new(module: Module, blob: Option<Py<PyAny>>, release: Option<Release>) -> PyVmModule {
        static LAST: AtomicU64 = AtomicU64::new(0);
        PyVmModule { id: LAST.fetch_add(1, Ordering::Relaxed), module, blob, _release: release }
    }

    /// A number that no other module has.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The module of the library.
    pub fn module(&self) -> &Module {
        &self.module
    }

    fn load(py: Python<'_>, buffer: &Bound<'_, PyAny>, release: Option<Release>) -> PyResult<PyVmModule> {
        let bytes = HostBytes::of(buffer)?;
        let module = detached(py, || Module::from_bytes(bytes.as_slice())).or_throw(py, "Error creating vm module")?;
        Ok(PyVmModule::new(module, Some(buffer.clone().unbind()), release))
    }
}

fn is_aligned(buffer: &Bound<'_, PyAny>) -> PyResult<bool> {
    let bytes = HostBytes::of(buffer)?;
    Ok(bytes.len() > 0 && bytes.data().as_ptr().addr().is_multiple_of(ALIGNMENT))
}

#[pymethods]
impl PyVmModule {
    /// Maps and verifies a module file. `destroy_callback` is called when nothing refers to the module any more.
    #[staticmethod]
    #[pyo3(signature = (instance, filepath, destroy_callback=None))]
    fn mmap(
        py: Python<'_>,
        instance: &PyInstance,
        filepath: std::path::PathBuf,
        destroy_callback: Option<Py<PyAny>>,
    ) -> PyResult<PyVmModule> {
        let _ = instance;
        allow_forks(py)?;
        // Failures of the system are those of Python: `FileNotFoundError` and the like.
        let file = py.import("builtins")?.call_method1("open", (&filepath, "rb"))?;
        file.call_method0("close")?;
        let module = detached(py, || Module::from_file(&filepath)).or_throw(py, "Error creating vm module")?;
        let release = destroy_callback.map(|callback| Release { callback: Some(callback), close: None });
        Ok(PyVmModule::new(module, None, release))
    }

    /// Copies and verifies a module file in memory.
    #[staticmethod]
    fn copy_buffer(py: Python<'_>, instance: &PyInstance, buffer: &Bound<'_, PyAny>) -> PyResult<PyVmModule> {
        let _ = instance;
        PyVmModule::load(py, buffer, None)
    }

    /// Verifies a module file in aligned memory, whose tables and constants are copied. When nothing refers to the
    /// module any more, `destroy_callback` is called, and the buffer is closed if `close_buffer`.
    #[staticmethod]
    #[pyo3(signature = (instance, buffer, destroy_callback=None, close_buffer=false))]
    fn wrap_buffer(
        py: Python<'_>,
        instance: &PyInstance,
        buffer: &Bound<'_, PyAny>,
        destroy_callback: Option<Py<PyAny>>,
        close_buffer: bool,
    ) -> PyResult<PyVmModule> {
        let _ = instance;
        allow_forks(py)?;
        if !is_aligned(buffer)? {
            return Err(PyValueError::new_err(format!(
                "VmModule.wrap_buffer got an unaligned buffer: expected a multiple of {ALIGNMENT} bytes; \
                 VmModule.copy_buffer takes any"
            )));
        }
        let close = close_buffer.then(|| buffer.clone().unbind());
        let release =
            (destroy_callback.is_some() || close.is_some()).then_some(Release { callback: destroy_callback, close });
        PyVmModule::load(py, buffer, release)
    }

    /// As `wrap_buffer` where the memory is aligned, else as `copy_buffer`, with a warning.
    #[staticmethod]
    #[pyo3(signature = (instance, buffer, warn_if_copy=true))]
    fn from_buffer(
        py: Python<'_>,
        instance: &PyInstance,
        buffer: &Bound<'_, PyAny>,
        warn_if_copy: bool,
    ) -> PyResult<PyVmModule> {
        let _ = instance;
        if warn_if_copy && !is_aligned(buffer)? {
            let message =
                c"Making copy of unaligned VmModule buffer: copy_buffer takes memory of any address, and mmap files \
                without a copy (warn_if_copy=False ends this warning)";
            PyErr::warn(py, &py.get_type::<PyUserWarning>(), message, 1)?;
        }
        PyVmModule::load(py, buffer, None)
    }

    /// As `from_buffer`.
    #[staticmethod]
    #[pyo3(signature = (instance, buffer, warn_if_copy=true))]
    fn from_flatbuffer(
        py: Python<'_>,
        instance: &PyInstance,
        buffer: &Bound<'_, PyAny>,
        warn_if_copy: bool,
    ) -> PyResult<PyVmModule> {
        PyVmModule::from_buffer(py, instance, buffer, warn_if_copy)
    }

    /// A module that this build has by itself. There is none: `hal` and `io_parameters` are made by functions.
    #[staticmethod]
    fn resolve_module_dependency(
        py: Python<'_>,
        instance: &PyInstance,
        name: &str,
        minimum_version: u32,
    ) -> PyResult<PyVmModule> {
        let _ = instance;
        let message = format!("required module '{name}' of version {minimum_version} is not available in the build");
        Err(throw(py, "Error resolving module dependency", &Status::not_found(message)))
    }

    /// Its name.
    #[getter]
    fn name(&self) -> &str {
        self.module.name()
    }

    /// Its version.
    #[getter]
    fn version(&self) -> u32 {
        self.module.version()
    }

    /// The object with the bytes of its file.
    #[getter]
    fn stashed_flatbuffer_blob(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.blob.as_ref().map(|blob| blob.clone_ref(py))
    }

    /// The names of the functions that it exports.
    #[getter]
    fn function_names(&self) -> Vec<&str> {
        self.module.all_exports().map(|export| export.name).collect()
    }

    /// A function that it exports, or nothing.
    #[pyo3(signature = (name, linkage=EXPORT))]
    fn lookup_function(slf: &Bound<'_, Self>, name: &str, linkage: u32) -> PyResult<Option<PyVmFunction>> {
        if !matches!(linkage, EXPORT | EXPORT_OPTIONAL) {
            let what = "VmModule.lookup_function of functions that are not exported";
            return Err(unimplemented(slf.py(), what));
        }
        let module = &slf.get().module;
        let Some(export) = module.exports_named(name).next() else { return Ok(None) };
        let function = module.archive().and_then(|archive| archive.function(export.ordinal));
        let attributes =
            function.map(|function| function.attrs().map(|(key, value)| (key.into(), value.into())).collect());
        Ok(Some(PyVmFunction {
            module: slf.get().id,
            module_name: module.name().to_string(),
            name: export.name.to_string(),
            ordinal: export.ordinal,
            convention: export.convention.clone(),
            attributes: attributes.unwrap_or_default(),
        }))
    }

    fn __repr__(slf: &Bound<'_, Self>) -> String {
        let this = slf.get();
        format!("<VmModule {} : [{}]>", this.name(), this.function_names().join(", "))
    }
}

/// A function that a module exports. It does not keep the module: contexts do.
#[pyclass(frozen, weakref, name = "VmFunction", module = "vireo.compat.iree._binding")]
pub struct PyVmFunction {
    /// The number of the module.
    pub module: u64,
    /// The name of the module.
    pub module_name: String,
    /// Name without the module.
    pub name: String,
    /// Its number in the module.
    pub ordinal: usize,
    /// Its calling convention.
    pub convention: Convention,
    attributes: Vec<(String, String)>,
}

#[pymethods]
impl PyVmFunction {
    /// Its number in the module.
    #[getter]
    fn ordinal(&self) -> usize {
        self.ordinal
    }

    /// The number of its `Linkage`.
    #[getter]
    fn linkage(&self) -> u32 {
        EXPORT
    }

    /// The name of the module.
    #[getter]
    fn module_name(&self) -> &str {
        &self.module_name
    }

    /// Name without the module.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// The texts by which the compiler describes the function, by their names.
    #[getter]
    fn reflection<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let attributes = PyDict::new(py);
        for (key, value) in &self.attributes {
            attributes.set_item(key, value)?;
        }
        Ok(attributes)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("<VmFunction {}({}), reflection = {}>", self.name, self.convention, self.reflection(py)?.repr()?))
    }
}
