//! The loader of kernel libraries that are linked into the host program.

use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

use super::library_metadata::{Image, Metadata};
use super::native_library::{LocalExecutable, new_environment};
use crate::hal::ExecutableFormat;
use crate::hal::executable_library::LibraryQuery;
use crate::hal::host_kernels::ImportProvider;
use crate::hal::{Executable, ExecutableCachingMode, ExecutableLoader};
use crate::status::{Result, Status, StatusCode};

/// Finds kernel libraries that are linked into the host program, by name: an executable of the format `static` is only
/// the name of one.
///
/// The compiler writes such programs with
/// `--iree-llvmcpu-link-embedded=false --iree-llvmcpu-static-library-output-path=model.o`, together with an object file
/// that has the kernels and a query function. The function can be written in Rust as well:
///
/// ```
/// use std::ffi::c_char;
/// use std::ptr;
/// use std::sync::Arc;
/// use vireo::hal::executable_library::*;
/// use vireo::hal::local::{LocalDevice, NoImports, StaticLibraryLoader};
/// use vireo::hal::{Device, HeapAllocator};
///
/// vireo::hal::kernel_functions! {
///     /// Doubles a float.
///     unsafe fn double(_: *const Environment, state: *const DispatchState, _: *const WorkgroupState) -> i32 {
///         // SAFETY: it is called with one binding, as its attributes say, which the device has compared.
///         unsafe { *(*(*state).binding_pointers).cast::<f32>() *= 2.0 };
///         0
///     }
///
///     unsafe fn query(max_version: u32, _: *const Environment) -> *const Library {
///         if max_version >= LIBRARY_VERSION { &raw const TABLES.4 } else { ptr::null() }
///     }
/// }
///
/// /// Tables of pointers to constants, which never change.
/// struct Tables(LibraryHeader, [Option<Dispatch>; 1], [DispatchAttributes; 1], [*const u8; 1], Library);
/// unsafe impl Sync for Tables {}
///
/// static TABLES: Tables = Tables(
///     LibraryHeader {
///         version: LIBRARY_VERSION, reserved: 0, name: c"doubles".as_ptr().cast(), features: 0, sanitizer: 0,
///     },
///     [Some(double)],
///     [DispatchAttributes {
///         flags: 0, local_memory_pages: 0, constant_count: 0, binding_count: 1, parameter_count: 0,
///         workgroup_size_x: 1, workgroup_size_y: 1, workgroup_size_z: 1, reserved: [0; 5],
///     }],
///     [c"double".as_ptr().cast()],
///     Library {
///         header: &raw const TABLES.0,
///         imports: ImportTable { count: 0, reserved: 0, symbols: ptr::null() },
///         exports: ExportTable {
///             count: 1, reserved: 0, functions: &raw const TABLES.1 as _, attributes: &raw const TABLES.2 as _,
///             parameters: ptr::null(), occupancy: ptr::null(), names: &raw const TABLES.3 as _, tags: ptr::null(),
///             parameter_names: ptr::null(), source_locations: ptr::null(), stage_locations: ptr::null(),
///         },
///         constants: ConstantTable { count: 0 },
///         reserved: 0,
///         sources: SourceFileTable { count: 0, reserved: 0, files: ptr::null() },
///     },
/// );
///
/// // SAFETY: `query` returns a library as the interface has it, which is never changed and never goes away.
/// let loader = unsafe { StaticLibraryLoader::new(Arc::new(NoImports)).with_library(query) }?;
/// let device = LocalDevice::new("local-sync", Arc::new(HeapAllocator::new()), vec![Arc::new(loader)]);
/// let cache = device.create_executable_cache("")?;
/// let executable = cache.prepare_executable(Default::default(), Default::default(), "static", b"doubles\0", &[])?;
/// assert_eq!(executable.function_info(executable.lookup_function("double")?)?.binding_count, 1);
/// # Ok::<(), vireo::Status>(())
/// ```
pub struct StaticLibraryLoader {
    libraries: Vec<(String, LibraryQuery)>,
    imports: Arc<dyn ImportProvider>,
}

