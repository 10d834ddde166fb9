//! Files in captures: what becomes of them ([`FilePolicy`]), how a replay checks them ([`FileValidation`]), and their
//! bytes ([`FileBytes`]).

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::str::FromStr;
use std::sync::{Arc, Mutex};
use std::time::UNIX_EPOCH;

use vireo_core::status::{Result, Status, StatusCode};
use vireo_hal::buffer::KernelMemory;
use vireo_hal::{BufferParams, BufferUsage, ExternalBuffer, ExternalFile, ExternalFileType};

use super::bytes::BufferBytes;
use super::stream::{CHUNK, PartSource};
use crate::digest::fnv1a;
use crate::generated::format::{DigestType, FNV1A_OFFSET_BASIS, FileReferenceType, FileValidationType};
use crate::generated::payloads::FileObject;

/// The way in which a capture has a file that is imported by its descriptor. Files in memory of the host are always in
/// the capture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FilePolicy {
    /// Its path is in the capture, and a replay reads it.
    #[default]
    Reference,
    /// The ranges that are read of it are in the capture.
    CaptureRanges,
    /// All of it is in the capture.
    CaptureAll,
    /// It cannot be imported.
    Fail,
}

impl FilePolicy {
    /// The policies with their names.
    pub const NAMED: [(FilePolicy, &'static str); 4] = [
        (FilePolicy::Reference, "reference"),
        (FilePolicy::CaptureRanges, "capture-ranges"),
        (FilePolicy::CaptureAll, "capture-all"),
        (FilePolicy::Fail, "fail"),
    ];
}

impl FromStr for FilePolicy {
    type Err = Status;

    fn from_str(text: &str) -> Result<FilePolicy> {
        named(&FilePolicy::NAMED, text)
    }
}

/// How a replay checks that a file is the one that was recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FileValidation {
    /// By its length, device, inode and time of modification.
    #[default]
    Identity,
    /// By a digest of its contents.
    Digest,
}

