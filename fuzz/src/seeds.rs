//! The seeds of the targets, from `fixtures/`: module files and what is in them, parameter archives, arrays, texts of
//! the assembler; and pseudorandom bytes for the generator of programs.

use std::ffi::OsStr;
use std::fs;
use std::io::{Cursor, Write};
use std::path::{Path, PathBuf};

use fastrand::Rng;
use vireo::asm::disassemble;
use vireo::hal::ElementType;
use vireo::inference::HostTensor;
use vireo::inference::files::{CollectionFormat, write_collection, write_npy};
use vireo::io::{ArchiveFormat, Splat, irpa, safetensors};
use vireo::profile::Reader;
use vireo::vm::Module;
use vireo::vmfb::Archive;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use super::hosts;

/// An input that is in order, or nearly so.
pub struct Seed {
    /// Where it comes from; a name for a file.
    pub name: String,
    /// The input.
    pub bytes: Vec<u8>,
}

impl Seed {
    /// A seed whose first byte chooses how the rest is read.
    fn chosen(choice: usize, name: String, bytes: &[u8]) -> Seed {
        let choice = u8::try_from(choice).expect("there are few choices");
        Seed { name, bytes: [&[choice], bytes].concat() }
    }
}

/// The formats of parameter archives, by their number in inputs, with the extensions of their files.
pub(super) const ARCHIVES: [(ArchiveFormat, &str); 3] =
    [(ArchiveFormat::Irpa, "irpa"), (ArchiveFormat::Gguf, "gguf"), (ArchiveFormat::Safetensors, "safetensors")];

/// Parameter archives of all formats.
pub(super) fn archives() -> Vec<Seed> {
    let of_format = |(choice, (_, extension)): (usize, &(ArchiveFormat, &str))| {
        fixtures(extension).into_iter().map(move |seed| Seed::chosen(choice, seed.name, &seed.bytes))
    };
    let mut seeds: Vec<Seed> = ARCHIVES.iter().enumerate().flat_map(of_format).collect();
    let place = |wanted| ARCHIVES.iter().position(|(format, _)| *format == wanted).expect("it is a format");
    // Entries of both kinds, with metadata and without, and an archive after another one in the same file.
    let mut builder = irpa::Builder::with_default_alignment();
    let splat = Splat::new(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]).expect("16 bytes are a pattern");
    builder.splat("splat", b"meta", 32, splat).expect("16 divide 32");
    builder.data("first", b"", 3).expect("it is short");
    builder.data("second", b"data", 5).expect("it is short");
    let mut first = Vec::new();
    builder.write_header(&mut first).expect("memory does not end");
    first.resize(builder.file_length() as usize, 9);
    seeds.push(Seed::chosen(place(ArchiveFormat::Irpa), "both-kinds.irpa".into(), &first));
    let mut chain = first.clone();
    chain[16..24].copy_from_slice(&(first.len() as u64).to_le_bytes());
    seeds.push(Seed::chosen(place(ArchiveFormat::Irpa), "chain.irpa".into(), &[chain, first].concat()));
    let header =
        safetensors::header([("a\"b", "F32", &[2, 1][..], 8), ("empty", "BF16", &[0, 4], 0), ("c", "I8", &[], 1)]);
    let file = [&header.expect("the shapes are those of the lengths")[..], &[7; 9]].concat();
    seeds.push(Seed::chosen(place(ArchiveFormat::Safetensors), "shapes.safetensors".into(), &file));
    seeds
}

/// Texts of the assembler: those of `fixtures/`, modules as the disassembler writes them, and short ones, which one
/// wrong line does not end early.
pub(super) fn texts() -> Vec<Seed> {
    let mut seeds = fixtures("vmasm");
    for Seed { name, bytes } in modules() {
        let Ok(module) = Module::from_bytes(&bytes) else { continue };
        let archive = module.archive().expect("a module file");
        seeds.push(Seed { name, bytes: disassemble(archive, module.functions()).into_bytes() });
    }
    for (index, host) in hosts::HOSTS.iter().enumerate() {
        let module = Module::from_bytes(host).expect("fixtures are modules");
        let archive = module.archive().expect("a module file");
        let text = disassemble(archive, module.functions());
        seeds.push(Seed { name: format!("host-{index}"), bytes: text.into_bytes() });
    }
    seeds
}

