//! Captures against recorded dumps of `iree-dump-replay`, every layout of the format, damaged captures and mutants.
//! `fixtures/replay/README.md` says where the captures come from.

#[path = "../../tests/support/mutants.rs"]
mod mutants;

use std::fmt::Write as _;
use std::io::Cursor;
use std::path::{Path, PathBuf};

use mutants::Mutants;
use vireo_replay::payloads::RecordHeader;
use vireo_replay::{CaptureWriter, DumpFormat, LAYOUTS, Operation, PAYLOADS, Reader, Replay, dump, operations};

/// The captures of the folder, without endings.
const CAPTURES: [&str; 3] = ["abs", "parameters", "payloads"];

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/replay").join(name)
}

fn capture(name: &str) -> Vec<u8> {
    std::fs::read(path(&format!("{name}.ireereplay"))).expect("the capture exists")
}

fn reader(bytes: &[u8]) -> Result<Reader, String> {
    Reader::new("file", Box::new(Cursor::new(bytes.to_vec()))).map_err(|error| error.to_string())
}

/// The dump, or the error.
fn dumped(bytes: &[u8], format: DumpFormat) -> Result<String, String> {
    let mut out = Vec::new();
    dump(&mut reader(bytes)?, format, &mut out).map_err(|error| error.to_string())?;
    Ok(String::from_utf8(out).expect("dumps are text"))
}

#[test]
fn dumps_equal_those_of_the_reference_tool() {
    for name in CAPTURES {
        for (format, ending) in [(DumpFormat::Text, "txt"), (DumpFormat::Jsonl, "jsonl")] {
            let expected = std::fs::read_to_string(path(&format!("{name}.{ending}"))).expect("the dump exists");
            assert_eq!(dumped(&capture(name), format).as_deref(), Ok(expected.as_str()), "{name}.{ending}");
        }
    }
}

#[test]
fn records_are_written_as_they_were() {
    for name in CAPTURES {
        let original = capture(name);
        let mut reader = reader(&original).expect("it is a capture");
        let mut writer = CaptureWriter::new(Cursor::new(Vec::new())).expect("memory can be written");
        // Writers of the reference leave anything in padding.
        let mut expected = original.clone();
        while let Some(record) = reader.next_record().expect("it is whole") {
            let payload = reader.payload(&record, u64::MAX).expect("it is whole");
            writer.record(&record.header, &payload).expect("memory can be written");
            expected[record.offset as usize + 84..][..4].fill(0);
        }
        let written = writer.finish().expect("memory can be written").into_inner();
        assert!(written == expected, "{name}");
    }
}

/// A value of every layout: all bytes differ, counts are 2, and what must be zero is.
fn values() -> impl Iterator<Item = (&'static str, Vec<u8>)> {
    LAYOUTS.iter().map(|layout| {
        let mut bytes: Vec<u8> = (0..layout.size).map(|index| (index * 7 + 1) as u8).collect();
        for (start, end) in layout.zeros {
            bytes[*start..*end].fill(0);
        }
        for (_, offset, size, _) in layout.parts {
            bytes[*offset..offset + size].fill(0);
            bytes[*offset] = 2;
        }
        let parts: usize = layout.parts.iter().map(|(.., element)| 2 * element).sum();
        bytes.extend((0..parts).map(|index| (index * 5 + 3) as u8));
        (layout.name, bytes)
    })
}