impl FileValidation {
    /// The ways with their names.
    pub const NAMED: [(FileValidation, &'static str); 2] =
        [(FileValidation::Identity, "identity"), (FileValidation::Digest, "digest")];
}

impl FromStr for FileValidation {
    type Err = Status;

    fn from_str(text: &str) -> Result<FileValidation> {
        named(&FileValidation::NAMED, text)
    }
}

fn named<T: Copy>(values: &[(T, &'static str)], text: &str) -> Result<T> {
    let found = values.iter().find(|(_, name)| *name == text);
    found.map(|(value, _)| *value).ok_or_else(|| {
        let names: Vec<&str> = values.iter().map(|(_, name)| *name).collect();
        Status::invalid_argument(format!("`{text}`: expected {}", names.join(", ")))
    })
}

/// Refuses a file that the policy `fail` does not allow.
pub(super) fn check_policy(external: &ExternalFile) -> Result<()> {
    match external.r#type {
        ExternalFileType::HostAllocation => Ok(()),
        ExternalFileType::Fd => {
            Err(Status::failed_precondition("a capture without files of its environment cannot import a file"))
        }
    }
}

/// Refuses memory that others share: mapped files of parameters. Their users read ranges of a file then, and the policy
/// applies.
pub(super) fn check_import(params: &BufferParams, external: &ExternalBuffer) -> Result<()> {
    let is_shared = params.usage.contains(BufferUsage::SHARING_IMMUTABLE);
    if is_shared && !external.owner.is::<KernelMemory>() {
        let message = "memory that others share is not imported while a device is recorded";
        return Err(Status::new(StatusCode::Unavailable, message));
    }
    Ok(())
}

/// A range of an open file.
#[derive(Debug)]
pub(crate) struct FileBytes {
    file: Mutex<File>,
    length: u64,
}

/// A descriptor of this process, and what the system says about its file.
pub(super) struct Descriptor {
    pub(super) path: Vec<u8>,
    pub(super) bytes: Arc<FileBytes>,
}

impl Descriptor {
    /// Looks at the file of a descriptor, and fills what a record says about it.
    pub(super) fn open(fd: i32, head: &mut FileObject) -> Result<Descriptor> {
        let link = format!("/proc/self/fd/{fd}");
        let refused = |error: std::io::Error| {
            Status::new(StatusCode::Unavailable, format!("cannot look at the file descriptor {fd}")).with_source(error)
        };
        let path = std::fs::read_link(&link).map_err(refused)?;
        let file = File::open(&link).map_err(refused)?;
        let metadata = file.metadata().map_err(refused)?;
        head.file_length = metadata.len();
        identify(&metadata, head);
        let path = path.into_os_string().into_encoded_bytes();
        Ok(Descriptor { path, bytes: Arc::new(FileBytes { file: Mutex::new(file), length: metadata.len() }) })
    }

    /// Fills how a replay checks the file.
    pub(super) fn validate(&self, validation: FileValidation, head: &mut FileObject) -> Result<()> {
        match validation {
            FileValidation::Identity => head.validation_type = FileValidationType::IDENTITY,
            FileValidation::Digest => {
                head.validation_type = FileValidationType::CONTENT_DIGEST;
                head.digest_type = DigestType::FNV1A_64.0;
                let mut digest = FNV1A_OFFSET_BASIS;
                self.bytes.all().write(&mut |bytes| {
                    digest = fnv1a(digest, bytes);
                    Ok(())
                })?;
                if let Some(first) = head.digest.first_chunk_mut() {
                    *first = digest.to_le_bytes();
                }
            }
        }
        Ok(())
    }
}

#[cfg(unix)]
fn identify(metadata: &std::fs::Metadata, head: &mut FileObject) {
    use std::os::unix::fs::MetadataExt;

    (head.file_device, head.file_inode) = (metadata.dev(), metadata.ino());
    let modified = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    head.file_mtime_ns = modified.and_then(|time| u64::try_from(time.as_nanos()).ok()).unwrap_or(0);
}

#[cfg(not(unix))]
fn identify(_: &std::fs::Metadata, _: &mut FileObject) {}

impl FileBytes {
    /// All of them.
    fn all(self: &Arc<Self>) -> FileRange {
        self.range(0, self.length)
    }

    /// A part of them.
    pub(crate) fn range(self: &Arc<Self>, offset: u64, length: u64) -> FileRange {
        FileRange { bytes: Some(self.clone()), offset, length }
    }
}

/// A range of a file, or no bytes.
#[derive(Debug, Default)]
pub(crate) struct FileRange {
    bytes: Option<Arc<FileBytes>>,
    offset: u64,
    length: u64,
}

impl PartSource for FileRange {
    fn byte_length(&self) -> u64 {
        self.bytes.as_ref().map_or(0, |_| self.length)
    }

    fn append_to(&self, out: &mut Vec<u8>) -> Result<()> {
        self.write(&mut |bytes| {
            out.extend_from_slice(bytes);
            Ok(())
        })
    }

    fn write(&self, sink: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let Some(bytes) = &self.bytes else { return Ok(()) };
        let failed =
            |error| Status::new(StatusCode::Unavailable, "cannot read a file to capture it").with_source(error);
        let mut file = bytes.file.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        file.seek(SeekFrom::Start(self.offset)).map_err(failed)?;
        let mut piece = [0; CHUNK];
        let mut left = self.length;
        while left > 0 {
            let length = usize::try_from(left).unwrap_or(CHUNK).min(CHUNK);
            let piece = piece.get_mut(..length).unwrap_or_default();
            file.read_exact(piece).map_err(failed)?;
            sink(piece)?;
            left -= length as u64;
        }
        Ok(())
    }
}

/// The bytes that a record has of a file.
pub(crate) enum FileReference {
    /// Its path.
    Path(Vec<u8>),
    /// Its bytes.
    Bytes(Arc<FileBytes>),
    /// The bytes of the memory that it is.
    Memory(BufferBytes),
    /// Nothing: it was not imported.
    Nothing,
}

impl PartSource for FileReference {
    fn byte_length(&self) -> u64 {
        match self {
            FileReference::Path(path) => path.byte_length(),
            FileReference::Bytes(bytes) => bytes.length,
            FileReference::Memory(memory) => memory.byte_length(),
            FileReference::Nothing => 0,
        }
    }

    fn append_to(&self, out: &mut Vec<u8>) -> Result<()> {
        match self {
            FileReference::Path(path) => path.append_to(out),
            FileReference::Bytes(bytes) => bytes.all().append_to(out),
            FileReference::Memory(memory) => memory.append_to(out),
            FileReference::Nothing => Ok(()),
        }
    }

    fn write(&self, sink: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        match self {
            FileReference::Path(path) => path.write(sink),
            FileReference::Bytes(bytes) => bytes.all().write(sink),
            FileReference::Memory(memory) => memory.write(sink),
            FileReference::Nothing => Ok(()),
        }
    }
}

impl FilePolicy {
    /// The reference of a file in a record.
    pub(super) fn reference(self) -> FileReferenceType {
        match self {
            FilePolicy::Reference | FilePolicy::Fail => FileReferenceType::EXTERNAL_PATH,
            FilePolicy::CaptureRanges => FileReferenceType::CAPTURED_RANGES,
            FilePolicy::CaptureAll => FileReferenceType::INLINE_BYTES,
        }
    }
}
