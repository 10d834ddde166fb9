//! Modules: their loading, with the options of a loader, and what is in them.

use std::ffi::c_void;
use std::sync::Arc;

use vireo_cuda::attributes::JitOption;
use vireo_cuda::result::CuResult;
use vireo_cuda::types::{CChar, CuFunction, CuModule, MODULE_LAZY_LOADING};
use vireo_soft::pointers;

use crate::api::{Out, Outcome, refused};
use crate::context::Context;
use crate::image::{LoadError, Texts};
use crate::module::Module;
use crate::reports::tell;
use crate::system::{System, current, system};

/// Options of a loader at most.
const MAX_OPTIONS: u32 = 64;

/// The options of a loader: its log buffers, and the limit of registers. Sizes are in words that are read and written.
pub(super) struct Logs {
    errors: Option<(*mut CChar, *mut *mut c_void)>,
    infos: Option<*mut *mut c_void>,
    /// Registers of a thread at most, if the options limit them.
    pub(super) max_registers: Option<u32>,
}

impl Logs {
    /// Reads the options.
    ///
    /// # Errors
    /// INVALID_VALUE if they are missing or too many.
    ///
    /// # Safety
    /// Both lists have `count` elements, and buffers that they name have the sizes that they name.
    pub(super) unsafe fn new(count: u32, options: *mut JitOption, values: *mut *mut c_void) -> Outcome<Self> {
        let mut logs = Logs { errors: None, infos: None, max_registers: None };
        if count > MAX_OPTIONS || count != 0 && (options.is_null() || values.is_null()) {
            return Err(CuResult::ERROR_INVALID_VALUE);
        }
        let mut buffer = std::ptr::null_mut();
        for index in 0..count as usize {
            // SAFETY: the caller guarantees the elements.
            let (option, value) = unsafe { (options.add(index).read_unaligned(), values.add(index)) };
            match option {
                // SAFETY: the caller guarantees the elements of both lists.
                JitOption::ERROR_LOG_BUFFER => buffer = unsafe { value.read_unaligned() }.cast(),
                JitOption::ERROR_LOG_BUFFER_SIZE_BYTES => logs.errors = Some((buffer, value)),
                JitOption::INFO_LOG_BUFFER_SIZE_BYTES => logs.infos = Some(value),
                JitOption::MAX_REGISTERS => {
                    // SAFETY: the caller guarantees the elements of both lists; numbers are low halves of pointers.
                    logs.max_registers =
                        Some(unsafe { value.read_unaligned() }.addr() as u32).filter(|most| *most != 0);
                }
                _ => {}
            }
        }
        if let Some((known, _)) = &mut logs.errors {
            *known = buffer;
        }
        Ok(logs)
    }

    /// Puts the text of an error into the buffer, and how many bytes that took into its size.
    pub(super) fn put(&self, text: &str) {
        if let Some(size) = self.infos {
            // SAFETY: `new` was promised that it is an element of the list.
            unsafe { size.write_unaligned(std::ptr::null_mut()) };
        }
        let Some((buffer, size)) = self.errors else { return };
        // SAFETY: `new` was promised that it is an element of the list. Sizes are in the low half of a pointer.
        let room = unsafe { size.read_unaligned() }.addr() & u32::MAX as usize;
        let mut written = 0;
        if !buffer.is_null() && room != 0 {
            written = text.len().min(room - 1);
            for (index, byte) in text.bytes().take(written).chain([0]).enumerate() {
                // SAFETY: `new` was promised that the buffer has as many bytes as its size says.
                unsafe { buffer.add(index).write(CChar(byte)) };
            }
        }
        // SAFETY: `new` was promised that it is an element of the list.
        unsafe { size.write_unaligned(std::ptr::without_provenance_mut(written)) };
    }

    /// Tells why something cannot be loaded.
    pub(super) fn failed(&self, error: &LoadError) -> CuResult {
        self.put(&error.to_string());
        tell(error);
        error.status()
    }
}

/// Loads a module of an image.
///
/// # Safety
/// The pointers are as documented.
unsafe fn load(
    module: *mut CuModule,
    image: *const c_void,
    options: (u32, *mut JitOption, *mut *mut c_void),
) -> Outcome {
    let (system, context) = current()?;
    // SAFETY: the caller vouches for the pointers.
    let (out, logs) = unsafe { (Out::new(module)?, Logs::new(options.0, options.1, options.2)?) };
    if image.is_null() {
        return Err(CuResult::ERROR_INVALID_VALUE);
    }
    // SAFETY: the caller vouches for the image.
    let texts = unsafe { Texts::at(image.cast(), system.options.sm) };
    out.set(add(system, &context, texts, &logs)?);
    Ok(())
}

fn add(
    system: &'static System,
    context: &Arc<Context>,
    texts: Result<Texts, LoadError>,
    logs: &Logs,
) -> Outcome<CuModule> {
    let loaded = texts.and_then(|mut texts| {
        texts.max_registers = logs.max_registers.or(texts.max_registers);
        Module::load(system, context, &texts)
    });
    let (handle, _) = loaded.map_err(|error| logs.failed(&error))?;
    logs.put("");
    Ok(CuModule(handle))
}

