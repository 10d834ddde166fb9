//! Pages of memory from the system ([`PageMapping`]): mapped, protected and unmapped. `executable_memory` keeps machine
//! code in them, and the interpreter its stacks.
//!
//! On systems that are neither Unix nor Windows the pages come from the heap: they can be read and written, and nothing
//! in them can be executed. So such systems run programs and kernels in bytecode, and refuse machine code.

mod protection;

use std::ops::Range;
use std::ptr::NonNull;
use std::sync::OnceLock;

pub use self::protection::Protection;
use crate::status::{Result, Status};

/// True if pages can be made executable on this system.
pub const CAN_EXECUTE: bool = cfg!(any(unix, windows));

/// A mapping of whole pages. It is unmapped when it is dropped.
#[derive(Debug)]
pub struct PageMapping {
    base: NonNull<u8>,
    length: usize,
}

// SAFETY: the mapping belongs to this value alone; it is accessed through addresses that the owner gives away.
unsafe impl Send for PageMapping {}
// SAFETY: a shared `PageMapping` only returns addresses.
unsafe impl Sync for PageMapping {}

impl PageMapping {
    /// Maps at least `length` zeroed bytes, rounded up to pages, without access.
    pub fn inaccessible(length: usize, purpose: &str) -> Result<PageMapping> {
        PageMapping::map(length, purpose, system::Pages::Inaccessible)
    }

    /// Maps at least `length` zeroed bytes, rounded up to pages, which can be read and written.
    pub fn writable(length: usize, purpose: &str) -> Result<PageMapping> {
        PageMapping::map(length, purpose, system::Pages::Writable)
    }

    /// The same; pages that were never written take no memory, where the system can do that.
    pub fn reserved(length: usize, purpose: &str) -> Result<PageMapping> {
        PageMapping::map(length, purpose, system::Pages::Reserved)
    }

    fn map(length: usize, purpose: &str, pages: system::Pages) -> Result<PageMapping> {
        let exhausted = || Status::resource_exhausted(format!("cannot map {length} bytes for {purpose}"));
        let rounded = length.max(1).checked_next_multiple_of(page_size()).ok_or_else(exhausted)?;
        let base = system::map(rounded, pages).ok_or_else(exhausted)?;
        Ok(PageMapping { base, length: rounded })
    }

    /// The first byte, on a page boundary.
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// The number of bytes.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Changes the protection of a range of whole pages.
    ///
    /// # Errors
    /// `UNIMPLEMENTED` for executable pages where [`CAN_EXECUTE`] is false.
    ///
    /// # Safety
    /// The range lies within the mapping, and there is no reference to its bytes.
    pub(crate) unsafe fn protect(&self, range: Range<usize>, protection: Protection) -> Result<()> {
        if range.is_empty() {
            return Ok(());
        }
        // SAFETY: the caller guarantees that the range lies within the mapping, without references to its bytes.
        unsafe {
            let first = self.base.add(range.start);
            system::protect(first, range.len(), protection)?;
            if protection == Protection::ReadExecute {
                synchronise_code(first, range.len());
            }
        }
        Ok(())
    }
}

impl Drop for PageMapping {
    fn drop(&mut self) {
        // SAFETY: the range is exactly one mapping of ours, and nothing refers to it any more.
        unsafe { system::unmap(self.base, self.length) };
    }
}

/// Size of a page. The system is asked once: loading an image needs it many times.
pub fn page_size() -> usize {
    static SIZE: OnceLock<usize> = OnceLock::new();
    *SIZE.get_or_init(system::page_size)
}

/// Makes the processor execute the bytes that were written. On x86-64 the caches of data and instructions agree by
/// themselves.
///
/// # Safety
/// The range is mapped and readable.
#[cfg(not(target_arch = "aarch64"))]
unsafe fn synchronise_code(_first: NonNull<u8>, _length: usize) {}

/// Makes the processor execute the bytes that were written. Systems of Apple have a function for this in the C library,
/// and do not promise that programs may use the instructions.
///
/// # Safety
/// The range is mapped and readable.
#[cfg(all(target_arch = "aarch64", target_vendor = "apple"))]
unsafe fn synchronise_code(first: NonNull<u8>, length: usize) {
    unsafe extern "C" {
        fn sys_icache_invalidate(start: *mut std::ffi::c_void, length: usize);
    }
    // SAFETY: the caller guarantees that the range is mapped and readable; the function has this type by its
    // documentation.
    unsafe { sys_icache_invalidate(first.as_ptr().cast(), length) };
}

