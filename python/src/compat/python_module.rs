//! `PyModuleInterface`: modules in Python, whose functions programs import.

use std::any::Any;
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::types::PyTuple;
use vireo::vm::{Call, Convention, Kind, Module, NativeExport, NativeModule, Outcome, Ref};
use vireo::{Result, Status};

use super::module::PyVmModule;
use super::object::{PyVmRef, to_ref};
use super::throw::{OrThrow, status_of, throw, unimplemented};
use crate::interpreter::attached;

/// A module in Python, to which functions are added until it is created.
#[pyclass(frozen, weakref, name = "PyModuleInterface", module = "vireo.compat.iree._binding")]
pub struct PyModuleInterface {
    name: String,
    /// Called with the interface for each context, it makes the object with which functions are called.
    constructor: Py<PyAny>,
    /// None once the module has been created.
    exports: Mutex<Option<Vec<Export>>>,
    flags: Arc<Flags>,
}

#[derive(Default)]
struct Flags {
    is_initialized: AtomicBool,
    is_destroyed: AtomicBool,
}

struct Export {
    name: String,
    convention: Convention,
    callable: Py<PyAny>,
}

/// The text for as long as the process lives. There are as many as programs have names.
fn intern(text: &str) -> &'static str {
    static TEXTS: Mutex<Option<HashSet<&'static str>>> = Mutex::new(None);
    let mut texts = TEXTS.lock().unwrap_or_else(PoisonError::into_inner);
    let texts = texts.get_or_insert_default();
    if let Some(text) = texts.get(text) {
        return text;
    }
    let text: &'static str = Box::leak(text.into());
    texts.insert(text);
    text
}

#[pymethods]
impl PyModuleInterface {
    #[new]
    fn new(module_name: String, ctor: Py<PyAny>) -> PyModuleInterface {
        let exports = Mutex::new(Some(Vec::new()));
        PyModuleInterface { name: module_name, constructor: ctor, exports, flags: Arc::default() }
    }

    /// Adds a function with a calling convention such as `0rI_r`.
    fn export(&self, py: Python<'_>, name: String, cconv: &str, callable: Py<PyAny>) -> PyResult<()> {
        let convention: Convention = cconv.parse().or_throw(py, "exporting a function")?;
        if convention.fixed_args().is_none() {
            return Err(unimplemented(py, "PyModuleInterface.export of a variadic function"));
        }
        let mut exports = self.exports.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(exports) = &mut *exports else {
            let status = Status::failed_precondition("the module has been created");
            return Err(throw(py, "exporting a function", &status));
        };
        exports.push(Export { name, convention, callable });
        Ok(())
    }

    /// The module.
    fn create(slf: &Bound<'_, Self>) -> PyResult<PyVmModule> {
        let (py, this) = (slf.py(), slf.get());
        let what = "creating a module";
        let exports = this.exports.lock().unwrap_or_else(PoisonError::into_inner).take();
        let exports = exports.ok_or_else(|| Status::failed_precondition("it has been created")).or_throw(py, what)?;
        let texts = exports.iter().map(|export| NativeExport {
            name: intern(&export.name),
            convention: intern(&export.convention.to_string()),
        });
        let native = Native {
            name: this.name.clone(),
            texts: texts.collect(),
            exports,
            interface: slf.clone().unbind(),
            flags: this.flags.clone(),
        };
        let module = Module::native(native).or_throw(py, what)?;
        this.flags.is_initialized.store(true, Ordering::Relaxed);
        Ok(PyVmModule::of(module))
    }

    /// Whether the module has been created.
    #[getter]
    fn initialized(&self) -> bool {
        self.flags.is_initialized.load(Ordering::Relaxed)
    }

    /// Whether nothing refers to the module any more.
    #[getter]
    fn destroyed(&self) -> bool {
        self.flags.is_destroyed.load(Ordering::Relaxed)
    }

    fn __repr__(&self) -> String {
        let state = match (self.initialized(), self.destroyed()) {
            (_, true) => "destroyed",
            (true, false) => "initialized",
            (false, false) => "not initialized",
        };
        format!("<iree.runtime.PyModuleInterface '{}' ({state})>", self.name)
    }
}

/// A module in Python.
struct Native {
    name: String,
    texts: Vec<NativeExport>,
    exports: Vec<Export>,
    interface: Py<PyModuleInterface>,
    flags: Arc<Flags>,
}