impl fmt::Debug for StaticLibraryLoader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.libraries.iter().map(|(name, _)| name)).finish()
    }
}

impl StaticLibraryLoader {
    /// A loader without libraries, which may import what `imports` provides.
    pub fn new(imports: Arc<dyn ImportProvider>) -> StaticLibraryLoader {
        StaticLibraryLoader { libraries: Vec::new(), imports }
    }

    /// Adds a library by its query function, which is called at once to find out its name.
    ///
    /// # Errors
    /// `INCOMPATIBLE` if the library is of another version of the interface, `ALREADY_EXISTS` if there is one of the
    /// same name.
    ///
    /// # Safety
    /// The function must be the query function of a kernel library in the sense of `spec/hal/executable_library.yaml`:
    /// what it returns is valid and stays as it is, for as long as the program runs. Its kernels must follow their
    /// convention.
    pub unsafe fn with_library(mut self, query: LibraryQuery) -> Result<StaticLibraryLoader> {
        // SAFETY: the caller guarantees that it is a query function. Its result is used only while the environment
        // lives.
        let library = unsafe { Metadata::query(&Linked, query, &new_environment(&[])) }?;
        if self.libraries.iter().any(|(name, _)| *name == library.name) {
            let message = format!("there is a kernel library `{}` already", library.name);
            return Err(Status::new(StatusCode::AlreadyExists, message));
        }
        self.libraries.push((library.name, query));
        Ok(self)
    }
}

impl ExecutableLoader for StaticLibraryLoader {
    fn infer_format(&self, _caching_mode: ExecutableCachingMode, data: &[u8]) -> Result<String> {
        match self.find(data) {
            Some(_) => Ok(ExecutableFormat::StaticLibrary.name().to_string()),
            None => Err(Status::incompatible("not the name of a kernel library of this program")),
        }
    }

    fn supports(&self, _caching_mode: ExecutableCachingMode, format: &str) -> bool {
        format == ExecutableFormat::StaticLibrary.name()
    }

    fn load(
        &self,
        caching_mode: ExecutableCachingMode,
        _format: &str,
        data: &[u8],
        constants: &[u32],
    ) -> Result<Arc<dyn Executable>> {
        let query = self.find(data).ok_or_else(|| {
            let names: Vec<&str> = self.libraries.iter().map(|(name, _)| name.as_str()).collect();
            let known = if names.is_empty() { "none".to_string() } else { names.join(", ") };
            let name = String::from_utf8_lossy(name(data)).chars().take(100).collect::<String>();
            Status::not_found(format!("there is no kernel library `{name}` in this program; it has {known}"))
        })?;
        // SAFETY: the caller of `with_library` guarantees that the query and its tables are valid.
        let executable =
            unsafe { LocalExecutable::new(Box::new(Linked), query, constants, caching_mode, self.imports.clone()) };
        Ok(Arc::new(executable?))
    }
}

impl StaticLibraryLoader {
    fn find(&self, data: &[u8]) -> Option<LibraryQuery> {
        let name = name(data);
        let library = self.libraries.iter().find(|(known, _)| known.as_bytes() == name);
        library.map(|(_, query)| *query)
    }
}

/// The name in an executable, which ends with a zero.
fn name(data: &[u8]) -> &[u8] {
    data.strip_suffix(&[0]).unwrap_or(data)
}

/// The host program as an image. The caller of `with_library` vouches for its pointers.
struct Linked;

impl Image for Linked {
    fn readable(&self, address: u64, _length: u64) -> Option<NonNull<u8>> {
        NonNull::new(address as *mut u8)
    }

    fn is_code(&self, address: u64) -> bool {
        address != 0
    }

    fn code(&self) -> Vec<(u64, &[u8])> {
        Vec::new()
    }
}
