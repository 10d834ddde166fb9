//! Contents of archives.

use std::io::Write;

use vireo::hal::ElementType;
use vireo::io::safetensors::{self, DATA_TYPES, DataType};
use vireo::io::{ArchiveFormat, Contents, ContentsMode, Parameter, ParameterIndex, ParameterStorage, Splat, irpa};

use super::{fixture, floats};

/// All bytes of a parameter.
fn bytes(parameter: &Parameter) -> Vec<u8> {
    let mut bytes = vec![0; parameter.length as usize];
    match &parameter.storage {
        ParameterStorage::Splat(splat) => {
            bytes.iter_mut().zip(splat.pattern().iter().cycle()).for_each(|(to, from)| *to = *from)
        }
        ParameterStorage::Stored { contents, offset } => {
            contents.read_at(*offset, &mut bytes).expect("is inside of the file")
        }
    }
    bytes
}

#[test]
fn all_formats_hold_the_same_parameters() {
    let w: Vec<f32> = (0..16).map(|number| number as f32 * 0.25 - 1.0).collect();
    for name in ["weights.irpa", "weights.gguf", "weights.safetensors"] {
        for mode in [ContentsMode::Mmap, ContentsMode::File, ContentsMode::Preload] {
            let index = ParameterIndex::open(fixture(name), mode).expect("reads");
            assert_eq!((index.len(), index.total_bytes()), (3, 96), "{name}");
            let keys: Vec<_> = index.iter().map(|parameter| parameter.key.as_str()).collect();
            assert_eq!(keys, ["w", "b", "state"], "{name}");
            let get = |key| bytes(index.get(key).expect("is there"));
            assert_eq!(get("w"), floats(&w), "{name}");
            assert_eq!(get("b"), floats(&[0.5, -0.5, 2.0, 8.0]), "{name}");
            assert_eq!(get("state"), floats(&[1.5; 4]), "{name}");
            assert!(index.get("other").is_none());
            let ty = index.get("w").and_then(|parameter| parameter.tensor.clone());
            assert_eq!(
                ty.map(|ty| (ty.element, ty.shape)),
                (name != "weights.irpa").then(|| ("F32".into(), vec![4, 4]))
            );
        }
    }
}

#[test]
fn archives_of_one_scope_are_merged() {
    let mut index = ParameterIndex::default();
    let parameter = |key: &str, length| Parameter {
        key: key.into(),
        length,
        storage: ParameterStorage::Splat(Splat::ZERO),
        metadata: Vec::new(),
        tensor: None,
    };
    index.add(parameter("b", 1)).expect("is new");
    assert!(index.add(parameter("b", 2)).is_err());
    index.merge(ParameterIndex::open(fixture("weights.irpa"), ContentsMode::Mmap).expect("reads"));
    assert_eq!((index.len(), index.get("b").map(|parameter| parameter.length)), (3, Some(1)));
}

#[test]
fn what_is_written_is_read() {
    let mut builder = irpa::Builder::with_default_alignment();
    let splat = Splat::new(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]).expect("has 16 bytes");
    builder.splat("splat", b"meta", 32, splat).expect("divides");
    builder.data("first", b"", 3).expect("fits");
    builder.data("empty", b"", 0).expect("fits");
    builder.data("second", b"data", 5).expect("fits");
    assert!(builder.splat("splat", b"", 33, splat).is_err());
    let mut file = vec![0; builder.file_length() as usize];
    builder.write_header(&mut &mut file[..]).expect("fits");
    for (number, offset, length) in builder.data_ranges() {
        assert!(offset.is_multiple_of(64), "{number}");
        file[offset as usize..][..length as usize].fill(number as u8);
    }
    let contents = Contents::from_bytes("test", &file).expect("there is memory");
    let index = ParameterIndex::read(ArchiveFormat::Irpa, &contents).expect("reads");
    let found: Vec<_> = index.iter().map(|one| (one.key.as_str(), one.metadata.as_slice(), bytes(one))).collect();
    let repeated = [splat.pattern(), splat.pattern()].concat();
    assert_eq!(
        found,
        [
            ("splat", b"meta".as_slice(), repeated),
            ("first", b"", vec![1; 3]),
            ("empty", b"", vec![]),
            ("second", b"data", vec![3; 5])
        ]
    );
    assert!(irpa::Builder::new(48).is_err());
}

#[test]
fn an_empty_archive_is_one() {
    let builder = irpa::Builder::with_default_alignment();
    let mut file = vec![0; builder.file_length() as usize];
    builder.write_header(&mut &mut file[..]).expect("fits");
    let contents = Contents::from_bytes("test", &file).expect("there is memory");
    assert!(ParameterIndex::read(ArchiveFormat::Irpa, &contents).expect("reads").is_empty());
}

