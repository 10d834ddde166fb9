//! Damaged and hostile archives are refused with the place, or hold nothing that is outside of the file.

use vireo::io::{ArchiveFormat, Contents, ParameterIndex, ParameterStorage};
use vireo::{Result, StatusCode};

use super::fixture;

fn read(format: ArchiveFormat, bytes: &[u8]) -> Result<ParameterIndex> {
    ParameterIndex::read(format, &Contents::from_bytes("x", bytes)?)
}

/// Refused with a message that has all of these parts.
fn refused(format: ArchiveFormat, bytes: &[u8], parts: &[&str]) {
    let status = read(format, bytes).expect_err(parts[0]);
    for part in parts {
        assert!(status.message().contains(part), "expected `{part}` in: {status}");
    }
    assert!(status.message().starts_with("x: "), "the message names the file: {status}");
}

fn load(name: &str) -> Vec<u8> {
    std::fs::read(fixture(name)).expect("the fixture exists")
}

/// The archive of the fixture with 64-bit words at these offsets.
fn irpa(words: &[(usize, u64)]) -> Vec<u8> {
    let mut file = load("weights.irpa");
    for (offset, word) in words {
        file[*offset..][..8].copy_from_slice(&word.to_le_bytes());
    }
    file
}

#[test]
fn irpa_headers() {
    let check = |words: &[(usize, u64)], parts: &[&str]| refused(ArchiveFormat::Irpa, &irpa(words), parts);
    refused(ArchiveFormat::Irpa, b"", &["at 0x0", "expected a header of 32 bytes"]);
    refused(ArchiveFormat::Irpa, &load("weights.irpa")[..40], &["at 0x0", "the rest of the header"]);
    refused(
        ArchiveFormat::Irpa,
        &load("weights.irpa")[..400],
        &["at 0x0", "the storage has 80 bytes", "ends at 0x190"],
    );
    refused(ArchiveFormat::Irpa, &load("weights.gguf"), &["expected an archive with \"IRPA\", found \"GGUF\""]);
    check(&[(8, 89)], &["the header has 89 bytes: expected 88"]);
    check(&[(16, u64::MAX)], &["the next header"]);
    check(&[(16, 1 << 20)], &["the next header", "the file ends at 0x1000"]);
    check(&[(16, 8)], &["at 0x8", "expected an archive"]);
    check(&[(32, u64::MAX)], &["18446744073709551615 entries cannot be in a table of"]);
    check(&[(32, 5)], &["entries cannot be in a table"]);
    check(&[(32, 4)], &["entry 3 of 4 does not fit"]);
    check(&[(40, u64::MAX - 8)], &["the table of entries has"]);
    check(&[(48, u64::MAX)], &["the table of entries has 18446744073709551615 bytes at 0x60"]);
    check(&[(64, 1 << 40)], &["the metadata has 1099511627776 bytes"]);
    check(&[(72, 4090)], &["the storage has"]);
    check(&[(80, u64::MAX - 384 + 1)], &["the storage has"]);
    let mut version = load("weights.irpa");
    version[4] = 1;
    assert_eq!(read(ArchiveFormat::Irpa, &version).expect_err("is too new").code(), StatusCode::Unimplemented);
    // A header that links to itself would never end.
    let mut cycle = load("weights.irpa");
    cycle[16..24].copy_from_slice(&16_u64.to_le_bytes());
    refused(ArchiveFormat::Irpa, &cycle, &["at 0x10"]);
}

