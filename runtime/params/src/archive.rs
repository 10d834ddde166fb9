//! Archives of any format: opens a file and reads its index, by its extension. Hosts and tools call it.

use std::path::Path;

use super::contents::{Contents, ContentsMode};
use super::index::{ArchiveFormat, ParameterIndex};
use super::{gguf, irpa, safetensors};
use crate::status::Result;

impl ParameterIndex {
    /// Reads the index of the file at `path`, whose extension determines the format.
    ///
    /// # Errors
    /// As [`Contents::open`], `UNIMPLEMENTED` for other formats and parts of formats that are not supported, and
    /// `INVALID_ARGUMENT` with the offset if the archive is damaged.
    pub fn open(path: impl AsRef<Path>, mode: ContentsMode) -> Result<ParameterIndex> {
        let path = path.as_ref();
        // A file that is not there is not one of an unknown format.
        let contents = Contents::open(path, mode)?;
        ParameterIndex::read(ArchiveFormat::of_path(path)?, &contents)
    }

    /// Reads the index of an archive.
    ///
    /// # Errors
    /// As [`ParameterIndex::open`].
    pub fn read(format: ArchiveFormat, contents: &Contents) -> Result<ParameterIndex> {
        let read = match format {
            ArchiveFormat::Irpa => irpa::read,
            ArchiveFormat::Gguf => gguf::read,
            ArchiveFormat::Safetensors => safetensors::read,
        };
        contents.with_bytes(|bytes| read(bytes, contents))
    }
}
