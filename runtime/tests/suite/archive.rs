//! Module files: those that `iree-compile` wrote are read, and damaged ones are refused with the offset of the damage.

use std::path::PathBuf;

use vireo::StatusCode;
use vireo::interp::SourceMap as _;
use vireo::vm::{Buffer, Module};
use vireo::vmfb::{Archive, RodataLocation};

fn models() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../fixtures/models")
}

fn read(name: &str) -> Vec<u8> {
    std::fs::read(models().join(name)).unwrap()
}

#[test]
fn every_fixture_is_read_and_verified() {
    let mut count = 0;
    for entry in std::fs::read_dir(models()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "vmfb") {
            let module = Module::from_file(&path).unwrap_or_else(|status| panic!("{status:?}"));
            assert!(module.exports().count() > 0, "{}", path.display());
            assert!(module.functions().len() >= module.exports().count());
            count += 1;
        }
    }
    assert!(count > 5);
}

#[test]
fn verification_tells_how_far_it_has_come() {
    let archive = Archive::open(models().join("mlp.vmfb")).unwrap();
    let lengths: Vec<u64> = archive.functions().map(|function| function.code.len() as u64).collect();
    let mut told = Vec::new();
    let module = Module::from_archive_with(archive, |done, all| told.push((done, all))).unwrap();
    let sums = (1..=lengths.len()).map(|count| lengths[..count].iter().sum::<u64>());
    assert_eq!(told, sums.map(|done| (done, lengths.iter().sum())).collect::<Vec<_>>());
    assert_eq!(told.len(), module.functions().len());
}

#[test]
fn metadata_of_a_compiled_model() {
    let archive = Archive::open(models().join("abs.vmfb")).unwrap();
    assert_eq!(archive.bytecode_version(), (17, 0));
    let dependencies: Vec<_> = archive.dependencies().collect();
    assert_eq!((dependencies[0].name, dependencies[0].optional), ("hal", false));
    let names: Vec<_> = archive.exports().map(|export| export.name).collect();
    assert!(names.contains(&"abs") && names.contains(&"__init"), "{names:?}");
    let export = archive.exports().find(|export| export.name == "abs").unwrap();
    let function = archive.functions().nth(export.ordinal).unwrap();
    assert_eq!(function.convention(), "0r_r");
    let declaration = function.attrs().find(|(key, _)| *key == "iree.abi.declaration").unwrap().1;
    assert!(declaration.contains("@abs"), "{declaration}");
    assert!(archive.imports().all(|import| import.full_name.starts_with("hal.")));
    assert!(archive.imports().any(|import| import.full_name == "hal.buffer_view.create"));
    assert!(archive.types().any(|name| name == "!hal.buffer_view"));

    // Executables are external segments, aligned in the file; nothing is copied.
    let rodata: Vec<_> = archive.rodata().collect();
    let is_executable = |range: &std::ops::Range<usize>| archive.bytes()[range.clone()].starts_with(b"\x7fELF");
    let external = rodata.iter().find(|segment| is_executable(&segment.range)).unwrap();
    assert_eq!((external.location, external.range.start % 16), (RodataLocation::External, 0));
    let buffer = Buffer::of_archive(&archive, external.range.clone()).unwrap();
    assert_eq!(buffer.as_ptr() as usize, archive.bytes().as_ptr() as usize + external.range.start);
    assert!(!buffer.is_mutable());
    drop(archive);
    assert_eq!(buffer.to_vec().len(), external.range.len());
}

#[test]
fn ops_are_located_in_their_source() {
    let module = Module::from_file(models().join("abs.vmfb")).unwrap();
    let debug = module.debug_database().unwrap();
    // The 3.13 compiler keeps locations of the initialiser only.
    let init = (0..module.functions().len()).find(|ordinal| module.function_name(*ordinal) == "__init").unwrap();
    assert_eq!(debug.locate(init, 1), None, "the compiler made this op up");
    let location = debug.locate(init, 0x40).unwrap();
    assert!(location.contains("abs.mlir:"), "{location}");
    assert_eq!(debug.locate(init, 0), None);
    assert_eq!(debug.locate(usize::MAX, 0), None);
    let stripped = Module::from_file(models().join("abs_stripped.vmfb")).unwrap();
    assert!(stripped.debug_database().is_none());
}

/// Offset of the FlatBuffer after the zip header and the size prefix.
fn flatbuffer(bytes: &[u8]) -> usize {
    Archive::from_bytes(bytes).unwrap().flatbuffer().start
}

