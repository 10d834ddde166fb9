//! Tests of the reader: files that `iree-compile` and an assembler wrote, and the same files damaged.

use super::{CodeObject, CodeObjectError, Metadata, MetadataError, SymbolKind, metadata};
use crate::kernel_descriptor::KernelDescriptor;

/// Of `fixtures/amdgpu/rebuild.sh`.
const COMPILED: &[u8] = include_bytes!("../../../../../../fixtures/amdgpu/kernels_gfx1100.hsaco");
/// Of the software agent's `tests/kernels.s`: a kernel and a variable.
const ASSEMBLED: &[u8] = include_bytes!("../../../softhsa/tests/kernels.co");

fn parse(bytes: &[u8]) -> CodeObject<'_> {
    CodeObject::parse(bytes).unwrap_or_else(|error| panic!("{error}"))
}

/// The error for a file of which some bytes are others.
fn refused(bytes: &[u8], changes: &[(usize, &[u8])]) -> CodeObjectError {
    let mut changed = bytes.to_vec();
    for (at, new) in changes {
        changed[*at..at + new.len()].copy_from_slice(new);
    }
    let error = CodeObject::parse(&changed).and_then(|object| object.kernels()).expect_err("it is refused");
    assert!(error.to_string().starts_with("code object: "), "{error}");
    error
}

/// Where a text is in a file.
fn find(bytes: &[u8], text: &[u8]) -> usize {
    bytes.windows(text.len()).position(|window| window == text).expect("the text is there")
}

/// The file offset of an address.
fn offset(object: &CodeObject<'_>, address: u64) -> usize {
    let holds = |at: u64, length: usize| address.checked_sub(at).is_some_and(|offset| offset < length as u64);
    let segment = object.segments.iter().find(|segment| holds(segment.address, segment.bytes.len()));
    let segment = segment.expect("it is in the file");
    (segment.file_offset + address - segment.address) as usize
}

#[test]
fn a_code_object_says_what_is_in_it() {
    let object = parse(ASSEMBLED);
    assert_eq!(object.target.to_string(), "gfx1100");
    assert_eq!((object.relocation_bytes, object.needs_others, object.has_thread_storage), (0, false, false));
    assert_eq!(object.segments.iter().filter(|segment| segment.execute).count(), 1);
    let symbol = |name: &str| object.symbols.iter().find(|symbol| symbol.name == name).expect("the symbol");
    assert_eq!((symbol("store").kind, symbol("counter").kind), (SymbolKind::Code, SymbolKind::Data));
    assert_eq!(symbol("counter").size, 8);
    assert_eq!(object.loaded_from(symbol("counter").address).and_then(<[u8]>::first), Some(&42));
    let (descriptor, entry) = object.descriptor(symbol("store.kd")).expect("a descriptor");
    assert_eq!((descriptor.kernarg_size, entry), (16, symbol("store").address));
    let kernels = object.kernels().expect("kernels");
    assert_eq!((kernels.len(), kernels[0].name.as_str(), kernels[0].dynamic_stack), (1, "store", false));
    assert_eq!((kernels[0].pointers, kernels[0].value_bytes, kernels[0].explicit_size), (1, 4, 12));
    assert_eq!(object.section(".data"), Some(&42u64.to_le_bytes()[..]));
    // This file has the dynamic symbols alone, and the compiler's has all.
    assert_eq!(object.all_symbols(), Ok(vec![]));
    let object = parse(COMPILED);
    let all = object.all_symbols().expect("symbols");
    assert!(all.len() > object.symbols.len() && object.symbols.iter().all(|symbol| all.contains(symbol)), "{all:?}");
    assert_eq!(object.section(".none"), None);
}

#[test]
fn headers_of_other_files_are_refused() {
    let machine = refused(COMPILED, &[(18, &[0x3e])]);
    assert_eq!(machine, CodeObjectError::Header { field: "machine", value: 0x3e, expected: 0xe0 });
    let relocatable = refused(COMPILED, &[(16, &[1])]);
    assert_eq!(relocatable, CodeObjectError::Header { field: "file_type", value: 1, expected: 3 });
    // Version 3, whose flags say the features of the target in another way.
    let version = refused(COMPILED, &[(8, &[1])]).to_string();
    assert!(version.contains("version 1 of the ABI in the file header, expected 2 to 4"), "{version}");
    assert_eq!(refused(COMPILED, &[(56, &[0xff, 0xff])]), CodeObjectError::SegmentCount(0xffff));
    assert!(matches!(refused(COMPILED, &[(48, &[0xfe])]), CodeObjectError::Target(_)));
    let truncated = CodeObject::parse(&COMPILED[..63]).expect_err("a part of the header");
    assert_eq!(truncated, CodeObjectError::Truncated { what: "the file header", at: 0, length: 63 });
    let outside = refused(COMPILED, &[(32, &[0xff; 8])]);
    let expected = CodeObjectError::Truncated { what: "a program header", at: u64::MAX, length: COMPILED.len() };
    assert_eq!(outside, expected);
}

#[test]
fn the_metadata_and_the_header_are_for_one_processor() {
    let error = refused(COMPILED, &[(48, &[0x46])]);
    let CodeObjectError::MetadataTarget { found, expected } = error else { panic!("{error}") };
    assert_eq!((found.ends_with("gfx1100"), expected), (true, "gfx1101"));
    let at = find(COMPILED, b"amdhsa.target");
    assert!(
        matches!(refused(COMPILED, &[(at, b"x")]), CodeObjectError::MetadataTarget { found, .. } if found.is_empty())
    );
}

