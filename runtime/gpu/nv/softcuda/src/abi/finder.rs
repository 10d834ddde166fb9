//! The finder of functions by name and version.

use std::ffi::c_void;

use vireo_cuda::entries;
use vireo_cuda::result::CuResult;
use vireo_cuda::types::{CChar, PROC_ADDRESS_PER_THREAD, SymbolQuery};
use vireo_soft::pointers;

use crate::api::{Out, Outcome, refused};
use crate::generated::entries::ENTRIES;
use crate::system;

/// The address of the function `name` at a version, or why there is none.
fn find(name: &str, version: i32, per_thread: bool) -> Result<*const (), SymbolQuery> {
    // Functions of later releases are not found, as a driver of this version does not have them.
    let version = i64::from(version).min(system::version().into());
    entries::find(ENTRIES, name, version, per_thread)
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
