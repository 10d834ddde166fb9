//! `vm.buffer`: a span of bytes that a program reads, and writes if it is mutable. Ops, native modules and hosts use
//! it.
//!
//! Buffers are shared and programs may write to them, so no Rust reference to the bytes is ever handed out by safe
//! code: contents are copied in and out through raw pointers. A program that shares one buffer between concurrently
//! running contexts can see torn values, as with any shared memory; nothing else can go wrong, because every bit
//! pattern is a valid byte.

use std::alloc::{Layout, alloc_zeroed};
use std::any::Any;
use std::ptr::NonNull;
use std::sync::Arc;

use super::object::{Obj, Object, OnlyVTable, Ref, VTable};
use super::object_memory;
use crate::generated::abi::refs;
use crate::limits::{Charge, MAX_ALIGNMENT, OBJECT_BYTES};
use crate::release::SharedOwner;
use crate::status::{Result, Status};

/// Alignment of new buffers that ask for none.
pub const DEFAULT_ALIGNMENT: usize = 16;
/// Buffers of at least this many bytes begin at a cache line, whatever alignment they ask for: vector loads and stores
/// are up to twice as fast where they do not straddle two lines.
const LARGE_BUFFER_BYTES: usize = 1024;
const CACHE_LINE: usize = 64;

/// A span of bytes. Lengths and offsets are in bytes.
pub struct Buffer {
    data: NonNull<u8>,
    length: usize,
    mutable: bool,
    owner: Owner,
}

enum Owner {
    /// An allocation with its layout, the number of bytes before the buffer in it, and the charge for its memory.
    Heap(Layout, u8, Charge),
    /// Memory of another object, which this keeps alive, and the charge for the buffer itself.
    Shared { owner: SharedOwner, _charge: Charge },
    /// Memory that a [`Loan`] lends for a while.
    Lent,
}

// SAFETY: the bytes are accessed only by copying through raw pointers, and stay alive and in place as long as the
// buffer.
unsafe impl Send for Buffer {}
// SAFETY: the bytes are accessed only by copying through raw pointers, and stay alive and in place as long as the
// buffer; concurrent writers can tear values but no reference to the bytes exists.
unsafe impl Sync for Buffer {}

impl Object for Buffer {
    const TYPE_NAME: &'static str = refs::VM_BUFFER;
    const ONLY_VTABLE: Option<OnlyVTable<Buffer>> = Some(OnlyVTable::new(&VTABLE));
}

/// Programs check the type of buffers all the time, so they have one vtable, and a charge of their own.
static VTABLE: VTable = VTable::without_objects::<Buffer>();

/// The layout of heap objects that are buffers, as offsets from the object header, for machine code.
pub mod offsets {
    use super::Buffer;
    use crate::object::{VTABLE_OFFSET, value_offset};

    /// Offset of the vtable, which identifies the type.
    pub const VTABLE: usize = VTABLE_OFFSET;
    /// Offset of the address of a buffer's first byte.
    pub const BUFFER_DATA: usize = value_offset::<Buffer>() + std::mem::offset_of!(Buffer, data);
    /// Offset of a buffer's length in bytes.
    pub const BUFFER_LENGTH: usize = value_offset::<Buffer>() + std::mem::offset_of!(Buffer, length);
    /// Offset of the flag whether programs may write to a buffer.
    pub const BUFFER_MUTABLE: usize = value_offset::<Buffer>() + std::mem::offset_of!(Buffer, mutable);

    /// The address of the vtable of buffers.
    pub fn buffer_vtable() -> usize {
        super::VTABLE.address()
    }
}

/// The memory of a buffer that is to be allocated.
#[derive(Clone, Copy)]
pub struct BufferLayout {
    memory: Layout,
    length: usize,
    /// Extra bytes, so that the buffer can begin at a cache line.
    slack: usize,
}

