//! Memory for arguments of kernels, and their contents: [`ArgumentRange`] is memory that was reserved for a block; the rest lays out implicit
//! arguments.

use std::ptr::NonNull;

use vireo_hsa::kernarg::ImplicitArgs;

use crate::status::{Result, Status};

/// Alignment of the arguments of each kernel.
pub(super) const ARGUMENT_ALIGNMENT: u64 = 64;

/// Bytes of the implicit arguments that the driver writes: those up to the size of dynamic work-group memory.
pub(super) const IMPLICIT_SIZE: usize = std::mem::offset_of!(ImplicitArgs, dynamic_lds_size) + size_of::<u32>();

/// Bytes that the arguments take in reserved memory.
pub(super) fn reserved_size(bytes: u64) -> u64 {
    bytes.next_multiple_of(ARGUMENT_ALIGNMENT)
}

/// Memory that the host writes and kernels read.
#[derive(Clone, Copy, Debug)]
pub struct ArgumentMemory {
    host: NonNull<u8>,
    address: u64,
    length: usize,
}

// SAFETY: the memory is only written through `ArgumentRange`s, which do not overlap.
unsafe impl Send for ArgumentMemory {}
// SAFETY: as above.
unsafe impl Sync for ArgumentMemory {}

impl ArgumentMemory {
    /// The `length` bytes that the host finds at `host` and kernels at `address`.
    ///
    /// # Safety
    /// They are there as long as this and ranges of it are used, and no Rust reference to them exists meanwhile.
    pub unsafe fn new(host: NonNull<u8>, address: u64, length: usize) -> ArgumentMemory {
        ArgumentMemory { host, address, length }
    }

    /// Bytes.
    pub fn length(&self) -> usize {
        self.length
    }

    /// A part of it; none if it is not within the memory.
    ///
    /// # Safety
    /// Nothing else writes to the part, and no kernel reads it, as long as the result is used.
    pub unsafe fn range(&self, start: usize, length: usize) -> Option<ArgumentRange> {
        let end = start.checked_add(length).filter(|end| *end <= self.length)?;
        Some(ArgumentRange { memory: *self, start, end })
    }
}

/// Reserved memory for the arguments of a block.
#[derive(Debug)]
pub struct ArgumentRange {
    memory: ArgumentMemory,
    start: usize,
    end: usize,
}

impl ArgumentRange {
    /// Its address for kernels.
    pub fn address(&self) -> u64 {
        self.memory.address + self.start as u64
    }

    /// Writes `bytes` to its beginning.
    ///
    /// # Errors
    /// INTERNAL if it has less room: the block computed its need wrongly.
    pub fn fill(&mut self, bytes: &[u8]) -> Result<()> {
        self.put(0, bytes)
    }

    /// Writes `bytes` at an offset.
    ///
    /// # Errors
    /// INTERNAL if that is not within it.
    pub fn put(&mut self, offset: usize, bytes: &[u8]) -> Result<()> {
        let room = (self.end - self.start).checked_sub(offset).filter(|room| bytes.len() <= *room);
        if room.is_none() {
            let (length, reserved) = (bytes.len(), self.end - self.start);
            return Err(Status::internal(format!("{length} bytes of arguments at {offset}, {reserved} are reserved")));
        }
        // SAFETY: the piece is within the memory, and whoever made the range vouches that nothing else uses it.
        unsafe {
            let target = self.memory.host.add(self.start + offset);
            target.copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len());
        }
        Ok(())
    }
}

/// The implicit arguments of a grid, as far as the driver sets them.
pub(super) fn implicit_arguments(
    workgroup_count: [u32; 3],
    workgroup_size: [u16; 3],
    dynamic_local_memory: u32,
) -> [u8; IMPLICIT_SIZE] {
    // Work-groups are whole, since counts of them make the grid.
    let arguments = ImplicitArgs {
        block_count: workgroup_count,
        group_size: workgroup_size,
        grid_dims: 3,
        dynamic_lds_size: dynamic_local_memory,
        ..ImplicitArgs::default()
    };
    let bytes = arguments.to_bytes();
    std::array::from_fn(|index| bytes[index])
}

/// Writes `value` at `offset` of arguments, which grow if they are shorter.
pub(super) fn put(arguments: &mut Vec<u8>, offset: usize, value: &[u8]) {
    let end = offset + value.len();
    if arguments.len() < end {
        arguments.resize(end, 0);
    }
    arguments[offset..end].copy_from_slice(value);
}