#[test]
fn irpa_entries() {
    let check = |words: &[(usize, u64)], parts: &[&str]| refused(ArchiveFormat::Irpa, &irpa(words), parts);
    // The first entry begins at 96, its name's range at 116, its storage at 156; the others follow at 176 and 256.
    check(&[(96, 0)], &["at 0x60: entry 0 of 3 does not fit"]);
    check(&[(96, u64::MAX)], &["entry 0 of 3 does not fit"]);
    check(&[(96, 60)], &["at 0x60: the entry of `w` has 60 bytes: expected 76"]);
    check(&[(116, u64::MAX)], &["the name of entry 0 has 1 byte at 0xffffffffffffffff of the metadata"]);
    check(&[(124, u64::MAX)], &["names and metadata of 18446744073709551615 bytes share"]);
    check(&[(124, 100)], &["the name of entry 0 has 100 bytes at 0x0 of the metadata"]);
    check(&[(140, 100)], &["the metadata of `w` has 100 bytes"]);
    check(&[(148, 3)], &["`w` is to be aligned to 3"]);
    check(&[(156, u64::MAX)], &["`w` has 64 bytes at 0xffffffffffffffff of the storage, which has 80 bytes"]);
    check(&[(164, 81)], &["`w` has 81 bytes at 0x0 of the storage, which has 80 bytes"]);
    check(&[(164, 68)], &["the contents of `b`", "overlap the contents of `w`"]);
    check(&[(72, 96), (80, 400)], &["overlap"]);
    let change = |offset: usize, byte: u8| {
        let mut file = load("weights.irpa");
        file[offset] = byte;
        file
    };
    refused(ArchiveFormat::Irpa, &change(104, 9), &["at 0x60: entry 0 has the unknown type 9"]);
    refused(ArchiveFormat::Irpa, &change(104, 3), &["`w` is in another file"]);
    let names = 96 + 244 + 1;
    let name =
        (names - 16..names + 64).find(|at| load("weights.irpa")[*at..].starts_with(b"wbstate")).expect("has names");
    refused(ArchiveFormat::Irpa, &change(name, 0xFF), &["the name of entry 0, \"\\xff\", is not UTF-8"]);
    refused(ArchiveFormat::Irpa, &change(name, b'b'), &["there are two parameters `b`"]);
    // The last entry is a pattern of four bytes over sixteen.
    let splat = 256 + 60;
    refused(ArchiveFormat::Irpa, &change(splat, 15), &["`state` repeats a pattern of 4 bytes over 15 bytes"]);
    refused(ArchiveFormat::Irpa, &change(splat + 24, 3), &["repeats a pattern of 3 bytes"]);
    refused(ArchiveFormat::Irpa, &change(splat + 24, 17), &["repeats a pattern of 17 bytes"]);
    refused(ArchiveFormat::Irpa, &change(splat + 24, 0), &["repeats a pattern of 0 bytes"]);
}

/// A safetensors file with a JSON text and so many bytes after it.
fn tensors(json: &str, bytes: usize) -> Vec<u8> {
    let mut file = (json.len() as u64).to_le_bytes().to_vec();
    file.extend(json.as_bytes());
    file.resize(file.len() + bytes, 0);
    file
}

