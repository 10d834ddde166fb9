//! Constants of modules: read-only buffers over ranges of the module file, and private copies for kernels that write to
//! them. Sessions make them when they load a module; native modules ask for the copies.

use std::ops::Range;
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock};

use super::buffer::Buffer;
use crate::limits::{Charge, block_bytes};
use crate::status::Result;
use crate::vmfb::bytes::PrivateMemory;
use crate::vmfb::schema::module_file::SEGMENT_ALIGNMENT;
use crate::vmfb::{Archive, Segment};

/// The owner of the bytes of a constant.
pub struct Constant {
    segment: Segment,
    /// The copy for kernels that get the whole constant, made on first use.
    kernel_copy: OnceLock<Buffer>,
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
        // SAFETY: the segment keeps the bytes alive and in place, and nothing writes to them: the buffer is read-only,
        // and kernels that write get memory of their own (`Constant::writable_copy`).
        Ok(unsafe { Buffer::from_shared(Arc::new(constant), data, length, false) })
    }
}

impl Constant {
    /// A private copy of a range of the constant, for kernels, which may write to it although the program may not:
    /// compilers let kernels compute in place of a constant that is dead afterwards.
    ///
    /// # Errors
    /// `OUT_OF_RANGE` if the range is not inside, `RESOURCE_EXHAUSTED` if there is no memory for the copy.
    pub fn writable_copy(&self, offset: u64, length: u64) -> Result<Buffer> {
        // Longer ranges are refused.
        let length_inside = length.min(self.segment.bytes().len() as u64);
        let charge = Charge::of_call(block_bytes(length_inside, SEGMENT_ALIGNMENT), "a copy of a constant")?;
        Ok(mutable_buffer(self.segment.writable(offset, length)?, charge))
    }

    /// The copy that all kernels share which get the whole constant. It is made on the first call.
    ///
    /// # Errors
    /// `RESOURCE_EXHAUSTED` if there is no memory for the copy.
    pub fn kernel_copy(&self) -> Result<&Buffer> {
        if let Some(kernel_copy) = self.kernel_copy.get() {
            return Ok(kernel_copy);
        }
        // A failure is that of one call: the next one may have the memory. Should another thread be faster, its copy is
        // taken.
        let kernel_copy = self.writable_copy(0, self.segment.bytes().len() as u64)?;
        Ok(self.kernel_copy.get_or_init(|| kernel_copy))
    }
}

/// A mutable buffer that owns private memory, with the charge for that.
fn mutable_buffer(mut memory: PrivateMemory, charge: Charge) -> Buffer {
    let bytes = memory.as_mut_slice();
    let (data, length) = (NonNull::from(&mut *bytes).cast(), bytes.len());
    // SAFETY: the memory stays where it is as long as the owner, and only the buffer has its address.
    unsafe { Buffer::from_shared(Arc::new((memory, charge)), data, length, true) }
}