/// Makes the processor execute the bytes that were written, by the function that Windows has for this.
///
/// # Safety
/// The range is mapped and readable.
#[cfg(all(target_arch = "aarch64", windows))]
unsafe fn synchronise_code(first: NonNull<u8>, length: usize) {
    use windows_sys::Win32::System::Diagnostics::Debug::FlushInstructionCache;
    use windows_sys::Win32::System::Threading::GetCurrentProcess;

    // SAFETY: the caller guarantees that the range is mapped and readable. It fails only for another process, and this
    // one is meant.
    unsafe { FlushInstructionCache(GetCurrentProcess(), first.as_ptr().cast(), length) };
}

/// Makes the processor execute the bytes that were written: cleans the data cache to the point where instructions are
/// fetched from, and then discards old instructions, in all processors. A thread that runs the code has got its address
/// from this one through a lock or a channel.
///
/// # Safety
/// The range is mapped and readable.
#[cfg(all(target_arch = "aarch64", not(any(target_vendor = "apple", windows))))]
unsafe fn synchronise_code(first: NonNull<u8>, length: usize) {
    use std::arch::asm;

    let start = first.as_ptr() as usize;
    let cache_type: u64;
    // SAFETY: the register can be read at any time. Its fields hold the binary logarithms of the lengths of cache
    // lines, in words of 4 bytes.
    unsafe { asm!("mrs {}, ctr_el0", out(reg) cache_type, options(nomem, nostack, preserves_flags)) };
    let (data_line, code_line) = (4usize << (cache_type >> 16 & 0xf), 4usize << (cache_type & 0xf));
    let lines = |line: usize| (start & !(line - 1)..start + length).step_by(line);
    for address in lines(data_line) {
        // SAFETY: the line is in the range, which is mapped.
        unsafe { asm!("dc cvau, {}", in(reg) address, options(nostack, preserves_flags)) };
    }
    // SAFETY: a barrier: the cleaned lines are seen before any instruction is discarded.
    unsafe { asm!("dsb ish", options(nostack, preserves_flags)) };
    for address in lines(code_line) {
        // SAFETY: the line is in the range, which is mapped.
        unsafe { asm!("ic ivau, {}", in(reg) address, options(nostack, preserves_flags)) };
    }
    // SAFETY: barriers: the instructions are discarded everywhere before this thread continues, and it fetches its own
    // again.
    unsafe { asm!("dsb ish", "isb", options(nostack, preserves_flags)) };
}

#[cfg(unix)]
mod system {
    //! Mappings of a Unix system.

    use std::ptr::{self, NonNull};

    use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

    use super::protection::Protection;
    use crate::status::{Result, Status};

    pub enum Pages {
        Inaccessible,
        Writable,
        Reserved,
    }

    pub fn page_size() -> usize {
        rustix::param::page_size()
    }

    pub fn map(length: usize, pages: Pages) -> Option<NonNull<u8>> {
        let (protection, flags) = match pages {
            Pages::Inaccessible => (ProtFlags::empty(), MapFlags::PRIVATE),
            Pages::Writable => (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE),
            Pages::Reserved => (ProtFlags::READ | ProtFlags::WRITE, RESERVED),
        };
        // SAFETY: a new private mapping at an address the system chooses touches no memory of ours.
        let base = unsafe { mmap_anonymous(ptr::null_mut(), length, protection, flags) };
        base.ok().and_then(|base| NonNull::new(base.cast()))
    }

    /// Systems without the flag do so anyway.
    #[cfg(target_os = "linux")]
    const RESERVED: MapFlags = MapFlags::PRIVATE.union(MapFlags::NORESERVE);
    #[cfg(not(target_os = "linux"))]
    const RESERVED: MapFlags = MapFlags::PRIVATE;

    /// # Safety
    /// The pages are part of a mapping, and there is no reference to their bytes.
    pub unsafe fn protect(first: NonNull<u8>, length: usize, protection: Protection) -> Result<()> {
        let flags = match protection {
            Protection::None => MprotectFlags::empty(),
            Protection::Read => MprotectFlags::READ,
            Protection::ReadWrite => MprotectFlags::READ | MprotectFlags::WRITE,
            Protection::ReadExecute => MprotectFlags::READ | MprotectFlags::EXEC,
        };
        // SAFETY: the caller guarantees that the pages are part of a mapping, without references to their bytes.
        let result = unsafe { mprotect(first.as_ptr().cast(), length, flags) };
        result.map_err(|error| Status::internal(format!("cannot protect native code: {error}")))
    }

    /// # Safety
    /// The range is exactly one mapping of `map`, and nothing refers to it any more.
    pub unsafe fn unmap(base: NonNull<u8>, length: usize) {
        // SAFETY: the caller guarantees that the range is exactly one mapping of `map`, to which nothing refers any
        // more. Failure would mean that it is not mapped, which leaves nothing to do.
        let _ = unsafe { munmap(base.as_ptr().cast(), length) };
    }
}

