//! Heap objects of the VM, with reference counts: a [`Ref`] is one pointer to the object header, and the value follows
//! it. Registers, globals, lists and hosts hold them.
//!
//! A register of the ref bank holds an `Option<Ref>`. Typed access goes through [`Ref::get`] and [`Obj`]; the type
//! check compares the type ids in the vtables, never names.

use std::alloc::Layout;
use std::any::TypeId;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering, fence};

use super::object_memory;
use crate::limits::scope;
use crate::limits::{Charge, OBJECT_BYTES};
use crate::release::release;
use crate::status::{Result, Status};

/// A type whose values live in ref registers.
pub trait Object: Send + Sync + 'static {
    /// Name of the type as modules spell it, without the leading `!`: `vm.buffer`, `hal.device`, ...
    const TYPE_NAME: &'static str;

    /// The identity that `cmp.eq.ref` compares. Wrappers of a shared object return the address of that object, so that
    /// two wrappers of one object are equal to a program.
    fn identity(&self) -> *const () {
        std::ptr::from_ref(self).cast()
    }

    /// An estimate of the bytes of the object and of the memory that it alone owns, for calls whose memory is limited.
    /// Memory that has a charge of its own is left out.
    fn footprint(&self) -> u64 {
        size_of_val(self) as u64
    }

    /// Takes the value once the last reference to it is gone. Types whose objects are made at each call put it into a
    /// free list here.
    #[inline]
    fn recycle(self)
    where
        Self: Sized,
    {
    }

    /// The only vtable of the objects of this type, if it has one.
    #[doc(hidden)]
    const ONLY_VTABLE: Option<OnlyVTable<Self>> = None;
}

/// The only vtable of a type, which therefore has one address: the type check of its objects compares pointers, and
/// machine code makes it, too. Objects of the type have no charge; what they own has. Buffers are such a type.
///
/// Only this crate can make one, nor use that of another type, so an object never has a vtable that is not
/// of its type.
#[doc(hidden)]
pub struct OnlyVTable<T: ?Sized> {
    vtable: &'static VTable,
    of: PhantomData<fn(&T)>,
}

impl<T: Object> OnlyVTable<T> {
    /// `vtable` is what [`VTable::without_objects`] has made of this type.
    pub(crate) const fn new(vtable: &'static VTable) -> OnlyVTable<T> {
        OnlyVTable { vtable, of: PhantomData }
    }
}

/// The functions and properties of a type of objects.
pub(crate) struct VTable {
    type_id: TypeId,
    type_name: &'static str,
    identity: unsafe fn(NonNull<ObjectHeader>) -> *const (),
    drop: unsafe fn(NonNull<()>),
    /// False if nothing that the object owns can own objects, but for what is released in turn by itself.
    owns_objects: bool,
}

impl VTable {
    /// The vtable of a type whose values own no objects, but for what is released in turn by itself.
    pub(crate) const fn without_objects<T: Object>() -> VTable {
        VTable { owns_objects: false, ..T::VTABLE }
    }

    /// The address, for machine code.
    pub(crate) fn address(&'static self) -> usize {
        std::ptr::from_ref(self) as usize
    }
}

#[repr(C)]
struct ObjectHeader {
    count: AtomicUsize,
    vtable: &'static VTable,
}

impl ObjectHeader {
    /// Synchronises with the threads that released the other references, before the object is dropped.
    #[inline]
    fn acquire(&self) {
        // ThreadSanitizer does not model fences. An acquiring load of the count synchronises with the same releases.
        if cfg!(thread_sanitizer) {
            self.count.load(Ordering::Acquire);
        } else {
            fence(Ordering::Acquire);
        }
    }
}

#[repr(C)]
struct HeapObject<T> {
    header: ObjectHeader,
    value: T,
}

/// A heap object that was made for a call whose memory is limited.
#[repr(C)]
struct CountedHeapObject<T> {
    object: HeapObject<T>,
    charge: Charge,
}

trait HasVTable: Object + Sized {
    const COUNTED: VTable = VTable { drop: drop_counted::<Self>, ..Self::VTABLE };
    const VTABLE: VTable = VTable {
        type_id: TypeId::of::<Self>(),
        type_name: Self::TYPE_NAME,
        identity: identity_of::<Self>,
        drop: drop_object::<Self>,
        owns_objects: true,
    };
}

impl<T: Object> HasVTable for T {}

/// # Safety
/// `header` must be the header of a live `HeapObject<T>`.
unsafe fn identity_of<T: Object>(header: NonNull<ObjectHeader>) -> *const () {
    // SAFETY: the caller passes the header of a live `HeapObject<T>`.
    unsafe { header.cast::<HeapObject<T>>().as_ref() }.value.identity()
}

/// # Safety
/// `header` must be the header of a `HeapObject<T>` made by `Ref::new` whose last reference is gone.
unsafe fn drop_object<T: Object>(header: NonNull<()>) {
    let object = header.cast::<HeapObject<T>>();
    // SAFETY: the object was made by `Ref::new` with this layout, and nothing refers to it any more. The header needs
    // no drop, and the value is read out before its memory goes.
    let value = unsafe {
        let value = (&raw const (*object.as_ptr()).value).read();
        object_memory::free(object.cast(), Layout::new::<HeapObject<T>>());
        value
    };
    value.recycle();
}

