//! The driver itself: its start, its version, and the names and texts of statuses.

use std::collections::HashMap;
use std::ffi::{CString, c_void};
use std::sync::OnceLock;

use vireo_cuda::result::CuResult;
use vireo_cuda::types::{CChar, CuUuid};

use crate::api::{Out, Outcome};
use crate::reports::tell_once;
use crate::system::{self, start};

pub(crate) unsafe fn cuInit(flags: u32) -> Outcome {
    if flags != 0 {
        return Err(CuResult::ERROR_INVALID_VALUE);
    }
    start()
}

pub(crate) unsafe fn cuDriverGetVersion(version: *mut i32) -> Outcome {
    // SAFETY: the caller vouches for it.
    let out = unsafe { Out::new(version) }?;
    out.set(system::version() as i32);
    Ok(())
}

/// The texts of statuses: the name in C and the sentence.
fn texts() -> &'static HashMap<u32, (CString, CString)> {
    static TEXTS: OnceLock<HashMap<u32, (CString, CString)>> = OnceLock::new();
    TEXTS.get_or_init(|| {
        let c_string = |text: &str| CString::new(text).unwrap_or_default();
        let named = CuResult::NAMED.iter().map(|(status, name)| {
            let message = status.message().unwrap_or(name);
            (status.0, (c_string(&format!("CUDA_{}", name.to_uppercase())), c_string(message)))
        });
        named.collect()
    })
}

/// Puts a text of a status; null for a number that is none.
///
/// # Safety
/// Unless it is null, the pointer is writable.
unsafe fn put(status: CuResult, text: *mut *const CChar, choose: impl Fn(&(CString, CString)) -> &CString) -> Outcome {
    // SAFETY: the caller vouches for it.
    let out = unsafe { Out::new(text) }?;
    let found = texts().get(&status.0);
    out.set(found.map_or(std::ptr::null(), |texts| choose(texts).as_ptr().cast()));
    found.map(|_| ()).ok_or(CuResult::ERROR_INVALID_VALUE)
}

pub(crate) unsafe fn cuGetErrorName(status: CuResult, text: *mut *const CChar) -> Outcome {
    // SAFETY: the caller vouches for it.
    unsafe { put(status, text, |(name, _)| name) }
}

pub(crate) unsafe fn cuGetErrorString(status: CuResult, text: *mut *const CChar) -> Outcome {
    // SAFETY: the caller vouches for it.
    unsafe { put(status, text, |(_, message)| message) }
}

pub(crate) unsafe fn cuGetExportTable(table: *mut *const c_void, id: *const CuUuid) -> Outcome {
    // SAFETY: the caller vouches for it.
    let out = unsafe { Out::new(table) }?;
    if id.is_null() {
        return Err(CuResult::ERROR_INVALID_VALUE);
    }
    out.set(std::ptr::null());
    tell_once("cuGetExportTable", "there are no private tables here, which the CUDA runtime of the vendor needs");
    Err(CuResult::ERROR_NOT_FOUND)
}

pub(crate) unsafe fn cuProfilerStart() -> Outcome {
    system::system().map(|_| ())
}

pub(crate) unsafe fn cuProfilerStop() -> Outcome {
    system::system().map(|_| ())
}
