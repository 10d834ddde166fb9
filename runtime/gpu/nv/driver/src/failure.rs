//! Failures of the functions of the library, with what it says of them.

use std::ffi::CStr;

use vireo_cuda::result::CuResult;
use vireo_stream::api::ApiError;

use crate::generated::calls::{CudaCalls, failure_kind};

/// The failure of a function.
#[cold]
pub(crate) fn failed(calls: &CudaCalls, function: &'static str, status: CuResult) -> ApiError {
    let mut error = ApiError { function, code: status.0, kind: failure_kind(status), text: None };
    if error.is_pending() {
        return error;
    }
    // SAFETY: a text of the library ends with a zero, and the library keeps it.
    let read = |text| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned();
    let parts: Vec<String> = calls.texts(status).into_iter().flatten().map(read).collect();
    error.text = Some(if parts.is_empty() { "an unknown status".into() } else { parts.join(": ").into() });
    error
}
