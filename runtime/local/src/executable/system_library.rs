//! The loader of system libraries: shared objects that the system's dynamic loader opens, because they depend on other
//! libraries, or because a debugger or profiler should see them.
//!
//! The dynamic loader opens files by path. So the library is written to a file in memory, whose only path is that of an
//! open file in `/proc`. The headers are checked before; the dynamic loader trusts the rest, as it does for any
//! library. Afterwards it reports where the segments are mapped, and pointers in the library's metadata must lead into
//! those, as for embedded libraries.

use std::ffi::{c_int, c_void};
use std::fs::File;
use std::io::{self, Write};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::Arc;

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use rustix::fs::{MemfdFlags, Mode, OFlags};

use super::elf;
use super::library_metadata::Image;
use super::native_library::LocalExecutable;
use crate::hal::elf_format::{SYSTEM_FORMAT_PREFIX, SegmentFlags, SegmentType};
use crate::hal::executable_library::{
    LIBRARY_QUERY_SYMBOL, LibraryQuery, SYSTEM_LIBRARY_FOOTER_MAGIC, SystemLibraryFooter,
};
use crate::hal::host_kernels::ImportProvider;
use crate::hal::{Executable, ExecutableCachingMode, ExecutableLoader};
use crate::status::{Result, Status, StatusCode};

/// Loads system libraries (`system-elf-x86_64`, `iree-compile --iree-llvmcpu-link-embedded=false`) for the processor
/// that the host runs on.
///
/// The dynamic loader reads them from files in memory (`memfd_create`) through `/proc`, or from unnamed files in a
/// given folder.
#[derive(Debug)]
pub struct SystemLibraryLoader {
    imports: Arc<dyn ImportProvider>,
    folder: Option<PathBuf>,
}

impl SystemLibraryLoader {
    /// A loader whose libraries may import what `imports` provides.
    pub fn new(imports: Arc<dyn ImportProvider>) -> SystemLibraryLoader {
        SystemLibraryLoader { imports, folder: None }
    }

    /// The same loader with its files in a folder, for systems that do not allow executing files in memory. The file
    /// system must allow executing files, and support unnamed ones (`O_TMPFILE`).
    pub fn with_folder(self, folder: &Path) -> SystemLibraryLoader {
        SystemLibraryLoader { folder: Some(folder.to_path_buf()), ..self }
    }
}

impl ExecutableLoader for SystemLibraryLoader {
    fn infer_format(&self, _caching_mode: ExecutableCachingMode, data: &[u8]) -> Result<String> {
        Ok(format!("{SYSTEM_FORMAT_PREFIX}{}", elf::machine_name(data)?))
    }

    fn supports(&self, _caching_mode: ExecutableCachingMode, format: &str) -> bool {
        format.strip_prefix(SYSTEM_FORMAT_PREFIX).is_some_and(elf::is_host_machine)
    }

    fn load(
        &self,
        caching_mode: ExecutableCachingMode,
        format: &str,
        data: &[u8],
        constants: &[u32],
    ) -> Result<Arc<dyn Executable>> {
        let context = |status: Status| status.context(format!("executable `{format}`"));
        let data = without_debug_database(data).map_err(context)?;
        let data = elf::for_host(data).map_err(|error| context(error.into()))?;
        elf::check_system_library(data).map_err(|error| context(error.into()))?;
        // SAFETY: loading an executable means trusting its code.
        let library = unsafe { SystemLibrary::open(data, self.folder.as_deref()) }.map_err(context)?;
        let query = library.query;
        // SAFETY: the function is that of the library; the system's loader has initialised it.
        let executable =
            unsafe { LocalExecutable::new(Box::new(library), query, constants, caching_mode, self.imports.clone()) };
        Ok(Arc::new(executable?))
    }
}

/// The library without the debug database that may follow it, which is for other platforms.
fn without_debug_database(data: &[u8]) -> Result<&[u8]> {
    let Some((_, footer)) = data.split_last_chunk() else { return Ok(data) };
    let footer = SystemLibraryFooter::read(footer);
    if footer.magic != SYSTEM_LIBRARY_FOOTER_MAGIC {
        return Ok(data);
    }
    let range = footer.library_offset..footer.library_offset.saturating_add(footer.library_size);
    let range = usize::try_from(range.start).ok().zip(usize::try_from(range.end).ok());
    range.and_then(|(start, end)| data.get(start..end)).ok_or_else(|| {
        Status::out_of_range(format!(
            "the footer says that the library has {} bytes at {:#x}, but there are {}",
            footer.library_size,
            footer.library_offset,
            data.len()
        ))
    })
}

/// A library that the dynamic loader has opened.
struct SystemLibrary {
    query: LibraryQuery,
    segments: Vec<MappedSegment>,
    // Keeps the library loaded; it is dropped last.
    _library: Library,
}

/// A mapped segment of the library.
struct MappedSegment {
    addresses: Range<u64>,
    readable: bool,
    executable: bool,
}

