//! Libraries, which are loaded once for all contexts, and their kernels.

use std::ffi::c_void;
use std::sync::Arc;

use vireo_cuda::attributes::{FunctionAttribute, JitOption};
use vireo_cuda::result::CuResult;
use vireo_cuda::types::{CChar, CuDevice, CuFunction, CuKernel, CuLibrary, CuModule};
use vireo_soft::pointers;

use super::functions::{parameter, read_attribute, set_attribute};
use super::modules::{Logs, read_file, variable};
use crate::api::{Out, Outcome, refused};
use crate::context::Context;
use crate::image::{LoadError, Texts};
use crate::module::{Function, LibraryKernel, Module, SharedLibrary};
use crate::reports::tell;
use crate::system::{System, current, system};

fn add(system: &'static System, texts: Result<Texts, LoadError>, logs: &Logs) -> Outcome<CuLibrary> {
    let mut texts = texts.map_err(|error| logs.failed(&error))?;
    texts.max_registers = logs.max_registers.or(texts.max_registers);
    let library = Arc::new(SharedLibrary::new(texts));
    // Mistakes in the code are found now where there is a context, else when it is used first.
    if let Ok((_, context)) = current() {
        library.module(system, &context).map_err(|error| logs.failed(&error))?;
    }
    let handle = system.libraries.insert(library.clone());
    let _ = library.handle.set(handle);
    logs.put("");
    Ok(CuLibrary(handle))
}

#[expect(clippy::too_many_arguments, reason = "the function of the library has as many")]
pub(crate) unsafe fn cuLibraryLoadData(
    library: *mut CuLibrary,
    code: *const c_void,
    options: *mut JitOption,
    values: *mut *mut c_void,
    count: u32,
    _library_options: *mut u32,
    _library_values: *mut *mut c_void,
    _library_count: u32,
) -> Outcome {
    let system = system()?;
    // SAFETY: the caller vouches for the pointers.
    let (out, logs) = unsafe { (Out::new(library)?, Logs::new(count, options, values)?) };
    if code.is_null() {
        return Err(CuResult::ERROR_INVALID_VALUE);
    }
    // SAFETY: the caller vouches for the image.
    let texts = unsafe { Texts::at(code.cast(), system.options.sm) };
    out.set(add(system, texts, &logs)?);
    Ok(())
}

#[expect(clippy::too_many_arguments, reason = "the function of the library has as many")]
pub(crate) unsafe fn cuLibraryLoadFromFile(
    library: *mut CuLibrary,
    name: *const CChar,
    options: *mut JitOption,
    values: *mut *mut c_void,
    count: u32,
    _library_options: *mut u32,
    _library_values: *mut *mut c_void,
    _library_count: u32,
) -> Outcome {
    let system = system()?;
    // SAFETY: the caller vouches for the pointers.
    let (out, logs, name) = unsafe {
        (Out::new(library)?, Logs::new(count, options, values)?, pointers::text(name.cast()).map_err(refused)?)
    };
    out.set(add(system, Texts::read(&read_file(&name)?, system.options.sm), &logs)?);
    Ok(())
}

fn known(library: CuLibrary) -> Outcome<(&'static System, Arc<SharedLibrary>)> {
    let system = system()?;
    Ok((system, system.libraries.get(library.0).ok_or(CuResult::ERROR_INVALID_HANDLE)?))
}

fn known_kernel(kernel: CuKernel) -> Outcome<(&'static System, Arc<LibraryKernel>)> {
    let system = system()?;
    Ok((system, system.kernels.get(kernel.0).ok_or(CuResult::ERROR_INVALID_HANDLE)?))
}

/// A context to look into code with: the current one, or the primary one of the first device that has one.
fn any_context(system: &System) -> Outcome<Arc<Context>> {
    let primary = || system.devices.iter().find_map(|device| device.primary().context.clone());
    current().map(|(_, context)| context).or_else(|status| primary().ok_or(status))
}

fn module(system: &'static System, library: &SharedLibrary, context: &Arc<Context>) -> Outcome<Arc<Module>> {
    library.module(system, context).map_err(|error| {
        tell(&error);
        error.status()
    })
}

pub(crate) unsafe fn cuLibraryUnload(library: CuLibrary) -> Outcome {
    let (system, found) = known(library)?;
    system.contexts.all().iter().for_each(|(_, context)| context.drain());
    system.libraries.remove(library.0);
    found.unload(system);
    Ok(())
}

pub(crate) unsafe fn cuLibraryGetKernel(kernel: *mut CuKernel, library: CuLibrary, name: *const CChar) -> Outcome {
    let (system, found) = known(library)?;
    // SAFETY: the caller vouches for the pointers.
    let (out, name) = unsafe { (Out::new(kernel)?, pointers::text(name.cast()).map_err(refused)?) };
    let module = module(system, &found, &any_context(system)?)?;
    module.image.kernel(&name).ok_or(CuResult::ERROR_NOT_FOUND)?;
    out.set(CuKernel(found.kernel(system, &name)));
    Ok(())
}

pub(crate) unsafe fn cuLibraryGetKernelCount(count: *mut u32, library: CuLibrary) -> Outcome {
    let (system, found) = known(library)?;
    // SAFETY: the caller vouches for it.
    let out = unsafe { Out::new(count) }?;
    out.set(module(system, &found, &any_context(system)?)?.image.kernels.len() as u32);
    Ok(())
}

