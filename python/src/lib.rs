//! The extension module of the Python package `vireo`: sessions of compiled models, called with arrays of Python.
//!
//! [`argument`] compares what callers pass with the signature of a function, [`memory`] finds the memory of arrays,
//! [`tensor`] shows results where they are, [`model`] loads, [`function`] calls, [`tasks`] calls in event loops, and
//! [`compat`] has the objects of `iree.runtime`; [`interrupts`] has calls end at signals, and [`logging`] tells of
//! them. The interpreter is released wherever the library loads, runs, copies or waits. The part in Python is beside it
//! in `vireo/`; `docs/python.md` is the guide.

mod argument;
mod compat;
mod dtype;
mod error;
mod fence;
mod function;
mod interpreter;
mod interrupts;
mod limits;
mod literal;
mod logging;
mod memory;
mod model;
mod progress;
mod signature;
mod tasks;
mod tensor;

use std::ffi::OsString;
use std::io::Write;

use pyo3::prelude::*;

/// Runs the command `vireo` with these arguments, of which the first is its name; returns the exit code.
#[pyfunction]
fn _command(py: Python<'_>, arguments: Vec<OsString>) -> i32 {
    interpreter::detached(py, || {
        let code = vireo_cli::exit_code(|| vireo_cli::main_with(arguments));
        // Nothing is left to do where the output is closed.
        let _ = std::io::stdout().flush();
        code
    })
}

/// The module. Its classes never change and are shared by threads, so an interpreter without a global lock needs none.
#[pymodule(gil_used = false)]
fn _vireo(module: &Bound<'_, PyModule>) -> PyResult<()> {
    error::register(module)?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<fence::PyFence>()?;
    module.add_class::<function::PyFunction>()?;
    module.add_class::<function::PyPreparedCall>()?;
    module.add_class::<function::PyReference>()?;
    module.add_class::<limits::PyLimits>()?;
    module.add_class::<model::PyModel>()?;
    module.add_class::<model::PySession>()?;
    module.add_class::<signature::PySignature>()?;
    module.add_class::<signature::PyValue>()?;
    module.add_class::<tensor::PyTensor>()?;
    module.add_function(wrap_pyfunction!(_command, module)?)?;
    module.add_function(wrap_pyfunction!(compat::_compat, module)?)?;
    module.add_function(wrap_pyfunction!(model::devices, module)?)?;
    module.add_function(wrap_pyfunction!(tensor::_tensor_of_bytes, module)?)?;
    module.add_function(wrap_pyfunction!(tensor::borrow, module)?)?;
    module.add_function(wrap_pyfunction!(tensor::empty, module)?)
}
