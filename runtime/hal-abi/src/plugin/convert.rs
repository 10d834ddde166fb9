//! Conversions of values at the boundary: [`Abi`] for each kind of the spec, and guards that dispose of raw values.
//! Generated code calls them.

use std::any::Any;
use std::ffi::c_void;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::Arc;

use smallvec::SmallVec;

use super::object::{Interface, Side, export, import, release_object};
use super::raw::{RawList, RawObject, RawOwner};
use super::slice::RawSlice;
use crate::status::{Result, Status};

/// A kind of value. Plain numbers, structs and texts are their own kinds; the others are types of this module.
pub trait Abi<S: Side> {
    /// The value in Rust.
    type Value;
    /// The value between libraries.
    type Raw: Copy;

    /// A raw value, which owns what it refers to until it is disposed of.
    fn encode(value: &Self::Value) -> Self::Raw;

    /// The value. It has references of its own to what `raw` refers to.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if `raw` is no value of the kind, such as null for an object or text that is no UTF-8, and as
    /// [`import`] for objects.
    ///
    /// # Safety
    /// `raw` is a valid value of the kind.
    unsafe fn decode(raw: &Self::Raw) -> Result<Self::Value>;

    /// Releases what `raw` owns.
    ///
    /// # Safety
    /// `raw` is a valid value of the kind that owns what it refers to, and is not used after this.
    unsafe fn dispose(raw: &Self::Raw) {
        let _ = raw;
    }
}

/// Encodes a value of kind `M`.
pub fn encode<S: Side, M: Abi<S>>(value: &M::Value) -> M::Raw {
    M::encode(value)
}

/// Decodes a value of kind `M`.
///
/// # Errors
/// As [`Abi::decode`].
///
/// # Safety
/// As for [`Abi::decode`].
pub unsafe fn decode<S: Side, M: Abi<S>>(raw: &M::Raw) -> Result<M::Value> {
    // SAFETY: the caller guarantees that `raw` is a valid value of the kind.
    unsafe { M::decode(raw) }
}

/// Decodes what a pointer points to.
///
/// # Errors
/// `INVALID_ARGUMENT` if it is null, and as [`Abi::decode`].
///
/// # Safety
/// `raw` is null or points to a valid value of the kind.
pub unsafe fn decode_at<S: Side, M: Abi<S>>(raw: *const M::Raw) -> Result<M::Value> {
    // SAFETY: the caller guarantees that `raw` is null or points to a valid value of the kind.
    let raw = unsafe { borrow(raw) }?;
    // SAFETY: the caller guarantees that `raw` is null or points to a valid value of the kind.
    unsafe { M::decode(raw) }
}

/// Decodes a list.
///
/// # Errors
/// As [`RawSlice::get`] for the list and [`Abi::decode`] for its values.
///
/// # Safety
/// The slice points to valid values of the kind.
pub unsafe fn decode_list<S: Side, M: Abi<S>>(raw: RawSlice<M::Raw>) -> Result<Vec<M::Value>> {
    // SAFETY: the caller guarantees that the slice points to valid values of the kind.
    let raws = unsafe { raw.get() }?;
    // SAFETY: the caller guarantees that the slice points to valid values of the kind.
    raws.iter().map(|raw| unsafe { M::decode(raw) }).collect()
}

/// The target of a pointer.
///
/// # Errors
/// `INVALID_ARGUMENT` if it is null.
///
/// # Safety
/// `pointer` is null or points to a valid value for `'a`.
pub unsafe fn borrow<'a, T>(pointer: *const T) -> Result<&'a T> {
    // SAFETY: the caller guarantees that `pointer` is null or points to a valid value.
    unsafe { pointer.as_ref() }.ok_or_else(|| Status::invalid_argument("a struct is null"))
}

/// The slices of a list of slices.
///
/// # Errors
/// As [`RawSlice::get`], for the list and each of its slices.
///
/// # Safety
/// As for [`RawSlice::get`], for the list and each of its slices.
pub unsafe fn slices<'a>(raw: RawSlice<RawSlice<u8>>) -> Result<Vec<&'a [u8]>> {
    // SAFETY: the caller guarantees that the list and its slices point to values that stay as they are.
    let raws: &'a [RawSlice<u8>] = unsafe { raw.get() }?;
    // SAFETY: the caller guarantees that the list and its slices point to values that stay as they are.
    raws.iter().map(|raw| unsafe { raw.get() }).collect()
}

