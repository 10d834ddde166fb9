//! Files of captures: their bytes are in the capture, or in a file that it names, which is opened as the options of the
//! replay say and compared with what the capture knows of it.

use std::fmt;
use std::fs::{self, File as SystemFile, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use vireo_core::limits::{Charge, scope};
use vireo_core::status::{Result, Status, StatusCode};
use vireo_hal::{Buffer, File, MemoryAccess, buffer_read, buffer_write, check_range};

use crate::digest::fnv1a;
use crate::generated::format::{DigestType, FNV1A_OFFSET_BASIS, FileReferenceType, FileValidationType};
use crate::generated::payloads::{FileObject, FileObjectParts};
use crate::options::{FileAccess, FileRemap};

/// Bytes that are copied at a time.
const CHUNK: u64 = 1 << 18;

/// The bytes of a file.
enum Contents {
    /// A range of the capture.
    Inline(Arc<Vec<u8>>, Range<usize>),
    /// A copy of such a range, which can be written.
    Copied(Mutex<Vec<u8>>, #[expect(dead_code, reason = "it holds memory of the budget")] Charge),
    /// A file of the system.
    System(Mutex<SystemFile>),
    /// Nowhere: reads have their bytes in the capture.
    Reads,
}

/// A file of a capture.
pub(crate) struct CapturedFile {
    contents: Contents,
    access: MemoryAccess,
    /// Whether it could be written where the capture was made.
    was_writable: bool,
    length: u64,
}

impl fmt::Debug for CapturedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CapturedFile")
            .field("length", &self.length)
            .field("access", &self.access)
            .finish_non_exhaustive()
    }
}

/// Access of a replay to files.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Files<'a> {
    pub(crate) access: FileAccess,
    pub(crate) remaps: &'a [FileRemap],
}

impl CapturedFile {
    /// The file that `parts` describe. Its payload is `payload` of `bytes`, which end with the reference.
    pub(crate) fn open(
        parts: &FileObjectParts<'_>,
        (bytes, payload): (&Arc<Vec<u8>>, &Range<usize>),
        files: Files<'_>,
    ) -> Result<CapturedFile> {
        let head = &parts.head;
        let number = u16::try_from(head.access).map_err(|_| Status::invalid_argument("the access has unknown bits"))?;
        let access = MemoryAccess::from_number(number)?;
        let (length, was_writable) = (head.file_length, access.contains(MemoryAccess::WRITE));
        match head.reference_type {
            FileReferenceType::INLINE_BYTES => {
                if length != parts.reference.len() as u64 {
                    let message = format!("the file has {length} bytes, and {} are there", parts.reference.len());
                    return Err(Status::new(StatusCode::DataLoss, message));
                }
                let start = payload.end.saturating_sub(parts.reference.len());
                let contents = match was_writable {
                    true => {
                        let charge = Charge::of_call(length, "file")?;
                        Contents::Copied(Mutex::new(parts.reference.to_vec()), charge)
                    }
                    false => Contents::Inline(bytes.clone(), start..payload.end),
                };
                Ok(CapturedFile { contents, access, was_writable, length })
            }
            FileReferenceType::CAPTURED_RANGES => {
                Ok(CapturedFile { contents: Contents::Reads, access: MemoryAccess::READ, was_writable, length })
            }
            FileReferenceType::EXTERNAL_PATH => {
                let path = std::str::from_utf8(parts.reference);
                let path = path.map_err(|_| Status::invalid_argument("the path of a file is not UTF-8"))?;
                let path = FileRemap::apply(files.remaps, path);
                let opened = open(&path, head, was_writable, files.access);
                let (file, access) = opened.map_err(|status| status.context(format!("`{}`", path.display())))?;
                Ok(CapturedFile { contents: Contents::System(Mutex::new(file)), access, was_writable, length })
            }
            other => Err(Status::unimplemented(format!("a file has a reference of type {}", other.0))),
        }
    }