#[cfg(windows)]
mod system {
    //! Pages of Windows.

    use std::mem::MaybeUninit;
    use std::ptr::{self, NonNull};

    use windows_sys::Win32::System::Memory::{
        MEM_COMMIT, MEM_RELEASE, MEM_RESERVE, PAGE_EXECUTE_READ, PAGE_NOACCESS, PAGE_READONLY, PAGE_READWRITE,
        VirtualAlloc, VirtualFree, VirtualProtect,
    };
    use windows_sys::Win32::System::SystemInformation::{GetSystemInfo, SYSTEM_INFO};

    use super::protection::Protection;
    use crate::status::{Result, Status};

    pub enum Pages {
        Inaccessible,
        Writable,
        Reserved,
    }

    pub fn page_size() -> usize {
        let mut info = MaybeUninit::<SYSTEM_INFO>::uninit();
        // SAFETY: the function fills the structure and cannot fail.
        let info = unsafe {
            GetSystemInfo(info.as_mut_ptr());
            info.assume_init()
        };
        info.dwPageSize as usize
    }

    /// Memory that was never written counts against the limit of the system here, but takes no memory.
    pub fn map(length: usize, pages: Pages) -> Option<NonNull<u8>> {
        let protection = match pages {
            Pages::Inaccessible => PAGE_NOACCESS,
            Pages::Writable | Pages::Reserved => PAGE_READWRITE,
        };
        // SAFETY: a new allocation at an address the system chooses touches no memory of ours.
        let base = unsafe { VirtualAlloc(ptr::null(), length, MEM_RESERVE | MEM_COMMIT, protection) };
        NonNull::new(base.cast())
    }

    /// # Safety
    /// The pages are part of a mapping, and there is no reference to their bytes.
    pub unsafe fn protect(first: NonNull<u8>, length: usize, protection: Protection) -> Result<()> {
        let protection = match protection {
            Protection::None => PAGE_NOACCESS,
            Protection::Read => PAGE_READONLY,
            Protection::ReadWrite => PAGE_READWRITE,
            Protection::ReadExecute => PAGE_EXECUTE_READ,
        };
        let mut old = 0;
        // SAFETY: the caller guarantees that the pages are part of a mapping, without references to their bytes.
        if unsafe { VirtualProtect(first.as_ptr().cast(), length, protection, &raw mut old) } != 0 {
            return Ok(());
        }
        Err(Status::internal(format!("cannot protect native code: {}", std::io::Error::last_os_error())))
    }

    /// # Safety
    /// The range is exactly one mapping of `map`, and nothing refers to it any more.
    pub unsafe fn unmap(base: NonNull<u8>, _length: usize) {
        // SAFETY: the caller guarantees that the range is exactly one mapping of `map`, to which nothing refers any
        // more. The length is that of the allocation, which is what zero stands for.
        unsafe { VirtualFree(base.as_ptr().cast(), 0, MEM_RELEASE) };
    }
}

#[cfg(not(any(unix, windows)))]
mod system {
    //! Memory of the heap in the place of mappings.

    use std::alloc::{Layout, alloc_zeroed, dealloc};
    use std::ptr::NonNull;

    use super::protection::Protection;
    use crate::status::{Result, Status};

    /// A page of WebAssembly, which is a multiple of the pages of processors.
    const PAGE_SIZE: usize = 1 << 16;

    pub enum Pages {
        Inaccessible,
        Writable,
        Reserved,
    }

    pub fn page_size() -> usize {
        PAGE_SIZE
    }

    pub fn map(length: usize, _pages: Pages) -> Option<NonNull<u8>> {
        let layout = Layout::from_size_align(length, PAGE_SIZE).ok()?;
        // SAFETY: the length is at least a page.
        NonNull::new(unsafe { alloc_zeroed(layout) })
    }

    /// # Safety
    /// As on other systems; nothing is done here.
    pub unsafe fn protect(_first: NonNull<u8>, _length: usize, protection: Protection) -> Result<()> {
        match protection {
            Protection::ReadExecute => {
                let system = std::env::consts::OS;
                Err(Status::unimplemented(format!("executing machine code from memory on {system}")))
            }
            _ => Ok(()),
        }
    }

    /// # Safety
    /// The range is exactly one allocation of `map`, and nothing refers to it any more.
    pub unsafe fn unmap(base: NonNull<u8>, length: usize) {
        if let Ok(layout) = Layout::from_size_align(length, PAGE_SIZE) {
            // SAFETY: the caller guarantees that the range is exactly one mapping of `map`, to which nothing refers any
            // more; this is the layout that it was allocated with.
            unsafe { dealloc(base.as_ptr(), layout) };
        }
    }
}
