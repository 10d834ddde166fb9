//! Ranges of buffers as bindings of kernels that run on the host.

use std::any::Any;

use crate::buffer::Subspan;
use crate::host_kernels::Bindings;
use crate::status::Result;
use crate::transfer::check_range;
use crate::transient::TransientBuffer;
use crate::{Buffer, HeapBuffer};

/// Adds a range of a buffer to the bindings of a dispatch.
///
/// # Errors
/// `OUT_OF_RANGE` if the range is not within the buffer, and other failures of mapping it.
#[inline(always)]
pub fn bind<'a>(bindings: &mut Bindings<'a>, buffer: &'a dyn Buffer, offset: u64, length: u64) -> Result<()> {
    let any: &dyn Any = buffer;
    // Memory that stays as long as the buffer needs no owner.
    let resident = match any.downcast_ref::<TransientBuffer>() {
        Some(transient) => transient.resident(),
        None => any.downcast_ref::<HeapBuffer>(),
    };
    match resident {
        Some(heap) => bindings.bind_heap(heap, offset, length),
        None => bind_other(bindings, buffer, offset, length),
    }
}

/// Adds a range of a subspan, or of a buffer that has to be mapped.
fn bind_other<'a>(bindings: &mut Bindings<'a>, buffer: &'a dyn Buffer, offset: u64, length: u64) -> Result<()> {
    let any: &dyn Any = buffer;
    if let Some(subspan) = any.downcast_ref::<Subspan>() {
        let length = check_range(subspan.byte_length(), offset, length)?;
        let (allocation, start) = subspan.allocation_and_offset();
        // The subspan is within its allocation, so the sum is too.
        return bind(bindings, allocation, start + offset, length);
    }
    bindings.bind_mapped(buffer, offset, length)
}
