//! The contents of a parameter archive ([`Contents`]): mapped, read on demand, or in memory. Archive readers and
//! providers access them.

use std::any::Any;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::path::Path;
use std::ptr::NonNull;
use std::sync::Arc;

use memmap2::{Mmap, MmapOptions};

use crate::hal::{self, Device, ExternalFile, ExternalFileFlags, ExternalFileType, MemoryAccess, QueueAffinity};
use crate::status::{Result, Status, StatusCode};
use crate::vm::Buffer;

/// Alignment of copies of archives in memory, so that parameters which are aligned in the file can be used in place.
const ALIGNMENT: usize = 64;

/// Bytes that are read at a time.
const CHUNK: usize = 1 << 20;

/// How the contents of an archive are accessed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ContentsMode {
    /// The file is mapped, and aligned constants are used in place. Other parameters are read.
    #[default]
    Mmap,
    /// Parameters are read on demand.
    File,
    /// The whole file is read into memory at once, and used as if it were mapped.
    Preload,
}

/// The contents of a file. Clones share them.
#[derive(Clone)]
pub struct Contents(Arc<SharedContents>);

struct SharedContents {
    /// The file's name, or the name that the host gave; messages begin with it.
    name: String,
    length: u64,
    bytes: Option<Bytes>,
    file: Option<File>,
    writable: bool,
}

enum Bytes {
    Mapped(Mmap),
    /// A buffer without other references, which is not written any more.
    Owned(Buffer),
    Static(&'static [u8]),
    Shared(SharedBytes),
}

/// Bytes of another owner.
struct SharedBytes {
    data: NonNull<u8>,
    length: usize,
    _owner: Arc<dyn Any + Send + Sync>,
}

// SAFETY: the bytes are only read, and stay as long as their owner, which is `Send + Sync`.
unsafe impl Send for SharedBytes {}
// SAFETY: the bytes are only read, by any number of threads, and stay as long as their owner.
unsafe impl Sync for SharedBytes {}

impl Bytes {
    fn as_slice(&self) -> &[u8] {
        match self {
            Bytes::Mapped(map) => map,
            // SAFETY: the buffer is as long as it says, and is not written: it was filled before it came here.
            Bytes::Owned(buffer) => unsafe { std::slice::from_raw_parts(buffer.as_ptr(), buffer.len()) },
            Bytes::Static(bytes) => bytes,
            // SAFETY: who made the contents guarantees that the bytes stay, and are not written.
            Bytes::Shared(shared) => unsafe { std::slice::from_raw_parts(shared.data.as_ptr(), shared.length) },
        }
    }
}

impl Contents {
    /// Opens the file at `path` for reading.
    ///
    /// A mapped file must not be changed: parts of it may be in use in place.
    ///
    /// # Errors
    /// `NOT_FOUND` and the like if the file cannot be opened, and `INVALID_ARGUMENT` if it is not a regular one.
    pub fn open(path: impl AsRef<Path>, mode: ContentsMode) -> Result<Contents> {
        let path = path.as_ref();
        let (mut file, length) = open(path, false)?;
        let name = path.display().to_string();
        let bytes = match mode {
            ContentsMode::Mmap => Some(map(&file, length).map_err(|error| refused(path, "map", error))?),
            ContentsMode::File => None,
            ContentsMode::Preload => Some(Bytes::Owned(read(&mut file, length, path)?)),
        };
        // A preloaded file is never read again.
        let file = (mode != ContentsMode::Preload).then_some(file);
        Ok(Contents(Arc::new(SharedContents { name, length, bytes, file, writable: false })))
    }

    /// Opens the file at `path` for reading and writing on demand.
    ///
    /// # Errors
    /// As [`Contents::open`].
    pub fn open_writable(path: impl AsRef<Path>) -> Result<Contents> {
        let path = path.as_ref();
        let (file, length) = open(path, true)?;
        let name = path.display().to_string();
        Ok(Contents(Arc::new(SharedContents { name, length, bytes: None, file: Some(file), writable: true })))
    }

