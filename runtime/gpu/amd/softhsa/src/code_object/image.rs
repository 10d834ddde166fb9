//! The memory image of a code object: its segments, placed from the start of a page on, and what the agent refuses to
//! load though it is well-formed.

use vireo_hsa::object::CodeObject;

use super::LoadError;

/// Bytes that the segments of a code object may span.
const MAX_SPAN: u64 = 1 << 30;

/// Segments begin on pages of their own, so that each is an allocation.
const PAGE: u64 = 4096;

/// Where the segments of a code object are in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Image {
    /// The address in the file of the first page.
    pub(crate) origin: u64,
    /// Bytes that the segments span, a multiple of a page.
    pub(crate) span: u64,
}

impl Image {
    /// Places the segments, and checks that the symbols are in them.
    ///
    /// # Errors
    /// If two segments share a page, one is too far away, or the code can change.
    pub(crate) fn of(object: &CodeObject<'_>) -> Result<Self, LoadError> {
        if object.has_thread_storage {
            return Err(LoadError::Unsupported("thread-local storage"));
        }
        if object.relocation_bytes != 0 {
            return Err(LoadError::Unsupported("relocations"));
        }
        if object.needs_others {
            return Err(LoadError::Unsupported("code that needs other code objects"));
        }
        let first = object.segments.first().ok_or(LoadError::NoSegment)?;
        let mut image = Image { origin: first.address / PAGE * PAGE, span: 0 };
        for segment in &object.segments {
            let refuse = |why| Err(LoadError::Segment { address: segment.address, why });
            let Some(start) = segment.address.checked_sub(image.origin).filter(|start| *start >= image.span) else {
                return refuse("shares a page with one before it");
            };
            let Some(end) = start.checked_add(segment.length).filter(|end| *end <= MAX_SPAN) else {
                return refuse("ends more than 1 GiB after the first one");
            };
            // The length of the file bounds how much is decoded.
            if segment.execute && segment.length != segment.bytes.len() as u64 {
                return refuse("is code that is longer in memory than in the file");
            }
            // Programs are decoded once, which would be wrong if a kernel could change them.
            if segment.write && segment.execute {
                return refuse("is both written and executed");
            }
            image.span = end.next_multiple_of(PAGE);
        }
        for symbol in &object.symbols {
            let end = image.place(symbol.address).and_then(|start| start.checked_add(symbol.size));
            if end.is_none_or(|end| end > image.span) {
                return Err(LoadError::Symbol { name: symbol.name.to_string(), address: symbol.address });
            }
        }
        Ok(image)
    }

    /// The offset of an address in the image; none before its first page.
    pub(crate) fn place(&self, address: u64) -> Option<u64> {
        address.checked_sub(self.origin)
    }
}
