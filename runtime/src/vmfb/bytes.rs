//! The bytes of a module file: mapped, owned or static. Nobody ever writes to them.

use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::Arc;

use memmap2::{Mmap, MmapMut, MmapOptions};

use crate::status::{Result, Status, StatusCode};
use crate::vm::Buffer;
use crate::vmfb::schema::module_file::SEGMENT_ALIGNMENT;

/// Files up to this size are read: that takes no longer than to map them, and what others do to the file does not matter then.
pub(super) const MAX_READ_SIZE: u64 = 1 << 20;

/// Ranges of mapped files up to this size are copied: mapping them would cost more than the copy, and wastes a part of a page.
const MAX_COPIED_RANGE: usize = 64 << 10;

/// Bytes that stay at their place as long as this lives.
pub(super) enum Bytes {
    /// A file that is mapped for reading, and the file itself, to map parts of it for writing.
    Mapped(Mmap, File),
    /// A buffer that was filled once and that nobody else has.
    Owned(Buffer),
    Static(&'static [u8]),
}

impl Bytes {
    /// The file at `path`: read if it is small, else mapped.
    pub fn open(path: &Path) -> Result<Bytes> {
        let (file, length) = open(path)?;
        if length <= MAX_READ_SIZE {
            return Bytes::fill(path, file, length);
        }
        // SAFETY: nothing is verified in the mapping and used from there later (`Archive` copies the tables first), so whoever writes to
        // the file changes constants of the program and nothing else. No reference to its bytes is used in safe code but to copy them.
        // That a file which is cut short ends the process when those are read is said where users open one.
        let map = unsafe { MmapOptions::new().map_copy_read_only(&file) };
        let map = map.map_err(|error| refuse(path, "map", error))?;
        Ok(Bytes::Mapped(map, file))
    }

    /// The file at `path`, read.
    pub fn read(path: &Path) -> Result<Bytes> {
        let (file, length) = open(path)?;
        Bytes::fill(path, file, length)
    }

    /// The first `length` bytes of a file, or fewer if it became shorter meanwhile.
    fn fill(path: &Path, file: File, length: u64) -> Result<Bytes> {
        let length = usize::try_from(length).map_err(|_| {
            Status::resource_exhausted(format!("{}: {length} bytes do not fit the address space", path.display()))
        })?;
        let buffer = Buffer::allocate(length, SEGMENT_ALIGNMENT as usize)?;
        // SAFETY: the buffer is new, so nobody else uses its bytes, and they are zero.
        let bytes = unsafe { std::slice::from_raw_parts_mut(buffer.as_ptr(), length) };
        let (mut file, mut filled) = (file, 0);
        while filled < length {
            match file.read(&mut bytes[filled..]) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(refuse(path, "read", error)),
            }
        }
        if filled < length { Bytes::copy(&bytes[..filled]) } else { Ok(Bytes::Owned(buffer)) }
    }

    /// A copy of `bytes`, aligned as the segments of a module file want to be.
    pub fn copy(bytes: &[u8]) -> Result<Bytes> {
        let buffer = Buffer::allocate(bytes.len(), SEGMENT_ALIGNMENT as usize)?;
        buffer.write(0, bytes)?;
        Ok(Bytes::Owned(buffer))
    }

    /// Whether nobody outside of this process can change them.
    pub fn are_owned(&self) -> bool {
        matches!(self, Bytes::Owned(_))
    }

    pub fn as_slice(&self) -> &[u8] {
        match self {
            Bytes::Mapped(map, _) => map,
            Bytes::Owned(buffer) => slice_of(buffer),
            Bytes::Static(bytes) => bytes,
        }
    }

    /// New memory with the bytes of `range`, which is inside: pages of the file that become this process's own when they are written
    /// to, or a copy.
    pub fn writable(&self, range: Range<usize>) -> Result<Buffer> {
        match self {
            Bytes::Mapped(map, file) if range.len() > MAX_COPIED_RANGE && range.end <= map.len() => {
                let mut options = MmapOptions::new();
                // SAFETY: the pages are reached only through the raw pointers of the buffer. What others do to the file changes what is
                // in them, where bytes are all the same to whoever reads them.
                let pages = unsafe { options.offset(range.start as u64).len(range.len()).map_copy(file) };
                let pages: MmapMut = pages.map_err(|error| {
                    Status::resource_exhausted(format!("cannot map constants of a module: {error}"))
                })?;
                let data = NonNull::from(&pages[..]).cast();
                // SAFETY: the mapping stays where it is as long as the owner, and only the buffer refers to it.
                Ok(unsafe { Buffer::from_shared(Arc::new(pages), data, range.len(), true) })
            }
            _ => copy(self.as_slice().get(range).unwrap_or_default()),
        }
    }
}

/// A mutable buffer with a copy of `bytes`, aligned as segments are.
pub(super) fn copy(bytes: &[u8]) -> Result<Buffer> {
    let buffer = Buffer::allocate(bytes.len(), SEGMENT_ALIGNMENT as usize)?;
    buffer.write(0, bytes)?;
    Ok(buffer)
}

/// The bytes of a buffer that nobody writes to as long as it is borrowed.
pub(super) fn slice_of(buffer: &Buffer) -> &[u8] {
    // SAFETY: the buffer is as long as it says. It belongs to a module, which gives out its bytes for reading only.
    unsafe { std::slice::from_raw_parts(buffer.as_ptr(), buffer.len()) }
}

/// A file and its length.
fn open(path: &Path) -> Result<(File, u64)> {
    let file = File::open(path).map_err(|error| refuse(path, "open", error))?;
    let metadata = file.metadata().map_err(|error| refuse(path, "look at", error))?;
    if !metadata.is_file() {
        return Err(Status::invalid_argument(format!("{}: not a file", path.display())));
    }
    Ok((file, metadata.len()))
}

#[cold]
fn refuse(path: &Path, what: &str, error: std::io::Error) -> Status {
    let code = match error.kind() {
        std::io::ErrorKind::NotFound => StatusCode::NotFound,
        std::io::ErrorKind::PermissionDenied => StatusCode::PermissionDenied,
        _ => StatusCode::Unavailable,
    };
    Status::new(code, format!("{}: cannot {what} the module file: {error}", path.display()))
}
