//! Tells `perf` what machine code is called: the file that it reads for code without a file of its own.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::{Mutex, OnceLock};

use crate::limits::check_available;
use crate::status::{Result, Status};

static FILE: OnceLock<Mutex<File>> = OnceLock::new();

/// From now on each function that becomes machine code gets a line in `/tmp/perf-PID.map`, with the process's number, in which `perf
/// report` looks up names. It is for the whole process, and cannot be taken back.
///
/// # Errors
/// `UNIMPLEMENTED` where this build makes no machine code, `FAILED_PRECONDITION` if the file cannot be written.
pub fn write_perf_map() -> Result<()> {
    check_available()?;
    if FILE.get().is_some() {
        return Ok(());
    }
    let path = format!("/tmp/perf-{}.map", std::process::id());
    // Anyone may put links into that folder.
    let file = OpenOptions::new().append(true).create(true).mode(0o644).custom_flags(libc::O_NOFOLLOW).open(&path);
    let file =
        file.map_err(|error| Status::failed_precondition(format!("cannot write `{path}`")).with_source(error))?;
    // Whoever was first has the same file.
    let _ = FILE.set(Mutex::new(file));
    Ok(())
}

/// Notes that `bytes` of code at `address` are a function.
pub fn note(address: usize, bytes: usize, name: impl FnOnce() -> String) {
    use std::io::Write;
    use std::sync::PoisonError;

    let Some(file) = FILE.get() else { return };
    let name = name().replace(|letter: char| letter.is_control(), "?");
    let line = format!("{address:x} {bytes:x} vireo:{name}\n");
    // What cannot be written is only missing in a profile.
    let _ = file.lock().unwrap_or_else(PoisonError::into_inner).write_all(line.as_bytes());
}
