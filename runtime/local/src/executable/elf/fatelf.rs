//! FatELF: a file that holds one ELF file for each architecture, as plugins and executables for several machines have
//! (`.sos`). All records are checked, and the file for the machine of the host is what the loader goes on with.

use super::error::ElfError;
use super::machine;
use super::parse::array;
use crate::hal::elf_format::{
    ElfClass, ElfMachine, ElfOsAbi, FATELF_MAGIC, FATELF_VERSION, FatelfByteOrder, FatelfHeader, FatelfRecord,
};

/// The ELF file for `wanted` in a FatELF file, or the bytes as they are if they are none. None as the machine means
/// that no code can be loaded here.
pub(super) fn select(bytes: &[u8], wanted: Option<ElfMachine>) -> Result<&[u8], ElfError> {
    if bytes.first_chunk() != Some(&FATELF_MAGIC.to_le_bytes()) {
        return Ok(bytes);
    }
    let header = FatelfHeader::read(&array(bytes, 0, "the FatELF header")?);
    if header.version != FATELF_VERSION {
        let expected = format!("{FATELF_VERSION:#x}");
        return Err(ElfError::value(0, "the FatELF version", header.version.into(), expected));
    }
    let end_of_records = FatelfHeader::SIZE as u64 + u64::from(header.record_count) * FatelfRecord::SIZE as u64;
    let (mut chosen, mut machines) = (None, Vec::new());
    for index in 0..u64::from(header.record_count) {
        let at = FatelfHeader::SIZE as u64 + index * FatelfRecord::SIZE as u64;
        let record = FatelfRecord::read(&array(bytes, at, "a FatELF record")?);
        let file = file(bytes, at, &record, end_of_records)?;
        let machine = ElfMachine(record.machine);
        if is_for_here(&record) && Some(machine) == wanted {
            chosen = chosen.or(Some(file));
        }
        machines.push(machine::name(machine));
    }
    chosen.ok_or_else(|| {
        let has = if machines.is_empty() { "nothing".to_string() } else { machines.join(", ") };
        let here = wanted.map_or_else(machine::host_name, machine::name);
        ElfError::Unsupported(format!("a FatELF file with files for {has}, none of them for {here},"))
    })
}

/// The bytes of a record, which come after all records.
fn file<'a>(bytes: &'a [u8], at: u64, record: &FatelfRecord, end_of_records: u64) -> Result<&'a [u8], ElfError> {
    if record.offset < end_of_records {
        let expected = format!("at least {end_of_records:#x}, the end of the records");
        return Err(ElfError::value(at, "the offset of a FatELF record", record.offset, expected));
    }
    let range = usize::try_from(record.offset).ok().zip(usize::try_from(record.size).ok());
    let range = range.and_then(|(start, size)| bytes.get(start..start.checked_add(size)?));
    range.ok_or(ElfError::Truncated {
        at: record.offset,
        what: "a file of the FatELF file",
        length: record.size,
        file: bytes.len() as u64,
    })
}

/// Whether a file is for 64-bit little-endian machines, as all here are, and for no other system than the loader
/// imitates.
fn is_for_here(record: &FatelfRecord) -> bool {
    let systems = [ElfOsAbi::NONE, ElfOsAbi::LINUX, ElfOsAbi::STANDALONE];
    record.word_size == ElfClass::BITS_64.0
        && record.byte_order == FatelfByteOrder::LITTLE.0
        && systems.contains(&ElfOsAbi(record.os_abi))
}
