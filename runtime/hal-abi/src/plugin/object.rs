//! Objects at the boundary, in both directions: exports an `Arc<dyn Trait>` of this library as a vtable and a pointer,
//! and imports such a pair of another library as an `Arc<dyn Trait>`. Generated code calls it.
//!
//! An object that comes back to the library that exported it is the original object again, without a wrapper.

use std::any::Any;
use std::ffi::c_void;
use std::fmt;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::raw::{Header, RawObject, abort};
use super::slice::RawSlice;
use super::status::{RawStatus, into_raw};
use crate::DRIVER_ABI_VERSION;
use crate::status::{Result, Status};

/// A side of the boundary. A process has one for each library; [`ThisLibrary`] is the one of this library.
pub trait Side: fmt::Debug + Send + Sync + 'static {
    /// An address that no other side has.
    const LIBRARY: *const c_void;

    /// Called when another side calls a method of an object of this side, with the names of object and method joined by
    /// a dot.
    fn called(_method: &'static str) {}
}

/// This library.
#[derive(Debug)]
pub struct ThisLibrary;

// Linkers may merge equal read-only data, so the two sides of this crate differ.
static THIS_LIBRARY: u8 = 1;

impl Side for ThisLibrary {
    const LIBRARY: *const c_void = (&raw const THIS_LIBRARY).cast();
}

/// An object of `spec/hal/`, implemented for `dyn Device` and the like by generated code.
pub trait Interface<S: Side>: Any + Send + Sync {
    /// The `#[repr(C)]` struct of its methods.
    type Vtable: 'static;
    /// Its `id` in the spec.
    const ID: u32;
    /// Its name in the spec.
    const NAME: &'static str;
    /// Least size of a vtable: up to the last method that may not be missing.
    const REQUIRED: usize;
    /// The methods of objects of this side.
    const VTABLE: &'static Self::Vtable;

    /// The object as `Any`, to downcast it.
    fn as_any(&self) -> &dyn Any;

    /// An object of another side.
    fn import(object: Imported<S, Self::Vtable>) -> Arc<Self>;
}

/// The header of the vtable of `T`.
pub const fn header<S: Side, T: ?Sized + Interface<S>>() -> Header {
    Header {
        abi_version: DRIVER_ABI_VERSION,
        object: T::ID,
        size: size_of::<T::Vtable>() as u64,
        library: S::LIBRARY,
        retain: retain::<T>,
        release: release::<T>,
    }
}

unsafe extern "C" fn retain<T: ?Sized>(data: *mut c_void) {
    // SAFETY: the data of an exported object come from `Arc::into_raw` in `export`, and the caller has a reference.
    unsafe { Arc::increment_strong_count(data.cast_const().cast::<Arc<T>>()) };
}

unsafe extern "C" fn release<T: ?Sized>(data: *mut c_void) {
    // SAFETY: the data of an exported object come from `Arc::into_raw` in `export`, and the caller has a reference; the
    // caller gives its reference away.
    unsafe { Arc::decrement_strong_count(data.cast_const().cast::<Arc<T>>()) };
}

/// A reference to `object` for other libraries. The caller owns it.
pub fn export<S: Side, T: ?Sized + Interface<S>>(object: &Arc<T>) -> RawObject {
    if let Some(imported) = object.as_any().downcast_ref::<Imported<S, T::Vtable>>() {
        return imported.share();
    }
    // An `Arc` of a trait object is two words; the second `Arc` makes it one.
    let data = Arc::into_raw(Arc::new(object.clone()));
    RawObject { vtable: std::ptr::from_ref(T::VTABLE).cast(), data: data.cast_mut().cast() }
}

/// The object of `raw` if it is of this side, or a wrapper of it. The caller keeps its reference.
///
/// # Errors
/// `INVALID_ARGUMENT` for null and for an object of another kind, `INCOMPATIBLE` for one of another version of the
/// driver interface or with a vtable that lacks required methods.
///
/// # Safety
/// `raw` is null or a valid reference to an object.
pub unsafe fn import<S: Side, T: ?Sized + Interface<S>>(raw: RawObject) -> Result<Arc<T>> {
    if raw.vtable.is_null() {
        return Err(Status::invalid_argument(format!("expected `{}`, not null", T::NAME)));
    }
    // SAFETY: every vtable starts with a header and lives as long as its objects.
    let header = unsafe { &*raw.vtable };
    if header.abi_version != DRIVER_ABI_VERSION {
        return Err(Status::incompatible(format!(
            "`{}` of version {} of the driver interface: expected version {DRIVER_ABI_VERSION}",
            T::NAME,
            header.abi_version
        )));
    }
    if header.object != T::ID {
        let message = format!("expected `{}` (object {}), not object {}", T::NAME, T::ID, header.object);
        return Err(Status::invalid_argument(message));
    }
    if header.library == S::LIBRARY {
        // SAFETY: only `export` makes objects of this library, and for this kind of object the data are an `Arc<T>`.
        return Ok(unsafe { &*raw.data.cast::<Arc<T>>() }.clone());
    }
    if header.size < T::REQUIRED as u64 {
        return Err(Status::incompatible(format!(
            "the vtable of `{}` has {} bytes: expected at least {}",
            T::NAME,
            header.size,
            T::REQUIRED
        )));
    }
    // SAFETY: the caller guarantees that the object is valid.
    unsafe { (header.retain)(raw.data) };
    // SAFETY: the vtable is that of `T` and has all methods that may not be missing; the reference was taken just now.
    Ok(T::import(unsafe { Imported::new(raw) }))
}