fn refusal(bytes: &[u8]) -> String {
    Archive::from_bytes(bytes).unwrap_err().to_string()
}

#[test]
fn damaged_files_are_refused_with_place_and_expectation() {
    let good = read("abs_stripped.vmfb");
    let start = flatbuffer(&good);
    assert_eq!(start, 4, "the stripped fixture has no zip header");

    assert_eq!(refusal(&[]), "INVALID_ARGUMENT: module: the file is empty, not a module");
    assert!(refusal(b"hello, I am not a module").contains("the file is a text, not a module"));
    assert!(
        refusal(b"\x01").contains("at 0x0: the file ends after 1 bytes: expected the size of a module's FlatBuffer")
    );
    assert!(refusal(b"\x7F\x03\x01\x02 \x05\x06\x07").contains("not a module file, or cut short"));
    let cut = refusal(&good[..good.len() / 4]);
    assert!(cut.contains("at 0x0: expected a FlatBuffer of"), "{cut}");

    let mut other = good.clone();
    other[8..12].copy_from_slice(b"NOPE");
    let message = "INVALID_ARGUMENT: module: at 0x8: expected the file identifier \"IREE\", found \"NOPE\"";
    assert_eq!(refusal(&other), message);

    let mut root = good.clone();
    root[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
    let message = refusal(&root);
    assert!(message.contains("at 0x0: the FlatBuffer is damaged"), "{message}");

    // The last external segment is cut off.
    let archive = Archive::from_bytes(&good).unwrap();
    let end = archive.rodata().map(|segment| segment.range.end).max().unwrap();
    let message = refusal(&good[..end - 1]);
    assert!(message.contains("read-only segment") && message.contains("but the file ends at"), "{message}");
}

#[test]
fn a_zip_header_that_leads_outside_is_refused() {
    let mut good = read("abs.vmfb");
    assert!(flatbuffer(&good) > 34, "the fixture is a zip polyglot");
    good[26..30].fill(0xFF);
    let message = refusal(&good);
    assert!(message.contains("the file ends after"), "{message}");
}

#[test]
fn other_bytecode_versions_are_incompatible() {
    let good = read("abs_stripped.vmfb");
    let version = (17u32 << 16).to_le_bytes();
    // The version is the only word of the file with this value.
    let places: Vec<_> =
        good.windows(4).enumerate().filter(|(_, window)| *window == version).map(|(place, _)| place).collect();
    let mut refused = false;
    for place in places {
        let mut other = good.clone();
        other[place..place + 4].copy_from_slice(&(15u32 << 16 | 1).to_le_bytes());
        if let Err(status) = Archive::from_bytes(&other)
            && status.code() == StatusCode::Incompatible
        {
            let message = "the module has bytecode version 15.1, this runtime reads 15.0 (IREE 3.1 to 3.9), 16.0 (IREE 3.10), 17.0";
            assert!(status.message().contains(message), "{status}");
            refused = true;
        }
    }
    assert!(refused);
}

#[test]
fn files_that_cannot_be_read_say_so() {
    let status = Archive::open("/nonexistent/model.vmfb").unwrap_err();
    assert_eq!(status.code(), StatusCode::NotFound);
    assert!(status.message().contains("/nonexistent/model.vmfb"), "{status}");
    assert_eq!(Archive::open(models()).unwrap_err().code(), StatusCode::InvalidArgument);
    let empty = tempfile::NamedTempFile::new().unwrap();
    assert_eq!(Archive::open(empty.path()).unwrap_err().code(), StatusCode::InvalidArgument);
}

/// A file in which every table is used over and over again, so that walking it as a tree takes ages.
fn bomb(width: usize) -> Vec<u8> {
    use flatbuffers::{FlatBufferBuilder, WIPOffset};
    // Slots are numbered from 4 in steps of 2, as in the vtable; see `spec/schema/bytecode_module_def.yaml`.
    let mut builder = FlatBufferBuilder::new();
    let text = builder.create_string(&"x".repeat(width));
    let table = builder.start_table();
    builder.push_slot_always(4, text);
    let attr = builder.end_table(table);
    let attrs = builder.create_vector(&vec![WIPOffset::<u8>::new(attr.value()); width]);
    let table = builder.start_table();
    builder.push_slot_always(6, attrs);
    let signature = builder.end_table(table);
    let signatures = builder.create_vector(&vec![WIPOffset::<u8>::new(signature.value()); width]);
    let name = builder.create_string("bomb");
    let table = builder.start_table();
    builder.push_slot_always(4, name);
    builder.push_slot_always(20, signatures);
    let root = builder.end_table(table);
    builder.finish_size_prefixed(root, Some("IREE"));
    builder.finished_data().to_vec()
}

#[test]
fn files_that_blow_up_are_refused_early() {
    let file = bomb(4000);
    assert!(file.len() < 64 << 10);
    // A reader that followed all references would not come to an end.
    let message = refusal(&file);
    assert!(message.contains("the FlatBuffer is damaged"), "{message}");
    // The same shape in a sane size is only missing what a module needs.
    let message = refusal(&bomb(2));
    assert!(message.contains("bytecode version 0.0"), "{message}");
}

/// A function descriptor as it is in the file: offset, length, requirements, then 16-bit counts.
#[derive(Clone, Copy)]
#[repr(C)]
struct Descriptor([u32; 5]);

impl flatbuffers::Push for Descriptor {
    type Output = Descriptor;

    unsafe fn push(&self, out: &mut [u8], _written: usize) {
        out.iter_mut().zip(self.0.iter().flat_map(|word| word.to_le_bytes())).for_each(|(out, byte)| *out = byte);
    }
}

/// A module of `code` in which each function is `(offset, length)`.
fn module_of(code: &[u8], functions: &[(u32, u32)]) -> Vec<u8> {
    let mut builder = flatbuffers::FlatBufferBuilder::new();
    let convention = builder.create_string("0v_v");
    let table = builder.start_table();
    builder.push_slot_always(4, convention);
    let signature = builder.end_table(table);
    let signature = flatbuffers::WIPOffset::<u8>::new(signature.value());
    let signatures = builder.create_vector(&vec![signature; functions.len()]);
    let one_block = 1 << 16;
    let descriptors: Vec<_> =
        functions.iter().map(|(at, length)| Descriptor([*at, *length, 0, one_block, 0])).collect();
    let descriptors = builder.create_vector(&descriptors);
    let code = builder.create_vector(code);
    let name = builder.create_string("made");
    let table = builder.start_table();
    builder.push_slot_always(4, name);
    builder.push_slot_always(20, signatures);
    builder.push_slot_always(28, descriptors);
    builder.push_slot_always::<u32>(30, 17 << 16);
    builder.push_slot_always(32, code);
    let root = builder.end_table(table);
    builder.finish_size_prefixed(root, Some("IREE"));
    builder.finished_data().to_vec()
}

#[test]
fn code_of_functions_is_whole_or_shared_but_not_multiplied() {
    // A block marker and a return of nothing, four times.
    let one = [0x79, 0x5A, 0, 0];
    let code = one.repeat(4);
    let made = |functions: &[(u32, u32)]| Module::from_bytes(&module_of(&code, functions));
    assert_eq!(made(&[(0, 4), (4, 4), (4, 4), (12, 4)]).unwrap().functions().len(), 4);
    for (functions, expected) in [
        (&[(0, 8), (4, 4)][..], "the code of function 1 (4..8) overlaps that of function 0 (0..8)"),
        (&[(0, 4), (2, 4)], "the code of function 1 (2..6) overlaps that of function 0 (0..4)"),
        (&[(0, 0)], "function 0 has 0 bytes of code at 0, expected a part of the 16 bytes"),
        (&[(14, 4)], "function 0 has 4 bytes of code at 14"),
        (&[(u32::MAX, 4)], "function 0 has 4 bytes of code at -1"),
        (&[(4, 0x7FFF_FFFF)], "function 0 has 2147483647 bytes of code at 4"),
    ] {
        let message = made(functions).unwrap_err().to_string();
        assert!(message.contains(expected), "{message}");
    }
    let large = one.repeat(16 << 10);
    let shared = vec![(0, large.len() as u32); 1000];
    let message = refusal(&module_of(&large, &shared));
    assert!(
        message.contains("the functions have 65536000 bytes of code in total, but the module has 65536"),
        "{message}"
    );
}

#[test]
fn modules_and_contexts_are_shared_between_threads() {
    fn shared<T: Send + Sync + 'static>() {}
    shared::<Archive>();
    shared::<Module>();
    shared::<vireo::vm::Context>();
    shared::<vireo::vm::Function>();
    shared::<vireo::vm::Value>();
}