pub(crate) unsafe fn cuModuleLoad(module: *mut CuModule, name: *const CChar) -> Outcome {
    let (system, context) = current()?;
    // SAFETY: the caller vouches for the pointers.
    let (out, name) = unsafe { (Out::new(module)?, pointers::text(name.cast()).map_err(refused)?) };
    let texts = Texts::read(&read_file(&name)?, system.options.sm);
    out.set(add(system, &context, texts, &Logs { errors: None, infos: None, max_registers: None })?);
    Ok(())
}

/// The bytes of a file.
pub(super) fn read_file(name: &str) -> Outcome<Vec<u8>> {
    std::fs::read(name).map_err(|error| {
        tell(format_args!("{name}: {error}"));
        CuResult::ERROR_FILE_NOT_FOUND
    })
}

pub(crate) unsafe fn cuModuleLoadData(module: *mut CuModule, image: *const c_void) -> Outcome {
    // SAFETY: the caller vouches for the pointers.
    unsafe { load(module, image, (0, std::ptr::null_mut(), std::ptr::null_mut())) }
}

pub(crate) unsafe fn cuModuleLoadDataEx(
    module: *mut CuModule,
    image: *const c_void,
    count: u32,
    options: *mut JitOption,
    values: *mut *mut c_void,
) -> Outcome {
    // SAFETY: the caller vouches for the pointers.
    unsafe { load(module, image, (count, options, values)) }
}

pub(crate) unsafe fn cuModuleLoadFatBinary(module: *mut CuModule, image: *const c_void) -> Outcome {
    // SAFETY: the caller vouches for the pointers.
    unsafe { load(module, image, (0, std::ptr::null_mut(), std::ptr::null_mut())) }
}

/// The module with a handle.
fn known(module: CuModule) -> Outcome<(&'static System, Arc<Module>)> {
    let system = system()?;
    Ok((system, system.modules.get(module.0).ok_or(CuResult::ERROR_INVALID_HANDLE)?))
}

pub(crate) unsafe fn cuModuleUnload(module: CuModule) -> Outcome {
    let (system, found) = known(module)?;
    // Kernels that run use its variables.
    found.context.drain();
    found.unload(system);
    Ok(())
}

pub(crate) unsafe fn cuModuleGetFunction(function: *mut CuFunction, module: CuModule, name: *const CChar) -> Outcome {
    let (system, found) = known(module)?;
    // SAFETY: the caller vouches for the pointers.
    let (out, name) = unsafe { (Out::new(function)?, pointers::text(name.cast()).map_err(refused)?) };
    let index = found.image.kernel(&name).ok_or(CuResult::ERROR_NOT_FOUND)?;
    out.set(CuFunction(found.function(system, index)));
    Ok(())
}

pub(crate) unsafe fn cuModuleGetFunctionCount(count: *mut u32, module: CuModule) -> Outcome {
    let (_, found) = known(module)?;
    // SAFETY: the caller vouches for it.
    unsafe { Out::new(count) }?.set(found.image.kernels.len() as u32);
    Ok(())
}

pub(crate) unsafe fn cuModuleEnumerateFunctions(functions: *mut CuFunction, count: u32, module: CuModule) -> Outcome {
    let (system, found) = known(module)?;
    for index in 0..found.image.kernels.len().min(count as usize) {
        // SAFETY: the caller guarantees as many elements as it says.
        unsafe { Out::new(functions.wrapping_add(index)) }?.set(CuFunction(found.function(system, index)));
    }
    Ok(())
}

/// Puts the address and the size of a variable; both are optional, but not both may be absent.
///
/// # Safety
/// The pointers are null or writable, and the name has a zero at its end.
pub(super) unsafe fn variable(module: &Module, address: *mut u64, size: *mut u64, name: *const CChar) -> Outcome {
    // SAFETY: the caller vouches for the pointers.
    let (address, size, name) =
        unsafe { (Out::optional(address), Out::optional(size), pointers::text(name.cast()).map_err(refused)?) };
    let found = module.image.variables.iter().find(|(known, ..)| *known == name);
    let (_, start, length) = found.ok_or(CuResult::ERROR_NOT_FOUND)?;
    address.iter().for_each(|out| out.set(*start));
    size.iter().for_each(|out| out.set(*length));
    Ok(())
}

pub(crate) unsafe fn cuModuleGetGlobal_v2(
    address: *mut u64,
    size: *mut u64,
    module: CuModule,
    name: *const CChar,
) -> Outcome {
    let (_, found) = known(module)?;
    // SAFETY: the caller vouches for the pointers.
    unsafe { variable(&found, address, size, name) }
}

pub(crate) unsafe fn cuModuleGetLoadingMode(mode: *mut u32) -> Outcome {
    system()?;
    // SAFETY: the caller vouches for it.
    unsafe { Out::new(mode) }?.set(MODULE_LAZY_LOADING);
    Ok(())
}
