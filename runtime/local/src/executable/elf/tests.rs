//! Libraries for 64-bit Arm, placed and relocated on any machine: what the words of a library of the compiler become,
//! the value of every type of relocation, and what is refused. Nothing of them is run.

use super::machine::{HOST, host_name};
use super::*;
use crate::hal::elf_format::{
    ElfClass, ElfOsAbi, FATELF_MAGIC, FATELF_VERSION, FatelfByteOrder, FatelfHeader, FatelfRecord, FileHeader,
    Relocation, RelocationAarch64,
};
use crate::hal::executable_library::LIBRARY_QUERY_SYMBOL;

const ARM: ElfMachine = ElfMachine::ARM_64;

const BASE: u64 = NOWHERE;

/// The library of a model for 64-bit Arm. It is in the module file as it is; what follows it there belongs to no
/// segment.
fn library() -> Vec<u8> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/models/aarch64_mlp.vmfb");
    let module = std::fs::read(path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let start = module.windows(4).position(|window| window == b"\x7fELF").expect("the module has a library");
    module[start..].to_vec()
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

/// The relocations of a library, from its file.
fn relocations(bytes: &[u8], header: &Header, dynamic: &DynamicTable) -> Vec<Relocation> {
    let in_file = |range: &Range<usize>| {
        let inside = |segment: &&Segment| segment.memory.contains(&range.start);
        let segment = header.segments.iter().find(inside).expect("tables are in segments");
        let start = segment.file.start + range.start - segment.memory.start;
        start..start + range.len()
    };
    let tables = dynamic.relocations.iter().map(|table| &bytes[in_file(table)]);
    tables
        .flat_map(|table| table.chunks_exact(Relocation::SIZE))
        .map(|entry| Relocation::read(entry.try_into().unwrap()))
        .collect()
}

#[test]
fn libraries_of_the_compiler_are_relocated_for_arm() {
    let bytes = library();
    assert_eq!(infer_format(&bytes).unwrap(), "embedded-elf-arm_64");
    let (image, header, dynamic) = placed(&bytes, ARM).unwrap();
    let relocations = relocations(&bytes, &header, &dynamic);
    assert!(relocations.len() >= 8, "{}", relocations.len());
    // Before: the bytes of the file, and zeros after them.
    let mut expected = vec![0; header.span];
    for segment in &header.segments {
        expected[segment.memory.start..][..segment.file.len()].copy_from_slice(&bytes[segment.file.clone()]);
    }
    for relocation in relocations {
        assert_eq!(relocation.info, u64::from(RelocationAarch64::RELATIVE.0), "the compiler writes no others");
        let at = header.offset_of(relocation.offset).expect("the place is in a segment");
        // The library is linked for the address 0.
        expected[at..at + 8].copy_from_slice(&(BASE + relocation.addend).to_le_bytes());
    }
    assert!(image == expected);
    assert!(relocated(&bytes).unwrap() == expected);
    // The query function is code of the library.
    let strings = &image[dynamic.strings.clone()];
    let name = |symbol: &dynamic::LoadedSymbol| {
        strings[symbol.name..].split(|byte| *byte == 0).next() == Some(LIBRARY_QUERY_SYMBOL.as_bytes())
    };
    let query =
        dynamic.symbols.iter().find(|symbol| symbol.exported && name(symbol)).expect("it exports the query function");
    assert!(header.is_code(header.offset_of(query.value).unwrap()));
}

#[test]
fn every_type_of_relocation_for_arm_has_its_value() {
    let bytes = library();
    let (_, header, dynamic) = placed(&bytes, ARM).unwrap();
    let symbol = dynamic.symbols.iter().position(|symbol| symbol.exported).unwrap();
    let address = BASE + dynamic.symbols[symbol].value;
    let table = dynamic.relocations[0].start;
    let place = header.segments.iter().find(|segment| segment.write).expect("there is data").memory.start;
    // Relocates a word that is all ones, and returns it.
    let relocate = |kind: u32, symbol: usize, addend: i64| {
        let mut image = vec![0; header.span];
        image[place..place + 8].fill(0xff);
        let info = (symbol as u64) << 32 | u64::from(kind);
        for (index, field) in [place as u64, info, addend as u64].into_iter().enumerate() {
            image[table + 8 * index..][..8].copy_from_slice(&field.to_le_bytes());
        }
        let dynamic = DynamicTable::with_relocations(&dynamic, table..table + Relocation::SIZE);
        relocate::apply(&mut image, BASE, &dynamic, &header)
            .map(|()| word(&image, place))
            .map_err(|error| error.to_string())
    };
    let here = BASE + place as u64;
    let low = |value: u64| value & 0xffff_ffff | 0xffff_ffff_0000_0000;
    for (kind, symbol, addend, expected) in [
        (RelocationAarch64::NONE, 0, 5, u64::MAX),
        (RelocationAarch64::WITHDRAWN, 0, 5, u64::MAX),
        (RelocationAarch64::RELATIVE, 0, 0x1234, BASE + 0x1234),
        (RelocationAarch64::ABS64, symbol, -8, address - 8),
        (RelocationAarch64::GLOB_DAT, symbol, 16, address + 16),
        (RelocationAarch64::JUMP_SLOT, symbol, 0, address),
        (RelocationAarch64::PREL64, symbol, 4, address.wrapping_add(4).wrapping_sub(here)),
        (RelocationAarch64::PREL32, symbol, 4, low(address.wrapping_add(4).wrapping_sub(here))),
        (RelocationAarch64::ABS32, 0, 0xffff_fffe, low(0xffff_fffe)),
        (RelocationAarch64::ABS32, 0, -3, low(-3i64 as u64)),
    ] {
        assert_eq!(relocate(kind.0, symbol, addend), Ok(expected), "{kind:?}");
    }
    let overflow = format!("ELF relocation abs32 at address {place:#x}: the value does not fit 32 bits");
    assert_eq!(relocate(RelocationAarch64::ABS32.0, symbol, 0), Err(overflow));
    // A type of x86-64, and one that only linkers apply.
    for kind in [8, 275] {
        assert_eq!(relocate(kind, 0, 0), Err(format!("ELF: relocation type {kind} is not supported")));
    }
}

/// The first relocation writes an address of the process over the place of the second one, which is that of the file
/// all the same.
#[test]
fn relocations_are_read_before_they_change_their_table() {
    let (_, header, dynamic) = placed(&library(), ARM).unwrap();
    let table = dynamic.relocations[0].start;
    let place = header.segments.iter().find(|segment| segment.write).expect("there is data").memory.start;
    let mut image = vec![0; header.span];
    let kind = u64::from(RelocationAarch64::RELATIVE.0);
    let second = table + Relocation::SIZE;
    for (index, field) in [second as u64, kind, 0x10, place as u64, kind, 0x20].into_iter().enumerate() {
        image[table + 8 * index..][..8].copy_from_slice(&field.to_le_bytes());
    }
    let dynamic = DynamicTable::with_relocations(&dynamic, table..second + Relocation::SIZE);
    relocate::apply(&mut image, BASE, &dynamic, &header).unwrap();
    assert_eq!((word(&image, second), word(&image, place)), (BASE + 0x10, BASE + 0x20));
}

#[test]
fn libraries_for_other_machines_are_refused_by_name() {
    let other = |machine: ElfMachine| {
        let mut bytes = library();
        let at = std::mem::offset_of!(FileHeader, machine);
        bytes[at..at + 2].copy_from_slice(&machine.0.to_le_bytes());
        bytes
    };
    for (machine, name) in [
        (ElfMachine::X86_64, "x86_64"),
        (ElfMachine::ARM_64, "arm_64"),
        (ElfMachine::RISCV, "riscv_64"),
        (ElfMachine(0x1234), "machine_0x1234"),
    ] {
        if Some(machine) == HOST {
            continue;
        }
        let error = ElfImage::load(&other(machine)).unwrap_err().to_string();
        assert_eq!(error, format!("ELF: machine {name} on {} is not supported", host_name()));
        #[cfg(target_os = "linux")]
        assert_eq!(check_system_library(&other(machine)).unwrap_err().to_string(), error);
        assert!(!is_host_machine(name));
    }
    assert_eq!(is_host_machine(&host_name()), HOST.is_some());
}

/// A FatELF file with these records, each with the bytes at its offset: machine, system, width of addresses, byte order
/// and bytes.
fn fatelf(records: &[(ElfMachine, ElfOsAbi, ElfClass, FatelfByteOrder, &[u8])]) -> Vec<u8> {
    let mut bytes =
        [&FATELF_MAGIC.to_le_bytes()[..], &FATELF_VERSION.to_le_bytes(), &[records.len() as u8, 0]].concat();
    let mut offset = (FatelfHeader::SIZE + records.len() * FatelfRecord::SIZE) as u64;
    for (machine, system, class, order, file) in records {
        bytes.extend(machine.0.to_le_bytes());
        bytes.extend([system.0, 0, class.0, order.0, 0, 0]);
        bytes.extend(offset.to_le_bytes());
        bytes.extend((file.len() as u64).to_le_bytes());
        offset += file.len() as u64;
    }
    records.iter().for_each(|(.., file)| bytes.extend(*file));
    bytes
}

#[test]
fn the_file_for_the_machine_is_chosen_of_several() {
    use super::fatelf::select;

    let arm = library();
    let (linux, none, wide) = (ElfOsAbi::LINUX, ElfOsAbi::NONE, ElfClass::BITS_64);
    let little = FatelfByteOrder::LITTLE;
    let records = [
        (ElfMachine::RISCV, linux, wide, little, &b"riscv"[..]),
        // None of these is for the machine as the loader imitates it, though all say its name.
        (ARM, ElfOsAbi(9), wide, little, &b"another system"[..]),
        (ARM, none, ElfClass::BITS_32, little, &b"narrow"[..]),
        (ARM, none, wide, FatelfByteOrder::BIG, &b"big"[..]),
        (ARM, ElfOsAbi::STANDALONE, wide, little, &arm),
        (ARM, none, wide, little, &b"a second one"[..]),
        (ElfMachine::X86_64, none, wide, little, &b"x86"[..]),
    ];
    let bytes = fatelf(&records);
    assert!(select(&bytes, Some(ARM)).unwrap() == arm);
    assert_eq!(select(&bytes, Some(ElfMachine::X86_64)).unwrap(), b"x86");
    assert_eq!(select(&bytes, Some(ElfMachine::RISCV)).unwrap(), b"riscv");
    // The chosen file is as good as if it were alone.
    assert!(relocated(select(&bytes, Some(ARM)).unwrap()).unwrap() == relocated(&arm).unwrap());
    // A file that is no FatELF file stays as it is.
    assert!(select(&arm, Some(ElfMachine::X86_64)).unwrap() == arm);
    assert_eq!(select(b"\xfa", Some(ARM)).unwrap(), b"\xfa");
    let without = |wanted| select(&fatelf(&records[..2]), wanted).map(<[u8]>::to_vec).unwrap_err().to_string();
    let expected = "ELF: a FatELF file with files for riscv_64, arm_64, none of them for x86_64, is not supported";
    assert_eq!(without(Some(ElfMachine::X86_64)), expected);
    assert!(without(None).contains("none of them for"));
    assert!(select(&fatelf(&[]), Some(ARM)).unwrap_err().to_string().contains("with files for nothing"));
}

#[test]
fn damaged_fatelf_files_are_refused_with_the_place() {
    use super::fatelf::select;

    let record = (ARM, ElfOsAbi::NONE, ElfClass::BITS_64, FatelfByteOrder::LITTLE, &b"12345678"[..]);
    let other = (ElfMachine::X86_64, ElfOsAbi::NONE, ElfClass::BITS_64, FatelfByteOrder::LITTLE, &b"87654321"[..]);
    let bytes = fatelf(&[record, other]);
    assert_eq!(bytes.len(), 72);
    // The offset of the second record, and its size.
    let (offset, size) = (8 + 24 + 8, 8 + 24 + 16);
    let changed = |at: usize, value: u64| {
        let mut bytes = bytes.clone();
        bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        select(&bytes, Some(ARM)).map(<[u8]>::to_vec).map_err(|error| error.to_string())
    };
    assert_eq!(changed(offset, 64), Ok(b"12345678".to_vec()));
    // All records are checked, not only that of the machine.
    let below = "ELF at file offset 0x20: the offset of a FatELF record is 0x37, expected at least 0x38, the end of the records";
    assert_eq!(changed(offset, 0x37), Err(below.to_string()));
    let truncated = |at: u64, length: u64| {
        format!("ELF at file offset {at:#x}: a file of the FatELF file needs {length} bytes, but the file has 72 bytes")
    };
    for at in [65, 73, u64::MAX, u64::MAX - 7] {
        assert_eq!(changed(offset, at), Err(truncated(at, 8)));
    }
    for length in [9, u64::MAX, u64::MAX - 64] {
        assert_eq!(changed(size, length), Err(truncated(64, length)));
    }
    let version = {
        let mut bytes = bytes.clone();
        bytes[4] = 2;
        select(&bytes, Some(ARM)).unwrap_err().to_string()
    };
    assert_eq!(version, "ELF at file offset 0x0: the FatELF version is 0x2, expected 0x1");
    // A file within the file is none of an architecture.
    let nested = fatelf(&[(record.0, record.1, record.2, record.3, &bytes)]);
    let error = parse::machine(select(&nested, Some(ARM)).unwrap()).unwrap_err().to_string();
    assert_eq!(error, "ELF at file offset 0x0: magic is 0x1f0e70fa, expected 0x464c457f");
    for length in 4..56 {
        let error = select(&bytes[..length], Some(ARM)).unwrap_err().to_string();
        assert!(error.contains(&format!("but the file has {length} bytes")), "{error}");
    }
}

/// The loader takes the half of the machine that this is, from an executable as well as from a plugin.
#[test]
fn a_fatelf_file_loads_as_the_file_in_it() {
    let Some(host) = HOST else { return };
    let name = if host == ARM { "kernels_arm_64.so" } else { "kernels.so" };
    let path = format!("{}/../../fixtures/elf/{name}", env!("CARGO_MANIFEST_DIR"));
    let file = std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let other = if host == ARM { ElfMachine::X86_64 } else { ARM };
    let record = |machine, file| (machine, ElfOsAbi::NONE, ElfClass::BITS_64, FatelfByteOrder::LITTLE, file);
    let bytes = fatelf(&[record(other, &b"not for here"[..]), record(host, &file)]);
    assert_eq!(infer_format(&bytes).unwrap(), infer_format(&file).unwrap());
    let image = ElfImage::load(&bytes).unwrap();
    assert!(image.function(LIBRARY_QUERY_SYMBOL).is_some());
    assert_eq!(image.symbols.len(), ElfImage::load(&file).unwrap().symbols.len());
}
