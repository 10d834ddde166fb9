//! The code object that a program will load ([`Storage`]): its own memory, or a copy of a file, which others may
//! change.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::File;

use super::LoadError as Error;

/// Bytes of a file at most, which are as many as the segments of a code object may span.
const MAX_FILE: u64 = 1 << 30;

/// Where a code object is.
#[derive(Debug)]
pub(crate) struct Storage {
    /// The address and the length.
    pub(crate) range: (u64, u64),
    file: Option<StoredFile>,
}

#[derive(Debug)]
struct StoredFile {
    contents: Vec<u8>,
    /// Its path, as far as the system knows it.
    path: Option<OsString>,
}

impl Storage {
    /// Memory of the program.
    pub(crate) fn memory(address: u64, length: u64) -> Self {
        Storage { range: (address, length), file: None }
    }

    /// A copy of a file from its beginning on. The position of the descriptor stays.
    ///
    /// # Errors
    /// If it is no regular file that can be read, is empty or too large, or becomes shorter meanwhile.
    pub(crate) fn file(file: &File, path: Option<OsString>) -> Result<Self, Error> {
        let metadata = file.metadata().map_err(Error::Read)?;
        if !metadata.is_file() {
            return Err(Error::NoFile);
        }
        let bytes = metadata.len();
        if bytes == 0 || bytes > MAX_FILE {
            return Err(Error::FileLength { bytes, most: MAX_FILE });
        }
        let length = usize::try_from(bytes).map_err(|_| Error::NoMemory(bytes))?;
        let mut contents = Vec::new();
        contents.try_reserve_exact(length).map_err(|_| Error::NoMemory(bytes))?;
        contents.resize(length, 0);
        let mut read = 0;
        while read < length {
            read += match read_at(file, &mut contents[read..], read as u64) {
                Ok(0) => return Err(Error::Shrank { from: bytes, to: read as u64 }),
                Ok(count) => count,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => 0,
                Err(error) => return Err(Error::Read(error)),
            };
        }
        let range = (contents.as_ptr().expose_provenance() as u64, length as u64);
        Ok(Storage { range, file: Some(StoredFile { contents, path }) })
    }

    /// The bytes of a file; none for memory of the program.
    pub(crate) fn contents(&self) -> Option<&[u8]> {
        self.file.as_ref().map(|file| file.contents.as_slice())
    }

    /// The URI by which debuggers find it.
    pub(crate) fn uri(&self) -> String {
        let (address, length) = self.range;
        let Some(path) = self.file.as_ref().and_then(|file| file.path.as_ref()) else {
            return format!("memory://{}#offset={address:#x}&size={length}", std::process::id());
        };
        let mut uri = String::from("file://");
        for byte in path.as_encoded_bytes() {
            match byte {
                b'/' | b'-' | b'_' | b'.' | b'~' | b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => {
                    uri.push(char::from(*byte))
                }
                _ => drop(write!(uri, "%{byte:02X}")),
            }
        }
        uri
    }
}

#[cfg(unix)]
fn read_at(file: &File, bytes: &mut [u8], offset: u64) -> std::io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, bytes, offset)
}

#[cfg(windows)]
fn read_at(file: &File, bytes: &mut [u8], offset: u64) -> std::io::Result<usize> {
    std::os::windows::fs::FileExt::seek_read(file, bytes, offset)
}

#[cfg(not(any(unix, windows)))]
fn read_at(_: &File, _: &mut [u8], _: u64) -> std::io::Result<usize> {
    Err(std::io::ErrorKind::Unsupported.into())
}
