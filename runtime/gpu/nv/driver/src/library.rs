//! The search for the CUDA driver library. Paths come from the host, which lists folders or files to try; without any
//! the system's loader searches where it searches for libraries.

use std::ffi::{CStr, c_void};
use std::path::PathBuf;
use std::ptr::NonNull;
use std::sync::Arc;

use libloading::Library as SharedLibrary;
use vireo_core::status::Result;
use vireo_cuda::cuda_symbols::{CUDA_LIBRARY_NAMES, CuGetProcAddressFn, CuGetProcAddressV2Fn, FINDER, OLDER_FINDER};
use vireo_cuda::result::CuResult;
use vireo_cuda::types::{CChar, SymbolQuery};
use vireo_stream::api::{Traced, Tracer};
use vireo_stream::context::Library;
use vireo_stream::library_file::{lacks, open};

use crate::generated::calls::CudaCalls;

/// The finder of a library.
#[derive(Clone, Copy)]
enum Finder {
    New(CuGetProcAddressV2Fn),
    Old(CuGetProcAddressFn),
}

impl Finder {
    /// The address of a function by its name and version.
    fn find(self, name: &CStr, version: u32) -> Option<NonNull<c_void>> {
        let (name, version): (*const CChar, _) = (name.as_ptr().cast(), version as i32);
        let mut address = std::ptr::null_mut();
        let mut status = SymbolQuery(0);
        // SAFETY: the name ends with a zero, and results are written to values.
        let found = unsafe {
            match self {
                Finder::New(find) => find(name, &raw mut address, version, 0, &raw mut status),
                Finder::Old(find) => find(name, &raw mut address, version, 0),
            }
        };
        NonNull::new(address).filter(|_| found == CuResult::SUCCESS)
    }
}

fn start(calls: CudaCalls, library: Option<SharedLibrary>, tracer: Option<Box<dyn Tracer>>) -> Result<Arc<Library>> {
    let library = library.map(|library| Box::new(library) as Box<dyn Send + Sync>);
    // SAFETY: the functions are those of one library, which is held with them or part of the program.
    unsafe {
        match tracer {
            Some(tracer) => Library::start(Box::new(Traced::new(calls, tracer)), library),
            None => Library::start(Box::new(calls), library),
        }
    }
}

/// Loads the CUDA driver library, the first of the paths that can be opened, and starts it. A tracer is told of its
/// calls.
///
/// # Errors
/// UNAVAILABLE with all paths that were tried, with all functions that the library lacks, or with what it says itself.
///
/// # Safety
/// The library is a CUDA driver library, whose code the caller trusts.
pub unsafe fn load(paths: &[PathBuf], tracer: Option<Box<dyn Tracer>>) -> Result<Arc<Library>> {
    // SAFETY: the caller trusts the library.
    let (library, path) = unsafe { open("the CUDA library", paths, CUDA_LIBRARY_NAMES) }?;
    let what = format!("the CUDA library `{}`", path.display());
    // SAFETY: the functions have these types in every such library.
    let finder = unsafe {
        let new = library.get::<CuGetProcAddressV2Fn>(FINDER.to_bytes_with_nul());
        let old = || library.get::<CuGetProcAddressFn>(OLDER_FINDER.to_bytes_with_nul());
        new.map(|find| Finder::New(*find)).or_else(|_| old().map(|find| Finder::Old(*find)))
    };
    let finder = finder.map_err(|_| lacks(&what, &["cuGetProcAddress"]))?;
    // SAFETY: the addresses are those of the library, which is kept with the functions.
    let calls = unsafe { CudaCalls::load(|name, version| finder.find(name, version)) };
    start(calls.map_err(|missing| lacks(&what, &missing))?, Some(library), tracer)
}

/// Starts a library that is part of the program, whose functions this one finds.
///
/// # Errors
/// As [`load`].
///
/// # Safety
/// It finds the functions of a CUDA driver library.
pub unsafe fn start_found(find: CuGetProcAddressV2Fn, tracer: Option<Box<dyn Tracer>>) -> Result<Arc<Library>> {
    let finder = Finder::New(find);
    // SAFETY: the caller promises that the addresses are those of the functions.
    let calls = unsafe { CudaCalls::load(|name, version| finder.find(name, version)) };
    start(calls.map_err(|missing| lacks("the CUDA library", &missing))?, None, tracer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_names_every_path_or_every_function() {
        let missing = PathBuf::from("/no/such/libcuda.so.1");
        // SAFETY: there is no such file.
        let error = unsafe { load(&[missing], None) }.expect_err("there is no library");
        assert!(error.message().contains("/no/such/libcuda.so.1"), "{error}");
        // A library of the system that is no CUDA library.
        // SAFETY: loading it runs nothing, since the process has it already.
        let error = unsafe { load(&[PathBuf::from("libc.so.6")], None) }.expect_err("it lacks functions");
        assert!(error.message().contains("lacks cuGetProcAddress"), "{error}");
    }
}
