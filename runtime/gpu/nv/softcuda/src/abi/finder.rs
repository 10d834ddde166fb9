//! The finder of functions by name and version.

use std::ffi::c_void;

use vireo_cuda::result::CuResult;
use vireo_cuda::types::{CChar, PROC_ADDRESS_PER_THREAD, SymbolQuery};
use vireo_soft::pointers;

use crate::api::{Out, Outcome, refused};
use crate::generated::entries::ENTRIES;
use crate::system;

/// The address of the function `name` at a version, or why there is none.
fn find(name: &str, version: i32, per_thread: bool) -> Result<*const (), SymbolQuery> {
    let named = ENTRIES.iter().filter(|entry| entry.name == name);
    // Functions of later releases are not found, as a driver of this version does not have them.
    let version = i64::from(version).min(system::version().into());
    let mut is_known = false;
    let mut best: Option<(u32, bool, *const ())> = None;
    for entry in named {
        is_known = true;
        if i64::from(entry.version) > version || entry.per_thread && !per_thread {
            continue;
        }
        // Of one version, the variant for the stream of the thread is better, if it is asked for.
        if best.is_none_or(|(known, thread, _)| (known, thread) < (entry.version, entry.per_thread)) {
            best = Some((entry.version, entry.per_thread, entry.address));
        }
    }
    match best {
        Some((_, _, address)) => Ok(address),
        None if is_known => Err(SymbolQuery::VERSION_NOT_SUFFICIENT),
        None => Err(SymbolQuery::SYMBOL_NOT_FOUND),
    }
}

pub(crate) unsafe fn cuGetProcAddress(
    symbol: *const CChar,
    address: *mut *mut c_void,
    version: i32,
    flags: u64,
) -> Outcome {
    // SAFETY: the caller vouches for the pointers.
    unsafe { cuGetProcAddress_v2(symbol, address, version, flags, std::ptr::null_mut()) }
}

pub(crate) unsafe fn cuGetProcAddress_v2(
    symbol: *const CChar,
    address: *mut *mut c_void,
    version: i32,
    flags: u64,
    symbol_status: *mut SymbolQuery,
) -> Outcome {
    // SAFETY: the caller vouches for the pointers.
    let (name, out, status) =
        unsafe { (pointers::text(symbol.cast()).map_err(refused)?, Out::new(address)?, Out::optional(symbol_status)) };
    let found = find(&name, version, flags & PROC_ADDRESS_PER_THREAD != 0);
    out.set(found.map_or(std::ptr::null_mut(), |address| address.cast_mut().cast()));
    let query = found.err().unwrap_or(SymbolQuery::SUCCESS);
    let has_status = status.inspect(|status| status.set(query)).is_some();
    match found {
        Ok(_) => Ok(()),
        // Programs that take the status of the look-up read it there.
        Err(_) if has_status => Ok(()),
        Err(_) => Err(CuResult::ERROR_NOT_FOUND),
    }
}
