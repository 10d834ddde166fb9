//! The metadata of a loaded library: its kernels, their attributes, its imports. Loaders query it, and `native_library` keeps it.
//!
//! Metadata is read through pointers that native code returned. All of it is within the library, so a pointer that leads elsewhere is
//! refused; the loader knows the bounds of the library, as an [`Image`].

use std::ffi::{CString, c_void};
use std::ptr::NonNull;

use crate::hal::executable_library::{
    self as abi, DispatchAttributes, Environment, Library, LibraryHeader, SanitizerKind,
};
use crate::hal::host_kernels::KernelTiming;
use crate::status::{Result, Status, StatusCode};

/// Longest name that a library may give.
const MAX_NAME: u64 = 4096;

/// A library in memory, which stays loaded as long as this lives.
pub(super) trait Image: Send + Sync {
    /// The pointer to `length` bytes at an address, if all of them are readable and part of the library.
    fn readable(&self, address: u64, length: u64) -> Option<NonNull<u8>>;

    /// Whether an address is that of code of the library.
    fn is_code(&self, address: u64) -> bool;

    /// The code: each part with the address of its first byte. Empty where it is not known.
    #[cfg_attr(
        not(all(target_arch = "x86_64", feature = "check-kernels")),
        expect(dead_code, reason = "only the check of instructions reads code")
    )]
    fn code(&self) -> Vec<(u64, &[u8])>;
}

/// A kernel.
pub(super) struct Kernel {
    pub(super) function: abi::Dispatch,
    pub(super) attributes: DispatchAttributes,
    pub(super) name: String,
    pub(super) timing: KernelTiming,
}

impl Kernel {
    /// Its name.
    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

/// The metadata of a library.
pub(super) struct Metadata {
    pub(super) name: String,
    pub(super) kernels: Vec<Kernel>,
    /// The names of its imports, as it has them.
    pub(super) imports: Vec<CString>,
    /// Number of specialisation constants it takes.
    pub(super) constants: u32,
}

impl Metadata {
    /// Asks a library for its metadata and checks it.
    ///
    /// # Safety
    /// `query` must be the query function of the library that `image` is, and the environment must be valid as long as the library is
    /// used.
    pub(super) unsafe fn query(
        image: &dyn Image,
        query: abi::LibraryQuery,
        environment: *const Environment,
    ) -> Result<Metadata> {
        // SAFETY: the caller guarantees that the function has this type.
        let library = unsafe { query(abi::LIBRARY_VERSION, environment) };
        if library.is_null() {
            return Err(Status::incompatible(format!(
                "the executable does not support version {} of the library interface",
                abi::LIBRARY_VERSION
            )));
        }
        let reader = Reader(image);
        // The header comes first in all versions and says which version the rest has.
        let header = reader.read(library.cast::<*const LibraryHeader>(), "the library")?;
        let name = reader.header(header)?;
        let library: Library = reader.read(library, "the library")?;
        let kernels = reader.kernels(&library)?;
        let imports = reader.strings(library.imports.symbols, library.imports.count, "an import")?;
        Ok(Metadata { name, kernels, imports, constants: library.constants.count })
    }
}

/// Reads through pointers of a library.
struct Reader<'a>(&'a dyn Image);

