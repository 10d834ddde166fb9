//! The bytes of a module file: mapped, owned or static, and never written to. [`Archive`](super::Archive) holds them.

use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::Path;

use memmap2::{Mmap, MmapMut, MmapOptions};

use crate::heap_bytes::HeapBytes;
use crate::status::{Result, Status, StatusCode};
use crate::vmfb::schema::module_file::SEGMENT_ALIGNMENT;

/// Files up to this size are read: that takes no longer than mapping them, and later changes of the file have no effect
/// then.
pub(super) const MAX_READ_SIZE: u64 = 1 << 20;

/// Most bytes of a module that comes through a pipe or another stream.
const MAX_STREAM_SIZE: u64 = 8 << 30;

/// Whether the system has mappings of files. Without them files are read.
const CAN_MAP_FILES: bool = cfg!(any(unix, windows));

/// Ranges of mapped files up to this size are copied: mapping them would cost more than the copy, and wastes a part of
/// a page.
const MAX_COPIED_RANGE: usize = 64 << 10;

/// Bytes that stay in place as long as this lives.
pub(super) enum Bytes {
    /// A file that is mapped for reading, and the file itself, to map parts of it for writing.
    Mapped(Mmap, File),
    Owned(OwnedBytes),
    Static(&'static [u8]),
}

impl Bytes {
    /// The file at `path`: read if it is small, else mapped.
    pub fn open(path: &Path) -> Result<Bytes> {
        let (file, length) = match open(path)? {
            (file, Some(length)) => (file, length),
            (stream, None) => return Bytes::drain(path, stream),
        };
        if length <= MAX_READ_SIZE || !CAN_MAP_FILES {
            return Bytes::fill(path, file, length);
        }
        // SAFETY: nothing is verified in the mapping and used from there later (`Archive` copies the tables first), so
        // a writer of the file changes constants of the program and nothing else. No reference to its bytes is used in
        // safe code but to copy them. That truncating the file ends the process when they are read is documented where
        // users open one.
        let map = unsafe { MmapOptions::new().map_copy_read_only(&file) };
        let map = map.map_err(|error| refuse(path, "map", error))?;
        Ok(Bytes::Mapped(map, file))
    }

    /// The file at `path`, read.
    pub fn read(path: &Path) -> Result<Bytes> {
        match open(path)? {
            (file, Some(length)) => Bytes::fill(path, file, length),
            (stream, None) => Bytes::drain(path, stream),
        }
    }

    /// The first `length` bytes of a file, or fewer if it became shorter meanwhile.
    fn fill(path: &Path, file: File, length: u64) -> Result<Bytes> {
        let length = usize::try_from(length).map_err(|_| {
            Status::resource_exhausted(format!("{}: {length} bytes do not fit the address space", path.display()))
        })?;
        let mut owned = OwnedBytes::zeroed(length)?;
        let bytes = owned.as_mut_slice();
        let (mut file, mut filled) = (file, 0);
        while filled < length {
            match file.read(&mut bytes[filled..]) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(refuse(path, "read", error)),
            }
        }
        if filled < length { Bytes::copy(&bytes[..filled]) } else { Ok(Bytes::Owned(owned)) }
    }

    /// All that a stream has, up to a limit.
    fn drain(path: &Path, stream: File) -> Result<Bytes> {
        let mut bytes = Vec::new();
        let read = stream.take(MAX_STREAM_SIZE + 1).read_to_end(&mut bytes);
        read.map_err(|error| refuse(path, "read", error))?;
        if bytes.len() as u64 > MAX_STREAM_SIZE {
            let message = format!("{}: more than {MAX_STREAM_SIZE} bytes in a stream", path.display());
            return Err(Status::resource_exhausted(message));
        }
        Bytes::copy(&bytes)
    }

    /// A copy of `bytes`, aligned as the segments of a module file require.
    pub fn copy(bytes: &[u8]) -> Result<Bytes> {
        Ok(Bytes::Owned(OwnedBytes::copy(bytes)?))
    }

    /// True if the archive owns them, so that no other process can change them.
    pub fn are_owned(&self) -> bool {
        matches!(self, Bytes::Owned(_))
    }

    pub fn as_slice(&self) -> &[u8] {
        match self {
            Bytes::Mapped(map, _) => map,
            Bytes::Owned(bytes) => bytes.as_slice(),
            Bytes::Static(bytes) => bytes,
        }
    }

    /// New memory with the bytes of `range`, which is inside: a copy-on-write mapping of the file, or a
    /// copy.
    pub fn writable(&self, range: Range<usize>) -> Result<PrivateMemory> {
        match self {
            Bytes::Mapped(map, file) if range.len() > MAX_COPIED_RANGE && range.end <= map.len() => {
                let mut options = MmapOptions::new();
                // SAFETY: the pages are accessed only through raw pointers. A change of the file may change their
                // bytes, and readers accept any bytes.
                let pages = unsafe { options.offset(range.start as u64).len(range.len()).map_copy(file) };
                let pages: MmapMut = pages.map_err(|error| {
                    Status::resource_exhausted(format!("cannot map constants of a module: {error}"))
                })?;
                Ok(PrivateMemory::Pages(pages))
            }
            _ => PrivateMemory::copy(self.as_slice().get(range).unwrap_or_default()),
        }
    }
}

/// Bytes on the heap, aligned as the segments of a module file require.
pub(super) struct OwnedBytes {
    bytes: HeapBytes,
    length: usize,
}

impl OwnedBytes {
    pub fn zeroed(length: usize) -> Result<OwnedBytes> {
        Ok(OwnedBytes { bytes: HeapBytes::allocate(length as u64, SEGMENT_ALIGNMENT)?, length })
    }

    pub fn copy(bytes: &[u8]) -> Result<OwnedBytes> {
        let mut owned = OwnedBytes::zeroed(bytes.len())?;
        owned.as_mut_slice().copy_from_slice(bytes);
        Ok(owned)
    }

    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: there are as many bytes, they are initialised, and writing to them needs `&mut self`.
        unsafe { std::slice::from_raw_parts(self.bytes.data().as_ptr(), self.length) }
    }

    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: there are as many bytes, they are initialised, and writing to them needs `&mut self`.
        unsafe { std::slice::from_raw_parts_mut(self.bytes.data().as_ptr(), self.length) }
    }
}

/// Private memory with the bytes of a range of the file, which may be written without changing the file.
pub enum PrivateMemory {
    #[expect(private_interfaces, reason = "values are made here alone, and give only their bytes")]
    /// A copy on the heap.
    Copy(OwnedBytes),
    /// A copy-on-write mapping of pages of the file.
    Pages(MmapMut),
}

impl PrivateMemory {
    pub(super) fn copy(bytes: &[u8]) -> Result<PrivateMemory> {
        Ok(PrivateMemory::Copy(OwnedBytes::copy(bytes)?))
    }

    /// The bytes, which stay in place when this is moved.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        match self {
            PrivateMemory::Copy(bytes) => bytes.as_mut_slice(),
            PrivateMemory::Pages(pages) => pages,
        }
    }
}

/// A file and its length. The file at `path`, and its length. A pipe or another stream has none. It is opened once: who
/// wrote a pipe may have gone when it is opened again.
fn open(path: &Path) -> Result<(File, Option<u64>)> {
    let file = File::open(path).map_err(|error| refuse(path, "open", error))?;
    let metadata = file.metadata().map_err(|error| refuse(path, "look at", error))?;
    if metadata.is_dir() {
        return Err(Status::invalid_argument(format!("{}: a folder, not a module file", path.display())));
    }
    Ok((file, metadata.is_file().then_some(metadata.len())))
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
