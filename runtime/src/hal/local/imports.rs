//! Functions that a host provides to kernels.

use std::ffi::c_void;

use crate::hal::executable_library;
use crate::status::{Result, Status};

/// A function and what it is called with.
#[derive(Clone, Copy, Debug)]
pub struct Import {
    /// The function.
    pub function: executable_library::Import,
    /// Passed to every call.
    pub context: *mut c_void,
}

/// Finds functions that kernels import.
///
/// # Safety
/// A function that is found must follow the kernels' convention for its name, and it and its context must stay valid and callable
/// from any thread as long as the provider lives.
pub unsafe trait ImportProvider: Send + Sync + std::fmt::Debug {
    /// The function called `name`, if there is one.
    fn resolve(&self, name: &str) -> Option<Import>;
}

/// Provides nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoImports;

// SAFETY: it finds no function.
unsafe impl ImportProvider for NoImports {
    fn resolve(&self, _name: &str) -> Option<Import> {
        None
    }
}

/// The resolved imports of a library, in the two arrays that kernels see.
#[derive(Debug, Default)]
pub(super) struct ImportTable {
    pub(super) functions: Vec<Option<executable_library::Import>>,
    pub(super) contexts: Vec<*mut c_void>,
}

impl ImportTable {
    /// Resolves every name. A leading `?` marks an import that may be missing.
    pub(super) fn resolve<'a>(
        names: impl IntoIterator<Item = &'a str>,
        provider: &dyn ImportProvider,
    ) -> Result<ImportTable> {
        let mut table = ImportTable::default();
        for name in names {
            let (name, optional) = name.strip_prefix('?').map_or((name, false), |name| (name, true));
            match provider.resolve(name) {
                Some(import) => {
                    table.functions.push(Some(import.function));
                    table.contexts.push(import.context);
                }
                None if optional => {
                    table.functions.push(None);
                    table.contexts.push(std::ptr::null_mut());
                }
                None => {
                    let message = format!("the executable imports `{name}`, which this host does not provide");
                    return Err(Status::not_found(message));
                }
            }
        }
        Ok(table)
    }
}

/// Calls an import for a kernel. Kernels and imports follow the same convention, so nothing is converted.
///
/// # Safety
/// As for the import itself.
pub(super) unsafe extern "sysv64" fn thunk(
    function: Option<executable_library::Import>,
    params: *mut c_void,
    context: *mut c_void,
    reserved: *mut c_void,
) -> i32 {
    match function {
        // SAFETY: the kernel passes the function and its context from its import table, with parameters of its own.
        Some(function) => unsafe { function(params, context, reserved) },
        None => 1,
    }
}
