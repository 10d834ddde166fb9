//! Images of embedded ELF libraries ([`ElfImage`]): loads shared objects without dependencies, as the compiler writes
//! them. The loader of embedded libraries and embedded plugins use it.
//!
//! `fatelf` chooses the file for the host among several, `parse` checks the headers, `dynamic` the tables of the loaded
//! image, `relocate` applies relocations to it. All of them work on slices, so no claim of a file makes them access
//! anything outside the file and the image. Then the pages are protected, and only [`ElfImage::initialize`] runs code,
//! which is trusted like any native code.

mod dynamic;
mod error;
mod fatelf;
mod machine;
mod parse;
mod relocate;
#[cfg(target_os = "linux")]
mod system_check;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::ptr::NonNull;

use super::library_metadata::Image;
use crate::executable_memory::{Protection, SealedImage, WritableImage, page_size};
use crate::hal::elf_format::{EMBEDDED_FORMAT_PREFIX, ElfMachine};
use crate::status::Result;

pub use error::ElfError;
pub use machine::MACHINES;
#[cfg(target_os = "linux")]
pub(super) use system_check::check as check_system_library;

use dynamic::DynamicTable;
use parse::{Header, Segment};

/// A library in memory, relocated and protected.
pub struct ElfImage {
    image: SealedImage,
    /// Address and length of the string table.
    strings: (u64, usize),
    /// The exported symbols: the offset of the name in the strings, and the address.
    symbols: Vec<(usize, u64)>,
    initializers: Vec<u64>,
    /// The ranges of the image that are code.
    code: Vec<Range<usize>>,
}

impl std::fmt::Debug for ElfImage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "elf image at {:#x}", self.image.base())
    }
}

/// The executable format of an ELF file such as `embedded-elf-x86_64`, if `bytes` begins like one.
///
/// # Errors
/// If it does not.
pub fn infer_format(bytes: &[u8]) -> Result<String, ElfError> {
    Ok(format!("{EMBEDDED_FORMAT_PREFIX}{}", machine_name(bytes)?))
}

/// The machine of an ELF file as format names spell it, if `bytes` begins like one.
pub(super) fn machine_name(bytes: &[u8]) -> Result<String, ElfError> {
    Ok(machine::name(parse::machine(for_host(bytes)?)?))
}

/// The ELF file for the host, if `bytes` is a FatELF file, or else `bytes`.
///
/// # Errors
/// For a FatELF file that is malformed or has no file for the host.
pub(super) fn for_host(bytes: &[u8]) -> Result<&[u8], ElfError> {
    fatelf::select(bytes, machine::HOST)
}

/// True if `name` is how formats spell the machine of the host, and libraries for it can be loaded.
pub(super) fn is_host_machine(name: &str) -> bool {
    machine::HOST.is_some_and(|host| machine::name(host) == name)
}

/// An initialiser of a library, which follows the convention of kernels.
#[cfg(target_arch = "x86_64")]
type Initializer = unsafe extern "sysv64" fn();
/// An initialiser of a library, which follows the convention of kernels.
#[cfg(not(target_arch = "x86_64"))]
type Initializer = unsafe extern "C" fn();

impl ElfImage {
    /// Loads a library. Runs no code of it.
    ///
    /// # Errors
    /// With the offset or address, for files that are malformed, need what is not supported, or are for another
    /// machine.
    pub fn load(bytes: &[u8]) -> Result<ElfImage, ElfError> {
        let bytes = for_host(bytes)?;
        let header = Header::parse(bytes, machine::HOST)?;
        let mut image = WritableImage::new(header.span).map_err(ElfError::Memory)?;
        let base = image.base();
        let dynamic = place(image.bytes_mut(), base, bytes, &header)?;
        let initializers = dynamic.initializers(image.bytes(), base, &header)?;
        let symbols = dynamic.symbols.iter().filter_map(|symbol| {
            let offset = header.offset_of(symbol.value)?;
            symbol.exported.then(|| (symbol.name, base + offset as u64))
        });
        let symbols = symbols.collect();
        let strings = (base + dynamic.strings.start as u64, dynamic.strings.len());
        let code = header.segments.iter().filter(|segment| segment.execute);
        let code = code.map(|segment| segment.memory.start..segment.memory.start + segment.file.len()).collect();
        let protections = protections(&header)?;
        let image = image.seal(protections).map_err(ElfError::Memory)?;
        Ok(ElfImage { image, strings, symbols, initializers, code })
    }

    /// The address of an exported function.
    pub(super) fn function(&self, name: &str) -> Option<u64> {
        let (strings, length) = self.strings;
        let strings = self.image.readable(strings, length as u64)?;
        // SAFETY: `readable` says that these bytes are part of the image and readable. They are not written while the
        // slice lives: no code of the library runs meanwhile.
        let strings = unsafe { std::slice::from_raw_parts(strings.as_ptr(), length) };
        let named = |start: &usize| {
            let rest = strings.get(*start..).and_then(|rest| rest.strip_prefix(name.as_bytes()));
            rest.is_some_and(|rest| rest.first() == Some(&0))
        };
        let (_, address) = self.symbols.iter().rev().find(|(start, _)| named(start))?;
        self.image.is_code(*address).then_some(*address)
    }

