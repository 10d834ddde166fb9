//! Failures of functions ([`Failure`]), and the gate that every function passes ([`entry`]): it keeps the last failure
//! for programs that ask, tells it on stderr, and turns panics, which are mistakes of this library, into a status.

use std::ffi::{CStr, CString};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};

use vireo_core::status::{Status, StatusCode};
use vireo_cuda::nccl::result::NcclResult;

/// A failure, with its cause.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) status: NcclResult,
    pub(crate) text: String,
}

/// The result of what may fail.
pub(crate) type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    pub(crate) fn new(status: NcclResult, text: impl Into<String>) -> Failure {
        Failure { status, text: text.into() }
    }

    pub(crate) fn argument(text: impl Into<String>) -> Failure {
        Failure::new(NcclResult::INVALID_ARGUMENT, text)
    }

    pub(crate) fn usage(text: impl Into<String>) -> Failure {
        Failure::new(NcclResult::INVALID_USAGE, text)
    }
}

impl From<Status> for Failure {
    fn from(status: Status) -> Failure {
        let of_code = match status.code() {
            StatusCode::Aborted | StatusCode::DeadlineExceeded => NcclResult::REMOTE_ERROR,
            StatusCode::FailedPrecondition => NcclResult::INVALID_USAGE,
            StatusCode::InvalidArgument | StatusCode::OutOfRange => NcclResult::INVALID_ARGUMENT,
            StatusCode::Unavailable | StatusCode::ResourceExhausted => NcclResult::SYSTEM_ERROR,
            _ => NcclResult::INTERNAL_ERROR,
        };
        Failure::new(of_code, status.message())
    }
}

/// The text of the last failure, which stays where it is until the next one: programs have its address.
static LAST: Mutex<Option<CString>> = Mutex::new(None);

/// Keeps a failure for programs that ask.
pub(crate) fn keep(text: &str) {
    // A text of another rank may have any bytes.
    let text = CString::new(text.replace('\0', " ")).unwrap_or_default();
    *LAST.lock().unwrap_or_else(PoisonError::into_inner) = Some(text);
}

/// The text of the last failure. It stays for the thread until it asks again.
pub(crate) fn last() -> *const u8 {
    thread_local! {
        static TOLD: std::cell::RefCell<CString> = std::cell::RefCell::default();
    }
    let last = LAST.lock().unwrap_or_else(PoisonError::into_inner).clone().unwrap_or_default();
    TOLD.with_borrow_mut(|told| {
        *told = last;
        told.as_ptr().cast()
    })
}

/// The text of a status.
pub(crate) fn text_of(status: NcclResult) -> &'static CStr {
    match status {
        NcclResult::SUCCESS => c"no error",
        NcclResult::UNHANDLED_CUDA_ERROR => c"unhandled cuda error",
        NcclResult::SYSTEM_ERROR => c"unhandled system error",
        NcclResult::INTERNAL_ERROR => c"internal error",
        NcclResult::INVALID_ARGUMENT => c"invalid argument",
        NcclResult::INVALID_USAGE => c"invalid usage",
        NcclResult::REMOTE_ERROR => c"remote process exited or there was a network error",
        NcclResult::IN_PROGRESS => c"NCCL operation in progress",
        _ => c"unknown result code",
    }
}

/// Passes a call, which says whether something is still in progress.
pub(crate) fn entry(function: &str, call: impl FnOnce() -> Outcome<NcclResult>) -> NcclResult {
    let mistake = |_| Err(Failure::new(NcclResult::INTERNAL_ERROR, "a mistake of this library"));
    match catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(mistake) {
        Ok(status) => status,
        Err(Failure { status, text }) => {
            keep(&format!("{function}: {text}"));
            eprintln!("softnccl: {function}: {text}");
            status
        }
    }
}
