//! The headers of an ELF file: parses and checks the file header and program headers, and lays out the segments of the
//! image.

use std::ops::Range;

use super::error::ElfError;
use super::machine;
use crate::hal::elf_format::{
    ELF_MAGIC, ElfClass, ElfData, ElfMachine, ElfType, ElfVersion, FileHeader, ProgramHeader, SegmentFlags, SegmentType,
};

/// Most bytes that the segments of a library may span. Libraries of large models are some tens of megabytes.
const MAX_SPAN: u64 = 1 << 30;

/// The checked headers. Ranges of memory are offsets into the image, which starts at the lowest segment's page.
#[derive(Debug)]
pub(super) struct Header {
    /// The machine that the code is for.
    pub(super) machine: ElfMachine,
    /// Bytes of the image.
    pub(super) span: usize,
    /// The segments in ascending order; they do not overlap.
    pub(super) segments: Vec<Segment>,
    /// The dynamic table.
    pub(super) dynamic: Range<usize>,
    /// The range that becomes read-only after relocation (RELRO).
    pub(super) relro: Option<Range<usize>>,
    /// The address of the image's first byte as the file has it.
    origin: u64,
}

/// A loaded segment.
#[derive(Debug)]
pub(super) struct Segment {
    /// Its bytes in the file.
    pub(super) file: Range<usize>,
    /// Its range in the image, which may be longer than that in the file.
    pub(super) memory: Range<usize>,
    pub(super) write: bool,
    pub(super) execute: bool,
    /// File offset of its header.
    pub(super) header: u64,
}

/// `N` bytes at `at`, as an array.
pub(super) fn array<const N: usize>(bytes: &[u8], at: u64, what: &'static str) -> Result<[u8; N], ElfError> {
    let start = usize::try_from(at).ok();
    let slice = start.and_then(|start| bytes.get(start..start.checked_add(N)?));
    slice.and_then(|slice| slice.try_into().ok()).ok_or(ElfError::Truncated {
        at,
        what,
        length: N as u64,
        file: bytes.len() as u64,
    })
}

/// The machine of a file that begins like an ELF file.
pub(super) fn machine(bytes: &[u8]) -> Result<ElfMachine, ElfError> {
    let magic = u32::from_le_bytes(array(bytes, 0, "the magic number")?);
    if magic != ELF_MAGIC {
        return Err(ElfError::value(0, "magic", magic.into(), format!("{ELF_MAGIC:#x}")));
    }
    Ok(ElfMachine(FileHeader::read(&array(bytes, 0, "the file header")?).machine))
}

/// The program headers of a shared object for the machine `wanted`, each with its file offset. None means that no code
/// can be loaded here.
pub(super) fn program_headers(bytes: &[u8], wanted: Option<ElfMachine>) -> Result<Vec<(u64, ProgramHeader)>, ElfError> {
    let machine = machine(bytes)?;
    let header = FileHeader::read(&array(bytes, 0, "the file header")?);
    let check = |field, value: u64, wanted: u64, meaning: &str| match value == wanted {
        true => Ok(()),
        false => Err(ElfError::value(0, field, value, format!("{wanted}{meaning}"))),
    };
    check("class", header.class.into(), ElfClass::BITS_64.0.into(), " (64 bits)")?;
    check("data", header.data.into(), ElfData::LITTLE.0.into(), " (little-endian)")?;
    check("version", header.version.into(), ElfVersion::CURRENT.0.into(), "")?;
    if Some(machine) != wanted {
        let here = machine::host_name();
        return Err(ElfError::Unsupported(format!("machine {} on {here}", machine::name(machine))));
    }
    check("file_type", header.file_type.into(), ElfType::SHARED.0.into(), " (shared object)")?;
    check("header_size", header.header_size.into(), FileHeader::SIZE as u64, "")?;
    check("segment_size", header.segment_size.into(), ProgramHeader::SIZE as u64, "")?;
    if header.segment_count == 0 {
        return Err(ElfError::value(0, "segment_count", 0, "at least one"));
    }
    let mut headers = Vec::with_capacity(header.segment_count.into());
    for index in 0..u64::from(header.segment_count) {
        // The count has 16 bits, so only the offset can make this overflow.
        let at = header.segments_offset.saturating_add(index * ProgramHeader::SIZE as u64);
        headers.push((at, ProgramHeader::read(&array(bytes, at, "a program header")?)));
    }
    Ok(headers)
}

impl Header {
    pub(super) fn parse(bytes: &[u8], wanted: Option<ElfMachine>) -> Result<Header, ElfError> {
        let headers = program_headers(bytes, wanted)?;
        Header::layout(bytes, &headers, machine(bytes)?)
    }