impl BufferLayout {
    /// For `length` bytes. `alignment` 0 means [`DEFAULT_ALIGNMENT`]; otherwise it must be a power of two up to
    /// [`MAX_ALIGNMENT`].
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if the alignment is none of these, or if both together exceed the address space.
    #[inline]
    pub fn new(length: usize, alignment: usize) -> Result<BufferLayout> {
        let alignment = if alignment == 0 { DEFAULT_ALIGNMENT } else { alignment };
        if !alignment.is_power_of_two() || alignment as u64 > MAX_ALIGNMENT {
            return Err(not_aligned(alignment));
        }
        // A larger alignment in the layout would make the allocator write zeros even into fresh pages; with slack it
        // does not.
        let slack = if length >= LARGE_BUFFER_BYTES { CACHE_LINE.saturating_sub(alignment) } else { 0 };
        match Layout::from_size_align(length.max(1).saturating_add(slack), alignment) {
            Ok(memory) => Ok(BufferLayout { memory, length, slack }),
            Err(_) => Err(no_layout(length, alignment)),
        }
    }

    /// Bytes that the buffer is charged for.
    pub fn bytes(&self) -> u64 {
        object_memory::block_bytes(self.memory).saturating_add(OBJECT_BYTES)
    }
}

#[cold]
fn not_aligned(alignment: usize) -> Status {
    Status::invalid_argument(format!("buffer alignment {alignment}: expected a power of two up to {MAX_ALIGNMENT}"))
}

#[cold]
fn no_layout(length: usize, alignment: usize) -> Status {
    Status::invalid_argument(format!("buffer of {length} bytes aligned to {alignment}: not a valid layout"))
}

#[cold]
fn no_memory(length: usize) -> Status {
    Status::resource_exhausted(format!("cannot allocate a buffer of {length} bytes"))
}

impl Buffer {
    /// Allocates `length` zeroed bytes, mutable. `alignment` 0 means [`DEFAULT_ALIGNMENT`]; otherwise it must be a
    /// power of two up to 65,536.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if the alignment is none of these, or if the length exceeds the address space;
    /// `RESOURCE_EXHAUSTED` if there is no memory.
    pub fn allocate(length: usize, alignment: usize) -> Result<Buffer> {
        Buffer::zeroed(BufferLayout::new(length, alignment)?)
    }

    /// A mutable buffer of zeros.
    ///
    /// # Errors
    /// `RESOURCE_EXHAUSTED` if there is no memory.
    #[doc(hidden)]
    #[inline]
    pub fn zeroed(layout: BufferLayout) -> Result<Buffer> {
        if object_memory::is_recycled(layout.memory) {
            // SAFETY: it is filled next.
            let buffer = unsafe { Buffer::uninit(layout) }?;
            // SAFETY: the buffer is as long as that.
            unsafe { buffer.data.as_ptr().write_bytes(0, layout.length) };
            return Ok(buffer);
        }
        // The system has zeros, so it may not have to write them. What `free` gives back to it comes from there.
        // SAFETY: the layout's size is at least one.
        Buffer::from_allocation(layout, NonNull::new(unsafe { alloc_zeroed(layout.memory) }))
    }

    /// A mutable buffer of uninitialised bytes.
    ///
    /// # Errors
    /// `RESOURCE_EXHAUSTED` if there is no memory.
    ///
    /// # Safety
    /// All bytes must be written before any is read.
    #[doc(hidden)]
    #[inline]
    pub unsafe fn uninit(layout: BufferLayout) -> Result<Buffer> {
        Buffer::from_allocation(layout, object_memory::try_allocate(layout.memory))
    }

    #[inline]
    fn from_allocation(layout: BufferLayout, data: Option<NonNull<u8>>) -> Result<Buffer> {
        let BufferLayout { memory, length, slack } = layout;
        let Some(data) = data else { return Err(no_memory(length)) };
        // Both are powers of two, so this is a multiple of the alignment, and at most the slack.
        let before = if slack > 0 { data.as_ptr().addr().wrapping_neg() % CACHE_LINE } else { 0 };
        // SAFETY: the allocation is longer than `length` by `slack`, and the alignment of its start bounds `before` by
        // that.
        let data = unsafe { data.add(before) };
        let owner = Owner::Heap(memory, before as u8, Charge::default());
        Ok(Buffer { data, length, mutable: true, owner })
    }

    /// The same buffer with a charge for its memory.
    #[doc(hidden)]
    #[inline]
    pub fn with_charge(mut self, counted: Charge) -> Buffer {
        if let Owner::Heap(.., charge) = &mut self.owner {
            *charge = counted;
        }
        self
    }