    /// A copy of `bytes`, which messages call `name`.
    ///
    /// # Errors
    /// `RESOURCE_EXHAUSTED` if there is no memory for the copy.
    pub fn from_bytes(name: impl Into<String>, bytes: &[u8]) -> Result<Contents> {
        let buffer = Buffer::allocate(bytes.len(), ALIGNMENT)?;
        buffer.write(0, bytes)?;
        Ok(Contents::in_memory(name.into(), Bytes::Owned(buffer)))
    }

    /// Bytes such as those of `include_bytes!`.
    pub fn from_static(name: impl Into<String>, bytes: &'static [u8]) -> Contents {
        Contents::in_memory(name.into(), Bytes::Static(bytes))
    }

    /// Bytes of another owner, without a copy.
    ///
    /// # Safety
    /// `length` bytes at `data` have to stay, and must not be written, as long as `owner` lives.
    pub unsafe fn from_shared(
        name: impl Into<String>,
        owner: Arc<dyn Any + Send + Sync>,
        data: NonNull<u8>,
        length: usize,
    ) -> Contents {
        Contents::in_memory(name.into(), Bytes::Shared(SharedBytes { data, length, _owner: owner }))
    }

    /// A file that is open already, which is read on demand and, if `writable`, written. Messages call it `name`.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if it is not a regular file, and failures of the operating system.
    pub fn from_file(name: impl Into<String>, file: File, writable: bool) -> Result<Contents> {
        let name = name.into();
        let length = regular_length(&file, Path::new(&name))?;
        Ok(Contents(Arc::new(SharedContents { name, length, bytes: None, file: Some(file), writable })))
    }

    fn in_memory(name: String, bytes: Bytes) -> Contents {
        let length = bytes.as_slice().len() as u64;
        Contents(Arc::new(SharedContents { name, length, bytes: Some(bytes), file: None, writable: false }))
    }

    /// Its name in messages.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Number of bytes.
    pub fn len(&self) -> u64 {
        self.0.length
    }

    /// True if there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.0.length == 0
    }

    /// The accesses that they allow.
    pub fn access(&self) -> MemoryAccess {
        if self.0.writable { MemoryAccess::READ | MemoryAccess::WRITE } else { MemoryAccess::READ }
    }

    /// True if both are the same file, opened once.
    pub fn is_same(&self, other: &Contents) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Copies the bytes at `offset` to `out`.
    ///
    /// # Errors
    /// `OUT_OF_RANGE` past the end, and failures of reading the file.
    pub fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        hal::check_range(self.len(), offset, out.len() as u64).map_err(|status| status.context(self.name()))?;
        match (&self.0.bytes, &self.0.file) {
            // Reading the file does not page the mapping into this process.
            (_, Some(file)) => {
                read_at(file, offset, out).map_err(|error| refused(Path::new(self.name()), "read", error))
            }
            (Some(bytes), None) => {
                out.copy_from_slice(&bytes.as_slice()[offset as usize..][..out.len()]);
                Ok(())
            }
            (None, None) => Err(Status::internal("contents without bytes")),
        }
    }

    /// Calls `read` with all bytes; a file that is read on demand is mapped meanwhile.
    pub(super) fn with_bytes<R>(&self, read: impl FnOnce(&[u8]) -> Result<R>) -> Result<R> {
        let result = match (&self.0.bytes, &self.0.file) {
            (Some(bytes), _) => read(bytes.as_slice()),
            (None, Some(file)) => {
                let map = map(file, self.len()).map_err(|error| refused(Path::new(self.name()), "map", error))?;
                read(map.as_slice())
            }
            (None, None) => read(&[]),
        };
        result.map_err(|status| status.context(self.name()))
    }

    /// The address of a range of the bytes, with its owner; none if the contents are not in memory. The bytes stay, and
    /// must not be written, as long as the owner lives.
    pub fn in_place(&self, offset: u64, length: u64) -> Option<(NonNull<u8>, Arc<dyn Any + Send + Sync>)> {
        let bytes = self.0.bytes.as_ref()?.as_slice();
        let start = usize::try_from(offset).ok()?;
        let end = start.checked_add(usize::try_from(length).ok()?)?;
        Some((NonNull::from(bytes.get(start..end)?).cast(), self.0.clone()))
    }

    /// The bytes as a file of `device`.
    pub(super) fn import(&self, device: &dyn Device, queue_affinity: QueueAffinity) -> Result<Arc<dyn hal::File>> {
        let owner: Arc<dyn Any + Send + Sync> = self.0.clone();
        let external = match (&self.0.file, &self.0.bytes) {
            (Some(file), _) if cfg!(unix) => ExternalFile {
                r#type: ExternalFileType::Fd,
                data: None,
                length: self.len(),
                fd: descriptor(file),
                owner: Some(owner),
            },
            (_, Some(bytes)) => ExternalFile {
                r#type: ExternalFileType::HostAllocation,
                data: Some(NonNull::from(bytes.as_slice()).cast()),
                length: self.len(),
                fd: -1,
                owner: Some(owner),
            },
            _ => return Err(Status::unimplemented("files that are read when they are used, on this platform")),
        };
        // SAFETY: the owner keeps the descriptor open and the bytes in place. Memory is never writable, so only reads
        // of it are asked for.
        let file =
            unsafe { device.import_file(queue_affinity, self.access(), &external, ExternalFileFlags::default()) };
        file.map_err(|status| status.context(self.name()))
    }
}

