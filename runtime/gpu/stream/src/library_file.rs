//! Libraries of the system that are loaded by name ([`open`]). Paths come from the host, which lists folders or files
//! to try; without any the system's loader searches where it searches for libraries.

use std::path::PathBuf;

use libloading::Library;

use crate::status::{Result, Status, StatusCode};

/// The files to try for a list of folders and files.
fn candidates(paths: &[PathBuf], names: &[&str]) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for path in paths {
        if path.is_dir() {
            files.extend(names.iter().map(|name| path.join(name)));
        } else {
            files.push(path.clone());
        }
    }
    if files.is_empty() {
        files.extend(names.iter().map(PathBuf::from));
    }
    files
}

/// Opens the first of the paths that can be opened: a file, or one of these names in a folder. Returns it with its
/// path.
///
/// # Errors
/// UNAVAILABLE with all paths that were tried.
///
/// # Safety
/// The code of the library is one that the caller trusts.
pub unsafe fn open(what: &str, paths: &[PathBuf], names: &[&str]) -> Result<(Library, PathBuf)> {
    if cfg!(target_env = "musl") && cfg!(target_feature = "crt-static") {
        return Err(unavailable(format!("a static program cannot load {what}")));
    }
    let mut failures = Vec::new();
    for path in candidates(paths, names) {
        // SAFETY: the caller trusts the library.
        match unsafe { Library::new(&path) } {
            Ok(library) => return Ok((library, path)),
            Err(error) => failures.push(format!("{}: {error}", path.display())),
        }
    }
    Err(unavailable(format!("{what} cannot be loaded: {}", failures.join("; "))))
}

/// A library that is not there, or not as it should be.
#[must_use]
pub fn unavailable(message: String) -> Status {
    Status::new(StatusCode::Unavailable, message)
}

/// The failure of a library without some functions.
#[must_use]
pub fn lacks(what: &str, missing: &[&str]) -> Status {
    unavailable(format!("{what} lacks {}", missing.join(", ")))
}
