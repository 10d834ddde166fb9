//! The library of collective operations ([`CollectivesLibrary`]), which is loaded when a channel is created first.

use std::ffi::{CStr, c_void};
use std::fmt;
use std::path::PathBuf;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use libloading::Library as SharedLibrary;
use vireo_cuda::nccl::nccl_symbols::{NCCL_LIBRARY_NAMES, NcclFunctions};
use vireo_cuda::nccl::result::NcclResult;
use vireo_cuda::nccl::types::NcclComm;

use crate::api::{ApiError, FailureKind, Traced};
use crate::generated::nccl::api::NcclApi;
use crate::generated::nccl::calls::{NcclCalls, failure_kind};
use crate::instance::PrintTracer;
use crate::library_file::{lacks, open, unavailable};
use crate::status::{Result, Status};

/// The oldest version that the driver works with: the first one with splits.
const LEAST_VERSION: i32 = 21_800;

/// Where the library is from.
#[derive(Clone, Debug)]
pub enum LibrarySource {
    /// Folders with it, or files, in the order in which they are tried. Without any, those of the system are.
    Paths(Vec<PathBuf>),
    /// Functions that are part of the program.
    Functions(NcclFunctions),
}

impl Default for LibrarySource {
    fn default() -> LibrarySource {
        LibrarySource::Paths(Vec::new())
    }
}

/// The library.
pub struct CollectivesLibrary {
    calls: Mutex<Box<dyn NcclApi>>,
    /// Keeps it loaded.
    _library: Option<SharedLibrary>,
}

impl fmt::Debug for CollectivesLibrary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NCCL")
    }
}

/// The failure of a function.
#[cold]
pub(crate) fn failed(calls: &NcclCalls, function: &'static str, status: NcclResult) -> ApiError {
    let error = ApiError { function, code: status.0, kind: failure_kind(status), text: None };
    if error.is_pending() {
        return error;
    }
    ApiError { text: Some(text_of(calls, status, NcclComm(0)).into()), ..error }
}

/// The text of a status, with what the library says of its last failure.
fn text_of(calls: &dyn NcclApi, status: NcclResult, comm: NcclComm) -> String {
    // SAFETY: they take any status, and a rank that is alive or none.
    let texts = unsafe { [calls.error_text(status), calls.last_error(comm)] };
    let texts = texts.into_iter().filter(|text| !text.is_null());
    // SAFETY: texts end with a zero, and the library keeps them until it is called again.
    let texts = texts.map(|text| unsafe { CStr::from_ptr(text.cast()) }.to_string_lossy().into_owned());
    texts.filter(|text| !text.is_empty()).collect::<Vec<_>>().join(": ")
}

impl CollectivesLibrary {
    /// Loads it. With `trace`, each call is written to stderr.
    ///
    /// # Errors
    /// UNAVAILABLE with all paths that were tried, all functions that it lacks, or a version that is too old.
    ///
    /// # Safety
    /// It is NCCL or a library with its functions, whose code the caller trusts, and which stays for the process.
    pub unsafe fn load(source: &LibrarySource, trace: bool) -> Result<Arc<CollectivesLibrary>> {
        let (library, what) = match source {
            LibrarySource::Functions(_) => (None, "the NCCL library".to_string()),
            LibrarySource::Paths(paths) => {
                // SAFETY: the caller trusts the library.
                let (library, path) = unsafe { open("the NCCL library", paths, NCCL_LIBRARY_NAMES) }?;
                (Some(library), format!("the NCCL library `{}`", path.display()))
            }
        };
        let find = |name: &'static CStr, _version: u32| -> Option<NonNull<c_void>> {
            match (source, &library) {
                (LibrarySource::Functions(functions), _) => functions.find(name),
                // SAFETY: the address is not used here.
                (_, Some(library)) => unsafe { library.get::<*mut c_void>(name.to_bytes_with_nul()) }
                    .ok()
                    .and_then(|symbol| NonNull::new(*symbol)),
                _ => None,
            }
        };
        // SAFETY: they are the functions of the library, which is kept with them.
        let calls = unsafe { NcclCalls::load(find) }.map_err(|missing| lacks(&what, &missing))?;
        // SAFETY: the result is a value.
        let version = unsafe { calls.version() }?;
        if version < LEAST_VERSION {
            let message = format!("{what} is of version {version}, expected at least {LEAST_VERSION}");
            return Err(unavailable(message));
        }
        let calls: Box<dyn NcclApi> =
            if trace { Box::new(Traced::new(calls, Box::new(PrintTracer))) } else { Box::new(calls) };
        Ok(Arc::new(CollectivesLibrary { calls: Mutex::new(calls), _library: library }))
    }

    /// Its functions, one thread at a time: groups of calls are of a thread, and ranks are not called by two at once.
    /// No call blocks.
    pub(super) fn calls(&self) -> MutexGuard<'_, Box<dyn NcclApi>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The failure of what goes on at a rank; false if it has not ended.
pub(super) fn check_progress(calls: &dyn NcclApi, comm: NcclComm) -> Result<bool> {
    // SAFETY: the rank is alive.
    let status = unsafe { calls.async_error(comm) }?;
    match failure_kind(status) {
        _ if status == NcclResult::SUCCESS => Ok(true),
        FailureKind::Pending => Ok(false),
        FailureKind::Lost | FailureKind::Status(_) => {
            let text = Some(text_of(calls, status, comm).into());
            let error = ApiError { function: "NCCL", code: status.0, kind: failure_kind(status), text };
            Err(Status::from(error))
        }
    }
}