    /// A new mutable buffer with a copy of `bytes`.
    ///
    /// # Errors
    /// `RESOURCE_EXHAUSTED` if there is no memory.
    pub fn copy_of(bytes: &[u8]) -> Result<Buffer> {
        let layout = BufferLayout::new(bytes.len(), 0)?;
        // SAFETY: the new buffer is written next. It is as long as `bytes` and does not overlap it.
        let buffer = unsafe { Buffer::uninit(layout) }?;
        // SAFETY: the new buffer is written next. It is as long as `bytes` and does not overlap it.
        unsafe { buffer.data.as_ptr().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        Ok(buffer)
    }

    /// A buffer over bytes that `owner` keeps alive. Two small objects, the buffer and the owner, are charged to the
    /// call that makes it, even beyond its limit; memory that the owner has beyond itself needs a charge of its own.
    ///
    /// # Safety
    /// `data` must stay valid for reads (and writes if `mutable`) of `length` bytes as long as `owner` lives, and no
    /// Rust reference to bytes that a program may write may exist meanwhile.
    pub unsafe fn from_shared(
        owner: Arc<dyn Any + Send + Sync>,
        data: NonNull<u8>,
        length: usize,
        mutable: bool,
    ) -> Buffer {
        let charge = Charge::of_call_anyway(2 * OBJECT_BYTES);
        Buffer { data, length, mutable, owner: Owner::Shared { owner: owner.into(), _charge: charge } }
    }

    /// An object of its own over the bytes of `reference`, if that is a buffer whose bytes are shared anyway; else the
    /// same object.
    pub(crate) fn over_same_bytes(reference: &Ref) -> Ref {
        match reference.get() {
            Some(&Buffer { data, length, mutable, owner: Owner::Shared { ref owner, .. } }) => {
                let owner = Owner::Shared { owner: owner.clone(), _charge: Charge::of_call_anyway(OBJECT_BYTES) };
                Ref::new(Buffer { data, length, mutable, owner })
            }
            _ => reference.clone(),
        }
    }

    /// The owner of shared bytes, if it is a `T`.
    #[doc(hidden)]
    pub fn owner<T: Any>(&self) -> Option<&T> {
        match &self.owner {
            Owner::Shared { owner, .. } => owner.downcast_ref(),
            Owner::Heap(..) | Owner::Lent => None,
        }
    }

    /// Length in bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.length
    }

    /// True if the buffer has no bytes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// True if programs may write.
    #[inline]
    pub fn is_mutable(&self) -> bool {
        self.mutable
    }

    /// Address of the first byte. Valid for [`Buffer::len`] bytes as long as the buffer lives.
    #[inline]
    pub fn as_ptr(&self) -> *mut u8 {
        self.data.as_ptr()
    }

    /// Checks that `offset..offset + length` lies inside and returns the address of its first byte.
    ///
    /// # Errors
    /// `OUT_OF_RANGE` if the range is not inside.
    #[inline]
    pub fn range(&self, offset: u64, length: u64) -> Result<*mut u8> {
        match offset.checked_add(length) {
            // SAFETY: `offset <= end <= len`, so the address stays inside the allocation or one past its end.
            Some(end) if end <= self.length as u64 => Ok(unsafe { self.data.as_ptr().add(offset as usize) }),
            // Programs have signed numbers, and no buffer is so long that the sign means anything else.
            _ => Err(Status::out_of_range(format!(
                "byte range at offset {} of length {} exceeds the buffer's {} bytes",
                offset.cast_signed(),
                length.cast_signed(),
                self.length
            ))),
        }
    }

    /// As [`Buffer::range`], for writing.
    ///
    /// # Errors
    /// `PERMISSION_DENIED` if the buffer is read-only, `OUT_OF_RANGE` if the range is not inside.
    #[inline]
    pub fn range_mut(&self, offset: u64, length: u64) -> Result<*mut u8> {
        if !self.mutable {
            return Err(Status::permission_denied("the buffer is read-only"));
        }
        self.range(offset, length)
    }

