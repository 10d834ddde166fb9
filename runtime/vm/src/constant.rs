//! Constants of modules: read-only buffers over ranges of the module file, and private copies for kernels that write to them. Sessions make them when
//! they load a module; native modules ask for the copies.

use std::ops::Range;
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock};

use super::buffer::Buffer;
use crate::status::{Result, Status};
use crate::vmfb::bytes::PrivateMemory;
use crate::vmfb::{Archive, Segment};

/// The owner of the bytes of a constant.
pub struct Constant {
    segment: Segment,
    /// The copy for kernels that get the whole constant, made on first use.
    kernel_copy: OnceLock<Result<Buffer>>,
}

impl Buffer {
    /// A read-only buffer over a range of a module file, which it keeps alive.
    ///
    /// # Errors
    /// `OUT_OF_RANGE` if the range is not inside of the file.
    pub fn of_archive(archive: &Archive, range: Range<usize>) -> Result<Buffer> {
        let constant = Constant { segment: archive.segment(range)?, kernel_copy: OnceLock::new() };
        let bytes = constant.segment.bytes();
        let (data, length) = (NonNull::from(bytes).cast(), bytes.len());
        // SAFETY: the segment keeps the bytes alive and in place, and nothing writes to them: the buffer is read-only, and kernels that
        // write get memory of their own (`Constant::writable_copy`).
        Ok(unsafe { Buffer::from_shared(Arc::new(constant), data, length, false) })
    }
}

impl Constant {
    /// A private copy of a range of the constant, for kernels, which may write to it although the program may not: compilers let kernels compute in
    /// place of a constant that is dead afterwards.
    ///
    /// # Errors
    /// `OUT_OF_RANGE` if the range is not inside, `RESOURCE_EXHAUSTED` if there is no memory for the copy.
    pub fn writable_copy(&self, offset: u64, length: u64) -> Result<Buffer> {
        self.segment.writable(offset, length).map(mutable_buffer)
    }

    /// The copy that all kernels share which get the whole constant. It is made on the first call.
    ///
    /// # Errors
    /// `RESOURCE_EXHAUSTED` if there is no memory for the copy.
    pub fn kernel_copy(&self) -> Result<&Buffer> {
        let kernel_copy = self.kernel_copy.get_or_init(|| self.writable_copy(0, self.segment.bytes().len() as u64));
        kernel_copy.as_ref().map_err(Status::clone)
    }
}

/// A mutable buffer that owns private memory.
fn mutable_buffer(mut memory: PrivateMemory) -> Buffer {
    let bytes = memory.as_mut_slice();
    let (data, length) = (NonNull::from(&mut *bytes).cast(), bytes.len());
    // SAFETY: the memory stays where it is as long as the owner, and only the buffer has its address.
    unsafe { Buffer::from_shared(Arc::new(memory), data, length, true) }
}
