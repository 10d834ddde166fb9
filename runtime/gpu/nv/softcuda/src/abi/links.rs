//! Linking: PTX texts become one image of this library, which loaders take.

use std::ffi::c_void;
use std::sync::{Arc, PoisonError};

use vireo_cuda::attributes::{JitInputType, JitOption};
use vireo_cuda::result::CuResult;
use vireo_cuda::types::{CChar, CuLinkState};
use vireo_soft::pointers;

use super::modules::{Logs, read_file};
use crate::api::{Out, Outcome, refused};
use crate::image::{LoadError, Texts};
use crate::module::LinkState;
use crate::system::{System, current};

/// Bytes that are added at most.
const MAX_SIZE: u64 = 1 << 30;

pub(crate) unsafe fn cuLinkCreate_v2(
    count: u32,
    options: *mut JitOption,
    values: *mut *mut c_void,
    state: *mut CuLinkState,
) -> Outcome {
    let (system, _) = current()?;
    // SAFETY: the caller vouches for the pointers.
    let (out, logs) = unsafe { (Out::new(state)?, Logs::new(count, options, values)?) };
    logs.put("");
    let created = LinkState { max_registers: logs.max_registers, ..LinkState::default() };
    out.set(CuLinkState(system.links.insert(Arc::new(created))));
    Ok(())
}

fn known(state: CuLinkState) -> Outcome<(&'static System, Arc<LinkState>)> {
    let (system, _) = current()?;
    Ok((system, system.links.get(state.0).ok_or(CuResult::ERROR_INVALID_HANDLE)?))
}

fn add(system: &System, state: &LinkState, kind: JitInputType, name: &str, bytes: &[u8], logs: &Logs) -> Outcome {
    let is_code = matches!(
        kind,
        JitInputType::PTX
            | JitInputType::FATBINARY
            | JitInputType::CUBIN
            | JitInputType::OBJECT
            | JitInputType::LIBRARY
    );
    if !is_code {
        let what = kind.name().unwrap_or("of an unknown kind");
        return Err(logs.failed(&LoadError::MachineCode(format!("the input ({what})"))));
    }
    let texts = Texts::read_named(bytes, name, system.options.sm).map_err(|error| logs.failed(&error))?;
    state.texts.lock().unwrap_or_else(PoisonError::into_inner).extend(texts.texts);
    Ok(())
}

#[expect(clippy::too_many_arguments, reason = "the function of the library has as many")]
pub(crate) unsafe fn cuLinkAddData_v2(
    state: CuLinkState,
    kind: JitInputType,
    data: *mut c_void,
    size: u64,
    name: *const CChar,
    count: u32,
    options: *mut JitOption,
    values: *mut *mut c_void,
) -> Outcome {
    let (system, found) = known(state)?;
    // SAFETY: the caller vouches for the pointers.
    let logs = unsafe { Logs::new(count, options, values)? };
    if data.is_null() || size == 0 || size > MAX_SIZE {
        return Err(CuResult::ERROR_INVALID_VALUE);
    }
    // SAFETY: the caller guarantees the bytes, and does not change them during the call.
    let bytes = unsafe { std::slice::from_raw_parts(data.cast::<u8>(), size as usize) };
    // SAFETY: the caller guarantees a name, or null.
    let name = unsafe { pointers::text(name.cast()) }.unwrap_or_default();
    add(system, &found, kind, &name, bytes, &logs)
}

pub(crate) unsafe fn cuLinkAddFile_v2(
    state: CuLinkState,
    kind: JitInputType,
    path: *const CChar,
    count: u32,
    options: *mut JitOption,
    values: *mut *mut c_void,
) -> Outcome {
    let (system, found) = known(state)?;
    // SAFETY: the caller vouches for the pointers.
    let (logs, path) = unsafe { (Logs::new(count, options, values)?, pointers::text(path.cast()).map_err(refused)?) };
    add(system, &found, kind, &path, &read_file(&path)?, &logs)
}

pub(crate) unsafe fn cuLinkCreate(
    count: u32,
    options: *mut JitOption,
    values: *mut *mut c_void,
    state: *mut CuLinkState,
) -> Outcome {
    // SAFETY: the caller vouches for the pointers.
    unsafe { cuLinkCreate_v2(count, options, values, state) }
}

#[expect(clippy::too_many_arguments, reason = "the function of the library has as many")]
pub(crate) unsafe fn cuLinkAddData(
    state: CuLinkState,
    kind: JitInputType,
    data: *mut c_void,
    size: u64,
    name: *const CChar,
    count: u32,
    options: *mut JitOption,
    values: *mut *mut c_void,
) -> Outcome {
    // SAFETY: the caller vouches for the pointers.
    unsafe { cuLinkAddData_v2(state, kind, data, size, name, count, options, values) }
}

pub(crate) unsafe fn cuLinkAddFile(
    state: CuLinkState,
    kind: JitInputType,
    path: *const CChar,
    count: u32,
    options: *mut JitOption,
    values: *mut *mut c_void,
) -> Outcome {
    // SAFETY: the caller vouches for the pointers.
    unsafe { cuLinkAddFile_v2(state, kind, path, count, options, values) }
}

pub(crate) unsafe fn cuLinkComplete(state: CuLinkState, image: *mut *mut c_void, size: *mut u64) -> Outcome {
    let (_, found) = known(state)?;
    // SAFETY: the caller vouches for the pointers.
    let (image, size) = unsafe { (Out::new(image)?, Out::optional(size)) };
    let bytes = found.image.get_or_init(|| {
        let texts = found.texts.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Texts { texts, max_registers: found.max_registers }.linked()
    });
    image.set(bytes.as_ptr().cast_mut().cast());
    size.iter().for_each(|out| out.set(bytes.len() as u64));
    Ok(())
}

pub(crate) unsafe fn cuLinkDestroy(state: CuLinkState) -> Outcome {
    let (system, _) = known(state)?;
    system.links.remove(state.0);
    Ok(())
}
