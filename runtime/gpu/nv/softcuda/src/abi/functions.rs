//! Functions: their attributes and parameters.

use std::sync::Arc;

use vireo_cuda::attributes::{DeviceAttribute, FunctionAttribute};
use vireo_cuda::result::CuResult;
use vireo_cuda::types::{CChar, CuFunction, CuModule, FUNCTION_LOADED};

use crate::api::{Out, Outcome};
use crate::image::Kernel;
use crate::launch::dynamic_limit;
use crate::module::Function;
use crate::system::{System, current_whatever, system};

/// The function with a handle, which may be that of a kernel of a library: its function in the current context.
pub(super) fn known(function: CuFunction) -> Outcome<(&'static System, Arc<Function>)> {
    let system = system()?;
    if let Some(found) = system.functions.get(function.0) {
        return Ok((system, found));
    }
    let kernel = system.kernels.get(function.0).ok_or(CuResult::ERROR_INVALID_HANDLE)?;
    let (_, context) = current_whatever()?;
    let handle = kernel.function(system, &context)?;
    Ok((system, system.functions.get(handle).ok_or(CuResult::ERROR_INVALID_HANDLE)?))
}

/// The value of an attribute.
pub(super) fn read_attribute(system: &System, function: &Function, attribute: FunctionAttribute) -> Outcome<i32> {
    let (kernel, device) = (function.kernel(), &system.devices[function.module.context.device as usize]);
    let value = match attribute {
        FunctionAttribute::MAX_THREADS_PER_BLOCK => {
            kernel.max_threads.min(device.attribute(DeviceAttribute::MAX_THREADS_PER_BLOCK))
        }
        FunctionAttribute::SHARED_SIZE_BYTES => kernel.shared,
        FunctionAttribute::CONST_SIZE_BYTES => kernel.constant,
        FunctionAttribute::LOCAL_SIZE_BYTES => kernel.local,
        FunctionAttribute::NUM_REGS => kernel.registers,
        FunctionAttribute::PTX_VERSION | FunctionAttribute::BINARY_VERSION => system.options.sm,
        FunctionAttribute::MAX_DYNAMIC_SHARED_SIZE_BYTES => dynamic_limit(function, device),
        FunctionAttribute::PREFERRED_SHARED_MEMORY_CARVEOUT => return Ok(function.settings().carveout),
        _ if attribute.name().is_some() => 0,
        _ => return Err(CuResult::ERROR_INVALID_VALUE),
    };
    Ok(value as i32)
}

/// Sets an attribute.
pub(super) fn set_attribute(system: &System, function: &Function, attribute: FunctionAttribute, value: i32) -> Outcome {
    let device = &system.devices[function.module.context.device as usize];
    match attribute {
        FunctionAttribute::MAX_DYNAMIC_SHARED_SIZE_BYTES => {
            let most = device.attribute(DeviceAttribute::MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
            let most = most.saturating_sub(function.kernel().shared);
            let value = u32::try_from(value).ok().filter(|value| *value <= most);
            function.settings().dynamic_shared = Some(value.ok_or(CuResult::ERROR_INVALID_VALUE)?);
        }
        FunctionAttribute::PREFERRED_SHARED_MEMORY_CARVEOUT if (-1..=100).contains(&value) => {
            function.settings().carveout = value;
        }
        _ => return Err(CuResult::ERROR_INVALID_VALUE),
    }
    Ok(())
}

/// Puts the offset and the size of a parameter.
///
/// # Safety
/// The pointers are null or writable.
pub(super) unsafe fn parameter(kernel: &Kernel, index: u64, offset: *mut u64, size: *mut u64) -> Outcome {
    // SAFETY: the caller vouches for both.
    let (offset, size) = unsafe { (Out::new(offset)?, Out::optional(size)) };
    let index = usize::try_from(index).map_err(|_| CuResult::ERROR_INVALID_VALUE)?;
    let found = kernel.parameters.get(index).ok_or(CuResult::ERROR_INVALID_VALUE)?;
    offset.set(found.offset.into());
    size.iter().for_each(|out| out.set(found.size.into()));
    Ok(())
}

pub(crate) unsafe fn cuFuncGetAttribute(
    value: *mut i32,
    attribute: FunctionAttribute,
    function: CuFunction,
) -> Outcome {
    let (system, found) = known(function)?;
    // SAFETY: the caller vouches for it.
    unsafe { Out::new(value) }?.set(read_attribute(system, &found, attribute)?);
    Ok(())
}

pub(crate) unsafe fn cuFuncSetAttribute(function: CuFunction, attribute: FunctionAttribute, value: i32) -> Outcome {
    let (system, found) = known(function)?;
    set_attribute(system, &found, attribute, value)
}

pub(crate) unsafe fn cuFuncSetCacheConfig(function: CuFunction, _config: u32) -> Outcome {
    known(function).map(|_| ())
}

pub(crate) unsafe fn cuFuncSetSharedMemConfig(function: CuFunction, _config: u32) -> Outcome {
    known(function).map(|_| ())
}

pub(crate) unsafe fn cuFuncGetModule(module: *mut CuModule, function: CuFunction) -> Outcome {
    let (_, found) = known(function)?;
    // SAFETY: the caller vouches for it.
    unsafe { Out::new(module) }?.set(CuModule(found.module.handle.get().copied().unwrap_or(0)));
    Ok(())
}

pub(crate) unsafe fn cuFuncGetName(name: *mut *const CChar, function: CuFunction) -> Outcome {
    let (_, found) = known(function)?;
    // SAFETY: the caller vouches for it. The name lives as long as the function.
    unsafe { Out::new(name) }?.set(found.name.as_ptr().cast());
    Ok(())
}

pub(crate) unsafe fn cuFuncGetParamCount(function: CuFunction, count: *mut u64) -> Outcome {
    let (_, found) = known(function)?;
    // SAFETY: the caller vouches for it.
    unsafe { Out::new(count) }?.set(found.kernel().parameters.len() as u64);
    Ok(())
}

pub(crate) unsafe fn cuFuncGetParamInfo(function: CuFunction, index: u64, offset: *mut u64, size: *mut u64) -> Outcome {
    let (_, found) = known(function)?;
    // SAFETY: the caller vouches for the pointers.
    unsafe { parameter(found.kernel(), index, offset, size) }
}

pub(crate) unsafe fn cuFuncIsLoaded(state: *mut u32, function: CuFunction) -> Outcome {
    known(function)?;
    // SAFETY: the caller vouches for it.
    unsafe { Out::new(state) }?.set(FUNCTION_LOADED);
    Ok(())
}

pub(crate) unsafe fn cuFuncLoad(function: CuFunction) -> Outcome {
    known(function).map(|_| ())
}
