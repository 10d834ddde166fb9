//! Pointers to arguments and results. The functions of the library are called with what C programs have; here, and in
//! the crate `vireo-soft`, it becomes values.

use std::sync::Arc;

use vireo_hsa::hsa::{CChar, HsaStatus};
use vireo_soft::api::Api;
use vireo_soft::pointers;

pub(super) use vireo_soft::pointers::descriptor;

use crate::api::Hsa;
pub(super) use crate::api::{Attribute, Out};
use crate::status::{Result, code};
use crate::system::{System, system};

/// Runs the body of a function that needs the system.
pub(super) fn call(body: impl FnOnce(&Arc<System>) -> Result<()>) -> HsaStatus {
    code(system().and_then(|system| body(&system)))
}

/// The elements of an array, which may be null if there are none.
///
/// # Safety
/// Unless it is null, the pointer has that many elements.
pub(super) unsafe fn array<T: Copy>(pointer: *const T, count: usize) -> Result<Vec<T>> {
    // SAFETY: the caller promises the same.
    unsafe { pointers::array(pointer, count) }.map_err(Hsa::status)
}

/// A text.
///
/// # Safety
/// Unless it is null, the pointer has a zero at the end of the text.
pub(super) unsafe fn text(pointer: *const CChar) -> Result<String> {
    // SAFETY: the caller promises the same; a `CChar` is a `char` of C.
    unsafe { pointers::text(pointer.cast()) }.map_err(Hsa::status)
}

/// Calls back for each of some values until a call does not succeed, and returns what that one did.
pub(super) fn iterate<T>(values: impl IntoIterator<Item = T>, callback: impl FnMut(T) -> HsaStatus) -> Result<()> {
    pointers::iterate(values, HsaStatus::SUCCESS, callback)
}