/// # Safety
/// `header` must be the header of a `CountedHeapObject<T>` made by `Ref::new` whose last reference is gone.
unsafe fn drop_counted<T: Object>(header: NonNull<()>) {
    let object = header.cast::<CountedHeapObject<T>>();
    // SAFETY: the object was made by `Ref::new` with this layout, and nothing refers to it any more; the charge is read
    // out as well.
    let (value, charge) = unsafe {
        let value = (&raw const (*object.as_ptr()).object.value).read();
        let charge = (&raw const (*object.as_ptr()).charge).read();
        object_memory::free(object.cast(), Layout::new::<CountedHeapObject<T>>());
        (value, charge)
    };
    value.recycle();
    drop(charge);
}

/// The offset of the vtable in an object, which identifies the type.
pub(crate) const VTABLE_OFFSET: usize = std::mem::offset_of!(ObjectHeader, vtable);

/// The offset of the value in an object of a type.
pub(crate) const fn value_offset<T: Object>() -> usize {
    std::mem::offset_of!(HeapObject<T>, value)
}

/// A shared, non-null reference to an [`Object`] of any type.
#[repr(transparent)]
pub struct Ref(NonNull<ObjectHeader>);

// SAFETY: every `Object` is `Send + Sync`, and the count is atomic.
unsafe impl Send for Ref {}
// SAFETY: every `Object` is `Send + Sync`, and the count is atomic; `&Ref` gives only `&T` and clones.
unsafe impl Sync for Ref {}

impl Ref {
    /// Moves `value` into a new object with one reference.
    #[inline]
    pub fn new<T: Object>(value: T) -> Ref {
        let only = const { T::ONLY_VTABLE };
        let vtable = only.as_ref().map_or(&T::VTABLE, |only| only.vtable);
        let object = object_memory::allocate(Layout::new::<HeapObject<T>>()).cast::<HeapObject<T>>();
        // SAFETY: the memory is that of a heap object, and nothing else has its address.
        unsafe { object.write(HeapObject { header: ObjectHeader { count: AtomicUsize::new(1), vtable }, value }) };
        // The vtable of an object with a charge is another one.
        if scope::counts_memory() && only.is_none() {
            // SAFETY: the memory is that of a heap object, and nothing else has its address, and now it is initialised.
            return unsafe { Ref::counted(object) };
        }
        // `HeapObject` is `repr(C)` with the header first.
        Ref(object.cast())
    }

    /// Moves a new object, without other references, into a heap object that also has a charge.
    ///
    /// # Safety
    /// The heap object must come from [`object_memory::allocate`] and be initialised. It is freed.
    #[cold]
    unsafe fn counted<T: Object>(object: NonNull<HeapObject<T>>) -> Ref {
        // SAFETY: the caller guarantees that the object comes from [`object_memory::allocate`] and is initialised.
        let value = unsafe {
            let value = (&raw const (*object.as_ptr()).value).read();
            object_memory::free(object.cast(), Layout::new::<HeapObject<T>>());
            value
        };
        let charge = Charge::of_call_anyway(OBJECT_BYTES / 2 + value.footprint());
        let object = object_memory::allocate(Layout::new::<CountedHeapObject<T>>()).cast::<CountedHeapObject<T>>();
        let header = ObjectHeader { count: AtomicUsize::new(1), vtable: &T::COUNTED };
        // SAFETY: the memory is that of a heap object, and nothing else has its address.
        unsafe { object.write(CountedHeapObject { object: HeapObject { header, value }, charge }) };
        // Both types of objects are `repr(C)` with the header first, and then the value.
        Ref(object.cast())
    }

    #[inline]
    fn header(&self) -> &ObjectHeader {
        // SAFETY: a `Ref` owns one count of a live object.
        unsafe { self.0.as_ref() }
    }

