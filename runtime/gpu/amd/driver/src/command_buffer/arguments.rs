//! Memory for arguments of kernels, and their contents: [`ArgumentRange`] is memory that was reserved for some of them;
//! the rest lays out implicit arguments.

use std::mem::offset_of;
use std::ptr::NonNull;

use vireo_hsa::kernarg::ImplicitArgs;

use crate::status::{Result, Status};

/// Alignment of the arguments of each kernel.
pub(super) const ARGUMENT_ALIGNMENT: usize = 64;

/// Bytes of the implicit arguments that the driver writes: those up to the size of dynamic work-group memory.
pub(super) const IMPLICIT_SIZE: usize = offset_of!(ImplicitArgs, dynamic_lds_size) + size_of::<u32>();

/// Dimensions of all grids.
const DIMENSIONS: u16 = 3;

/// Bytes that the arguments take in reserved memory.
#[inline]
pub(super) fn reserved_size(bytes: usize) -> usize {
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
// SAFETY: shared references only read the address and the length; writes need an `ArgumentRange`, and those do not
// overlap.
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

/// Reserved memory for arguments.
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

    /// Takes the first bytes of it away, as a range of their own; none if it has less.
    pub(super) fn split_first(&mut self, length: usize) -> Option<ArgumentRange> {
        let end = self.start.checked_add(length).filter(|end| *end <= self.end)?;
        let first = ArgumentRange { memory: self.memory, start: self.start, end };
        self.start = end;
        Some(first)
    }

    /// Writes `bytes` to its beginning.
    ///
    /// # Errors
    /// INTERNAL if it has less room: the block computed its need wrongly.
    pub fn fill(&mut self, bytes: &[u8]) -> Result<()> {
        self.put(0, bytes)
    }

    /// Makes all of it zero.
    pub(super) fn clear(&mut self) {
        // SAFETY: `start..end` is within the memory, which the maker of the range keeps allocated and unused by others.
        unsafe { self.memory.host.add(self.start).write_bytes(0, self.end - self.start) };
    }

    /// Writes eight bytes at an offset.
    ///
    /// # Errors
    /// INTERNAL if that is not within it.
    #[inline]
    pub fn put_u64(&mut self, offset: usize, value: u64) -> Result<()> {
        if offset.checked_add(8).is_none_or(|end| end > self.end - self.start) {
            return Err(self.too_short(offset, 8));
        }
        // SAFETY: the eight bytes end before `end`, within the memory, which the maker of the range keeps allocated and
        // unused by others.
        unsafe { self.memory.host.add(self.start + offset).cast::<u64>().write_unaligned(value.to_le()) };
        Ok(())
    }

    #[cold]
    fn too_short(&self, offset: usize, length: usize) -> Status {
        let reserved = self.end - self.start;
        Status::internal(format!("{length} bytes of arguments at {offset}, {reserved} are reserved"))
    }

    /// Writes `bytes` at an offset.
    ///
    /// # Errors
    /// INTERNAL if that is not within it.
    #[inline]
    pub fn put(&mut self, offset: usize, bytes: &[u8]) -> Result<()> {
        let room = (self.end - self.start).checked_sub(offset).filter(|room| bytes.len() <= *room);
        if room.is_none() {
            return Err(self.too_short(offset, bytes.len()));
        }
        // SAFETY: the piece is within the memory, and the maker of the range guarantees that nothing else uses it.
        unsafe {
            let target = self.memory.host.add(self.start + offset);
            target.copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len());
        }
        Ok(())
    }
}

/// The implicit arguments of a grid, as far as the driver sets them.
#[inline]
pub(super) fn implicit_arguments(
    workgroup_count: [u32; 3],
    workgroup_size: [u16; 3],
    dynamic_local_memory: u32,
) -> [u8; IMPLICIT_SIZE] {
    // Work-groups are whole, since counts of them make the grid, so there is no remainder.
    let mut bytes = [0; IMPLICIT_SIZE];
    let mut put = |offset: usize, value: &[u8]| bytes[offset..offset + value.len()].copy_from_slice(value);
    for (index, count) in workgroup_count.iter().enumerate() {
        put(offset_of!(ImplicitArgs, block_count) + index * size_of::<u32>(), &count.to_le_bytes());
    }
    for (index, size) in workgroup_size.iter().enumerate() {
        put(offset_of!(ImplicitArgs, group_size) + index * size_of::<u16>(), &size.to_le_bytes());
    }
    put(offset_of!(ImplicitArgs, grid_dims), &DIMENSIONS.to_le_bytes());
    put(offset_of!(ImplicitArgs, dynamic_lds_size), &dynamic_local_memory.to_le_bytes());
    bytes
}

const _: () = assert!(IMPLICIT_SIZE == 124);
