//! The memory that a dispatch is bound to, as kernels take it.

use std::any::Any;
use std::ffi::c_void;
use std::marker::PhantomData;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::buffer::Subspan;
use crate::status::Result;
use crate::transfer::check_range;
use crate::transient::TransientBuffer;
use crate::{Buffer, HeapBuffer, MappingMode, MemoryAccess};

/// How kernels use memory. Which bindings they read and which they write nobody says; those that can be held to it learn what they may do.
const MODE: MappingMode = MappingMode::PERSISTENT;
const ACCESS: MemoryAccess = MemoryAccess::ANY;

/// The memory that a dispatch is bound to, as kernels take it: no length is more than what is there. It lives as long as the buffers
/// that were bound, which `'a` borrows.
#[derive(Default)]
pub struct Bindings<'a> {
    pointers: SmallVec<[*mut c_void; 16]>,
    lengths: SmallVec<[u64; 16]>,
    /// Which ones may not be written: few, and most often none.
    read_only: SmallVec<[usize; 4]>,
    /// What keeps memory that a buffer could give back meanwhile.
    owners: SmallVec<[Arc<dyn Any + Send + Sync>; 8]>,
    buffers: PhantomData<&'a dyn Buffer>,
}

// SAFETY: the pointers are followed by kernels alone, any number of threads of which may run at once; what they point to is kept by
// the buffers and owners, which threads may share.
unsafe impl Send for Bindings<'_> {}
// SAFETY: as above; nothing here changes once the bindings are made.
unsafe impl Sync for Bindings<'_> {}

impl<'a> Bindings<'a> {
    /// Adds a range of a buffer.
    #[inline(always)]
    pub fn bind(&mut self, buffer: &'a dyn Buffer, offset: u64, length: u64) -> Result<()> {
        let any: &dyn Any = buffer;
        // Memory that stays as long as the buffer does.
        let resident = match any.downcast_ref::<TransientBuffer>() {
            Some(transient) => transient.resident(),
            None => any.downcast_ref::<HeapBuffer>(),
        };
        let Some(heap) = resident else { return self.bind_other(buffer, offset, length) };
        let (data, length) = heap.range(MODE, ACCESS, offset, length)?;
        self.push(data.as_ptr().cast(), length, heap.is_writable_by_kernels());
        Ok(())
    }

    /// Adds a range of a buffer that is inside of another one, or whose memory has to be asked for.
    fn bind_other(&mut self, buffer: &'a dyn Buffer, offset: u64, length: u64) -> Result<()> {
        let any: &dyn Any = buffer;
        if let Some(subspan) = any.downcast_ref::<Subspan>() {
            let length = check_range(subspan.byte_length(), offset, length)?;
            let (allocation, start) = subspan.allocation_and_offset();
            // The subspan is inside of its allocation, so the sum is too.
            return self.bind(allocation, start + offset, length);
        }
        let mapping = buffer.map_range(MODE, ACCESS, offset, length)?;
        self.owners.push(mapping.owner);
        let writable = buffer.allowed_access().contains(MemoryAccess::WRITE);
        self.push(mapping.data.as_ptr().cast(), mapping.length, writable);
        Ok(())
    }

    /// Adds memory of the host.
    ///
    /// # Safety
    /// It must stay as long as the bindings do, and may be written if it is `writable`, or the function is trusted to know.
    pub unsafe fn bind_memory(&mut self, pointer: *mut c_void, length: u64, writable: bool) {
        self.push(pointer, length, writable);
    }

    #[inline(always)]
    fn push(&mut self, pointer: *mut c_void, length: u64, writable: bool) {
        if !writable {
            self.read_only.push(self.pointers.len());
        }
        self.pointers.push(pointer);
        self.lengths.push(length);
    }

    /// Where each one is.
    pub fn pointers(&self) -> &[*mut c_void] {
        &self.pointers
    }

    /// How many bytes there are.
    pub fn lengths(&self) -> &[u64] {
        &self.lengths
    }

    /// Whether one may be written.
    pub fn is_writable(&self, index: usize) -> bool {
        !self.read_only.contains(&index)
    }
}
