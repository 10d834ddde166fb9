//! Failures of the functions of the library, with what it says of them.

use std::ffi::CStr;

use vireo_cuda::result::CuResult;
use vireo_cuda::types::CChar;
use vireo_stream::StreamApi;
use vireo_stream::api::ApiError;

use crate::generated::calls::{CudaCalls, failure_kind};

/// The failure of a function.
#[cold]
pub(crate) fn failed(calls: &CudaCalls, function: &'static str, status: CuResult) -> ApiError {
    let mut error = ApiError { function, code: status.0, kind: failure_kind(status), text: None };
    let asks_for_text = function == "cuGetErrorName" || function == "cuGetErrorString";
    if error.is_pending() || asks_for_text {
        return error;
    }
    // SAFETY: the functions take any status, and the library keeps its texts.
    let (name, text) = unsafe { (calls.error_name(status), calls.error_text(status)) };
    let read = |text: *const CChar| {
        // SAFETY: a text of the library ends with a zero.
        (!text.is_null()).then(|| unsafe { CStr::from_ptr(text.cast()) }.to_string_lossy().into_owned())
    };
    let parts: Vec<String> = [name.ok(), text.ok()].into_iter().flatten().filter_map(read).collect();
    error.text = Some(if parts.is_empty() { "an unknown status".into() } else { parts.join(": ").into() });
    error
}