    /// Places the segments.
    fn layout(bytes: &[u8], headers: &[(u64, ProgramHeader)], machine: ElfMachine) -> Result<Header, ElfError> {
        let of_type = |wanted: SegmentType| headers.iter().filter(move |(_, header)| header.segment_type == wanted.0);
        if of_type(SegmentType::TLS).next().is_some() {
            return Err(ElfError::Unsupported("thread-local storage".to_string()));
        }
        let (first_at, first) = of_type(SegmentType::LOAD).next().ok_or(ElfError::Missing("segment to load"))?;
        // Addresses count from the page of the first segment, which is the lowest: that they ascend is checked below.
        let page = crate::executable_memory::page_size() as u64;
        let origin = first.address / page * page;
        let mut segments: Vec<Segment> = Vec::new();
        let mut end = 0;
        for (at, header) in of_type(SegmentType::LOAD) {
            let segment = Segment::place(bytes, *at, header, origin, end)?;
            end = segment.memory.end;
            segments.push(segment);
        }
        let mut header = Header { machine, span: end, segments, dynamic: 0..0, relro: None, origin };
        if header.span == 0 {
            return Err(ElfError::value(*first_at, "memory_size", 0, "at least one byte in some segment"));
        }
        let (_, dynamic) = of_type(SegmentType::DYNAMIC).next().ok_or(ElfError::Missing("dynamic table"))?;
        header.dynamic = header.table(dynamic.address, dynamic.memory_size, "the dynamic table")?;
        if let Some((_, relro)) = of_type(SegmentType::GNU_RELRO).next() {
            // It may be padded to the end of a page, past the end of its segment.
            let start = header.offset_of(relro.address).ok_or(ElfError::Address {
                address: relro.address,
                what: "the memory to protect after relocation",
                length: relro.memory_size,
            })?;
            let length = usize::try_from(relro.memory_size).unwrap_or(usize::MAX);
            header.relro = Some(start..start.saturating_add(length));
        }
        Ok(header)
    }

    /// The offset in the image of an address that is within a segment.
    pub(super) fn offset_of(&self, address: u64) -> Option<usize> {
        let offset = usize::try_from(address.checked_sub(self.origin)?).ok()?;
        self.segments.iter().any(|segment| segment.memory.contains(&offset)).then_some(offset)
    }

    /// The range in the image of `length` bytes at an address, which must all be within one segment.
    pub(super) fn range(&self, address: u64, length: u64, what: &'static str) -> Result<Range<usize>, ElfError> {
        let find = || {
            let start = usize::try_from(address.checked_sub(self.origin)?).ok()?;
            let end = start.checked_add(usize::try_from(length).ok()?)?;
            let inside = |segment: &Segment| segment.memory.start <= start && end <= segment.memory.end;
            self.segments.iter().any(inside).then_some(start..end)
        };
        find().ok_or(ElfError::Address { address, what, length })
    }

    /// As [`Header::range`], for tables: all of it must come from the file, so no claim is larger than the file.
    pub(super) fn table(&self, address: u64, length: u64, what: &'static str) -> Result<Range<usize>, ElfError> {
        let range = self.range(address, length, what)?;
        let inside = |segment: &Segment| {
            segment.memory.start <= range.start && range.end <= segment.memory.start + segment.file.len()
        };
        match self.segments.iter().any(inside) {
            true => Ok(range),
            false => Err(ElfError::Address { address, what, length }),
        }
    }

    /// True if the byte at `offset` of the image is code.
    pub(super) fn is_code(&self, offset: usize) -> bool {
        self.segments.iter().any(|segment| segment.execute && segment.memory.contains(&offset))
    }

    /// The address, as the file has it, of the image's first byte.
    pub(super) fn origin(&self) -> u64 {
        self.origin
    }
}

impl Segment {
    fn place(bytes: &[u8], at: u64, header: &ProgramHeader, origin: u64, end: usize) -> Result<Segment, ElfError> {
        let flags = SegmentFlags::from_bits_retain(header.flags);
        let (write, execute) = (flags.contains(SegmentFlags::WRITE), flags.contains(SegmentFlags::EXECUTE));
        if write && execute {
            return Err(ElfError::value(at, "flags", header.flags.into(), "writable or executable, not both"));
        }
        if header.alignment > 1 && !header.alignment.is_power_of_two() {
            return Err(ElfError::value(at, "alignment", header.alignment, "a power of two"));
        }
        if header.file_size > header.memory_size {
            return Err(ElfError::value(at, "file_size", header.file_size, "at most the size in memory"));
        }
        let file = usize::try_from(header.offset).ok().and_then(|start| {
            let file_end = start.checked_add(usize::try_from(header.file_size).ok()?)?;
            (file_end <= bytes.len()).then_some(start..file_end)
        });
        let file = file.ok_or(ElfError::Truncated {
            at: header.offset,
            what: "a segment",
            length: header.file_size,
            file: bytes.len() as u64,
        })?;
        let offset = header.address.checked_sub(origin).filter(|offset| *offset >= end as u64 && *offset <= MAX_SPAN);
        let offset =
            offset.ok_or(ElfError::value(at, "address", header.address, "segments in ascending order within 1 GiB"))?;
        if header.memory_size > MAX_SPAN - offset {
            return Err(ElfError::value(at, "memory_size", header.memory_size, "segments that span at most 1 GiB"));
        }
        // Both are at most `MAX_SPAN`.
        let memory = offset as usize..(offset + header.memory_size) as usize;
        Ok(Segment { file, memory, write, execute, header: at })
    }
}