    /// The bytes of a range of a file of the system.
    ///
    /// # Errors
    /// OUT_OF_RANGE if the file is shorter.
    pub(crate) fn bytes(&self, offset: u64, length: u64) -> Result<Vec<u8>> {
        self.require(MemoryAccess::READ)?;
        let length = check_range(self.length, offset, length).map_err(|status| status.context("file"))?;
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(usize::MAX)];
        match &self.contents {
            Contents::System(file) => {
                let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
                file.seek(SeekFrom::Start(offset)).map_err(refused)?;
                file.read_exact(&mut bytes).map_err(refused)?;
                Ok(bytes)
            }
            Contents::Inline(..) | Contents::Copied(..) | Contents::Reads => {
                Err(Status::failed_precondition("the file is not one that is named by its path"))
            }
        }
    }

    fn require(&self, access: MemoryAccess) -> Result<()> {
        if self.access.contains(access) {
            return Ok(());
        }
        let why = match (access == MemoryAccess::WRITE) & self.was_writable {
            true => "a replay writes to files of a capture only if it is allowed to, as --replay_allow_writes does",
            false => "it was not open for that",
        };
        Err(Status::permission_denied(format!("the file cannot be used for {access:?}: {why}")))
    }

    /// Checks the ranges of a transfer; returns its length.
    fn check(&self, file_offset: u64, buffer: &dyn Buffer, buffer_offset: u64, length: u64) -> Result<u64> {
        let length = check_range(buffer.byte_length(), buffer_offset, length)?;
        check_range(self.length, file_offset, length).map_err(|status| status.context("file"))
    }
}

/// Opens a file and compares it with what the capture knows.
fn open(path: &Path, head: &FileObject, writable: bool, allowed: FileAccess) -> Result<(SystemFile, MemoryAccess)> {
    if allowed == FileAccess::None {
        return Err(Status::permission_denied("the capture names a file, and this replay opens none"));
    }
    let writes = writable && allowed == FileAccess::Write;
    // A pipe would be waited for, and to open a device may do something.
    let metadata = fs::metadata(path).map_err(refused)?;
    if !metadata.is_file() {
        return Err(Status::invalid_argument("expected a regular file"));
    }
    let mut file = OpenOptions::new().read(true).write(writes).open(path).map_err(refused)?;
    let metadata = file.metadata().map_err(refused)?;
    let changed = |what: String| Err(Status::failed_precondition(format!("the file is not the captured one: {what}")));
    if metadata.len() != head.file_length {
        return changed(format!("it has {} bytes: expected {}", metadata.len(), head.file_length));
    }
    match head.validation_type {
        FileValidationType::NONE => {}
        FileValidationType::IDENTITY => {
            if let Some(what) = other_identity(&metadata, head) {
                return changed(format!("its {what} is another one"));
            }
        }
        FileValidationType::CONTENT_DIGEST => {
            if DigestType(head.digest_type) != DigestType::FNV1A_64 {
                return Err(Status::unimplemented(format!("a digest has type {}", head.digest_type)));
            }
            let expected = head.digest.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
            if digest(&mut file)? != expected {
                return changed("the digest of its contents is another one".to_string());
            }
        }
        other => return Err(Status::unimplemented(format!("a file has a validation of type {}", other.0))),
    }
    Ok((file, if writes { MemoryAccess::READ | MemoryAccess::WRITE } else { MemoryAccess::READ }))
}

/// The part of the identity of a file that differs, if its identity was taken.
#[cfg(unix)]
fn other_identity(metadata: &fs::Metadata, head: &FileObject) -> Option<&'static str> {
    use std::os::unix::fs::MetadataExt;
    if (head.file_device, head.file_inode, head.file_mtime_ns) == (0, 0, 0) {
        return None;
    }
    let modified = metadata.mtime().wrapping_mul(1_000_000_000).wrapping_add(metadata.mtime_nsec());
    let pairs = [
        ("device", metadata.dev(), head.file_device),
        ("inode", metadata.ino(), head.file_inode),
        ("time of modification", modified.cast_unsigned(), head.file_mtime_ns),
    ];
    pairs.iter().find(|(_, found, expected)| found != expected).map(|(what, ..)| *what)
}

