//! Constants of a module as programs have them: read-only buffers over ranges of its file.

use std::ops::Range;
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock};

use super::buffer::Buffer;
use crate::status::{Result, Status};
use crate::vmfb::bytes::PrivateMemory;
use crate::vmfb::{Archive, Segment};

/// What keeps the bytes of a constant.
pub struct Constant {
    segment: Segment,
    /// What kernels use that get the buffer itself.
    kernel_copy: OnceLock<Result<Buffer>>,
}

impl Buffer {
    /// A read-only buffer over a range of a module file, which it keeps.
    ///
    /// # Errors
    /// `OUT_OF_RANGE` if the range is not inside of the file.
    pub fn of_archive(archive: &Archive, range: Range<usize>) -> Result<Buffer> {
        let constant = Constant { segment: archive.segment(range)?, kernel_copy: OnceLock::new() };
        let bytes = constant.segment.bytes();
        let (data, length) = (NonNull::from(bytes).cast(), bytes.len());
        // SAFETY: the segment keeps the bytes alive and at their place, and nobody writes to them: the buffer is read-only, and those who
        // write get memory of their own (`Constant::writable_copy`).
        Ok(unsafe { Buffer::from_shared(Arc::new(constant), data, length, false) })
    }
}

impl Constant {
    /// New memory with a range of the constant, for a use that may write to it although the program may not: compilers let kernels
    /// compute in place of constants that nobody reads afterwards. OUT_OF_RANGE if it is not inside.
    pub fn writable_copy(&self, offset: u64, length: u64) -> Result<Buffer> {
        self.segment.writable(offset, length).map(mutable_buffer)
    }

    /// The memory of all kernels that get the constant itself, which is made when it is first asked for.
    pub fn kernel_copy(&self) -> Result<&Buffer> {
        let kernel_copy = self.kernel_copy.get_or_init(|| self.writable_copy(0, self.segment.bytes().len() as u64));
        kernel_copy.as_ref().map_err(Status::clone)
    }
}

/// A mutable buffer of memory that nobody else has.
fn mutable_buffer(mut memory: PrivateMemory) -> Buffer {
    let bytes = memory.as_mut_slice();
    let (data, length) = (NonNull::from(&mut *bytes).cast(), bytes.len());
    // SAFETY: the memory stays where it is as long as the owner, and only the buffer refers to it.
    unsafe { Buffer::from_shared(Arc::new(memory), data, length, true) }
}