impl fmt::Debug for Contents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} bytes)", self.name(), self.len())
    }
}

fn open(path: &Path, writable: bool) -> Result<(File, u64)> {
    let file = OpenOptions::new().read(true).write(writable).open(path);
    let file = file.map_err(|error| refused(path, "open", error))?;
    let length = regular_length(&file, path)?;
    Ok((file, length))
}

/// The length of a regular file.
fn regular_length(file: &File, path: &Path) -> Result<u64> {
    let metadata = file.metadata().map_err(|error| refused(path, "look at", error))?;
    if !metadata.is_file() {
        return Err(Status::invalid_argument(format!("{}: not a file", path.display())));
    }
    Ok(metadata.len())
}

fn refused(path: &Path, what: &str, error: io::Error) -> Status {
    let code = match error.kind() {
        io::ErrorKind::NotFound => StatusCode::NotFound,
        io::ErrorKind::PermissionDenied => StatusCode::PermissionDenied,
        io::ErrorKind::UnexpectedEof => StatusCode::DataLoss,
        _ => StatusCode::Unavailable,
    };
    Status::new(code, format!("{}: cannot {what} the parameter file: {error}", path.display()))
}

/// Maps a file privately: writes by this process can never reach it.
fn map(file: &File, length: u64) -> io::Result<Bytes> {
    // An empty file cannot be mapped.
    if length == 0 {
        return Ok(Bytes::Static(&[]));
    }
    let length = usize::try_from(length).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?;
    // SAFETY: mapping is sound as long as the file is neither truncated nor written meanwhile, which `Contents::open`
    // asks of its caller, as every user of mapped files must.
    let map = unsafe { MmapOptions::new().len(length).map_copy_read_only(file) }?;
    Ok(Bytes::Mapped(map))
}

fn read(file: &mut File, length: u64, path: &Path) -> Result<Buffer> {
    let size = usize::try_from(length).map_err(|_| Status::resource_exhausted(format!("{length} bytes of a file")))?;
    let buffer = Buffer::allocate(size, ALIGNMENT)?;
    let mut chunk = vec![0; CHUNK.min(size)];
    let mut done = 0;
    while done < size {
        let part = &mut chunk[..CHUNK.min(size - done)];
        file.read_exact(part).map_err(|error| refused(path, "read", error))?;
        buffer.write(done as u64, part)?;
        done += part.len();
    }
    Ok(buffer)
}

#[cfg(unix)]
fn read_at(file: &File, offset: u64, out: &mut [u8]) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, out, offset)
}

#[cfg(not(unix))]
fn read_at(mut file: &File, offset: u64, out: &mut [u8]) -> io::Result<()> {
    use std::io::{Seek, SeekFrom};
    file.seek(SeekFrom::Start(offset))?;
    file.read_exact(out)
}

#[cfg(unix)]
fn descriptor(file: &File) -> i32 {
    std::os::fd::AsRawFd::as_raw_fd(file)
}

#[cfg(not(unix))]
fn descriptor(_file: &File) -> i32 {
    -1
}
