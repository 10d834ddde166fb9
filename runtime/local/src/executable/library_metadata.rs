//! The metadata of a loaded library: its kernels, their attributes, its imports. Loaders query it, and `native_library`
//! keeps it.
//!
//! Metadata is read through pointers that native code returned. All of it is within the library, so a pointer that
//! leads elsewhere is refused; the loader knows the bounds of the library, as an [`Image`].

use std::ffi::{CString, c_void};
use std::ptr::NonNull;

use crate::hal::executable_library::{
    self as abi, DispatchAttributes, DispatchAttributes5, Environment, ExportTable, ExportTable5, Library, Library5,
    LibraryHeader, SanitizerKind,
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
pub(super) struct NativeKernel {
    pub(super) function: abi::Dispatch,
    pub(super) attributes: DispatchAttributes,
    pub(super) name: String,
    pub(super) timing: KernelTiming,
}

impl NativeKernel {
    /// Its name.
    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

/// The metadata of a library.
pub(super) struct Metadata {
    pub(super) name: String,
    pub(super) kernels: Vec<NativeKernel>,
    /// The names of its imports, as it has them.
    pub(super) imports: Vec<CString>,
    /// Number of specialisation constants it takes.
    pub(super) constants: u32,
}

impl Metadata {
    /// Asks a library for its metadata and checks it.
    ///
    /// # Safety
    /// `query` must be the query function of the library that `image` is, and the environment must be valid as long as
    /// the library is used.
    pub(super) unsafe fn query(
        image: &dyn Image,
        query: abi::LibraryQuery,
        environment: *const Environment,
    ) -> Result<Metadata> {
        // Libraries of compilers have one version and return null for all others.
        let mut libraries = VERSIONS.into_iter().map(|version| {
            // SAFETY: the caller guarantees that the function has this type.
            unsafe { query(version, environment) }
        });
        let Some(library) = libraries.find(|library| !library.is_null()) else {
            return Err(Status::incompatible(format!(
                "the executable supports none of the versions {} of the library interface",
                versions()
            )));
        };
        let reader = Reader(image);
        // The header comes first in all versions and says which version the rest has.
        let header = reader.read(library.cast::<*const LibraryHeader>(), "the library")?;
        let (version, name) = reader.header(header)?;
        let (imports, constants, kernels) = if version == abi::LIBRARY_VERSION_5 {
            let library: Library5 = reader.read(library.cast(), "the library")?;
            (library.imports, library.constants, reader.kernels(reader.exports_5(&library.exports)?)?)
        } else {
            let library: Library = reader.read(library, "the library")?;
            (library.imports, library.constants, reader.kernels(reader.exports(&library.exports)?)?)
        };
        let imports = reader.strings(imports.symbols, imports.count, "an import")?;
        Ok(Metadata { name, kernels, imports, constants: constants.count })
    }
}

/// The versions of the interface that libraries may have, in the order in which they are asked for.
const VERSIONS: [u32; 2] = [abi::LIBRARY_VERSION, abi::LIBRARY_VERSION_5];

fn versions() -> String {
    VERSIONS.map(|version| version.to_string()).join(" and ")
}

/// The attributes of functions whose library of version 5 has no table of them.
const NO_ATTRIBUTES_5: DispatchAttributes5 =
    DispatchAttributes5 { local_memory_pages: 0, constant_count: 0, binding_count: 0, padding: 0, reserved: [0; 8] };

/// The parts of the export table that are used, in the same form for all versions.
struct Exports {
    functions: Vec<Option<abi::Dispatch>>,
    attributes: Vec<DispatchAttributes>,
    names: Vec<String>,
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
        // SAFETY: the bytes are readable; the types read here are integers, raw pointers and nullable function
        // pointers, for which every bit pattern is valid.
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

    /// Checks the header and returns the version of the library and its name.
    fn header(&self, header: *const LibraryHeader) -> Result<(u32, String)> {
        let header = self.read(header, "its header")?;
        if !VERSIONS.contains(&header.version) {
            let message = format!("version {} of the library interface: supported are {}", header.version, versions());
            return Err(Status::incompatible(message));
        }
        if header.features != 0 {
            let message = format!("the executable needs features {:#x} of the host, which has none", header.features);
            return Err(Status::incompatible(message));
        }
        check_sanitizer("the executable", header.sanitizer)?;
        if header.name.is_null() {
            return Ok((header.version, String::new()));
        }
        Ok((header.version, self.string(header.name, "the library")?.to_string_lossy().into_owned()))
    }

    fn exports(&self, exports: &ExportTable) -> Result<Exports> {
        Ok(Exports {
            functions: self.array(exports.functions, exports.count, "its functions")?,
            attributes: self.array(exports.attributes, exports.count, "the attributes of its functions")?,
            names: self.names(exports.names, exports.count)?,
        })
    }

    /// The export table of version 5, whose attributes are converted. Kernels of that version take one invocation per
    /// workgroup.
    fn exports_5(&self, exports: &ExportTable5) -> Result<Exports> {
        let functions = self.array(exports.functions, exports.count, "its functions")?;
        let names = self.names(exports.names, exports.count)?;
        let attributes: Vec<DispatchAttributes5> = if exports.attributes.is_null() {
            vec![NO_ATTRIBUTES_5; functions.len()]
        } else {
            self.array(exports.attributes, exports.count, "the attributes of its functions")?
        };
        let attributes = attributes.into_iter().map(|attributes| DispatchAttributes {
            flags: 0,
            local_memory_pages: attributes.local_memory_pages,
            constant_count: attributes.constant_count,
            binding_count: attributes.binding_count,
            workgroup_size_x: 1,
            workgroup_size_y: 1,
            workgroup_size_z: 1,
            parameter_count: 0,
            reserved: [0; 5],
        });
        Ok(Exports { functions, attributes: attributes.collect(), names })
    }

    /// The names of functions, or numbers where they were stripped.
    fn names(&self, names: *const *const u8, count: u32) -> Result<Vec<String>> {
        if names.is_null() {
            return Ok((0..count).map(|index| format!("@{index}")).collect());
        }
        let names = self.strings(names, count, "the names of its functions")?;
        Ok(names.into_iter().map(|name| name.to_string_lossy().into_owned()).collect())
    }

    fn kernels(&self, exports: Exports) -> Result<Vec<NativeKernel>> {
        let Exports { functions, attributes, names } = exports;
        let mut kernels = Vec::with_capacity(functions.len());
        for ((function, attributes), name) in functions.into_iter().zip(attributes).zip(names) {
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
            kernels.push(NativeKernel { function, attributes, name, timing: KernelTiming::default() });
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