/// Profiles: those that tests have, and the beginnings of each that are profiles of their own, since they were not
/// closed: of the header alone, with one record, and so on.
pub(super) fn profiles() -> Vec<Seed> {
    let mut seeds = fixtures("ireeprof");
    for index in 0..seeds.len() {
        let Seed { name, bytes } = &seeds[index];
        let (name, mut beginning) = (name.clone(), bytes.clone());
        // The length of the file is that of one that was not closed.
        beginning[16..24].fill(0);
        let mut reader = Reader::new("seed", Box::new(Cursor::new(bytes.clone()))).expect("fixtures are profiles");
        let mut records = 0;
        while let Some(record) = reader.next_record().expect("fixtures are whole") {
            let length = usize::try_from(record.offset).expect("fixtures are small");
            seeds.push(Seed { name: format!("{records}-records-of-{name}"), bytes: beginning[..length].to_vec() });
            records += 1;
        }
    }
    seeds
}

/// Captures of the reference's tools, and those that are written by hand.
pub(super) fn captures() -> Vec<Seed> {
    fixtures("ireereplay")
}

/// Arrays: of inputs of models, and one of each type of elements.
pub(super) fn arrays() -> Vec<Seed> {
    let mut seeds: Vec<Seed> = fixtures("npy")
        .into_iter()
        .filter(|seed| seed.bytes.len() < 1 << 10 && seed.name.starts_with("inputs-"))
        .collect();
    for (name, tensor) in tensors() {
        seeds.push(Seed { name: name.into(), bytes: write_npy(&tensor).expect("arrays have this type") });
    }
    // Arrays as other programs write them: a later version of the format, elements column by column, and a record.
    let header = |version: u8, text: &str, elements: &[u8]| {
        let length = u32::try_from(text.len()).expect("headers are short").to_le_bytes();
        let length = if version == 1 { &length[..2] } else { &length[..] };
        [b"\x93NUMPY", &[version, 0][..], length, text.as_bytes(), elements].concat()
    };
    for (name, version, text) in [
        ("columns", 1, "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }\n"),
        ("big-endian", 2, "{'descr': '>i8', 'fortran_order': False, 'shape': (3,), }\n"),
        ("utf-8", 3, "{'descr': '|b1', 'fortran_order': False, 'shape': (), }\n"),
        ("record", 1, "{'descr': [('a', '<i4'), ('b', '<f4', (2,))], 'fortran_order': False, 'shape': (2,), }\n"),
    ] {
        seeds.push(Seed { name: name.into(), bytes: header(version, text, &[1; 24]) });
    }
    seeds
}

/// Files with several tensors, of all formats, and an archive with compressed members.
pub(super) fn collections() -> Vec<Seed> {
    let tensors = tensors();
    let mut seeds = Vec::new();
    for (choice, (format, extension)) in CollectionFormat::ALL.into_iter().enumerate() {
        // Not every format has every type.
        let known = tensors.iter().filter(|(name, tensor)| write_collection(format, &[(name, tensor)]).is_ok());
        let known: Vec<(&str, &HostTensor<'_>)> = known.map(|(name, tensor)| (*name, tensor)).collect();
        let bytes = write_collection(format, &known).expect("each can be written");
        seeds.push(Seed::chosen(choice, format!("tensors{extension}"), &bytes));
    }
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, tensor) in &tensors {
        let options = SimpleFileOptions::default().compression_method(CompressionMethod::Deflated);
        zip.start_file(format!("{name}.npy"), options).expect("names differ");
        zip.write_all(&write_npy(tensor).expect("arrays have this type")).expect("memory does not end");
    }
    let bytes = zip.finish().expect("it is complete").into_inner();
    let place =
        |wanted| CollectionFormat::ALL.iter().position(|(format, _)| *format == wanted).expect("it is a format");
    seeds.push(Seed::chosen(place(CollectionFormat::Npz), "deflated.npz".into(), &bytes));
    let safetensors = place(CollectionFormat::Safetensors);
    seeds.extend(fixtures("safetensors").into_iter().map(|seed| Seed::chosen(safetensors, seed.name, &seed.bytes)));
    seeds
}