/// Releases a reference.
///
/// # Safety
/// `raw` is null or a reference that the caller owns and does not use again.
pub unsafe fn release_object(raw: RawObject) {
    if !raw.vtable.is_null() {
        // SAFETY: the caller guarantees that `raw` is a reference that it owns and does not use again.
        unsafe { ((*raw.vtable).release)(raw.data) };
    }
}

/// An object of another side with the methods `V`.
pub struct Imported<S, V> {
    /// As long as a `V`.
    vtable: *const V,
    raw: RawObject,
    side: PhantomData<fn() -> S>,
}

// SAFETY: objects may be used and released on any thread; that is part of the interface.
unsafe impl<S, V> Send for Imported<S, V> {}
// SAFETY: objects may be used and released on any thread; that is part of the interface.
unsafe impl<S, V> Sync for Imported<S, V> {}

impl<S, V> Imported<S, V> {
    /// Takes over a reference.
    ///
    /// # Safety
    /// The vtable of `raw` is a `V`, or the beginning of one with all slots that may not be null.
    unsafe fn new(raw: RawObject) -> Imported<S, V> {
        // SAFETY: every vtable starts with a header and lives as long as its objects.
        let size = unsafe { (*raw.vtable).size } as usize;
        let vtable = if size >= size_of::<V>() {
            raw.vtable.cast::<V>()
        } else {
            // The library has fewer methods than this one: those it lacks are null in a copy of the vtable.
            let mut whole = Box::new(MaybeUninit::<V>::zeroed());
            // SAFETY: the vtable has `size` bytes, fewer than the copy.
            unsafe { std::ptr::copy_nonoverlapping(raw.vtable.cast::<u8>(), whole.as_mut_ptr().cast(), size) };
            Box::into_raw(whole).cast_const().cast()
        };
        Imported { vtable, raw, side: PhantomData }
    }

    /// The methods.
    pub fn vtable(&self) -> &V {
        // SAFETY: it is a whole `V`, by what `new` requires and does, and vtables live as long as their objects.
        unsafe { &*self.vtable }
    }

    /// The argument `this` of the methods.
    pub fn data(&self) -> *mut c_void {
        self.raw.data
    }

    /// Another reference, which the caller owns.
    fn share(&self) -> RawObject {
        // SAFETY: the object is valid as long as `self` has its reference.
        unsafe { ((*self.raw.vtable).retain)(self.raw.data) };
        self.raw
    }
}

impl<S, V> Drop for Imported<S, V> {
    fn drop(&mut self) {
        // SAFETY: the reference is released once.
        unsafe { release_object(self.raw) };
        if !std::ptr::eq(self.vtable.cast(), self.raw.vtable) {
            // SAFETY: a vtable other than the object's was boxed by `new`. Function pointers need no dropping.
            drop(unsafe { Box::from_raw(self.vtable.cast_mut().cast::<MaybeUninit<V>>()) });
        }
    }
}

impl<S, V> fmt::Debug for Imported<S, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "object({:p} of another library)", self.raw.data)
    }
}

/// The object that a method was called on.
///
/// # Safety
/// `this` is the data of an object that `export` made of an `Arc<T>`, and the object is valid for `'a`.
pub unsafe fn this<'a, T: ?Sized>(this: *mut c_void) -> &'a Arc<T> {
    // SAFETY: the caller guarantees that `this` is the data of an object that `export` made of an `Arc<T>`.
    unsafe { &*this.cast::<Arc<T>>() }
}

/// Runs the body of a method that another library called. A panic ends here, as an INTERNAL failure.
pub fn guard(method: &str, body: impl FnOnce() -> Result<()>) -> *mut RawStatus {
    let result = catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|payload| {
        let text = payload.downcast_ref::<&str>().copied().or(payload.downcast_ref::<String>().map(String::as_str));
        Err(Status::internal(format!("`{method}` panicked: {}", text.unwrap_or("for no known reason"))))
    });
    into_raw(result)
}

/// As [`guard`], for a method that cannot report a failure: the process ends instead.
pub fn guard_infallible(method: &str, body: impl FnOnce() -> Result<()>) {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => {}
        Ok(Err(status)) => {
            abort(&format!("`{method}`, which cannot fail, was called with what it cannot take: {status}"))
        }
        Err(_) => abort(&format!("`{method}`, which cannot fail, panicked")),
    }
}

/// Ends a call of a method that cannot fail and returned a value that the interface does not allow.
///
/// # Panics
/// Always, with the method and the status.
#[cold]
pub fn broken(method: &str, status: Status) -> ! {
    panic!("a driver broke the interface: `{method}` returned {status}")
}

/// A text that is borrowed from the object whose method returned it.
///
/// # Errors
/// `INVALID_ARGUMENT` if it is null and not empty, or no UTF-8.
///
/// # Safety
/// The text stays as it is for `'a`.
pub unsafe fn borrowed_text<'a>(raw: RawSlice<u8>) -> Result<&'a str> {
    // SAFETY: the caller guarantees that the text stays as it is.
    unsafe { raw.text() }
}
