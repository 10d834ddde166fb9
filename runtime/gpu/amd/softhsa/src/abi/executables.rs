//! Code objects, executables and symbols.

use std::ffi::c_void;
use std::sync::{Arc, PoisonError};

use vireo_hsa::hsa::{
    Agent as AgentHandle, CChar, CodeObjectReader, DefaultFloatRoundingMode, Executable as ExecutableHandle,
    ExecutableSymbol, ExecutableSymbolCallback, ExecutableSymbolInfo, HsaStatus, LoadedCodeObject, Profile,
};

use super::pointers::{Attribute, Out, array, call, descriptor, iterate, text};
use crate::code_object::storage::Storage;
use crate::executable::{Executable, LoadedObject, Symbol};
use crate::status::{Result, tell};
use crate::system::System;

/// The executable with this handle.
pub(super) fn find(system: &System, handle: ExecutableHandle) -> Result<Arc<Executable>> {
    system.executables.get(handle.0).ok_or(HsaStatus::ERROR_INVALID_EXECUTABLE)
}

pub(crate) unsafe extern "C" fn hsa_code_object_reader_create_from_memory(
    code_object: *const c_void,
    size: u64,
    code_object_reader: *mut CodeObjectReader,
) -> HsaStatus {
    call(|system| {
        // SAFETY: the program passes pointers that are null or valid for their types, as the interface of HSA asks.
        let out = unsafe { Out::new(code_object_reader) }?;
        let fits = isize::try_from(size).is_ok_and(|size| size != 0);
        if code_object.is_null() || !fits {
            return Err(HsaStatus::ERROR_INVALID_ARGUMENT);
        }
        let storage = Storage::memory(code_object.expose_provenance() as u64, size);
        out.set(CodeObjectReader(system.readers.insert(Arc::new(storage))));
        Ok(())
    })
}

pub(crate) unsafe extern "C" fn hsa_code_object_reader_create_from_file(
    file: i32,
    code_object_reader: *mut CodeObjectReader,
) -> HsaStatus {
    call(|system| {
        // SAFETY: the program passes pointers that are null or valid for their types, as the interface of HSA asks; the
        // descriptor is its own, or none.
        let (out, file) = unsafe { (Out::new(code_object_reader)?, descriptor(file)) };
        let (file, path) = file.ok_or(HsaStatus::ERROR_INVALID_FILE)?;
        let storage = Storage::file(&file, path).map_err(|error| {
            tell(format_args!("hsa_code_object_reader_create_from_file: {error}"));
            HsaStatus::ERROR_INVALID_FILE
        })?;
        out.set(CodeObjectReader(system.readers.insert(Arc::new(storage))));
        Ok(())
    })
}

pub(crate) unsafe extern "C" fn hsa_code_object_reader_destroy(code_object_reader: CodeObjectReader) -> HsaStatus {
    call(|system| {
        let removed = system.readers.remove(code_object_reader.0);
        removed.map(|_| ()).ok_or(HsaStatus::ERROR_INVALID_CODE_OBJECT_READER)
    })
}

pub(crate) unsafe extern "C" fn hsa_executable_create_alt(
    profile: Profile,
    default_float_rounding_mode: DefaultFloatRoundingMode,
    _options: *const CChar,
    executable: *mut ExecutableHandle,
) -> HsaStatus {
    call(|system| {
        // SAFETY: the program passes pointers that are null or valid for their types, as the interface of HSA asks.
        let out = unsafe { Out::new(executable) }?;
        if profile.name().is_none() || default_float_rounding_mode.name().is_none() {
            return Err(HsaStatus::ERROR_INVALID_ARGUMENT);
        }
        out.set(ExecutableHandle(system.executables.insert(Arc::default())));
        Ok(())
    })
}

pub(crate) unsafe extern "C" fn hsa_executable_load_agent_code_object(
    executable: ExecutableHandle,
    agent: AgentHandle,
    code_object_reader: CodeObjectReader,
    _options: *const CChar,
    loaded_code_object: *mut LoadedCodeObject,
) -> HsaStatus {
    call(|system| {
        // SAFETY: the program passes pointers that are null or valid for their types, as the interface of HSA asks.
        let out = unsafe { Out::optional(loaded_code_object) };
        let (handle, executable) = (executable, find(system, executable)?);
        let agent = system.agent(agent)?;
        if !agent.is_gpu() {
            return Err(HsaStatus::ERROR_INVALID_AGENT);
        }
        let reader = system.readers.get(code_object_reader.0).ok_or(HsaStatus::ERROR_INVALID_CODE_OBJECT_READER)?;
        executable.check_not_frozen()?;
        let copied;
        let bytes = match reader.contents() {
            Some(bytes) => bytes,
            None => {
                let (start, length) = reader.range;
                let pointer: *const u8 = std::ptr::with_exposed_provenance(start as usize);
                // A copy, since the program may change its memory while it is read.
                // SAFETY: the program promised that the code object outlives the reader.
                copied = unsafe { std::slice::from_raw_parts(pointer, length as usize) }.to_vec();
                &copied
            }
        };
        let object = LoadedObject::load(bytes, reader.clone(), agent, handle, &system.topology, &system.memory);
        let object = object.map(Arc::new).map_err(|error| {
            tell(format_args!("{error}"));
            HsaStatus::ERROR_INVALID_CODE_OBJECT
        })?;
        let mut symbols = executable.symbols.lock().unwrap_or_else(PoisonError::into_inner);
        for symbol in object.symbols() {
            symbols.push((system.symbols.insert(symbol.clone()), symbol.clone()));
        }
        executable.add(object.clone());
        let loaded = LoadedCodeObject(system.loaded_objects.insert(object));
        if let Some(out) = out {
            out.set(loaded);
        }
        if !system.runner.runs(&system.topology.isa) {
            tell(format_args!("code for {} is loaded, but nothing here runs its kernels", system.topology.isa));
        }
        Ok(())
    })
}

