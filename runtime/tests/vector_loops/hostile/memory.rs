//! The memory that hostile nests access: regions with pages around them without access, so that machine code which
//! leaves a buffer that ends with its region ends the process. What is in a region beside a buffer is compared with the
//! rest.

use std::ptr::{self, NonNull};
use std::sync::Arc;

use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect};
use vireo::vm::{Buffer, Obj};

/// Bytes of a region.
pub const REGION: usize = 1 << 15;
/// How many there are.
pub const REGIONS: usize = 4;
/// Bytes from the start of one to that of the next: the rest is inaccessible.
const DISTANCE: usize = 1 << 20;
/// Inaccessible bytes before and after all of them.
const AROUND: usize = 1 << 36;

/// A buffer in a region.
#[derive(Clone, Copy, Debug)]
pub struct View {
    pub region: usize,
    pub offset: usize,
    pub length: usize,
    pub is_mutable: bool,
}

/// All regions.
pub struct Memory {
    first: NonNull<u8>,
}

impl Memory {
    /// New regions, which are there until the process ends.
    pub fn new() -> Memory {
        let length = 2 * AROUND + REGIONS * DISTANCE;
        // SAFETY: a new mapping at an address that the system chooses touches no other memory.
        let base = unsafe {
            mmap_anonymous(ptr::null_mut(), length, ProtFlags::empty(), MapFlags::PRIVATE | MapFlags::NORESERVE)
        };
        let base: NonNull<u8> = NonNull::new(base.expect("there is address space").cast()).expect("it is mapped");
        // SAFETY: the mapping is longer than that.
        let first = unsafe { base.add(AROUND) };
        for region in 0..REGIONS {
            // SAFETY: the region is inside of the mapping, nothing refers to it, and it begins and ends with a page:
            // regions are aligned to more.
            let made = unsafe {
                mprotect(
                    first.add(region * DISTANCE).as_ptr().cast(),
                    REGION,
                    MprotectFlags::READ | MprotectFlags::WRITE,
                )
            };
            made.expect("pages can be made accessible");
        }
        Memory { first }
    }

    fn region(&self, region: usize) -> NonNull<u8> {
        assert!(region < REGIONS);
        // SAFETY: it is inside of the mapping.
        unsafe { self.first.add(region * DISTANCE) }
    }

    /// Writes all of it.
    pub fn fill(&self, contents: &[u8]) {
        assert_eq!(contents.len(), REGIONS * REGION);
        for (region, bytes) in contents.chunks_exact(REGION).enumerate() {
            // SAFETY: a region has as many bytes, to which there is no reference; no program runs.
            unsafe { self.region(region).as_ptr().copy_from_nonoverlapping(bytes.as_ptr(), REGION) };
        }
    }

    /// Reads all of it.
    pub fn read(&self, contents: &mut [u8]) {
        assert_eq!(contents.len(), REGIONS * REGION);
        for (region, bytes) in contents.chunks_exact_mut(REGION).enumerate() {
            // SAFETY: a region has as many bytes, to which there is no reference; no program runs.
            unsafe { self.region(region).as_ptr().copy_to_nonoverlapping(bytes.as_mut_ptr(), REGION) };
        }
    }

    /// A buffer object for a view.
    pub fn buffer(&self, view: View) -> Obj<Buffer> {
        assert!(view.offset <= REGION && view.length <= REGION - view.offset);
        // SAFETY: the bytes are in one region, which stays where it is until the process ends; no Rust reference to
        // them is ever made.
        let buffer = unsafe {
            let data = self.region(view.region).add(view.offset);
            Buffer::from_shared(Arc::new(()), data, view.length, view.is_mutable)
        };
        Obj::new(buffer)
    }
}
