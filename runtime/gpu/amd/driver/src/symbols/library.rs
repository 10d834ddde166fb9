//! The search for the HSA library. Paths come from the host, which lists folders or files to try, or from the
//! environment; without any the system's loader searches where it searches for libraries.

use std::ffi::{CStr, OsString, c_void};
use std::path::PathBuf;
use std::ptr::NonNull;

use libloading::Library;
use vireo_hsa::hsa_symbols::{HSA_LIBRARY_NAMES, HsaFunctions};

use crate::status::{Result, Status, StatusCode};

/// The environment variable with folders or files to search, separated as in `PATH`.
pub const LIBRARY_PATH_VARIABLE: &str = "IREE_HAL_AMDGPU_LIBHSA_PATH";

/// The files to try for a list of folders and files.
fn candidates(paths: &[PathBuf], variable: Option<OsString>) -> Vec<PathBuf> {
    let from_variable = variable.as_ref().filter(|paths| !paths.is_empty()).into_iter().flat_map(std::env::split_paths);
    let mut files = Vec::new();
    for path in paths.iter().cloned().chain(from_variable.filter(|_| paths.is_empty())) {
        if path.is_dir() {
            files.extend(HSA_LIBRARY_NAMES.iter().map(|name| path.join(name)));
        } else {
            files.push(path);
        }
    }
    if files.is_empty() {
        files.extend(HSA_LIBRARY_NAMES.iter().map(PathBuf::from));
    }
    files
}

/// Loads the HSA library: the first of the paths that can be opened.
///
/// # Errors
/// UNAVAILABLE with all paths that were tried, or with all functions that the library lacks.
///
/// # Safety
/// The library is an HSA library, whose code the caller trusts.
pub unsafe fn load_library(paths: &[PathBuf]) -> Result<(HsaFunctions, Box<dyn Send + Sync>)> {
    let unavailable = |message: String| Status::new(StatusCode::Unavailable, message);
    let mut failures = Vec::new();
    for path in candidates(paths, std::env::var_os(LIBRARY_PATH_VARIABLE)) {
        // SAFETY: the caller trusts the library.
        let library = match unsafe { Library::new(&path) } {
            Ok(library) => library,
            Err(error) => {
                failures.push(format!("{}: {error}", path.display()));
                continue;
            }
        };
        let find = |name: &'static CStr| {
            // SAFETY: only the address is taken, by the name with which it is used.
            let symbol = unsafe { library.get::<*mut c_void>(name.to_bytes_with_nul()) };
            symbol.ok().and_then(|symbol| NonNull::new(*symbol))
        };
        // SAFETY: the addresses are those of the library, which is kept with the functions.
        let functions = unsafe { HsaFunctions::load(find) }.map_err(|missing| {
            let names: Vec<&str> = missing.iter().map(|symbol| symbol.name).collect();
            unavailable(format!("the HSA library `{}` lacks {}", path.display(), names.join(", ")))
        })?;
        return Ok((functions, Box::new(library)));
    }
    Err(unavailable(format!("the HSA library cannot be loaded: {}", failures.join("; "))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_and_files_are_searched_in_their_order() {
        let folder = std::env::temp_dir();
        let [first, second] = [0, 1].map(|number| PathBuf::from(HSA_LIBRARY_NAMES[number]));
        assert_eq!(candidates(&[], None), [first.clone(), second.clone()]);
        assert_eq!(candidates(&[], Some(OsString::new())), [first.clone(), second.clone()]);
        let listed = candidates(&[PathBuf::from("/no/such/file.so"), folder.clone()], Some("/other".into()));
        assert_eq!(listed, [PathBuf::from("/no/such/file.so"), folder.join(&first), folder.join(&second)]);
        assert_eq!(candidates(&[], Some("/a.so:/b.so".into())), [PathBuf::from("/a.so"), PathBuf::from("/b.so")]);
    }

    #[test]
    fn the_error_names_every_path_or_every_function() {
        let missing = PathBuf::from("/no/such/libhsa-runtime64.so");
        // SAFETY: there is no such file.
        let error = unsafe { load_library(&[missing]) }.err().expect("there is no library");
        assert!(error.message().contains("/no/such/libhsa-runtime64.so"), "{error}");
        // A library of the system that is no HSA library.
        // SAFETY: loading it runs nothing, since the process has it already.
        let error = unsafe { load_library(&[PathBuf::from("libc.so.6")]) }.err().expect("it lacks functions");
        assert!(error.message().contains("lacks hsa_init, hsa_shut_down, "), "{error}");
    }
}