    /// Name of the object's type, such as `vm.buffer`.
    pub fn type_name(&self) -> &'static str {
        self.header().vtable.type_name
    }

    /// True if the object is a `T`.
    #[inline]
    pub fn is<T: Object>(&self) -> bool {
        let vtable = self.header().vtable;
        match const { T::ONLY_VTABLE } {
            Some(only) => std::ptr::eq(vtable, only.vtable),
            None => vtable.type_id == TypeId::of::<T>(),
        }
    }

    /// The object, if it is a `T`.
    #[inline]
    pub fn get<T: Object>(&self) -> Option<&T> {
        // SAFETY: the type identity says that this is a `HeapObject<T>`; it lives as long as `self` owns a count.
        self.is::<T>().then(|| &unsafe { self.0.cast::<HeapObject<T>>().as_ref() }.value)
    }

    /// The object as a typed reference, or an error that names both types.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT`, with the names of both types, if the object is no `T`.
    pub fn cast<T: Object>(self) -> Result<Obj<T>> {
        if self.is::<T>() { Ok(Obj { reference: self, object: PhantomData }) } else { Err(self.mismatch::<T>()) }
    }

    /// As [`Ref::cast`], borrowed, so that no reference is counted.
    ///
    /// # Errors
    /// As [`Ref::cast`].
    pub fn cast_ref<T: Object>(&self) -> Result<&Obj<T>> {
        if self.is::<T>() {
            // SAFETY: `Obj<T>` is a `Ref` and nothing else, and the type identity says that the object is a `T`.
            Ok(unsafe { &*std::ptr::from_ref(self).cast::<Obj<T>>() })
        } else {
            Err(self.mismatch::<T>())
        }
    }

    #[cold]
    fn mismatch<T: Object>(&self) -> Status {
        let message = format!("expected a reference to !{}, got !{}", T::TYPE_NAME, self.type_name());
        Status::invalid_argument(message)
    }

    /// True if both are references to one object.
    #[doc(hidden)]
    #[inline]
    pub fn is_same_object(&self, other: &Ref) -> bool {
        self.0 == other.0
    }

    /// The address of the object, which is the value of the reference.
    #[inline]
    pub(crate) fn address(&self) -> *const () {
        self.0.as_ptr().cast_const().cast()
    }

    /// An address that only objects of the same type have; a type may have several.
    #[inline]
    pub(crate) fn type_address(&self) -> *const () {
        std::ptr::from_ref(self.header().vtable).cast()
    }

    /// The identity that `cmp.eq.ref` compares.
    #[inline]
    pub fn identity(&self) -> *const () {
        // SAFETY: the vtable belongs to this object's type.
        unsafe { (self.header().vtable.identity)(self.0) }
    }
}

impl Clone for Ref {
    #[inline]
    fn clone(&self) -> Ref {
        // The caller holds a reference, so the object is not dropped during this: no ordering is needed.
        if self.header().count.fetch_add(1, Ordering::Relaxed) > usize::MAX / 2 {
            std::process::abort();
        }
        Ref(self.0)
    }
}

impl Drop for Ref {
    #[inline]
    fn drop(&mut self) {
        // Most references that programs drop are the only ones. No other thread can then clone the object, so its
        // count, which the object is dropped with, need not be written: an atomic subtraction takes as long as twenty
        // other instructions. The load synchronises with the threads that released other references.
        if self.header().count.load(Ordering::Acquire) == 1 || self.header().count.fetch_sub(1, Ordering::Release) == 1
        {
            self.header().acquire();
            let VTable { drop, owns_objects, .. } = *self.header().vtable;
            // SAFETY: this was the last count, and the vtable belongs to this object's type. Objects may be dropped by
            // any thread.
            unsafe { if owns_objects { release(self.0.cast(), drop) } else { drop(self.0.cast()) } };
        }
    }
}

impl PartialEq for Ref {
    #[inline]
    fn eq(&self, other: &Ref) -> bool {
        self.identity() == other.identity()
    }
}

impl Eq for Ref {}

impl fmt::Debug for Ref {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "!{}@{:?}", self.type_name(), self.identity())
    }
}

/// A [`Ref`] whose object is known to be a `T`.
#[repr(transparent)]
pub struct Obj<T: Object> {
    reference: Ref,
    object: PhantomData<T>,
}

impl<T: Object> Obj<T> {
    /// Moves `value` into a new object with one reference.
    pub fn new(value: T) -> Obj<T> {
        Obj { reference: Ref::new(value), object: PhantomData }
    }

    /// The address of the value. A caller that writes to it must make sure that nothing reads it during the write.
    #[doc(hidden)]
    pub fn as_mut_ptr(&self) -> *mut T {
        // SAFETY: an `Obj<T>` is made only from a reference to a `HeapObject<T>`; no Rust reference to the value is
        // made.
        unsafe { &raw mut (*self.reference.0.cast::<HeapObject<T>>().as_ptr()).value }
    }

    /// The value, if this is the only reference to it.
    pub fn get_mut(&mut self) -> Option<&mut T> {
        if self.reference.header().count.load(Ordering::Acquire) != 1 {
            return None;
        }
        // SAFETY: an `Obj<T>` is made only from a reference to a `HeapObject<T>`. There is no other reference, so none
        // can be made: that takes a borrow of this one, which is borrowed mutably. The load synchronises with the
        // releases of earlier ones.
        Some(unsafe { &mut *self.as_mut_ptr() })
    }

    /// Gives up the static type.
    pub fn into_ref(self) -> Ref {
        self.reference
    }
}

impl<T: Object> AsRef<Ref> for Obj<T> {
    fn as_ref(&self) -> &Ref {
        &self.reference
    }
}

impl<T: Object> Deref for Obj<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: an `Obj<T>` is made only from a reference to a `HeapObject<T>`.
        &unsafe { self.reference.0.cast::<HeapObject<T>>().as_ref() }.value
    }
}

impl<T: Object> Clone for Obj<T> {
    #[inline]
    fn clone(&self) -> Obj<T> {
        Obj { reference: self.reference.clone(), object: PhantomData }
    }
}

impl<T: Object> From<Obj<T>> for Ref {
    fn from(object: Obj<T>) -> Ref {
        object.reference
    }
}

impl<T: Object + fmt::Debug> fmt::Debug for Obj<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}
