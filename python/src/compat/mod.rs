//! The native part of `vireo.compat.iree`: the objects of the package `iree.runtime`, over this runtime.
//!
//! Programs for that package see the virtual machine and devices as they are, so these classes are thin: each wraps one
//! object of the library. What the package does in Python, such as packing arguments by the reflection of a function,
//! is in Python here, too. The classes are made when [`_compat`] is called first, so that `import vireo` does not take
//! longer.

mod allocator;
mod bridge;
mod buffer;
mod bytes;
mod command_buffer;
mod context;
mod device;
mod dlpack;
mod driver;
mod fence;
mod file;
mod flags;
mod list;
mod module;
mod object;
mod parameters;
mod python_module;
mod throw;
mod timepoint;
mod trace;
mod wait;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyModule;

/// The module that the classes say they are of.
const MODULE: &str = "vireo.compat.iree._binding";

/// The native classes and functions of `vireo.compat.iree`, in a module.
#[pyfunction]
pub fn _compat(py: Python<'_>) -> PyResult<Py<PyModule>> {
    static CLASSES: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    CLASSES.get_or_try_init(py, || make(py)).map(|module| module.clone_ref(py))
}

fn make(py: Python<'_>) -> PyResult<Py<PyModule>> {
    let module = PyModule::new(py, MODULE)?;
    module.add_class::<allocator::PyAllocator>()?;
    module.add_class::<bridge::PyLoopBridge>()?;
    module.add_class::<buffer::PyHalBuffer>()?;
    module.add_class::<buffer::PyBufferView>()?;
    module.add_class::<buffer::PyMappedMemory>()?;
    module.add_class::<buffer::PyShape>()?;
    module.add_class::<buffer::PyVmBuffer>()?;
    module.add_class::<command_buffer::PyCommandBuffer>()?;
    module.add_class::<context::PyContext>()?;
    module.add_class::<device::PyDevice>()?;
    module.add_class::<driver::PyDriver>()?;
    module.add_class::<fence::PyHalFence>()?;
    module.add_class::<fence::PySemaphore>()?;
    module.add_class::<file::PyFileHandle>()?;
    module.add_class::<file::PyFileView>()?;
    module.add_class::<list::PyVariantList>()?;
    module.add_class::<module::PyInstance>()?;
    module.add_class::<module::PyVmFunction>()?;
    module.add_class::<module::PyVmModule>()?;
    module.add_class::<object::PyVmObject>()?;
    module.add_class::<object::PyVmRef>()?;
    module.add_class::<parameters::PyParameterIndex>()?;
    module.add_class::<parameters::PyParameterEntry>()?;
    module.add_class::<parameters::PyParameterProvider>()?;
    module.add_class::<python_module::PyModuleInterface>()?;
    module.add_class::<timepoint::PyExternalTimepoint>()?;
    module.add_class::<trace::PyDebugSink>()?;
    module.add_function(wrap_pyfunction!(driver::clear_hal_driver_cache, &module)?)?;
    module.add_function(wrap_pyfunction!(driver::create_hal_driver, &module)?)?;
    module.add_function(wrap_pyfunction!(driver::get_cached_hal_driver, &module)?)?;
    module.add_function(wrap_pyfunction!(flags::parse_flags, &module)?)?;
    module.add_function(wrap_pyfunction!(parameters::create_io_parameters_module, &module)?)?;
    module.add_function(wrap_pyfunction!(trace::create_hal_module, &module)?)?;
    Ok(module.unbind())
}