impl Drop for Native {
    fn drop(&mut self) {
        self.flags.is_destroyed.store(true, Ordering::Relaxed);
    }
}

/// The object with which the functions of a context are called.
struct State(Py<PyAny>);

/// The failure of a call at the end of the interpreter.
fn finalized() -> Status {
    Status::new(vireo::StatusCode::Unavailable, "the interpreter is at its end")
}

impl NativeModule for Native {
    fn name(&self) -> &str {
        &self.name
    }

    fn version(&self) -> u32 {
        0
    }

    fn exports(&self) -> &[NativeExport] {
        &self.texts
    }

    fn create_state(&self) -> Result<Box<dyn Any + Send>> {
        let made = attached(|py| {
            let made = self.interface.get().constructor.call1(py, (&self.interface,));
            made.map_err(|error| status_of(py, error))
        });
        Ok(Box::new(State(made.ok_or_else(finalized)??)))
    }

    fn call(&self, ordinal: usize, state: &mut dyn Any, call: &mut Call) -> Result<Outcome> {
        let export = self.exports.get(ordinal).ok_or_else(|| Status::internal("no such export"))?;
        let state = state.downcast_ref::<State>().ok_or_else(|| Status::internal("state of another module"))?;
        let called = attached(|py| export.call(py, state, call).map_err(|error| status_of(py, error)));
        called.ok_or_else(finalized)??;
        Ok(Outcome::Return)
    }
}

impl Export {
    fn call(&self, py: Python<'_>, state: &State, call: &mut Call) -> PyResult<()> {
        let kinds = self.convention.fixed_args().unwrap_or_default();
        let (mut words, mut refs) = (call.words.iter(), call.refs.iter());
        let mut arguments = vec![state.0.clone_ref(py)];
        for kind in kinds {
            let mut word = || words.next().copied().unwrap_or_default();
            arguments.push(match kind {
                Kind::I32 => (word() as i32).into_pyobject(py)?.into_any().unbind(),
                Kind::I64 => (word() as i64).into_pyobject(py)?.into_any().unbind(),
                Kind::F32 => f64::from(f32::from_bits(word() as u32)).into_pyobject(py)?.into_any().unbind(),
                Kind::F64 => f64::from_bits(word()).into_pyobject(py)?.into_any().unbind(),
                // A reference may be lent, so it is copied.
                Kind::Ref => match refs.next().and_then(Clone::clone) {
                    Some(reference) => Py::new(py, PyVmRef(reference))?.into_any(),
                    None => py.None(),
                },
            });
        }
        let result = self.callable.bind(py).call1(PyTuple::new(py, arguments)?)?;
        let expected = &self.convention.results;
        let wrong = |found: &str| {
            let message = format!("{} returned {found}, and is declared as {}", self.name, self.convention);
            pyo3::exceptions::PyValueError::new_err(message)
        };
        let results: Vec<Bound<'_, PyAny>> = match (expected.len(), result.cast::<PyTuple>()) {
            (0, _) => Vec::new(),
            (1, Ok(tuple)) if tuple.len() == 1 => tuple.iter().collect(),
            (1, _) => vec![result],
            (count, Ok(tuple)) if tuple.len() == count => tuple.iter().collect(),
            (_, Ok(tuple)) => return Err(wrong(&format!("{} values", tuple.len()))),
            (_, Err(_)) => return Err(wrong(&crate::memory::describe_type(&result))),
        };
        for (kind, value) in expected.iter().zip(results) {
            match kind {
                Kind::I32 => {
                    let number: i64 = value.extract()?;
                    let fits = i32::try_from(number).is_ok() || u32::try_from(number).is_ok();
                    if !fits {
                        return Err(wrong(&number.to_string()));
                    }
                    call.result_words.push(u64::from(number as u32));
                }
                Kind::I64 => call.result_words.push(value.extract::<i64>()? as u64),
                Kind::F32 => call.result_words.push(u64::from((value.extract::<f64>()? as f32).to_bits())),
                Kind::F64 => call.result_words.push(value.extract::<f64>()?.to_bits()),
                Kind::Ref => {
                    let reference: Option<Ref> = if value.is_none() { None } else { Some(to_ref(&value)?) };
                    call.result_refs.push(reference);
                }
            }
        }
        Ok(())
    }
}