    /// The code in a range of the image, and the address of its first byte.
    fn code_at(&self, range: &Range<usize>) -> Option<(u64, &[u8])> {
        let address = self.image.base() + range.start as u64;
        let data = self.image.readable(address, range.len() as u64)?;
        // SAFETY: `readable` says that these bytes are part of the image and readable, and pages of code are never
        // written.
        Some((address, unsafe { std::slice::from_raw_parts(data.as_ptr(), range.len()) }))
    }

    /// The code of the library.
    #[cfg(all(target_arch = "x86_64", feature = "check-kernels"))]
    pub(super) fn all_code(&self) -> Vec<(u64, &[u8])> {
        self.code.iter().filter_map(|range| self.code_at(range)).collect()
    }

    /// The addresses of the library's initialisers.
    pub(super) fn initializers(&self) -> &[u64] {
        &self.initializers
    }

    /// Runs the library's initialisers.
    ///
    /// # Safety
    /// The library must be one whose code the caller trusts.
    pub unsafe fn initialize(&self) {
        for address in &self.initializers {
            // SAFETY: the address is that of code in the image, which `dynamic` checked; that it is a function without
            // arguments is what the file says, and the caller trusts it.
            let function = unsafe { std::mem::transmute::<*const (), Initializer>(*address as *const ()) };
            // SAFETY: the address is that of code in the image, which `dynamic` checked; that it is a function without
            // arguments is what the file says, and the caller trusts it.
            unsafe { function() };
        }
    }
}

impl Image for ElfImage {
    fn readable(&self, address: u64, length: u64) -> Option<NonNull<u8>> {
        self.image.readable(address, length)
    }

    fn is_code(&self, address: u64) -> bool {
        self.image.is_code(address)
    }

    fn code(&self) -> Vec<(u64, &[u8])> {
        self.code.iter().filter_map(|range| self.code_at(range)).collect()
    }
}

/// Where [`relocated`] pretends that images are: any address that no library is linked for.
const NOWHERE: u64 = 0x7f12_3456_0000;

/// The image of a library for any machine whose relocations are known, as it would be at a fixed address. None of it
/// can be executed, and the result depends on nothing but the file: for fuzz targets, which damage libraries for other
/// machines as well.
///
/// # Errors
/// As [`ElfImage::load`] on a host of the machine that the file is for.
#[doc(hidden)]
pub fn relocated(bytes: &[u8]) -> Result<Vec<u8>, ElfError> {
    let (image, header, dynamic) = placed(bytes, parse::machine(bytes)?)?;
    dynamic.initializers(&image, NOWHERE, &header)?;
    protections(&header)?;
    Ok(image)
}

/// A library for a machine in memory that is not executable, relocated as if it were [`NOWHERE`], with its header and
/// its dynamic table.
fn placed(bytes: &[u8], machine: ElfMachine) -> Result<(Vec<u8>, Header, DynamicTable), ElfError> {
    let header = Header::parse(bytes, Some(machine))?;
    let mut image = vec![0; header.span];
    let dynamic = place(&mut image, NOWHERE, bytes, &header)?;
    Ok((image, header, dynamic))
}

/// Copies the segments of a file to the image, which is at the address `base`, and relocates them.
fn place(image: &mut [u8], base: u64, bytes: &[u8], header: &Header) -> Result<DynamicTable, ElfError> {
    for segment in &header.segments {
        let source = &bytes[segment.file.clone()];
        image[segment.memory.start..][..source.len()].copy_from_slice(source);
    }
    let dynamic = DynamicTable::parse(image, header.dynamic.clone(), header)?;
    relocate::apply(image, base, &dynamic, header)?;
    Ok(dynamic)
}

/// The protection of every page. Two segments on one page are accepted only if they want the same.
fn protections(header: &Header) -> Result<Vec<(Range<usize>, Protection)>, ElfError> {
    let page = page_size();
    let pages = |range: &Range<usize>| range.start / page * page..range.end.next_multiple_of(page);
    let mut out: Vec<(Range<usize>, Protection)> = Vec::new();
    for segment in &header.segments {
        let range = pages(&segment.memory);
        let protection = segment_protection(segment);
        if let Some((last, last_protection)) = out.last()
            && range.start < last.end
            && *last_protection != protection
        {
            return Err(ElfError::value(
                segment.header,
                "address",
                range.start as u64,
                "segments on pages of their own",
            ));
        }
        out.push((range, protection));
    }
    // Memory that only relocation writes to (RELRO): whole pages of it become read-only. It starts where its segment
    // does, so the first page holds nothing else of that segment; the last page counts only if it is covered to its
    // end.
    if let Some(relro) = &header.relro {
        let range = relro.start / page * page..relro.end / page * page;
        let writable = |(pages, protection): &(Range<usize>, Protection)| {
            *protection == Protection::ReadWrite && pages.start <= range.start && range.end <= pages.end
        };
        if !range.is_empty() && out.iter().any(writable) {
            out.push((range, Protection::Read));
        }
    }
    Ok(out)
}

fn segment_protection(segment: &Segment) -> Protection {
    match (segment.write, segment.execute) {
        (true, _) => Protection::ReadWrite,
        (false, true) => Protection::ReadExecute,
        (false, false) => Protection::Read,
    }
}
