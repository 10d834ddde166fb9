//! The files of captures, and what is said if one cannot be read or written.

use std::path::Path;

use vireo::replay::Reader;

use crate::exit::Exit;
use crate::failure::Failure;

/// Opens a capture.
pub(super) fn open(path: &Path) -> Result<Reader, Failure> {
    Reader::open(path).map_err(|status| cannot_read(path).because(status))
}

/// The failure to read a capture.
pub(super) fn cannot_read(path: &Path) -> Failure {
    Failure::new(Exit::Usage, format!("cannot read `{}`", path.display()))
}

/// The failure to write a file.
pub(super) fn cannot_write(path: &Path) -> Failure {
    Failure::new(Exit::RunFailure, format!("cannot write `{}`", path.display()))
}