/// A small tensor of each of many types.
fn tensors() -> Vec<(&'static str, HostTensor<'static>)> {
    let types =
        ["i1", "si2", "si4", "ui4", "i8", "ui8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64", "complex<f32>"];
    let small = types.into_iter().filter_map(|name| {
        let element = ElementType::parse(name).ok()?;
        let count = 6 * usize::try_from(element.bit_count()).ok()? / 8;
        let bytes = vec![1; count.max(1)];
        Some((name, HostTensor::from_bytes(&[2, 3], element, bytes).ok()?))
    });
    small.filter(|(_, tensor)| write_npy(tensor).is_ok()).collect()
}

/// The libraries of kernels: those of `fixtures/elf`, and those in module files, for x86-64 and 64-bit Arm.
pub(super) fn libraries() -> Vec<Seed> {
    let is_library = |bytes: &[u8]| vireo::hal::local::elf::infer_format(bytes).is_ok();
    let mut seeds = fixtures("so");
    seeds.extend(inside(is_library));
    seeds.retain(|seed| is_library(&seed.bytes));
    seeds
}

/// The code of the modules that the target `function` puts inputs into.
pub(super) fn functions() -> Vec<Seed> {
    let code = |(index, host): (usize, &Vec<u8>)| {
        let archive = Archive::from_bytes(host).expect("the assembler writes modules");
        Seed::chosen(index, index.to_string(), archive.bytecode())
    };
    hosts::HOSTS.iter().enumerate().map(code).collect()
}

/// The executables in portable bytecode of module files.
pub(super) fn kernels() -> Vec<Seed> {
    inside(|bytes| Archive::from_bytes(bytes).is_ok())
}

/// Module files. Of older releases there is one for each way in which functions are written.
pub(super) fn modules() -> Vec<Seed> {
    fixtures("vmfb")
        .into_iter()
        .filter(|seed| !SAME_AS_OTHERS.iter().any(|folder| seed.name.starts_with(folder)))
        .collect()
}

/// Folders of releases whose files differ little from those of others: see `fixtures/old/README.md`.
const SAME_AS_OTHERS: [&str; 7] = ["3.3-", "3.5-", "3.8-", "3.9-", "3.11-", "3.12-", "3.13-"];

/// Decisions of the generator of programs.
pub(super) fn programs() -> Vec<Seed> {
    let random = &mut Rng::with_seed(0);
    let bytes = |length: usize| Seed {
        name: length.to_string(),
        bytes: std::iter::repeat_with(|| random.u8(..)).take(length).collect(),
    };
    (64..=2048).step_by(64).map(bytes).collect()
}

/// The parts of module files that are of this kind.
pub(super) fn inside(is_one: impl Fn(&[u8]) -> bool) -> Vec<Seed> {
    let mut seeds = Vec::new();
    for Seed { name, bytes } in modules() {
        let Ok(archive) = Archive::from_bytes(&bytes) else { continue };
        for segment in archive.rodata() {
            let part = archive.bytes().get(segment.range.clone()).filter(|part| is_one(part));
            if let Some(part) = part {
                seeds.push(Seed { name: format!("{name}-{}", segment.range.start), bytes: part.to_vec() });
            }
        }
    }
    seeds
}

/// The files of `fixtures/` with this extension, by path. Names have the folder, since files of one name are in
/// several.
pub(super) fn fixtures(extension: &str) -> Vec<Seed> {
    let mut paths = Vec::new();
    collect(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures"), OsStr::new(extension), &mut paths);
    paths.sort();
    let seed = |path: &PathBuf| {
        let parts: Vec<_> = path.iter().map(OsStr::to_string_lossy).collect();
        let name = parts[parts.len().saturating_sub(2)..].join("-");
        Seed { name, bytes: fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())) }
    };
    paths.iter().map(seed).collect()
}

fn collect(folder: &Path, extension: &OsStr, paths: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    for path in entries.map(|entry| entry.expect("the folder can be read").path()) {
        if path.is_dir() {
            collect(&path, extension, paths);
        } else if path.extension() == Some(extension) {
            paths.push(path);
        }
    }
}
