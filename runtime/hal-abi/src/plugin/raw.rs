//! Raw values at the boundary: owned lists, objects, owners, callbacks and deadlines, all `#[repr(C)]`.
//! [`super::convert`] makes and reads them.
//!
//! **Ownership.** Arguments are borrowed: a callee that keeps an object retains it. Results are owned by the caller,
//! which releases them when it has read them. The exceptions are errors and callbacks, which the receiver owns, and
//! text results, which are borrowed from the object whose method returned them.

use std::ffi::c_void;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use super::slice::RawSlice;
use super::status::{RawStatus, into_raw, take};
use crate::status::Result;

/// A callback in Rust.
pub type Callback = Box<dyn FnOnce(Result<()>) + Send>;

/// The header of every vtable.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Header {
    /// [`DRIVER_ABI_VERSION`](crate::DRIVER_ABI_VERSION) of the library that made the object.
    pub abi_version: u32,
    /// The kind of object: the `id` in its spec.
    pub object: u32,
    /// Bytes of the vtable. A library with fewer methods has a smaller one.
    pub size: u64,
    /// An address in the library that made the object, by which it recognises its own objects when they come back.
    pub library: *const c_void,
    /// Adds a reference to the object.
    pub retain: unsafe extern "C" fn(data: *mut c_void),
    /// Removes a reference from the object and frees it with the last one.
    pub release: unsafe extern "C" fn(data: *mut c_void),
}

/// A reference to an object of another library: its vtable, which begins with a [`Header`], and the argument `this` of
/// its methods.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RawObject {
    /// The vtable; null where there is no object.
    pub vtable: *const Header,
    /// Opaque to other libraries.
    pub data: *mut c_void,
}

impl RawObject {
    /// No object.
    pub const NULL: RawObject = RawObject { vtable: std::ptr::null(), data: std::ptr::null_mut() };
}

/// A list of values that its holder owns.
#[repr(C)]
#[derive(Debug)]
pub struct RawList<T> {
    /// The first value; may be null if there is none.
    pub data: *mut T,
    /// Number of values.
    pub length: usize,
    /// Frees the memory of the list, not what its values own; null if there is nothing to free.
    pub free: Option<unsafe extern "C" fn(data: *mut c_void, length: usize)>,
}

impl<T> Clone for RawList<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for RawList<T> {}

impl<T: Copy> RawList<T> {
    /// Takes over `values`.
    pub fn new(values: Box<[T]>) -> RawList<T> {
        unsafe extern "C" fn free<T>(data: *mut c_void, length: usize) {
            let values = std::ptr::slice_from_raw_parts_mut(data.cast::<T>(), length);
            // SAFETY: both come from the box that `new` took over, and a list is freed once.
            drop(unsafe { Box::from_raw(values) });
        }
        let length = values.len();
        RawList { data: Box::into_raw(values).cast(), length, free: Some(free::<T>) }
    }

    /// The values.
    ///
    /// # Errors
    /// As [`RawSlice::get`].
    ///
    /// # Safety
    /// As for [`RawSlice::get`].
    pub unsafe fn get<'a>(self) -> Result<&'a [T]> {
        let slice = RawSlice { data: self.data.cast_const(), length: self.length };
        // SAFETY: the caller guarantees that the slice points to values that stay as they are.
        unsafe { slice.get() }
    }

    /// Frees the list.
    ///
    /// # Safety
    /// The list is not used after this.
    pub unsafe fn free(self) {
        if let Some(free) = self.free {
            // SAFETY: the caller guarantees that the list is not used after this.
            unsafe { free(self.data.cast(), self.length) };
        }
    }
}

/// An owner, which keeps memory alive.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RawOwner {
    /// Opaque; an argument of the functions.
    pub data: *mut c_void,
    /// Adds a reference; null where there is no owner.
    pub retain: Option<unsafe extern "C" fn(data: *mut c_void)>,
    /// Removes a reference; null where there is no owner.
    pub release: Option<unsafe extern "C" fn(data: *mut c_void)>,
}

/// A function that is called at most once. Its holder either calls it or drops it, once.
#[repr(C)]
#[derive(Debug)]
pub struct RawCallback {
    /// Opaque; an argument of the functions.
    pub data: *mut c_void,
    /// Calls it with a result; null is success.
    pub call: unsafe extern "C" fn(data: *mut c_void, status: *mut RawStatus),
    /// Drops it without a call.
    pub drop: unsafe extern "C" fn(data: *mut c_void),
}

impl RawCallback {
    /// Hands `callback` over.
    pub fn new(callback: Callback) -> RawCallback {
        unsafe extern "C" fn call(data: *mut c_void, status: *mut RawStatus) {
            // SAFETY: the data come from `new`, and are used once.
            let callback = unsafe { Box::from_raw(data.cast::<Callback>()) };
            // SAFETY: the status is handed over with the call.
            let result = unsafe { take(status) };
            if catch_unwind(AssertUnwindSafe(|| callback(result))).is_err() {
                abort("a callback panicked");
            }
        }
        unsafe extern "C" fn release(data: *mut c_void) {
            // SAFETY: the data come from `new`, and are used once.
            drop(unsafe { Box::from_raw(data.cast::<Callback>()) });
        }
        RawCallback { data: Box::into_raw(Box::new(callback)).cast(), call, drop: release }
    }

    /// Takes it over as a callback in Rust.
    ///
    /// # Safety
    /// It was handed to the caller, who takes it once.
    pub unsafe fn take(self) -> Callback {
        let pending = PendingCallback(self, PhantomData);
        Box::new(move |result| pending.call(result))
    }
}

/// A callback of another library that was not called yet.
struct PendingCallback(RawCallback, PhantomData<Callback>);

// SAFETY: callbacks may be called or dropped on any thread; that is part of the interface.
unsafe impl Send for PendingCallback {}

impl PendingCallback {
    fn call(self, result: Result<()>) {
        let pending = ManuallyDrop::new(self);
        // SAFETY: it was handed over and is not dropped after this.
        unsafe { (pending.0.call)(pending.0.data, into_raw(result)) };
    }
}

impl Drop for PendingCallback {
    fn drop(&mut self) {
        // SAFETY: it was handed over and never called.
        unsafe { (self.0.drop)(self.0.data) };
    }
}

/// The time left until `deadline` in nanoseconds; all bits set if there is none. Clocks are not shared between
/// libraries.
pub fn encode_deadline(deadline: Option<Instant>) -> u64 {
    let Some(deadline) = deadline else { return u64::MAX };
    let left = deadline.saturating_duration_since(Instant::now());
    u64::try_from(left.as_nanos()).unwrap_or(u64::MAX).min(u64::MAX - 1)
}

/// The point in time that is `left` nanoseconds away.
pub fn decode_deadline(left: u64) -> Option<Instant> {
    // A point that the clock cannot represent is never.
    if left == u64::MAX { None } else { Instant::now().checked_add(Duration::from_nanos(left)) }
}

/// Ends the process: a panic must not leave this library.
#[cold]
pub(super) fn abort(message: &str) -> ! {
    eprintln!("vireo: {message}");
    std::process::abort()
}
