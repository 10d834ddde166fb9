//! The perf map: the file in which `perf` looks up the names of generated code. The JIT adds a line for each function
//! that it installs.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{Mutex, OnceLock};

use crate::limits::check_available;
use crate::status::{Result, Status};
use crate::visible_text::visible;

static FILE: OnceLock<Mutex<File>> = OnceLock::new();

/// From now on each function that becomes machine code gets a line in `/tmp/perf-PID.map`, with the process's number,
/// in which `perf report` looks up names. It is for the whole process, and cannot be taken back.
///
/// # Errors
/// `UNIMPLEMENTED` where this build makes no machine code, `FAILED_PRECONDITION` if the file cannot be written.
pub fn write_perf_map() -> Result<()> {
    check_available()?;
    if FILE.get().is_some() {
        return Ok(());
    }
    let path = format!("/tmp/perf-{}.map", std::process::id());
    let file = create(Path::new(&path))
        .map_err(|error| Status::failed_precondition(format!("cannot write `{path}`")).with_source(error))?;
    // If another thread was first, it has opened the same file.
    let _ = FILE.set(Mutex::new(file));
    Ok(())
}

/// Adds a line for a function: `bytes` of code at `address`.
pub fn note(address: usize, bytes: usize, name: impl FnOnce() -> String) {
    use std::io::Write;
    use std::sync::PoisonError;

    let Some(file) = FILE.get() else { return };
    let line = format!("{address:x} {bytes:x} vireo:{}\n", visible(&name()));
    // A failed write only leaves a name out of a profile.
    let _ = file.lock().unwrap_or_else(PoisonError::into_inner).write_all(line.as_bytes());
}

/// Opens or creates the file. Its folder is writable for all users, so a symbolic link could lead to any file.
#[cfg(unix)]
fn create(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;

    File::options().append(true).create(true).mode(0o644).custom_flags(libc::O_NOFOLLOW).open(path)
}

/// No build for such a system makes machine code.
#[cfg(not(unix))]
fn create(_path: &Path) -> io::Result<File> {
    Err(io::ErrorKind::Unsupported.into())
}