impl Reader<'_> {
    fn check(&self, pointer: *const c_void, length: u64, what: &str) -> Result<NonNull<u8>> {
        self.0.readable(pointer as u64, length).ok_or_else(|| {
            Status::failed_precondition(format!("the library's pointer to {what} does not point into the library"))
        })
    }

    /// A copy of what `pointer` points to.
    fn read<T: Copy>(&self, pointer: *const T, what: &str) -> Result<T> {
        let data = self.check(pointer.cast(), size_of::<T>() as u64, what)?;
        // SAFETY: the bytes are readable; the types read here are integers, raw pointers and nullable function pointers, for which
        // every bit pattern is valid.
        Ok(unsafe { data.cast::<T>().as_ptr().read_unaligned() })
    }

    /// A copy of `count` elements.
    fn array<T: Copy>(&self, pointer: *const T, count: u32, what: &str) -> Result<Vec<T>> {
        if count == 0 {
            return Ok(Vec::new());
        }
        // Neither factor has more than 32 bits.
        let data = self.check(pointer.cast(), u64::from(count) * size_of::<T>() as u64, what)?.cast::<T>();
        // SAFETY: the whole array is readable; otherwise as in `read`.
        Ok((0..count as usize).map(|index| unsafe { data.as_ptr().add(index).read_unaligned() }).collect())
    }

    fn string(&self, pointer: *const u8, what: &str) -> Result<CString> {
        let mut bytes = Vec::new();
        for offset in 0..MAX_NAME {
            match self.read((pointer as u64).wrapping_add(offset) as *const u8, what)? {
                // There is no zero before this one.
                0 => return Ok(CString::new(bytes).unwrap_or_default()),
                byte => bytes.push(byte),
            }
        }
        Err(Status::failed_precondition(format!("the name of {what} is longer than {MAX_NAME} bytes")))
    }

    fn strings(&self, pointer: *const *const u8, count: u32, what: &str) -> Result<Vec<CString>> {
        self.array(pointer, count, what)?.into_iter().map(|pointer| self.string(pointer, what)).collect()
    }

    /// Checks the header and returns the library's name.
    fn header(&self, header: *const LibraryHeader) -> Result<String> {
        let header = self.read(header, "its header")?;
        if header.version != abi::LIBRARY_VERSION {
            let message =
                format!("version {} of the library interface: expected {}", header.version, abi::LIBRARY_VERSION);
            return Err(Status::incompatible(message));
        }
        if header.features != 0 {
            let message = format!("the executable needs features {:#x} of the host, which has none", header.features);
            return Err(Status::incompatible(message));
        }
        check_sanitizer("the executable", header.sanitizer)?;
        if header.name.is_null() {
            return Ok(String::new());
        }
        Ok(self.string(header.name, "the library")?.to_string_lossy().into_owned())
    }

    fn kernels(&self, library: &Library) -> Result<Vec<Kernel>> {
        let exports = &library.exports;
        let functions = self.array(exports.functions, exports.count, "its functions")?;
        let attributes = self.array(exports.attributes, exports.count, "the attributes of its functions")?;
        let names = self.strings(exports.names, exports.count, "the names of its functions")?;
        let mut kernels = Vec::with_capacity(functions.len());
        for ((function, attributes), name) in functions.into_iter().zip(attributes).zip(names) {
            let name = name.to_string_lossy().into_owned();
            let function = function.filter(|function| self.0.is_code(*function as usize as u64));
            let function = function
                .ok_or_else(|| Status::failed_precondition(format!("function `{name}` is not code of the library")))?;
            if u32::from(attributes.constant_count) > abi::MAX_CONSTANT_COUNT
                || u32::from(attributes.binding_count) > abi::MAX_BINDING_COUNT
            {
                return Err(Status::out_of_range(format!(
                    "function `{name}` takes {} constants and {} bindings: at most {} of each",
                    attributes.constant_count,
                    attributes.binding_count,
                    abi::MAX_BINDING_COUNT
                )));
            }
            kernels.push(Kernel { function, attributes, name, timing: KernelTiming::default() });
        }
        Ok(kernels)
    }
}

/// Refuses libraries that were built for a sanitizer, which the host does not have.
pub(super) fn check_sanitizer(what: &str, sanitizer: u32) -> Result<()> {
    match SanitizerKind(sanitizer) {
        SanitizerKind::NONE => Ok(()),
        kind => {
            let message = format!("{what} was built for the {kind:?} sanitizer, which this host does not have");
            Err(Status::new(StatusCode::Unavailable, message))
        }
    }
}