/// Code objects that need variables from elsewhere are refused, so that only programs find those that they define.
pub(crate) unsafe extern "C" fn hsa_executable_agent_global_variable_define(
    executable: ExecutableHandle,
    agent: AgentHandle,
    variable_name: *const CChar,
    address: *mut c_void,
) -> HsaStatus {
    call(|system| {
        // SAFETY: the program passes pointers that are null or valid for their types, as the interface of HSA asks.
        let name = unsafe { text(variable_name) }?;
        let executable = find(system, executable)?;
        let agent = system.agent(agent)?.handle();
        let address = address.expose_provenance() as u64;
        if name.is_empty() || address == 0 {
            return Err(HsaStatus::ERROR_INVALID_ARGUMENT);
        }
        executable.define(Symbol::variable(name, agent, address), |symbol| system.symbols.insert(symbol))
    })
}

pub(crate) unsafe extern "C" fn hsa_executable_freeze(
    executable: ExecutableHandle,
    _options: *const CChar,
) -> HsaStatus {
    call(|system| find(system, executable)?.freeze())
}

/// A code object is checked when it is loaded, so an executable is always right.
pub(crate) unsafe extern "C" fn hsa_executable_validate_alt(
    executable: ExecutableHandle,
    _options: *const CChar,
    result: *mut u32,
) -> HsaStatus {
    call(|system| {
        // SAFETY: the program passes pointers that are null or valid for their types, as the interface of HSA asks.
        let out = unsafe { Out::new(result) }?;
        find(system, executable)?;
        out.set(0);
        Ok(())
    })
}

pub(crate) unsafe extern "C" fn hsa_executable_destroy(executable: ExecutableHandle) -> HsaStatus {
    call(|system| {
        let removed = system.executables.remove(executable.0).ok_or(HsaStatus::ERROR_INVALID_EXECUTABLE)?;
        for (handle, _) in &*removed.symbols.lock().unwrap_or_else(PoisonError::into_inner) {
            system.symbols.remove(*handle);
        }
        for (handle, object) in system.loaded_objects.all() {
            if object.executable == executable {
                system.loaded_objects.remove(handle);
            }
        }
        removed.unload(&system.memory);
        Ok(())
    })
}

pub(crate) unsafe extern "C" fn hsa_executable_get_symbol_by_name(
    executable: ExecutableHandle,
    symbol_name: *const CChar,
    agent: *const AgentHandle,
    symbol: *mut ExecutableSymbol,
) -> HsaStatus {
    call(|system| {
        // SAFETY: the program passes pointers that are null or valid for their types, as the interface of HSA asks.
        let (out, name) = unsafe { (Out::new(symbol)?, text(symbol_name)?) };
        // SAFETY: the program passes pointers that are null or valid for their types, as the interface of HSA asks; a
        // null pointer stands for any agent.
        let agent = unsafe { array(agent, usize::from(!agent.is_null())) }?.first().copied();
        if let Some(agent) = agent {
            system.agent(agent)?;
        }
        out.set(ExecutableSymbol(find(system, executable)?.symbol(&name, agent)?));
        Ok(())
    })
}

pub(crate) unsafe extern "C" fn hsa_executable_symbol_get_info(
    executable_symbol: ExecutableSymbol,
    attribute: ExecutableSymbolInfo,
    value: *mut c_void,
) -> HsaStatus {
    call(|system| {
        // SAFETY: the program passes pointers that are null or valid for their types, as the interface of HSA asks.
        let value = unsafe { Attribute::new(value) }?;
        let symbol = system.symbols.get(executable_symbol.0).ok_or(HsaStatus::ERROR_INVALID_EXECUTABLE_SYMBOL)?;
        value.set(&symbol.info(attribute)?);
        Ok(())
    })
}

pub(crate) unsafe extern "C" fn hsa_executable_iterate_agent_symbols(
    executable: ExecutableHandle,
    agent: AgentHandle,
    callback: Option<ExecutableSymbolCallback>,
    data: *mut c_void,
) -> HsaStatus {
    call(|system| {
        let callback = callback.ok_or(HsaStatus::ERROR_INVALID_ARGUMENT)?;
        system.agent(agent)?;
        let symbols = find(system, executable)?.symbols_of(agent);
        // SAFETY: the program gave the function to be called with its argument.
        iterate(symbols, |symbol| unsafe { callback(executable, agent, ExecutableSymbol(symbol), data) })
    })
}
