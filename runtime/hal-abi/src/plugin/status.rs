//! Errors at the boundary between libraries: the code, the message, and the chain of causes.

use std::error::Error;
use std::fmt;

use super::slice::RawSlice;
use crate::status::{Result, Status, StatusCode};

/// Most causes that are passed on, since a chain may be very long or circular.
const MAX_CAUSES: usize = 32;

/// An error. A function returns null if it did not fail. The receiver of an error frees it.
#[repr(C)]
#[derive(Debug)]
pub struct RawStatus {
    /// The number of the status code; never 0.
    pub code: u32,
    /// Zero.
    pub reserved: u32,
    /// The description of the failure, in UTF-8.
    pub message: RawSlice<u8>,
    /// The cause, which belongs to this error; null if there is none.
    pub source: *mut RawStatus,
    /// Frees the error with its causes.
    pub free: unsafe extern "C" fn(status: *mut RawStatus),
}

/// A cause that was not a status in its library, as text.
#[derive(Debug)]
struct Cause(String);

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for Cause {}

/// Hands a result over: null for success.
pub fn into_raw(result: Result<()>) -> *mut RawStatus {
    result.map_or_else(|status| status_into_raw(&status), |()| std::ptr::null_mut())
}

/// Hands an error over.
pub fn status_into_raw(status: &Status) -> *mut RawStatus {
    let mut causes = Vec::new();
    let mut source = status.source();
    while let Some(error) = source.filter(|_| causes.len() < MAX_CAUSES) {
        causes.push(match error.downcast_ref::<Status>() {
            Some(status) => (status.code() as u32, status.message().to_string()),
            // Other errors have no code, only a message.
            None => (CAUSE, error.to_string()),
        });
        source = error.source();
    }
    let mut raw = std::ptr::null_mut();
    for (code, message) in causes.into_iter().rev() {
        raw = new(code, &message, raw);
    }
    new(status.code() as u32, status.message(), raw)
}

/// Code of a cause that has none.
const CAUSE: u32 = u32::MAX;

fn new(code: u32, message: &str, source: *mut RawStatus) -> *mut RawStatus {
    unsafe extern "C" fn free(status: *mut RawStatus) {
        // SAFETY: the address comes from `new`, and an error is freed once.
        let status = unsafe { Box::from_raw(status) };
        let message = std::ptr::slice_from_raw_parts_mut(status.message.data.cast_mut(), status.message.length);
        // SAFETY: the address comes from `new`, and an error is freed once; the message was boxed by `new`.
        drop(unsafe { Box::from_raw(message) });
        if !status.source.is_null() {
            // SAFETY: causes belong to their error. There are at most `MAX_CAUSES`, so this does not recurse far.
            unsafe { ((*status.source).free)(status.source) };
        }
    }
    let message: Box<[u8]> = message.as_bytes().into();
    let length = message.len();
    let data = Box::into_raw(message).cast::<u8>().cast_const();
    Box::into_raw(Box::new(RawStatus { code, reserved: 0, message: RawSlice { data, length }, source, free }))
}

/// Takes an error over.
///
/// # Errors
/// The error, unless `status` is null.
///
/// # Safety
/// `status` is null, or was handed to the caller, who takes it once.
pub unsafe fn take(status: *mut RawStatus) -> Result<()> {
    if status.is_null() {
        return Ok(());
    }
    // SAFETY: the caller guarantees that `status` was handed to it, and takes it once.
    Err(unsafe { take_status(status) })
}

/// As [`take`], for something that must be an error.
///
/// # Safety
/// As for [`take`].
pub unsafe fn take_status(status: *mut RawStatus) -> Status {
    if status.is_null() {
        return Status::new(StatusCode::Unknown, "a failure without a status");
    }
    let mut chain = Vec::new();
    let mut next = status.cast_const();
    while !next.is_null() && chain.len() <= MAX_CAUSES {
        // SAFETY: an error is valid until it is freed, and so are its causes.
        let raw = unsafe { &*next };
        // SAFETY: an error is valid until it is freed, and so are its causes.
        let message = unsafe { raw.message.get() }.unwrap_or_default();
        chain.push((raw.code, String::from_utf8_lossy(message).into_owned()));
        next = raw.source;
    }
    // SAFETY: it was handed over, and nothing of it is used after this.
    unsafe { ((*status).free)(status) };
    let mut built: Option<Built> = None;
    for (code, message) in chain.into_iter().rev() {
        built = Some(Built::new(code, message, built));
    }
    match built {
        Some(Built::Status(status)) => status,
        Some(Built::Cause(cause)) => Status::new(StatusCode::Unknown, cause.0),
        None => Status::new(StatusCode::Unknown, "a failure without a status"),
    }
}

enum Built {
    Status(Status),
    Cause(Cause),
}

impl Built {
    fn new(code: u32, message: String, source: Option<Built>) -> Built {
        // A textual cause cannot have a source; if it has one it becomes a status.
        if code == CAUSE && source.is_none() {
            return Built::Cause(Cause(message));
        }
        let status = Status::new(StatusCode::from_number(code).unwrap_or(StatusCode::Unknown), message);
        Built::Status(match source {
            Some(Built::Status(source)) => status.with_source(source),
            Some(Built::Cause(source)) => status.with_source(source),
            None => status,
        })
    }
}
