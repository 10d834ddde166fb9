//! Executable memory: images of ELF kernels and code spaces of the JIT. No other code makes memory executable.
//!
//! Pages are written first and executed later: a page is never writable and executable at the same time, because
//! [`Protection`] has no value for that and a mapping is writable only until it is sealed.

use std::ops::Range;
use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

use crate::status::{Result, Status};

pub use crate::pages::{CAN_EXECUTE, Protection, page_size};

use crate::pages::PageMapping;

/// The purpose of the pages, in messages.
const PURPOSE: &str = "native code";

/// Pages that are being written.
pub struct WritableImage {
    pages: PageMapping,
}

/// Pages with their final protection.
pub struct SealedImage {
    pages: PageMapping,
    ranges: Vec<(Range<usize>, Protection)>,
}

/// A code space: reserved address space to which code is added function by function, in one mapping as long as that is
/// large enough. Guard pages at its ends, and pages without code, cannot be accessed.
pub struct CodeSpace {
    /// Bytes of a mapping.
    length: usize,
    /// The mappings, each with the bytes of it that are used.
    mappings: Mutex<Vec<(PageMapping, usize)>>,
}

impl CodeSpace {
    /// A code space that reserves mappings of `length` bytes, and another one when a mapping is full. Nothing is mapped
    /// yet.
    pub fn new(length: usize) -> CodeSpace {
        CodeSpace { length, mappings: Mutex::new(Vec::new()) }
    }

    /// Copies `code` into the space, makes it executable, and returns its address. It stays there as long as this value
    /// lives.
    pub fn add(&self, code: &[u8]) -> Result<usize> {
        let page = page_size();
        let exhausted = || Status::resource_exhausted(format!("cannot map {} bytes for native code", code.len()));
        let size = code.len().max(1).checked_next_multiple_of(page).ok_or_else(exhausted)?;
        let mut mappings = self.mappings.lock().unwrap_or_else(PoisonError::into_inner);
        if mappings.last().is_none_or(|(pages, used)| pages.length() - used < size + page) {
            let length = self.length.max(size).checked_add(2 * page).ok_or_else(exhausted)?;
            mappings.push((PageMapping::inaccessible(length, PURPOSE)?, page));
        }
        let (pages, used) = mappings.last_mut().ok_or_else(exhausted)?;
        let range = *used..*used + size;
        // SAFETY: the range has been checked to be within the mapping and is unused: the used bytes end where it
        // begins. While it is writable, only this function has its address.
        unsafe {
            pages.protect(range.clone(), Protection::ReadWrite)?;
            let target = pages.base().add(range.start);
            target.copy_from_nonoverlapping(NonNull::from(code).cast(), code.len());
            pages.protect(range.clone(), Protection::ReadExecute)?;
            *used = range.end;
            Ok(target.as_ptr() as usize)
        }
    }
}

impl WritableImage {
    /// Maps at least `length` zeroed bytes, rounded up to pages.
    pub fn new(length: usize) -> Result<WritableImage> {
        Ok(WritableImage { pages: PageMapping::writable(length, PURPOSE)? })
    }

    /// Address of its first byte.
    pub fn base(&self) -> u64 {
        self.pages.base().as_ptr() as u64
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping is readable and `length` bytes long, and only `bytes_mut`, which needs `&mut`, writes to
        // it.
        unsafe { std::slice::from_raw_parts(self.pages.base().as_ptr(), self.pages.length()) }
    }

    /// Its bytes, writable.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the mapping is writable and `length` bytes long, and `&mut self` makes this the only reference.
        unsafe { std::slice::from_raw_parts_mut(self.pages.base().as_ptr(), self.pages.length()) }
    }

    /// Gives ranges of whole pages their final protection; all other pages become inaccessible. Later ranges win over
    /// earlier ones.
    pub fn seal(self, ranges: Vec<(Range<usize>, Protection)>) -> Result<SealedImage> {
        let page = page_size();
        let whole = std::iter::once((0..self.pages.length(), Protection::None));
        for (range, protection) in whole.chain(ranges.iter().cloned()) {
            if !range.start.is_multiple_of(page) || !range.end.is_multiple_of(page) || range.end > self.pages.length() {
                return Err(Status::internal(format!("{range:#x?} is not a range of pages of the image")));
            }
            // SAFETY: the range lies within our mapping, and no reference to its bytes exists: `self` is owned here.
            unsafe { self.pages.protect(range, protection)? };
        }
        Ok(SealedImage { pages: self.pages, ranges })
    }
}

impl SealedImage {
    /// Address of its first byte.
    pub fn base(&self) -> u64 {
        self.pages.base().as_ptr() as u64
    }

    /// The protection of the page that holds the byte at `offset`.
    pub fn protection(&self, offset: usize) -> Protection {
        let mut matching = self.ranges.iter().rev().filter(|(range, _)| range.contains(&offset));
        matching.next().map_or(Protection::None, |(_, protection)| *protection)
    }

    /// The address of `length` readable bytes of the image at the absolute address `address`; none if they are not all
    /// part of it.
    pub fn readable(&self, address: u64, length: u64) -> Option<NonNull<u8>> {
        let offset = usize::try_from(address.checked_sub(self.base())?).ok()?;
        let end = offset.checked_add(usize::try_from(length).ok()?)?;
        if end > self.pages.length() {
            return None;
        }
        let page = page_size();
        let first = offset / page * page;
        let all = (first..end.max(offset + 1)).step_by(page).all(|page| self.protection(page) != Protection::None);
        // SAFETY: `offset` is within the mapping.
        all.then(|| unsafe { self.pages.base().add(offset) })
    }

    /// True if `address` is the address of code of the image.
    pub fn is_code(&self, address: u64) -> bool {
        let offset = address.checked_sub(self.base()).and_then(|offset| usize::try_from(offset).ok());
        offset.is_some_and(|offset| self.protection(offset) == Protection::ReadExecute)
    }
}
