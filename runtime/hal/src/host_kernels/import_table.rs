//! The import table of an executable ([`ImportTable`]): functions that a host provides to kernels, and who provides
//! them.

use std::ffi::{CStr, CString, c_void};
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use crate::executable_library;
use crate::status::{Result, Status};

pub use executable_library::Import as Function;

/// A function, and the context that it is called with.
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
/// A function that is found must follow the kernels' convention for its name, and it and its context must stay valid
/// and callable from any thread as long as the provider lives.
pub unsafe trait ImportProvider: Send + Sync + fmt::Debug {
    /// The function called `name`, if there is one.
    fn resolve(&self, name: &str) -> Option<Import>;

    /// Sets the imports that it provides among the missing ones. A provider overrides this if it resolves all names in
    /// one call.
    ///
    /// # Errors
    /// Those of resolving names; a name that it does not know is none.
    fn fill(&self, imports: &mut ImportTable) -> Result<()> {
        for index in 0..imports.len() {
            if imports.is_missing(index)
                && let Some(import) = self.resolve(&imports.name(index))
            {
                imports.set(index, import);
            }
        }
        Ok(())
    }
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

/// Several providers, asked in the order in which they were added. More can be added at any time; executables that are
/// loaded already keep their imports.
#[derive(Debug, Default)]
pub struct ImportProviders {
    providers: RwLock<Vec<Arc<dyn ImportProvider>>>,
}

impl ImportProviders {
    /// Adds a provider, which is never removed: executables may call its functions at any time.
    pub fn add(&self, provider: Arc<dyn ImportProvider>) {
        self.providers.write().unwrap_or_else(PoisonError::into_inner).push(provider);
    }

    fn all(&self) -> Vec<Arc<dyn ImportProvider>> {
        // Providers are called without the lock: they may be code of other libraries.
        self.providers.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

// SAFETY: its functions are those of its providers, which live as long as it does: none is ever removed.
unsafe impl ImportProvider for ImportProviders {
    fn resolve(&self, name: &str) -> Option<Import> {
        self.all().iter().find_map(|provider| provider.resolve(name))
    }

    fn fill(&self, imports: &mut ImportTable) -> Result<()> {
        self.all().iter().try_for_each(|provider| provider.fill(imports))
    }
}

/// The imports of an executable: their names, and the arrays of functions and contexts that its kernels use.
#[derive(Debug, Default)]
pub struct ImportTable {
    names: Vec<CString>,
    functions: Vec<Option<executable_library::Import>>,
    contexts: Vec<*mut c_void>,
}

impl ImportTable {
    /// Resolves every name. A leading `?` marks an import that may be missing.
    ///
    /// # Errors
    /// `NOT_FOUND`, with the name of a function that is neither found nor optional, and those of the provider.
    pub fn resolve(names: Vec<CString>, provider: &dyn ImportProvider) -> Result<ImportTable> {
        let (functions, contexts) = (vec![None; names.len()], vec![std::ptr::null_mut(); names.len()]);
        let mut table = ImportTable { names, functions, contexts };
        if table.is_empty() {
            return Ok(table);
        }
        provider.fill(&mut table)?;
        match (0..table.len()).find(|index| table.is_missing(*index) && !table.is_optional(*index)) {
            None => Ok(table),
            Some(index) => {
                let name = table.name(index);
                Err(Status::not_found(format!("the executable imports `{name}`, which this host does not provide")))
            }
        }
    }

    /// Number of imports.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Name of an import, without the mark of optional ones.
    pub fn name(&self, index: usize) -> String {
        let name = self.names[index].to_string_lossy();
        name.strip_prefix('?').unwrap_or(&name).to_string()
    }

    /// Whether the executable works without it.
    pub fn is_optional(&self, index: usize) -> bool {
        self.names[index].to_bytes().starts_with(b"?")
    }

    /// Whether it was not provided yet.
    pub fn is_missing(&self, index: usize) -> bool {
        self.functions[index].is_none()
    }

    /// Provides it.
    pub fn set(&mut self, index: usize, import: Import) {
        self.functions[index] = Some(import.function);
        self.contexts[index] = import.context;
    }

    /// The names as the executable has them, with marks.
    pub fn names(&self) -> impl Iterator<Item = &CStr> {
        self.names.iter().map(CString::as_c_str)
    }

    /// The array of functions, which does not move as long as the table lives.
    pub fn functions(&mut self) -> *mut Option<executable_library::Import> {
        self.functions.as_mut_ptr()
    }

    /// The array of contexts, which does not move either.
    pub fn contexts(&mut self) -> *mut *mut c_void {
        self.contexts.as_mut_ptr()
    }
}

crate::kernel_functions! {
    /// Calls an import for a kernel. Kernels and imports follow the same convention, so nothing is converted.
    ///
    /// # Safety
    /// As for the import itself.
    pub unsafe fn thunk(
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
}
