//! `VmContext`: modules with state, and calls of their functions with lists.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use vireo::interp::Limits;
use vireo::vm::list::{Element, List};
use vireo::vm::{Context, Function, Kind, Module, Value};
use vireo::{Result, Status};

use super::list::PyVariantList;
use super::module::{PyInstance, PyVmFunction, PyVmModule};
use super::throw::{OrThrow, throw};
use crate::interpreter::detached;
use crate::interrupts::{self, interruptible};

thread_local! {
    /// The contexts that this thread runs functions of, outermost first.
    static RUNNING: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

/// Modules with state.
#[pyclass(frozen, weakref, name = "VmContext", module = "vireo.compat.iree._binding")]
pub struct PyContext {
    id: u64,
    is_static: bool,
    /// Those of its calls: signals end them.
    limits: Limits,
    /// Locked by threads that have the interpreter, and only for a moment.
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// None while modules are added.
    context: Option<Context>,
    /// By number in the context.
    modules: Vec<Py<PyVmModule>>,
    /// Functions that have been called, by the number of the module and their own.
    functions: HashMap<(usize, usize), Function>,
}

impl PyContext {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn function(&self, function: &PyVmFunction) -> Result<Function> {
        let mut state = self.lock();
        let busy = || Status::failed_precondition("another thread registers modules with the context");
        let context = state.context.clone().ok_or_else(busy)?;
        let number = state.modules.iter().rposition(|module| module.get().id() == function.module);
        let number = number.ok_or_else(|| {
            let (module, name) = (&function.module_name, &function.name);
            Status::failed_precondition(format!("module `{module}` of function `{name}` is not in the context"))
        })?;
        let key = (number, function.ordinal);
        if let Some(function) = state.functions.get(&key) {
            return Ok(function.clone());
        }
        let found = context.function_at(number, function.ordinal)?;
        state.functions.insert(key, found.clone());
        Ok(found)
    }
}

/// Fails if this thread runs a function of the context already: it would wait for itself.
struct Entered;

impl Entered {
    fn enter(id: u64) -> Result<Entered> {
        RUNNING.with_borrow_mut(|running| {
            if running.contains(&id) {
                let message = "a function in Python calls the context that it is called by, which waits for it";
                return Err(Status::failed_precondition(message));
            }
            running.push(id);
            Ok(Entered)
        })
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        RUNNING.with_borrow_mut(Vec::pop);
    }
}

fn modules_of(modules: &[Py<PyVmModule>]) -> Vec<Module> {
    modules.iter().map(|module| module.get().module().clone()).collect()
}

#[pymethods]
impl PyContext {
    #[new]
    #[pyo3(signature = (instance, modules=None))]
    fn new(py: Python<'_>, instance: &PyInstance, modules: Option<Vec<Py<PyVmModule>>>) -> PyResult<PyContext> {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let _ = instance;
        let is_static = modules.is_some();
        let modules = modules.unwrap_or_default();
        let id = LAST.fetch_add(1, Ordering::Relaxed) + 1;
        let loaded = modules_of(&modules);
        let limits = Limits { cancellation: Some(interrupts::cancellation()), ..Limits::default() };
        let context = detached(py, || Context::with_limits(loaded, limits.clone()));
        let context = context.or_throw(py, "Error creating vm context with modules")?;
        let state = State { context: Some(context), modules, functions: HashMap::new() };
        Ok(PyContext { id, is_static, limits, state: Mutex::new(state) })
    }

    /// A number that no other context has.
    #[getter]
    fn context_id(&self) -> u64 {
        self.id
    }

    /// Adds modules after those that are there.
    fn register_modules(&self, py: Python<'_>, modules: Vec<Py<PyVmModule>>) -> PyResult<()> {
        let what = "Error registering modules";
        let refuse = |message: &str| throw(py, what, &Status::failed_precondition(message));
        if self.is_static {
            return Err(refuse("the context was created with its modules and takes no others"));
        }
        let taken = {
            let mut state = self.lock();
            let functions = std::mem::take(&mut state.functions);
            (state.context.take(), functions)
        };
        let (Some(mut context), functions) = taken else {
            return Err(refuse("another thread registers modules with the context"));
        };
        drop(functions);
        let loaded = modules_of(&modules);
        let added = detached(py, || {
            let _entered = Entered::enter(self.id)?;
            context.add_modules(loaded)
        });
        let mut state = self.lock();
        state.context = Some(context);
        added.or_throw(py, what)?;
        state.modules.extend(modules);
        Ok(())
    }

    /// Calls a function with the elements of a list, and replaces those of another one by the results.
    fn invoke(
        &self,
        py: Python<'_>,
        function: &Bound<'_, PyVmFunction>,
        inputs: &Bound<'_, PyVariantList>,
        outputs: &Bound<'_, PyVariantList>,
    ) -> PyResult<()> {
        let what = "Error invoking function";
        let function = function.get();
        let arguments = arguments(function, &inputs.get().0).or_throw(py, what)?;
        let called = self.function(function).or_throw(py, what)?;
        let outputs = &outputs.get().0;
        let called = interruptible(py, &self.limits, || {
            let _entered = Entered::enter(self.id)?;
            let results = called.call(&arguments)?;
            drop((called, arguments));
            outputs.resize(0)?;
            results.into_iter().try_for_each(|result| outputs.push(result))
        })?;
        called.or_throw(py, what)
    }
}

/// The elements of a list as the arguments of a function.
fn arguments(function: &PyVmFunction, list: &List) -> Result<Vec<Value>> {
    let name = || format!("`{}({})`", function.name, function.convention);
    let kinds = function.convention.fixed_args();
    let kinds =
        kinds.ok_or_else(|| Status::unimplemented(format!("VmContext.invoke of {}, which is variadic", name())))?;
    if list.len() != kinds.len() {
        let (expected, found) = (kinds.len(), list.len());
        let message =
            format!("input list and function mismatch: expected {expected} arguments but passed {found}; {}", name());
        return Err(Status::invalid_argument(message));
    }
    kinds
        .iter()
        .enumerate()
        .map(|(index, kind)| {
            argument(list.get(index)?, *kind).map_err(|found| {
                let message = format!("argument {index} of {}: expected {}, got {found}", name(), kind.name());
                Status::invalid_argument(message)
            })
        })
        .collect()
}

/// An element as an argument; else a description of it.
fn argument(element: Element, kind: Kind) -> std::result::Result<Value, String> {
    let integer = match element {
        Element::I8(value) => Some(i64::from(value)),
        Element::I16(value) => Some(i64::from(value)),
        Element::I32(value) => Some(i64::from(value)),
        Element::I64(value) => Some(value),
        _ => None,
    };
    let float = match element {
        Element::F32(value) => Some(f64::from(value)),
        Element::F64(value) => Some(value),
        _ => integer.map(|value| value as f64),
    };
    match (kind, element) {
        (Kind::Ref, Element::Ref(reference)) => Ok(Value::Ref(reference)),
        (Kind::Ref, Element::None) => Ok(Value::NULL),
        (Kind::I32, _) if integer.is_some_and(|value| i32::try_from(value).is_ok() || u32::try_from(value).is_ok()) => {
            // Programs have no sign of their own for integers.
            Ok(Value::I32(integer.unwrap_or_default() as i32))
        }
        (Kind::I64, _) if let Some(value) = integer => Ok(Value::I64(value)),
        (Kind::F32, _) if let Some(value) = float => Ok(Value::F32(value as f32)),
        (Kind::F64, _) if let Some(value) = float => Ok(Value::F64(value)),
        (_, Element::Ref(Some(reference))) => Err(format!("a !{}", reference.type_name())),
        (_, Element::Ref(None) | Element::None) => Err("a null reference".into()),
        _ => Err(match (integer, float) {
            (Some(value), _) => value.to_string(),
            (None, Some(value)) => format!("{value:?}"),
            (None, None) => "another value".into(),
        }),
    }
}
