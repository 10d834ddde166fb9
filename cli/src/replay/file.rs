//! The files of captures, and what is said if one cannot be read or written.

use std::fs::{self, File};
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

/// Creates a file that is not there: what is there may be the capture that is read.
pub(super) fn create(path: &Path) -> Result<File, Failure> {
    File::create_new(path).map_err(|error| cannot_write(path).because(error))
}

/// Removes a file that was created, and to which not all was written.
pub(super) fn remove(path: &Path) {
    // The failure that came before is told, and the file stays torn where it cannot be removed.
    let _ = fs::remove_file(path);
}
