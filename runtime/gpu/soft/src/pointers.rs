//! Pointers to arguments and results. The functions of a library are called with what C programs have; here it becomes
//! values.

use std::ffi::{CStr, OsString, c_char, c_void};
use std::fs::File;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;

use crate::api::{Api, Refusal};

/// Elements of an array of arguments at most.
const MAX_ELEMENTS: usize = 1 << 20;

/// Where a function puts a result.
pub struct Out<T, A: Api>(*mut T, PhantomData<A>);

impl<T, A: Api> Out<T, A> {
    /// A place that is not null.
    ///
    /// # Errors
    /// If it is null.
    ///
    /// # Safety
    /// Unless it is null, the pointer is writable until the value is dropped.
    pub unsafe fn new(pointer: *mut T) -> Result<Self, A::Status> {
        // SAFETY: the caller promises the same.
        unsafe { Self::optional(pointer) }.ok_or(A::status(Refusal::InvalidArgument))
    }

    /// A place that may be null, where a result is not wanted.
    ///
    /// # Safety
    /// As [`Out::new`].
    pub unsafe fn optional(pointer: *mut T) -> Option<Self> {
        (!pointer.is_null()).then_some(Out(pointer, PhantomData))
    }

    /// Puts the result.
    pub fn set(&self, value: T) {
        // SAFETY: `new` was promised that it is writable. C programs may put it at any address.
        unsafe { self.0.write_unaligned(value) };
    }
}

/// Where a function puts an attribute, whose size its documentation says.
pub struct Attribute<A: Api>(Out<c_void, A>);

impl<A: Api> Attribute<A> {
    /// A place that is not null.
    ///
    /// # Errors
    /// If it is null.
    ///
    /// # Safety
    /// Unless it is null, as many bytes are writable as the documentation of the attribute says, until the value is
    /// dropped.
    pub unsafe fn new(pointer: *mut c_void) -> Result<Self, A::Status> {
        // SAFETY: the caller guarantees that the pointer is null or has the bytes of the attribute.
        unsafe { Out::new(pointer) }.map(Attribute)
    }

    /// Puts the attribute, whose bytes are as many as documented.
    pub fn set(&self, bytes: &[u8]) {
        // SAFETY: `new` was promised that there is room; the bytes are those of another object.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.0.0.cast(), bytes.len()) };
    }
}

/// The elements of an array, which may be null if there are none.
///
/// # Errors
/// If it is null, or has too many elements.
///
/// # Safety
/// Unless it is null, the pointer has that many elements.
pub unsafe fn array<T: Copy>(pointer: *const T, count: usize) -> Result<Vec<T>, Refusal> {
    if count == 0 {
        return Ok(Vec::new());
    }
    if pointer.is_null() || count > MAX_ELEMENTS {
        return Err(Refusal::InvalidArgument);
    }
    // SAFETY: the caller guarantees that the pointer has that many elements, and the index is below the count.
    Ok((0..count).map(|index| unsafe { pointer.add(index).read_unaligned() }).collect())
}

/// A text.
///
/// # Errors
/// If it is null, or not UTF-8.
///
/// # Safety
/// Unless it is null, the pointer has a zero at the end of the text.
pub unsafe fn text(pointer: *const c_char) -> Result<String, Refusal> {
    if pointer.is_null() {
        return Err(Refusal::InvalidArgument);
    }
    // SAFETY: the caller guarantees a zero at the end of the text.
    let text = unsafe { CStr::from_ptr(pointer) };
    text.to_str().map(str::to_string).map_err(|_| Refusal::InvalidArgument)
}

/// The open file of a descriptor with its path, as far as the system tells; none for a number that cannot be one. It
/// stays the program's: nothing here closes it.
///
/// # Safety
/// Nothing closes the descriptor until the file is dropped. A number that is no descriptor is an error of the first
/// use.
#[cfg(unix)]
pub unsafe fn descriptor(number: i32) -> Option<(ManuallyDrop<File>, Option<OsString>)> {
    use std::os::fd::FromRawFd;
    if number < 0 {
        return None;
    }
    // SAFETY: the caller guarantees that the descriptor stays open, and the file is never dropped, so it is not closed
    // twice.
    let file = ManuallyDrop::new(unsafe { File::from_raw_fd(number) });
    let path = std::fs::read_link(format!("/proc/self/fd/{number}"));
    Some((file, path.ok().map(std::path::PathBuf::into_os_string)))
}

/// Descriptors of files exist on Unix only.
///
/// # Safety
/// None is needed.
#[cfg(not(unix))]
pub unsafe fn descriptor(_number: i32) -> Option<(ManuallyDrop<File>, Option<OsString>)> {
    None
}

/// Calls back for each of some values until a call does not succeed, and returns what that one did.
///
/// # Errors
/// The status of that call.
pub fn iterate<T, S: Copy + PartialEq>(
    values: impl IntoIterator<Item = T>,
    success: S,
    mut callback: impl FnMut(T) -> S,
) -> Result<(), S> {
    values.into_iter().map(&mut callback).find(|status| *status != success).map_or(Ok(()), Err)
}