/// A raw value, disposed of when this is dropped.
pub struct Lent<S: Side, M: Abi<S>>(M::Raw, PhantomData<S>);

impl<S: Side, M: Abi<S>> Lent<S, M> {
    /// Encodes `value`, for a call.
    pub fn new(value: &M::Value) -> Self {
        Lent(M::encode(value), PhantomData)
    }

    /// The value that a function wrote to `out`.
    ///
    /// # Safety
    /// `out` holds a valid value of the kind, which owns what it refers to and is used nowhere else.
    pub unsafe fn returned(out: MaybeUninit<M::Raw>) -> Self {
        // SAFETY: the caller guarantees that `out` holds a valid value of the kind, which is used nowhere else.
        Lent(unsafe { out.assume_init() }, PhantomData)
    }

    /// The raw value; valid as long as this is.
    pub fn raw(&self) -> &M::Raw {
        &self.0
    }

    /// The value.
    ///
    /// # Errors
    /// As [`Abi::decode`].
    pub fn decode(&self) -> Result<M::Value> {
        // SAFETY: `new` made a valid value, and `returned` requires one.
        unsafe { M::decode(&self.0) }
    }
}

impl<S: Side, M: Abi<S>> Drop for Lent<S, M> {
    fn drop(&mut self) {
        // SAFETY: the value owns what it refers to, and is not used again.
        unsafe { M::dispose(&self.0) };
    }
}

/// A list of raw values, disposed of when this is dropped.
pub struct LentList<S: Side, M: Abi<S>>(SmallVec<[M::Raw; 2]>, PhantomData<S>);

impl<S: Side, M: Abi<S>> LentList<S, M> {
    /// Encodes `values`, for a call.
    pub fn new(values: &[M::Value]) -> Self {
        LentList(values.iter().map(M::encode).collect(), PhantomData)
    }

    /// The raw values; valid as long as this is.
    pub fn slice(&self) -> RawSlice<M::Raw> {
        RawSlice::of(&self.0)
    }
}

impl<S: Side, M: Abi<S>> Drop for LentList<S, M> {
    fn drop(&mut self) {
        for raw in &self.0 {
            // SAFETY: the value owns what it refers to, and is not used again.
            unsafe { M::dispose(raw) };
        }
    }
}

/// Numbers are passed as they are.
macro_rules! same {
    ($($int:ty),*) => {$(
        impl<S: Side> Abi<S> for $int {
            type Value = $int;
            type Raw = $int;

            fn encode(value: &$int) -> $int {
                *value
            }

            unsafe fn decode(raw: &$int) -> Result<$int> {
                Ok(*raw)
            }
        }
    )*};
}

same!(u8, u16, u32, u64, i32, i64);

impl<S: Side> Abi<S> for bool {
    type Value = bool;
    type Raw = u8;

    fn encode(value: &bool) -> u8 {
        (*value).into()
    }

    unsafe fn decode(raw: &u8) -> Result<bool> {
        Ok(*raw != 0)
    }
}

/// A generated set of numbers as its integer.
macro_rules! number {
    ($name:ty, $int:ty, $to:expr, $from:expr) => {
        impl<S: crate::plugin::Side> crate::plugin::Abi<S> for $name {
            type Value = $name;
            type Raw = $int;

            fn encode(value: &$name) -> $int {
                let to: fn($name) -> $int = $to;
                to(*value)
            }

            unsafe fn decode(raw: &$int) -> crate::Result<$name> {
                let from: fn($int) -> crate::Result<$name> = $from;
                from(*raw)
            }
        }
    };
}

pub(crate) use number;

impl<S: Side, M: Abi<S>, const N: usize> Abi<S> for [M; N] {
    type Value = [M::Value; N];
    type Raw = [M::Raw; N];

    fn encode(value: &[M::Value; N]) -> [M::Raw; N] {
        std::array::from_fn(|index| M::encode(&value[index]))
    }

