//! Module files of a gigabyte: they are mapped, and loading and running them touches no more than what the program
//! uses.

use std::io::{Seek, SeekFrom, Write};
use std::path::Path;

use vireo::asm::assemble;
use vireo::vm::{Context, Module, Value};

use crate::skip::{Need, skipped};

const GIGABYTE: u64 = 1 << 30;
/// The bytes of the segment in the assembled file: a length that no other number of the file has.
const SHORT: usize = 4099;
const PROGRAM: &str = "
vm.module @m version 0
vm.type !vm.buffer
vm.rodata[0] external = BYTES
vm.export @load
vm.func @load(%i0: i32) -> (i32) {
^bb0:
  %r0 = vm.const.ref.rodata 0
  %i2:3 = vm.ext.i32.i64.u %i0
  %i1 = vm.buffer.load.i8.u %r0, %i2:3
  vm.return %i1
}
";

/// A file whose segment has a gigabyte, most of it a hole, and `mark` at one place.
fn large_module(file: &mut std::fs::File, place: u64, mark: u8) {
    let mut bytes = assemble(&PROGRAM.replace("BYTES", &"00".repeat(SHORT))).unwrap_or_else(|error| panic!("{error}"));
    let start = bytes.len() - SHORT;
    let length = (SHORT as u64).to_le_bytes();
    let found: Vec<usize> = (0..start - 8).filter(|at| bytes[*at..*at + 8] == length).collect();
    assert_eq!(found.len(), 1, "the length of the segment stands once in the file");
    bytes[found[0]..found[0] + 8].copy_from_slice(&GIGABYTE.to_le_bytes());
    file.write_all(&bytes).expect("there is room");
    file.set_len(start as u64 + GIGABYTE).expect("files have holes");
    file.seek(SeekFrom::Start(start as u64 + place)).expect("it is inside");
    file.write_all(&[mark]).expect("there is room");
}

/// How many bytes of the mappings of a file are in memory, and in how many mappings. None where the system does not
/// tell.
fn resident(path: &Path) -> Option<(u64, usize)> {
    let maps = std::fs::read_to_string("/proc/self/smaps").ok()?;
    let path = path.canonicalize().ok()?;
    let (mut bytes, mut mappings, mut is_of_file) = (0, 0, false);
    for line in maps.lines() {
        match line.split_once(':') {
            // The first line of a mapping has colons too, but its first word is a range of addresses.
            Some((key, rest)) if !key.contains(' ') && !key.contains('-') => {
                if is_of_file && key == "Rss" {
                    let kilobytes = rest.trim().trim_end_matches(" kB");
                    bytes += 1024 * kilobytes.parse::<u64>().expect("a number of kB");
                }
            }
            _ => {
                is_of_file = line.ends_with(&*path.to_string_lossy());
                mappings += usize::from(is_of_file);
            }
        }
    }
    Some((bytes, mappings))
}

#[test]
fn a_module_of_a_gigabyte_is_mapped_and_touched_where_it_is_used() {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    let place = GIGABYTE - 4097;
    large_module(file.as_file_mut(), place, 42);
    let module = Module::from_file(file.path()).unwrap_or_else(|status| panic!("{status}"));
    let context = Context::new(vec![module]).unwrap_or_else(|status| panic!("{status}"));
    let load = context.function("m.load").expect("it is exported");
    for (index, expected) in [(place, 42), (0, 0), (GIGABYTE - 1, 0)] {
        let index = i32::try_from(index).expect("a gigabyte has indices of 32 bits");
        let results = load.call(&[Value::I32(index)]).unwrap_or_else(|status| panic!("{status}"));
        assert!(matches!(results[..], [Value::I32(byte)] if byte == expected), "at {index}: {results:?}");
    }
    let Some((bytes, mappings)) = resident(file.path()) else {
        return skipped(Need::Platform("linux"), "the system does not tell what of a file is in memory");
    };
    assert!(mappings > 0, "it is mapped");
    // The kernel reads some pages around those that are touched.
    assert!(bytes < 16 << 20, "{bytes} bytes of the file are in memory");
}