#[test]
fn archives_can_follow_each_other_in_a_file() {
    let mut file = std::fs::read(fixture("weights.irpa")).expect("reads");
    let mut builder = irpa::Builder::with_default_alignment();
    builder.splat("more", b"", 8, Splat::ZERO).expect("divides");
    let mut second = Vec::new();
    builder.write_header(&mut second).expect("fits");
    let next = file.len() as u64;
    file.extend(second);
    file[16..24].copy_from_slice(&next.to_le_bytes());
    let contents = Contents::from_bytes("test", &file).expect("there is memory");
    let index = ParameterIndex::read(ArchiveFormat::Irpa, &contents).expect("reads");
    assert_eq!(index.iter().map(|one| one.key.as_str()).collect::<Vec<_>>(), ["w", "b", "state", "more"]);
}

#[test]
fn safetensors_headers_are_read() {
    let header = safetensors::header([("a\"b", "F32", &[2, 1][..], 8), ("c", "I8", &[], 1)]).expect("fits");
    assert!(header.len().is_multiple_of(8));
    let mut file = header.clone();
    file.write_all(&[1, 2, 3, 4, 5, 6, 7, 8, 9]).expect("there is memory");
    let contents = Contents::from_bytes("test", &file).expect("there is memory");
    let index = ParameterIndex::read(ArchiveFormat::Safetensors, &contents).expect("reads");
    assert_eq!(index.get("a\"b").map(bytes), Some(vec![1, 2, 3, 4, 5, 6, 7, 8]));
    assert_eq!(index.get("c").map(bytes), Some(vec![9]));
    assert!(safetensors::header([("a", "I8", &[][..], 1), ("a", "I8", &[], 1)]).is_err());
    assert!(safetensors::header([("__metadata__", "I8", &[][..], 1)]).is_err());
}

#[test]
fn data_types_name_element_types() {
    for ty in DATA_TYPES.iter().filter(|ty| !ty.element.is_empty()) {
        let element = ElementType::parse(ty.element).unwrap_or_else(|error| panic!("{}: {error}", ty.name));
        assert_eq!(u64::from(element.bit_count()), ty.bits, "{}", ty.name);
        assert_eq!(DataType::of_element(element).map(|ty| ty.name), Some(ty.name));
    }
    let name = |text| DataType::of_element(ElementType::parse(text).expect("is a type")).map(|ty| ty.name);
    assert_eq!((name("si64"), name("x32")), (Some("I64"), None));
}

#[test]
fn what_is_no_archive_is_refused() {
    let open = |name: &str| ParameterIndex::open(fixture(name), ContentsMode::Mmap).expect_err("is refused");
    assert_eq!(open("missing.irpa").code(), vireo::StatusCode::NotFound);
    assert_eq!(open("model.mlir").code(), vireo::StatusCode::Unimplemented);
    let folder = Contents::open(fixture(""), ContentsMode::File).expect_err("is a folder");
    assert!(folder.message().contains("not a file"), "{folder}");
}

#[test]
fn contents_are_bytes_of_others_and_files_that_are_open() {
    let owner = std::sync::Arc::new([7_u8; 100]);
    let data = std::ptr::NonNull::from(&owner[1]);
    // SAFETY: the owner has so many bytes after the first, to which nothing writes.
    let shared = unsafe { Contents::from_shared("shared", owner.clone(), data, 99) };
    let (place, _) = shared.in_place(9, 90).expect("they are in memory");
    assert_eq!((place.as_ptr().cast_const(), shared.len()), (&raw const owner[10], 99));
    assert!(shared.in_place(10, 90).is_none() && shared.in_place(u64::MAX, 1).is_none());
    assert_eq!(std::sync::Arc::strong_count(&owner), 2);
    drop(shared);
    assert_eq!(std::sync::Arc::strong_count(&owner), 1);
    let file = std::fs::File::open(fixture("weights.irpa")).expect("is there");
    let file = Contents::from_file("open", file, false).expect("is a file");
    assert_eq!((file.name(), file.in_place(0, 0).is_none()), ("open", true));
    assert_eq!(ParameterIndex::read(ArchiveFormat::Irpa, &file).expect("reads").len(), 3);
    let folder = std::fs::File::open(fixture("")).expect("is there");
    assert!(Contents::from_file("folder", folder, false).expect_err("is none").message().contains("not a file"));
}