/// Elsewhere files have no such numbers.
#[cfg(not(unix))]
fn other_identity(_metadata: &fs::Metadata, head: &FileObject) -> Option<&'static str> {
    ((head.file_device, head.file_inode, head.file_mtime_ns) != (0, 0, 0)).then_some("identity")
}

/// The digest of the contents of a file.
fn digest(file: &mut SystemFile) -> Result<u64> {
    let mut digest = FNV1A_OFFSET_BASIS;
    let mut bytes = vec![0; CHUNK as usize];
    loop {
        scope::check()?;
        let count = file.read(&mut bytes).map_err(refused)?;
        if count == 0 {
            return Ok(digest);
        }
        digest = fnv1a(digest, bytes.get(..count).unwrap_or_default());
    }
}

fn refused(error: std::io::Error) -> Status {
    let code = match error.kind() {
        std::io::ErrorKind::NotFound => StatusCode::NotFound,
        std::io::ErrorKind::PermissionDenied => StatusCode::PermissionDenied,
        _ => StatusCode::Unavailable,
    };
    Status::new(code, error.to_string())
}

impl File for CapturedFile {
    fn allowed_access(&self) -> MemoryAccess {
        self.access
    }

    fn length(&self) -> u64 {
        self.length
    }

    fn async_handle(&self) -> Result<i32> {
        Ok(-1)
    }

    fn supports_synchronous_io(&self) -> bool {
        true
    }

    fn read(&self, file_offset: u64, buffer: &Arc<dyn Buffer>, buffer_offset: u64, length: u64) -> Result<()> {
        self.require(MemoryAccess::READ)?;
        let length = self.check(file_offset, &**buffer, buffer_offset, length)?;
        // The range is within the file, and those in memory fit the address space.
        let range = file_offset as usize..(file_offset + length) as usize;
        match &self.contents {
            Contents::Inline(bytes, place) => {
                let contents = bytes.get(place.clone()).unwrap_or_default();
                buffer_write(&**buffer, buffer_offset, contents.get(range).unwrap_or_default())
            }
            Contents::Copied(contents, _) => {
                let contents = contents.lock().unwrap_or_else(PoisonError::into_inner);
                buffer_write(&**buffer, buffer_offset, contents.get(range).unwrap_or_default())
            }
            Contents::System(file) => {
                let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
                file.seek(SeekFrom::Start(file_offset)).map_err(refused)?;
                in_chunks(length, |done, bytes| {
                    file.read_exact(bytes).map_err(refused)?;
                    buffer_write(&**buffer, buffer_offset + done, bytes)
                })
            }
            Contents::Reads => Err(Status::failed_precondition(
                "the capture has what was read of the file, and this range is not there",
            )),
        }
    }

    fn write(&self, file_offset: u64, buffer: &Arc<dyn Buffer>, buffer_offset: u64, length: u64) -> Result<()> {
        self.require(MemoryAccess::WRITE)?;
        let length = self.check(file_offset, &**buffer, buffer_offset, length)?;
        let range = file_offset as usize..(file_offset + length) as usize;
        match &self.contents {
            Contents::Copied(contents, _) => {
                let mut contents = contents.lock().unwrap_or_else(PoisonError::into_inner);
                buffer_read(&**buffer, buffer_offset, contents.get_mut(range).unwrap_or_default())
            }
            Contents::System(file) => {
                let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
                file.seek(SeekFrom::Start(file_offset)).map_err(refused)?;
                in_chunks(length, |done, bytes| {
                    buffer_read(&**buffer, buffer_offset + done, bytes)?;
                    file.write_all(bytes).map_err(refused)
                })
            }
            Contents::Inline(..) | Contents::Reads => self.require(MemoryAccess::WRITE),
        }
    }
}

/// Calls `copy` with memory for one chunk after the other, and the bytes that were done before.
fn in_chunks(length: u64, mut copy: impl FnMut(u64, &mut [u8]) -> Result<()>) -> Result<()> {
    let mut bytes = vec![0; length.min(CHUNK) as usize];
    let mut done = 0;
    while done < length {
        scope::check()?;
        let part = (length - done).min(CHUNK) as usize;
        copy(done, bytes.get_mut(..part).unwrap_or_default())?;
        done += part as u64;
    }
    Ok(())
}