    /// Copies `out.len()` bytes at `offset` into `out`.
    ///
    /// # Errors
    /// `OUT_OF_RANGE` if there are not as many bytes at the offset.
    pub fn read(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let source = self.range(offset, out.len() as u64)?;
        // SAFETY: the range was checked; `out` is exclusively ours and cannot overlap it.
        unsafe { source.copy_to_nonoverlapping(out.as_mut_ptr(), out.len()) };
        Ok(())
    }

    /// Copies `bytes` into the buffer at `offset`.
    ///
    /// # Errors
    /// `PERMISSION_DENIED` if the buffer is read-only, `OUT_OF_RANGE` if the bytes do not fit at the offset.
    pub fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let target = self.range_mut(offset, bytes.len() as u64)?;
        // SAFETY: the range was checked; no Rust reference to the buffer's bytes exists, so `bytes` cannot overlap it.
        unsafe { target.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        Ok(())
    }

    /// A copy of the whole contents.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut out = vec![0; self.length];
        // SAFETY: both are `length` bytes long and do not overlap.
        unsafe { self.data.as_ptr().copy_to_nonoverlapping(out.as_mut_ptr(), self.length) };
        out
    }
}

/// A buffer object that lends memory of the host to a program until [`Loan::end`], after which it is empty for all
/// references that the program has kept. Kernels in bytecode get their bindings like this, without an object for each
/// run.
#[derive(Debug)]
pub struct Loan(Obj<Buffer>);

impl Default for Loan {
    /// An empty object.
    fn default() -> Loan {
        Loan(Obj::new(Buffer { data: NonNull::dangling(), length: 0, mutable: false, owner: Owner::Lent }))
    }
}

impl Loan {
    /// The object.
    #[inline]
    pub fn object(&self) -> &Obj<Buffer> {
        &self.0
    }

    /// Lends `length` bytes from `data` on.
    ///
    /// # Safety
    /// Until [`Loan::end`] the bytes must be valid for reads, and for writes if `mutable`, without any Rust reference
    /// to those that a program may write. References to the object must not be used by another thread than this one
    /// while this function runs, and no Rust reference to the buffer in it may exist.
    #[inline]
    pub unsafe fn begin(&mut self, data: *mut u8, length: usize, mutable: bool) {
        let data = NonNull::new(data).unwrap_or(NonNull::dangling());
        let buffer = Buffer { data, length, mutable, owner: Owner::Lent };
        // SAFETY: nothing else reads or writes the buffer now, and the old value owns nothing.
        unsafe { self.0.as_mut_ptr().write(buffer) };
    }

    /// Ends the loan.
    ///
    /// # Safety
    /// As for [`Loan::begin`], as far as references to the object go.
    #[inline]
    pub unsafe fn end(&mut self) {
        // SAFETY: a range of no bytes is always valid; the caller guarantees the rest.
        unsafe { self.begin(std::ptr::null_mut(), 0, false) };
    }
}

impl Drop for Buffer {
    #[inline]
    fn drop(&mut self) {
        if let Owner::Heap(layout, before, _) = self.owner {
            // SAFETY: the bytes were allocated with exactly this layout, and begin `before` bytes after its start.
            unsafe { object_memory::free(self.data.sub(before.into()), layout) };
        }
    }
}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "vm.buffer({} bytes{})", self.length, if self.mutable { "" } else { ", read-only" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_to_what_they_ask_for_and_large_ones_to_lines() {
        for length in
            [0, 1, LARGE_BUFFER_BYTES - 1, LARGE_BUFFER_BYTES, LARGE_BUFFER_BYTES + 1, 10 * LARGE_BUFFER_BYTES + 7]
        {
            for alignment in [0, 1, 2, 16, 32, 64, 4096] {
                let buffer = Buffer::allocate(length, alignment).unwrap();
                let asked = if alignment == 0 { DEFAULT_ALIGNMENT } else { alignment };
                let expected = if length >= LARGE_BUFFER_BYTES { asked.max(CACHE_LINE) } else { asked };
                assert_eq!(buffer.as_ptr().addr() % expected, 0, "{length} bytes aligned to {alignment}");
                assert_eq!(buffer.to_vec(), vec![0; length]);
                buffer.write(0, &vec![1; length]).unwrap();
            }
        }
        assert!(Buffer::allocate(usize::MAX, 1).is_err());
        assert!(Buffer::allocate(isize::MAX as usize, 1).is_err());
    }
}