    unsafe fn decode(raw: &[M::Raw; N]) -> Result<[M::Value; N]> {
        // SAFETY: the caller guarantees that `raw` is a valid value of the kind.
        let values: Result<Vec<M::Value>> = raw.iter().map(|raw| unsafe { M::decode(raw) }).collect();
        values?.try_into().map_err(|_| Status::internal("an array has another length than itself"))
    }
}

impl<S: Side> Abi<S> for String {
    type Value = String;
    type Raw = RawList<u8>;

    fn encode(value: &String) -> RawList<u8> {
        RawList::new(value.as_bytes().into())
    }

    unsafe fn decode(raw: &RawList<u8>) -> Result<String> {
        let slice = RawSlice { data: raw.data.cast_const(), length: raw.length };
        // SAFETY: the caller guarantees that `raw` is a valid value of the kind.
        Ok(unsafe { slice.text() }?.to_string())
    }

    unsafe fn dispose(raw: &RawList<u8>) {
        // SAFETY: the caller guarantees that `raw` is a valid value that owns what it refers to, and is not used after
        // this.
        unsafe { raw.free() };
    }
}

/// An owned list of `M`.
pub struct List<M>(PhantomData<M>);

impl<S: Side, M: Abi<S>> Abi<S> for List<M> {
    type Value = Vec<M::Value>;
    type Raw = RawList<M::Raw>;

    fn encode(value: &Vec<M::Value>) -> RawList<M::Raw> {
        RawList::new(value.iter().map(M::encode).collect())
    }

    unsafe fn decode(raw: &RawList<M::Raw>) -> Result<Vec<M::Value>> {
        // SAFETY: the caller guarantees that `raw` is a valid value of the kind.
        unsafe { decode_list::<S, M>(RawSlice { data: raw.data.cast_const(), length: raw.length }) }
    }

    unsafe fn dispose(raw: &RawList<M::Raw>) {
        // SAFETY: the caller guarantees that `raw` is a valid value that owns what it refers to, and is not used after
        // this.
        for value in unsafe { raw.get() }.unwrap_or_default() {
            // SAFETY: the caller guarantees that `raw` is a valid value that owns what it refers to, and is not used
            // after this.
            unsafe { M::dispose(value) };
        }
        // SAFETY: the caller guarantees that `raw` is a valid value that owns what it refers to, and is not used after
        // this; nothing of it is used after this.
        unsafe { raw.free() };
    }
}

impl<S: Side> Abi<S> for NonNull<u8> {
    type Value = NonNull<u8>;
    type Raw = *mut u8;

    fn encode(value: &NonNull<u8>) -> *mut u8 {
        value.as_ptr()
    }

    unsafe fn decode(raw: &*mut u8) -> Result<NonNull<u8>> {
        NonNull::new(*raw).ok_or_else(|| Status::invalid_argument("an address is null"))
    }
}

impl<S: Side> Abi<S> for Option<NonNull<u8>> {
    type Value = Option<NonNull<u8>>;
    type Raw = *mut u8;

    fn encode(value: &Option<NonNull<u8>>) -> *mut u8 {
        value.map_or(std::ptr::null_mut(), NonNull::as_ptr)
    }

    unsafe fn decode(raw: &*mut u8) -> Result<Option<NonNull<u8>>> {
        Ok(NonNull::new(*raw))
    }
}

/// An object.
pub struct Object<T: ?Sized>(PhantomData<T>);

impl<S: Side, T: ?Sized + Interface<S>> Abi<S> for Object<T> {
    type Value = Arc<T>;
    type Raw = RawObject;

    fn encode(value: &Arc<T>) -> RawObject {
        export::<S, T>(value)
    }

    unsafe fn decode(raw: &RawObject) -> Result<Arc<T>> {
        // SAFETY: the caller guarantees that `raw` is a valid value of the kind.
        unsafe { import::<S, T>(*raw) }
    }

    unsafe fn dispose(raw: &RawObject) {
        // SAFETY: the caller guarantees that `raw` is a valid value that owns what it refers to, and is not used after
        // this.
        unsafe { release_object(*raw) };
    }
}

/// An object that may be absent.
pub struct NullObject<T: ?Sized>(PhantomData<T>);

