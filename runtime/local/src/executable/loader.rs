//! The loader of embedded ELF libraries, and the executable cache of local devices, which chooses the loader for a
//! format.

use std::sync::Arc;

use super::elf::{self, ElfImage};
use super::native_library::{LocalExecutable, check_instructions};
use crate::hal::elf_format::EMBEDDED_FORMAT_PREFIX;
use crate::hal::executable_library::{LIBRARY_QUERY_SYMBOL, LibraryQuery};
use crate::hal::host_kernels::{ImportProvider, unsupported};
use crate::hal::{Executable, ExecutableCache, ExecutableCachingMode, ExecutableLoader, QueueAffinity};
use crate::status::{Result, Status};

/// Loads embedded ELF libraries for the processor that the host runs on.
#[derive(Debug)]
pub struct EmbeddedElfLoader {
    imports: Arc<dyn ImportProvider>,
}

impl EmbeddedElfLoader {
    /// A loader whose libraries may import what `imports` provides.
    pub fn new(imports: Arc<dyn ImportProvider>) -> EmbeddedElfLoader {
        EmbeddedElfLoader { imports }
    }

    /// Does what loading a library does before any code of it runs: for fuzz targets.
    ///
    /// # Errors
    /// As for loading it.
    #[doc(hidden)]
    pub fn check(data: &[u8]) -> Result<()> {
        opened(ExecutableCachingMode::empty(), &elf::infer_format(data)?, data).map(drop)
    }
}

/// A library in memory with checked instructions, and the address of its query function. No code of it has run.
fn opened(caching_mode: ExecutableCachingMode, format: &str, data: &[u8]) -> Result<(ElfImage, u64)> {
    let image = ElfImage::load(data).map_err(|error| Status::from(error).context(format!("executable `{format}`")))?;
    let query = image
        .function(LIBRARY_QUERY_SYMBOL)
        .ok_or_else(|| Status::failed_precondition(format!("the library does not export `{LIBRARY_QUERY_SYMBOL}`")))?;
    if !caching_mode.contains(ExecutableCachingMode::DISABLE_VERIFICATION) {
        let entries = image.initializers().iter().chain([&query]).map(|address| (*address, LIBRARY_QUERY_SYMBOL));
        check_instructions(&image, &entries.collect::<Vec<_>>())?;
    }
    Ok((image, query))
}

impl ExecutableLoader for EmbeddedElfLoader {
    fn infer_format(&self, _caching_mode: ExecutableCachingMode, data: &[u8]) -> Result<String> {
        Ok(elf::infer_format(data)?)
    }

    fn supports(&self, _caching_mode: ExecutableCachingMode, format: &str) -> bool {
        format.strip_prefix(EMBEDDED_FORMAT_PREFIX).is_some_and(elf::is_host_machine)
    }

    fn load(
        &self,
        caching_mode: ExecutableCachingMode,
        format: &str,
        data: &[u8],
        constants: &[u32],
    ) -> Result<Arc<dyn Executable>> {
        let (image, query) = opened(caching_mode, format, data)?;
        // SAFETY: the address is code of the module, and the symbol of this name has this type by the format's
        // definition.
        let query = unsafe { std::mem::transmute::<*const (), LibraryQuery>(query as *const ()) };
        // SAFETY: loading an executable means trusting its code; see the documentation of `elf`.
        unsafe { image.initialize() };
        // SAFETY: the function is that of the module, whose initialisers have run.
        let executable =
            unsafe { LocalExecutable::new(Box::new(image), query, constants, caching_mode, self.imports.clone()) };
        Ok(Arc::new(executable?))
    }
}

/// Prepares executables by the first loader that supports their format.
#[derive(Debug)]
pub struct LocalExecutableCache {
    loaders: Arc<[Arc<dyn ExecutableLoader>]>,
    native_code: bool,
}

impl LocalExecutableCache {
    pub(crate) fn new(loaders: Arc<[Arc<dyn ExecutableLoader>]>, native_code: bool) -> LocalExecutableCache {
        LocalExecutableCache { loaders, native_code }
    }
}

impl ExecutableCache for LocalExecutableCache {
    fn infer_format(&self, caching_mode: ExecutableCachingMode, data: &[u8]) -> Result<String> {
        let mut failure = None;
        for loader in self.loaders.iter() {
            match loader.infer_format(caching_mode, data) {
                Ok(format) => return Ok(format),
                Err(status) => failure = Some(status),
            }
        }
        Err(failure.unwrap_or_else(|| Status::unimplemented("the device has no executable loaders")))
    }

    fn can_prepare_format(&self, caching_mode: ExecutableCachingMode, format: &str) -> bool {
        self.loaders.iter().any(|loader| loader.supports(caching_mode, format))
    }

    fn prepare_executable(
        &self,
        _queue_affinity: QueueAffinity,
        caching_mode: ExecutableCachingMode,
        format: &str,
        data: &[u8],
        constants: &[u32],
    ) -> Result<Arc<dyn Executable>> {
        let loader = self.loaders.iter().find(|loader| loader.supports(caching_mode, format));
        let loader = loader.ok_or_else(|| unsupported(format, self.native_code))?;
        loader.load(caching_mode, format, data, constants)
    }
}