#[test]
fn every_layout_is_read_and_written_again() {
    for ((name, mut bytes), layout) in values().zip(LAYOUTS) {
        let again = (layout.rewrite)(&bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
        // Elements may have fields that must be zero in their padding; those are written as zeros.
        bytes.truncate(layout.size);
        assert_eq!(again[..layout.size], bytes, "{name}");
        if !layout.parts.is_empty() {
            let mut long = again.clone();
            long.push(0);
            assert!((layout.rewrite)(&long).is_err(), "{name}: a byte more");
            assert!((layout.rewrite)(&again[..again.len() - 1]).is_err(), "{name}: a byte less");
        }
    }
}

/// A capture with each payload. It cannot be replayed.
fn every_payload() -> Vec<u8> {
    let mut writer = CaptureWriter::new(Cursor::new(Vec::new())).expect("memory can be written");
    let record = |record_type, payload_type, operation_code| RecordHeader {
        record_type,
        payload_type,
        operation_code,
        device_id: 1,
        object_id: 2,
        ..RecordHeader::default()
    };
    writer.record(&record(1, 0, 0), &[]).expect("memory can be written");
    for (code, name) in PAYLOADS {
        let index = LAYOUTS.iter().position(|layout| layout.name == *name).expect("a payload is a layout");
        let (_, mut bytes) = values().nth(index).expect("a layout has a value");
        match *name {
            "replay_scope" => {
                bytes[8..12].fill(0);
                bytes[24..].copy_from_slice(b"ab");
            }
            // Without metadata, which has a layout of its own.
            "executable_prepare" => {
                bytes[32] = 0;
                bytes.truncate(bytes.len() - 2);
            }
            _ => {}
        }
        let operation = operations::OPERATIONS.iter().find(|operation| operation.payload == *code);
        writer
            .record(&record(3, *code, operation.map_or(1, |operation| operation.code)), &bytes)
            .expect("it is memory");
    }
    writer.finish().expect("memory can be written").into_inner()
}

/// `VIREO_BLESS=1` writes the capture; `fixtures/replay/rebuild.sh` records its dumps.
#[test]
fn a_capture_has_every_payload() {
    if std::env::var_os("VIREO_BLESS").is_some() {
        std::fs::write(path("payloads.ireereplay"), every_payload()).expect("the folder can be written");
    }
    assert!(capture("payloads") == every_payload());
}

#[test]
fn operations_are_found_by_their_numbers() {
    for operation in operations::OPERATIONS {
        assert_eq!(Operation::find(operation.code), Some(operation));
        assert!(operation.payload == 0 || PAYLOADS.iter().any(|(code, _)| *code == operation.payload));
    }
    assert_eq!(
        Operation::find(operations::operation::DEVICE_QUEUE_FILL).map(|found| found.name),
        Some("device.queue_fill")
    );
    assert_eq!(Operation::find(0), None);
    let refused = operations::OPERATIONS.iter().filter(|operation| operation.replay == Replay::Refuse);
    assert!(refused.map(|operation| operation.payload).all(|payload| payload == 0));
    assert!(operations::UNRECORDED.iter().any(|(method, _)| *method == "semaphore.signal"));
}

/// Each damage is refused with the place and what was expected.
#[test]
fn damages_are_told_with_their_places() {
    type Damage = (&'static str, fn(&mut Vec<u8>));
    let damages: [Damage; 16] = [
        ("empty", |bytes| bytes.clear()),
        ("magic", |bytes| bytes[0] = 0),
        ("version", |bytes| bytes[4] = 3),
        ("header length", |bytes| bytes[8] = 23),
        ("flags", |bytes| bytes[12] = 1),
        ("file length", |bytes| bytes[18] = 1),
        ("torn header", |bytes| {
            bytes.truncate(100);
            bytes[16..24].fill(0);
        }),
        ("record length", |bytes| bytes[24 + 3] = 1),
        ("payload length", |bytes| bytes[24 + 8] = 1),
        ("ordinal", |bytes| bytes[24 + 16] = 1),
        ("record header length", |bytes| bytes[24 + 56] = 95),
        ("record type", |bytes| bytes[24 + 60] = 6),
        ("record flags", |bytes| bytes[24 + 62] = 2),
        ("reserved", |bytes| bytes[24 + 80] = 1),
        ("scope without a name", |bytes| bytes[120 + 96] = 0),
        ("scope with flags", |bytes| bytes[120 + 96 + 12] = 1),
    ];
    let mut told = String::new();
    for (name, damage) in damages {
        let mut bytes = capture("abs");
        damage(&mut bytes);
        let error = dumped(&bytes, DumpFormat::Text).expect_err(name);
        assert_eq!(dumped(&bytes, DumpFormat::Jsonl).expect_err(name), error);
        let _ = writeln!(told, "{name}: {error}");
    }
    let expected = "\
empty: file: byte 0: the file ends after 0 bytes: expected 24
magic: file: byte 0: the file begins with 0x50525200: expected 0x50525249 of a capture
version: file: byte 4: the version is 3: expected 2
header length: file: byte 8: the header has 23 bytes: expected 24 to 8859
flags: file: byte 12: the flags are 0x1: expected 0
file length: file: byte 16: the length is 74395: expected 24 to 8859, or 0 of a file in use
torn header: file: byte 24: 76 bytes are left: expected the 96 of a record
record length: file: byte 24: the record has 16777312 bytes: expected at most 8835
payload length: file: byte 32: the payload has 1 bytes: expected 0
ordinal: file: byte 40: the record is number 1: expected 0
record header length: file: byte 80: the header of the record has 95 bytes: expected 96 to 96
record type: file: byte 84: the type of the record is 6: expected 1 to 5
record flags: file: byte 86: the flags of the record are 0x2: expected 0 or 1
reserved: file: byte 104: a reserved field of the record is not 0: expected zeros
scope without a name: file: byte 216: `replay_scope` has 28 bytes: expected 24 by its counts
scope with flags: file: byte 216: a reserved field of `replay_scope` is not 0: expected zeros
";
    assert_eq!(told, expected);
}

/// A cut between records, of a file that says that it is in use, is a shorter capture.
#[test]
fn a_file_in_use_ends_with_its_last_record() {
    let mut bytes = capture("abs");
    bytes.truncate(244);
    bytes[16..24].fill(0);
    let text = dumped(&bytes, DumpFormat::Text).expect("it is whole");
    assert!(text.starts_with("IREE HAL replay v2.0\nfile_length: 244\n"), "{text}");
}

#[test]
fn mutants_are_read_or_refused() {
    let mut mutants = Mutants::new(0x2545_f491_4f6c_dd1d);
    let captures = CAPTURES.map(capture);
    let (mut read, mut refused) = (0, 0);
    for turn in 0..3000 {
        let bytes = mutants.of(&captures[turn % captures.len()]);
        for format in [DumpFormat::Text, DumpFormat::Jsonl] {
            match dumped(&bytes, format) {
                Ok(_) => read += 1,
                Err(_) => refused += 1,
            }
        }
    }
    assert!(read > 500 && refused > 500, "{read} read, {refused} refused");
}