impl<S: Side, T: ?Sized + Interface<S>> Abi<S> for NullObject<T> {
    type Value = Option<Arc<T>>;
    type Raw = RawObject;

    fn encode(value: &Option<Arc<T>>) -> RawObject {
        value.as_ref().map_or(RawObject::NULL, export::<S, T>)
    }

    unsafe fn decode(raw: &RawObject) -> Result<Option<Arc<T>>> {
        if raw.vtable.is_null() {
            return Ok(None);
        }
        // SAFETY: the caller guarantees that `raw` is a valid value of the kind.
        unsafe { import::<S, T>(*raw) }.map(Some)
    }

    unsafe fn dispose(raw: &RawObject) {
        // SAFETY: the caller guarantees that `raw` is a valid value that owns what it refers to, and is not used after
        // this.
        unsafe { release_object(*raw) };
    }
}

type AnyOwner = Arc<dyn Any + Send + Sync>;

/// An owner, which keeps memory alive.
pub struct Owner;

impl<S: Side> Abi<S> for Owner {
    type Value = AnyOwner;
    type Raw = RawOwner;

    fn encode(value: &AnyOwner) -> RawOwner {
        unsafe extern "C" fn retain(data: *mut c_void) {
            // SAFETY: the data come from `encode`, and the caller has a reference.
            unsafe { Arc::increment_strong_count(data.cast_const().cast::<AnyOwner>()) };
        }
        unsafe extern "C" fn release(data: *mut c_void) {
            // SAFETY: the data come from `encode`, and the caller has a reference; the caller gives its reference away.
            unsafe { Arc::decrement_strong_count(data.cast_const().cast::<AnyOwner>()) };
        }
        let data = Arc::into_raw(Arc::new(value.clone())).cast_mut().cast();
        RawOwner { data, retain: Some(retain), release: Some(release) }
    }

    unsafe fn decode(raw: &RawOwner) -> Result<AnyOwner> {
        // SAFETY: the caller guarantees that `raw` is a valid value of the kind.
        Ok(match unsafe { <NullOwner as Abi<S>>::decode(raw) }? {
            Some(owner) => owner,
            // Memory that needs no owner.
            None => Arc::new(()),
        })
    }

    unsafe fn dispose(raw: &RawOwner) {
        if let Some(release) = raw.release {
            // SAFETY: the caller guarantees that `raw` is a valid value that owns what it refers to, and is not used
            // after this.
            unsafe { release(raw.data) };
        }
    }
}

/// An owner that may be absent.
pub struct NullOwner;

impl<S: Side> Abi<S> for NullOwner {
    type Value = Option<AnyOwner>;
    type Raw = RawOwner;

    fn encode(value: &Option<AnyOwner>) -> RawOwner {
        let none = RawOwner { data: std::ptr::null_mut(), retain: None, release: None };
        value.as_ref().map_or(none, <Owner as Abi<S>>::encode)
    }

    unsafe fn decode(raw: &RawOwner) -> Result<Option<AnyOwner>> {
        let (Some(retain), Some(release)) = (raw.retain, raw.release) else { return Ok(None) };
        // SAFETY: the caller guarantees that the owner is valid.
        unsafe { retain(raw.data) };
        Ok(Some(Arc::new(ImportedOwner { data: raw.data, release })))
    }

    unsafe fn dispose(raw: &RawOwner) {
        // SAFETY: the caller guarantees that `raw` is a valid value that owns what it refers to, and is not used after
        // this.
        unsafe { <Owner as Abi<S>>::dispose(raw) };
    }
}

/// A reference to an owner of another library.
struct ImportedOwner {
    data: *mut c_void,
    release: unsafe extern "C" fn(*mut c_void),
}

// SAFETY: owners may be released on any thread; that is part of the interface.
unsafe impl Send for ImportedOwner {}
// SAFETY: owners may be released on any thread; that is part of the interface; the only operation is to release it.
unsafe impl Sync for ImportedOwner {}

impl Drop for ImportedOwner {
    fn drop(&mut self) {
        // SAFETY: the reference is released once.
        unsafe { (self.release)(self.data) };
    }
}