#[test]
fn descriptors_are_where_symbols_say_and_agree_with_the_metadata() {
    let object = parse(ASSEMBLED);
    let symbol = object.symbols.iter().find(|symbol| symbol.name == "store.kd").expect("a symbol");
    let descriptor = offset(&object, symbol.address);
    let error = refused(ASSEMBLED, &[(descriptor + 8, &[17])]);
    let expected = format!(
        "kernel `store`: its descriptor at address {:#x} has 17 as `kernarg_size`, and the metadata have 16 as \
         `.kernarg_segment_size`",
        symbol.address
    );
    assert_eq!(error.to_string(), format!("code object: {expected}"));
    // The entry is 16 bytes after the start, in the descriptor's own terms.
    let error = refused(ASSEMBLED, &[(descriptor + 16, &i64::MIN.to_le_bytes())]);
    assert!(matches!(error, CodeObjectError::Place { what: "the first instruction", .. }), "{error}");
    let entries = symbol.address.to_le_bytes();
    let odd: Vec<(usize, &[u8])> =
        (0..ASSEMBLED.len() - 8).filter(|at| ASSEMBLED[*at..at + 8] == entries).map(|at| (at, &[1][..])).collect();
    let error = refused(ASSEMBLED, &odd);
    assert!(matches!(error, CodeObjectError::Place { what: "the descriptor", .. }), "{error}");
    let name = find(ASSEMBLED, b".symbol") + b".symbol".len() + 1;
    assert!(matches!(refused(ASSEMBLED, &[(name, b"x")]), CodeObjectError::NoDescriptor { .. }));
    let end = super::Symbol { address: u64::MAX - KernelDescriptor::SIZE as u64 + 1, ..*symbol };
    assert!(matches!(object.descriptor(&end), Err(CodeObjectError::Place { .. })));
}

/// A small MessagePack writer.
fn text(text: &str) -> Vec<u8> {
    [&[0xd9, text.len() as u8][..], text.as_bytes()].concat()
}

fn map(key: &str, value: &[u8]) -> Vec<u8> {
    [&[0x81][..], &text(key), value].concat()
}

#[test]
fn hostile_metadata_are_refused_without_much_memory() {
    let claims = |value: &[u8]| map("amdhsa.kernels", value);
    for bytes in [
        // Counts that the bytes do not bear out.
        claims(&[0xdd, 0xff, 0xff, 0xff, 0xff]),
        vec![0xdf, 0xff, 0xff, 0xff, 0xff],
        claims(&[0x91, 0x81, 0xd9, 5, b'.', b'a', b'r', b'g', b's', 0xdd, 0xff, 0xff, 0xff, 0xff]),
        // Nesting.
        [&[0x81, 0xa1, b'x'][..], &[0x91; 100_000]].concat(),
        // Other types.
        claims(&[0xc0]),
        vec![],
        vec![0xc1],
        vec![0x81, 0xa1, 0xff, 0xc0],
    ] {
        let error = metadata::read(&bytes).expect_err("malformed");
        assert!(matches!(error, MetadataError::Malformed(_) | MetadataError::Type { .. }), "{error}");
    }
    assert_eq!(metadata::read(&map("other", &[0xc0])), Ok(Metadata::default()));
    let nameless = claims(&[0x91, 0x80]);
    let error = metadata::read(&nameless).expect_err("no name");
    assert_eq!(error, MetadataError::Missing { kernel: "number 0".to_string(), key: ".name" });
}

#[test]
fn a_key_is_there_once() {
    let twice = [&[0x82][..], &text("amdhsa.kernels"), &[0x90], &text("amdhsa.kernels"), &[0x90]].concat();
    let at = twice.len() - 1;
    assert_eq!(metadata::read(&twice), Err(MetadataError::Duplicate { key: "amdhsa.kernels", at }));
    let kernel = [&[0x91, 0x82][..], &text(".name"), &text("a"), &text(".name"), &text("a")].concat();
    let error = metadata::read(&map("amdhsa.kernels", &kernel)).expect_err("two names").to_string();
    assert!(error.starts_with("`.name` is there once more at byte "), "{error}");
}

/// Every byte changed in several ways, and the file cut off: an error or other contents, never a panic.
#[test]
fn damaged_files_do_no_harm() {
    let read = |bytes: &[u8]| {
        let object = CodeObject::parse(bytes)?;
        // The parts that no loader needs.
        let _ = (object.all_symbols(), object.section(".debug_info"));
        object.kernels()
    };
    let mut refused = 0;
    for bytes in [COMPILED, ASSEMBLED] {
        for at in (0..bytes.len()).filter(|at| *at < 3000 || bytes.len() - at < 2000) {
            for change in [0xff, 0x80, 0x01] {
                let mut damaged = bytes.to_vec();
                damaged[at] ^= change;
                refused += usize::from(read(&damaged).is_err());
            }
        }
        for length in (0..bytes.len()).step_by(7) {
            refused += usize::from(read(&bytes[..length]).is_err());
        }
    }
    assert!(refused > 1000, "{refused}");
}
