//! The bindings of a dispatch as kernels take them: arrays of pointers and lengths. Executions of command programs and
//! dispatches without a device make them.

use std::any::Any;
use std::ffi::c_void;
use std::marker::PhantomData;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::status::Result;
use crate::{Buffer, HeapBuffer, MappingMode, MemoryAccess};

/// How kernels use memory. Programs do not say which bindings a kernel reads and which it writes, so access is not
/// checked here; kernels in bytecode are held to `is_writable`.
const MODE: MappingMode = MappingMode::PERSISTENT.union(MappingMode::UNWATCHED);
const ACCESS: MemoryAccess = MemoryAccess::ANY;

/// The bindings of a dispatch. All lengths are within the bound buffers, which `'a` borrows.
#[derive(Default)]
pub struct Bindings<'a> {
    pointers: SmallVec<[*mut c_void; 16]>,
    lengths: SmallVec<[u64; 16]>,
    /// Indices of bindings that may not be written: few, and most often none.
    read_only: SmallVec<[usize; 4]>,
    /// Owners of memory that a buffer could release meanwhile.
    owners: SmallVec<[Arc<dyn Any + Send + Sync>; 8]>,
    buffers: PhantomData<&'a dyn Buffer>,
}

// SAFETY: only kernels follow the pointers, on any number of threads at once; the buffers and owners, which threads may
// share, keep the memory.
unsafe impl Send for Bindings<'_> {}
// SAFETY: only kernels follow the pointers, on any number of threads at once; the buffers and owners, which threads may
// share, keep the memory; nothing here changes once the bindings are made.
unsafe impl Sync for Bindings<'_> {}

impl<'a> Bindings<'a> {
    /// Adds a range of memory of the host's heap, which `'a` borrows, so that it needs no owner.
    ///
    /// # Errors
    /// `OUT_OF_RANGE` if the range is not within the buffer.
    #[inline(always)]
    pub fn bind_heap(&mut self, buffer: &'a HeapBuffer, offset: u64, length: u64) -> Result<()> {
        let (data, length) = buffer.range(MODE, ACCESS, offset, length)?;
        self.push(data.as_ptr().cast(), length, buffer.is_writable_by_kernels());
        Ok(())
    }

    /// Adds a range of a buffer that has to be mapped. The mapping's owner stays with the bindings.
    ///
    /// # Errors
    /// `OUT_OF_RANGE` if the range is not within the buffer, and other failures of mapping it.
    pub fn bind_mapped(&mut self, buffer: &'a dyn Buffer, offset: u64, length: u64) -> Result<()> {
        let mapping = buffer.map_range(MODE, ACCESS, offset, length)?;
        self.owners.push(mapping.owner);
        let writable = buffer.allowed_access().contains(MemoryAccess::WRITE);
        self.push(mapping.data.as_ptr().cast(), mapping.length, writable);
        Ok(())
    }

    /// Adds memory of the host.
    ///
    /// # Safety
    /// It must stay valid as long as the bindings, for writes too if it is `writable`; native functions are trusted to
    /// write only where they may.
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

    /// The address of each binding.
    pub fn pointers(&self) -> &[*mut c_void] {
        &self.pointers
    }

    /// The length of each binding in bytes.
    pub fn lengths(&self) -> &[u64] {
        &self.lengths
    }

    /// Whether a binding may be written.
    pub fn is_writable(&self, index: usize) -> bool {
        !self.read_only.contains(&index)
    }
}