#[test]
fn safetensors() {
    let check = |json: &str, parts: &[&str]| refused(ArchiveFormat::Safetensors, &tensors(json, 16), parts);
    refused(ArchiveFormat::Safetensors, b"1234567", &["the file has 7 bytes"]);
    refused(ArchiveFormat::Safetensors, &u64::MAX.to_le_bytes(), &["a header of 18446744073709551615 bytes"]);
    check("[]", &["at 0x8", "malformed", "an object with a member for each tensor"]);
    check("{", &["at 0x8", "malformed"]);
    check(r#"{"a": 1}"#, &["malformed"]);
    check(r#"{"a": {"dtype": "I8", "shape": [1]}}"#, &["missing field `data_offsets`"]);
    check(r#"{"a": {"dtype": "I8", "shape": [-1], "data_offsets": [0, 1]}}"#, &["malformed"]);
    check(
        r#"{"a": {"dtype": "I8", "shape": [17], "data_offsets": [0, 17]}}"#,
        &["`a` is at 0..17 of the contents, which have 16"],
    );
    check(r#"{"a": {"dtype": "I8", "shape": [0], "data_offsets": [2, 1]}}"#, &["`a` is at 2..1"]);
    check(r#"{"a": {"dtype": "I8", "shape": [1], "data_offsets": [0, 18446744073709551616]}}"#, &["malformed"]);
    check(
        r#"{"a": {"dtype": "F32", "shape": [3], "data_offsets": [0, 8]}}"#,
        &["`a` has 8 bytes of contents", "F32", "[3]"],
    );
    check(
        r#"{"a": {"dtype": "F32", "shape": [9223372036854775807, 9223372036854775807], "data_offsets": [0, 8]}}"#,
        &["`a` has 8"],
    );
    check(
        r#"{"a": {"dtype": "I8", "shape": [8], "data_offsets": [0, 8]}, "b": {"dtype": "I8", "shape": [8], "data_offsets": [4, 12]}}"#,
        &["the contents of `b`", "overlap the contents of `a`"],
    );
    check(
        r#"{"a": {"dtype": "I8", "shape": [1], "data_offsets": [0, 1]}, "a": {"dtype": "I8", "shape": [1], "data_offsets": [1, 2]}}"#,
        &["two parameters `a`"],
    );
    let deep = format!("{{\"a\": {}}}", "[".repeat(100_000));
    refused(ArchiveFormat::Safetensors, &tensors(&deep, 0), &["malformed"]);
    let mut text = tensors("{\"x\": 1}", 0);
    text[10] = 0xFF;
    refused(ArchiveFormat::Safetensors, &text, &["at 0xa", "not UTF-8"]);
}

#[test]
fn gguf() {
    let file = load("weights.gguf");
    let at =
        |text: &str| file.windows(text.len()).position(|part| part == text.as_bytes()).expect("is there") + text.len();
    let check = |changes: &[(usize, &[u8])], parts: &[&str]| {
        let mut file = file.clone();
        for (offset, bytes) in changes {
            file[*offset..][..bytes.len()].copy_from_slice(bytes);
        }
        refused(ArchiveFormat::Gguf, &file, parts);
    };
    let max = &u64::MAX.to_le_bytes()[..];
    refused(ArchiveFormat::Gguf, &file[..20], &["at 0x0", "inside of the header"]);
    refused(ArchiveFormat::Gguf, &file[..260], &["the file ends at 0x104"]);
    check(&[(0, b"GGML")], &["expected a file with \"GGUF\", found \"GGML\""]);
    check(&[(8, max)], &["18446744073709551615 tensors cannot be in"]);
    check(&[(16, max)], &["18446744073709551615 pairs of metadata cannot be in"]);
    check(&[(24, max)], &["at 0x20: a key has 18446744073709551615 bytes"]);
    check(&[(32, b"\xFF")], &["a key, \"\\xff"]);
    check(&[(at("general.name"), &[13])], &["the value of `general.name` has the unknown type 13"]);
    check(&[(at("general.alignment"), &[5])], &["`general.alignment` is of type 5"]);
    check(&[(at("general.alignment") + 4, &[48])], &["`general.alignment` is 48: expected a power of two"]);
    check(&[(at("general.alignment") + 4, &[0])], &["`general.alignment` is 0"]);
    check(&[(at("tokens") + 8, max)], &["18446744073709551615 strings cannot be in"]);
    check(&[(at("scores") + 8, max)], &["the value of `scores` has 18446744073709551615 bytes"]);
    check(&[(at("scores") + 4, &[9])], &["arrays of arrays"]);
    let b = at("\u{1}\0\0\0\0\0\0\0b");
    check(&[(b, &[5])], &["`b` has 5 dimensions"]);
    check(&[(b + 4, max)], &["`b` has the shape [18446744073709551615]"]);
    check(&[(b + 12, &[2])], &["`b` has the shape [4]: expected a number of elements that is a multiple of 32 (Q4_0)"]);
    check(&[(b + 12, &[99])], &["`b` has elements of type 99"]);
    check(&[(b + 16, &[65])], &["`b` begins at 0x41, which is no multiple of 64"]);
    check(&[(b + 16, &[0])], &["the contents of `w`", "overlap the contents of `b`"]);
    check(&[(b + 16, &[0, 0, 0, 0, 0, 0, 0, 0x80])], &["`b` has 16 bytes at 0x8000000000000000"]);
    check(&[(4, &[1])], &["GGUF version 1"]);
}

/// A sequence of numbers that is the same each time.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// Reads of a damaged archive stay inside of it.
fn exercise(format: ArchiveFormat, bytes: &[u8]) -> bool {
    let Ok(index) = read(format, bytes) else { return false };
    let mut total = 0;
    for parameter in &index {
        total += parameter.key.len() + parameter.metadata.len();
        if let ParameterStorage::Stored { offset, .. } = &parameter.storage {
            let end = offset.checked_add(parameter.length).expect("does not wrap");
            assert!(end <= bytes.len() as u64, "`{}` ends at {end}", parameter.key);
        }
    }
    // Names are not multiplied.
    assert!(total <= (bytes.len() * 16).max(1 << 16));
    true
}

#[test]
fn mutations_are_survived() {
    const EDGES: [u64; 10] = [0, 1, 7, 8, 63, 64, 1 << 31, 1 << 62, u64::MAX - 1, u64::MAX];
    let archives = [
        (ArchiveFormat::Irpa, "weights.irpa", 512),
        (ArchiveFormat::Gguf, "weights.gguf", 320),
        (ArchiveFormat::Safetensors, "weights.safetensors", 240),
    ];
    for (format, name, tables) in archives {
        let original = load(name);
        let mut numbers = Numbers(0x9E37_79B9_7F4A_7C15);
        let mut accepted = 0;
        for round in 0..20_000 {
            let mut bytes = original.clone();
            for _ in 0..=numbers.next() % 3 {
                let at = (numbers.next() % tables) as usize;
                match numbers.next() % 4 {
                    0 => bytes[at] = numbers.next() as u8,
                    1 => bytes[at] ^= 1 << (numbers.next() % 8),
                    2 => {
                        let word = EDGES[(numbers.next() % EDGES.len() as u64) as usize].to_le_bytes();
                        let end = (at + 8).min(bytes.len());
                        bytes[at..end].copy_from_slice(&word[..end - at]);
                    }
                    _ => bytes.truncate(at + (numbers.next() as usize) % bytes.len()),
                }
                if bytes.len() <= tables as usize {
                    break;
                }
            }
            accepted += u32::from(exercise(format, &bytes));
            assert!(round != 100 || accepted < 100, "{name}: nothing is refused");
        }
        assert!(accepted > 0, "{name}: everything is refused");
    }
}