impl SystemLibrary {
    /// Opens a library and finds its segments.
    ///
    /// # Safety
    /// The caller trusts the library's code; its initialisers run now.
    unsafe fn open(data: &[u8], folder: Option<&Path>) -> Result<SystemLibrary> {
        let failed = |what: &str, error: io::Error| {
            let place = folder.map_or("memory".into(), Path::to_string_lossy);
            let message = format!("cannot {what} a temporary file in {place}");
            Status::new(StatusCode::Unavailable, message).with_source(error)
        };
        // An unnamed file disappears when it is closed and the library is unloaded, whatever happens meanwhile.
        let mut file = nameless_file(folder).map_err(|error| failed("create", error))?;
        file.write_all(data).map_err(|error| failed("write", error))?;
        let path = path_of(&file).map_err(|error| failed("find", error))?;
        // SAFETY: the caller trusts the library.
        let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) };
        drop(file);
        let library = library
            .map_err(|error| Status::failed_precondition("the system cannot load the library").with_source(error))?;
        // SAFETY: the function of this name has this type by the format's definition.
        let query = unsafe { library.get::<LibraryQuery>(LIBRARY_QUERY_SYMBOL.as_bytes()) };
        let query = *query.map_err(|error| {
            let message = format!("the library does not export `{LIBRARY_QUERY_SYMBOL}`");
            Status::failed_precondition(message).with_source(error)
        })?;
        let library = SystemLibrary { query, segments: segments_around(query as usize as u64), _library: library };
        match library.is_code(query as usize as u64) {
            true => Ok(library),
            false => Err(Status::failed_precondition(format!("`{LIBRARY_QUERY_SYMBOL}` is not code of the library"))),
        }
    }
}

/// A new file in memory, or in a folder.
fn nameless_file(folder: Option<&Path>) -> io::Result<File> {
    let file = match folder {
        None => rustix::fs::memfd_create("vireo", MemfdFlags::CLOEXEC)?,
        Some(folder) => {
            let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
            rustix::fs::open(folder, flags, Mode::RUSR | Mode::WUSR)?
        }
    };
    Ok(file.into())
}

/// A path of an open file that no other loaded library has.
///
/// The dynamic loader identifies libraries by path and returns the loaded one for a known path, and descriptor numbers
/// are used again after a file is closed. The pair of device and inode is not, as long as the file is mapped. So the
/// path encodes that pair in binary: an empty component is a zero and `.` is a one, neither of which changes where the
/// path leads.
fn path_of(file: &File) -> io::Result<PathBuf> {
    let stat = rustix::fs::fstat(file)?;
    let number = u128::from(stat.st_dev) << 64 | u128::from(stat.st_ino);
    let digits = (0..u128::BITS - number.leading_zeros()).map(|bit| if number >> bit & 1 == 0 { "/" } else { "./" });
    Ok(format!("/proc/self/{}fd/{}", digits.collect::<String>(), file.as_raw_fd()).into())
}

impl Image for SystemLibrary {
    fn readable(&self, address: u64, length: u64) -> Option<NonNull<u8>> {
        let end = address.checked_add(length)?;
        let inside = |segment: &MappedSegment| {
            segment.readable && segment.addresses.contains(&address) && end <= segment.addresses.end
        };
        self.segments.iter().any(inside).then(|| NonNull::new(address as *mut u8)).flatten()
    }

    fn is_code(&self, address: u64) -> bool {
        self.segments.iter().any(|segment| segment.executable && segment.addresses.contains(&address))
    }

    fn code(&self) -> Vec<(u64, &[u8])> {
        let code = self.segments.iter().filter(|segment| segment.executable && segment.readable);
        let slice = |segment: &MappedSegment| {
            let length = (segment.addresses.end - segment.addresses.start) as usize;
            // SAFETY: the loader has mapped the segment readable and not writable, which `check_system_library` made
            // sure of, and it stays mapped as long as the library is open, which `self` keeps it.
            (segment.addresses.start, unsafe {
                std::slice::from_raw_parts(segment.addresses.start as *const u8, length)
            })
        };
        code.map(slice).collect()
    }
}

/// The segments of the loaded library that contains `address`, as the dynamic loader lists them.
fn segments_around(address: u64) -> Vec<MappedSegment> {
    struct SegmentSearch {
        address: u64,
        found: Vec<MappedSegment>,
    }

    unsafe extern "C" fn visit(info: *mut libc::dl_phdr_info, _size: usize, search: *mut c_void) -> c_int {
        // SAFETY: the loader passes a valid description, and `search` is the one below.
        let (info, search) = unsafe { (&*info, &mut *search.cast::<SegmentSearch>()) };
        let headers = match info.dlpi_phdr.is_null() {
            true => &[],
            // SAFETY: the loader's list has so many entries.
            false => unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) },
        };
        let loaded = headers.iter().filter(|header| header.p_type == SegmentType::LOAD.0);
        let segments = loaded.map(|header| {
            let start = info.dlpi_addr.wrapping_add(header.p_vaddr);
            let flags = SegmentFlags::from_bits_retain(header.p_flags);
            MappedSegment {
                addresses: start..start.saturating_add(header.p_memsz),
                readable: flags.contains(SegmentFlags::READ),
                executable: flags.contains(SegmentFlags::EXECUTE),
            }
        });
        let segments: Vec<MappedSegment> = segments.collect();
        if segments.iter().any(|segment| segment.addresses.contains(&search.address)) {
            search.found = segments;
            return 1;
        }
        0
    }

    let mut search = SegmentSearch { address, found: Vec::new() };
    // SAFETY: the function matches the type, does not unwind, and gets the search that outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut search).cast()) };
    search.found
}
