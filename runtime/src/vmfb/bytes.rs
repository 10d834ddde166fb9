//! The bytes of a module file: mapped, owned or static.

use std::fs::File;
use std::path::Path;

use memmap2::{MmapMut, MmapOptions};

use crate::status::{Result, Status, StatusCode};
use crate::vm::Buffer;
use crate::vmfb::schema::module_file::SEGMENT_ALIGNMENT;

/// Bytes that stay at their place as long as this lives.
pub(super) enum Bytes {
    /// Pages that kernels write to become this process's own: stock compilers write constants of a module in place where nobody reads
    /// them afterwards.
    Mapped(MmapMut),
    /// A buffer that was filled once and that nobody else has.
    Owned(Buffer),
    Static(&'static [u8]),
}

impl Bytes {
    /// Maps the file at `path`, privately: writes by this process can never reach the file.
    pub fn map(path: &Path) -> Result<Bytes> {
        let refuse = |what: &str, error: std::io::Error| {
            let code = match error.kind() {
                std::io::ErrorKind::NotFound => StatusCode::NotFound,
                std::io::ErrorKind::PermissionDenied => StatusCode::PermissionDenied,
                _ => StatusCode::Unavailable,
            };
            Status::new(code, format!("{}: cannot {what} the module file: {error}", path.display()))
        };
        let file = File::open(path).map_err(|error| refuse("open", error))?;
        let metadata = file.metadata().map_err(|error| refuse("look at", error))?;
        if !metadata.is_file() {
            return Err(Status::invalid_argument(format!("{}: not a file", path.display())));
        }
        if metadata.len() == 0 {
            return Ok(Bytes::Static(&[]));
        }
        // SAFETY: mapping is sound as long as nobody truncates or writes the file meanwhile, which `Archive::open` asks of its
        // caller, as every user of mapped files must.
        let map = unsafe { MmapOptions::new().map_copy(&file) }.map_err(|error| refuse("map", error))?;
        Ok(Bytes::Mapped(map))
    }

    /// A copy of `bytes`, aligned as the segments of a module file want to be.
    pub fn copy(bytes: &[u8]) -> Result<Bytes> {
        let buffer = Buffer::allocate(bytes.len(), SEGMENT_ALIGNMENT as usize)?;
        buffer.write(0, bytes)?;
        Ok(Bytes::Owned(buffer))
    }

    pub fn as_slice(&self) -> &[u8] {
        match self {
            Bytes::Mapped(map) => map,
            // SAFETY: the buffer is as long as it says, and nobody writes to it: it was filled before it came here.
            Bytes::Owned(buffer) => unsafe { std::slice::from_raw_parts(buffer.as_ptr(), buffer.len()) },
            Bytes::Static(bytes) => bytes,
        }
    }
}