pub(crate) unsafe fn cuLibraryEnumerateKernels(kernels: *mut CuKernel, count: u32, library: CuLibrary) -> Outcome {
    let (system, found) = known(library)?;
    let module = module(system, &found, &any_context(system)?)?;
    for (index, kernel) in module.image.kernels.iter().take(count as usize).enumerate() {
        // SAFETY: the caller guarantees as many elements as it says.
        unsafe { Out::new(kernels.wrapping_add(index)) }?.set(CuKernel(found.kernel(system, &kernel.name)));
    }
    Ok(())
}

pub(crate) unsafe fn cuLibraryGetModule(out: *mut CuModule, library: CuLibrary) -> Outcome {
    let (system, found) = known(library)?;
    let (_, context) = current()?;
    // SAFETY: the caller vouches for it.
    let out = unsafe { Out::new(out) }?;
    let module = module(system, &found, &context)?;
    out.set(CuModule(module.handle.get().copied().unwrap_or(0)));
    Ok(())
}

pub(crate) unsafe fn cuLibraryGetGlobal(
    address: *mut u64,
    size: *mut u64,
    library: CuLibrary,
    name: *const CChar,
) -> Outcome {
    let (system, found) = known(library)?;
    let (_, context) = current()?;
    // SAFETY: the caller vouches for the pointers.
    unsafe { variable(&*module(system, &found, &context)?, address, size, name) }
}

pub(crate) unsafe fn cuLibraryGetManaged(
    address: *mut u64,
    size: *mut u64,
    library: CuLibrary,
    name: *const CChar,
) -> Outcome {
    // SAFETY: the caller vouches for the pointers.
    unsafe { cuLibraryGetGlobal(address, size, library, name) }
}

pub(crate) unsafe fn cuKernelGetFunction(function: *mut CuFunction, kernel: CuKernel) -> Outcome {
    let (system, found) = known_kernel(kernel)?;
    let (_, context) = current()?;
    // SAFETY: the caller vouches for it.
    let out = unsafe { Out::new(function) }?;
    out.set(CuFunction(found.function(system, &context)?));
    Ok(())
}

pub(crate) unsafe fn cuKernelGetLibrary(library: *mut CuLibrary, kernel: CuKernel) -> Outcome {
    let (_, found) = known_kernel(kernel)?;
    // SAFETY: the caller vouches for it.
    unsafe { Out::new(library) }?.set(CuLibrary(found.library.handle.get().copied().unwrap_or(0)));
    Ok(())
}

/// The function of a kernel in a context of a device.
fn function_of(kernel: CuKernel, device: CuDevice) -> Outcome<(&'static System, Arc<Function>)> {
    let (system, found) = known_kernel(kernel)?;
    let primary = system.device(device)?.primary().context.clone();
    let current = current().map(|(_, context)| context).ok().filter(|context| context.device as i32 == device.0);
    let context = current.or(primary).ok_or(CuResult::ERROR_INVALID_CONTEXT)?;
    let handle = found.function(system, &context)?;
    Ok((system, system.functions.get(handle).ok_or(CuResult::ERROR_INVALID_HANDLE)?))
}

pub(crate) unsafe fn cuKernelGetAttribute(
    value: *mut i32,
    attribute: FunctionAttribute,
    kernel: CuKernel,
    device: CuDevice,
) -> Outcome {
    let (system, function) = function_of(kernel, device)?;
    // SAFETY: the caller vouches for it.
    unsafe { Out::new(value) }?.set(read_attribute(system, &function, attribute)?);
    Ok(())
}

pub(crate) unsafe fn cuKernelSetAttribute(
    attribute: FunctionAttribute,
    value: i32,
    kernel: CuKernel,
    device: CuDevice,
) -> Outcome {
    let (system, function) = function_of(kernel, device)?;
    set_attribute(system, &function, attribute, value)
}

pub(crate) unsafe fn cuKernelSetCacheConfig(kernel: CuKernel, _config: u32, device: CuDevice) -> Outcome {
    let (system, _) = known_kernel(kernel)?;
    system.device(device).map(|_| ())
}

pub(crate) unsafe fn cuKernelGetName(name: *mut *const CChar, kernel: CuKernel) -> Outcome {
    let (_, found) = known_kernel(kernel)?;
    // SAFETY: the caller vouches for it. The name lives as long as the kernel.
    unsafe { Out::new(name) }?.set(found.c_name.as_ptr().cast());
    Ok(())
}

pub(crate) unsafe fn cuKernelGetParamCount(kernel: CuKernel, count: *mut u64) -> Outcome {
    let (system, found) = known_kernel(kernel)?;
    // SAFETY: the caller vouches for it.
    let out = unsafe { Out::new(count) }?;
    let module = module(system, &found.library, &any_context(system)?)?;
    let index = module.image.kernel(&found.name).ok_or(CuResult::ERROR_NOT_FOUND)?;
    out.set(module.image.kernels[index].parameters.len() as u64);
    Ok(())
}

pub(crate) unsafe fn cuKernelGetParamInfo(kernel: CuKernel, index: u64, offset: *mut u64, size: *mut u64) -> Outcome {
    let (system, found) = known_kernel(kernel)?;
    let module = module(system, &found.library, &any_context(system)?)?;
    let known = module.image.kernel(&found.name).ok_or(CuResult::ERROR_NOT_FOUND)?;
    // SAFETY: the caller vouches for the pointers.
    unsafe { parameter(&module.image.kernels[known], index, offset, size) }
}
