//! Edits of captures: copies with fewer records, in another order, and without what is private or elsewhere.

#[path = "support/builder.rs"]
mod builder;
#[path = "support/captures.rs"]
mod captures;
#[path = "support/draw.rs"]
mod draw;

use std::io::Cursor;

use builder::{Builder, point};
use captures::{capture, devices, open, plan_of, reads_of};
use draw::Draw;
use vireo::hal::buffer_to_vec;
use vireo::{Result, StatusCode};
use vireo_replay::format::FileReferenceType;
use vireo_replay::payloads::FileObject;
use vireo_replay::{EditOptions, Edited, Examined, Expected, FileAccess, Outputs, Plan, ReplayOptions, Summary, edit};

/// A copy of a capture.
fn edited(bytes: &[u8], options: &EditOptions) -> Result<(Edited, Vec<u8>)> {
    let mut out = Cursor::new(Vec::new());
    let edited = edit(&mut open(bytes), options, None, &mut out)?;
    Ok((edited, out.into_inner()))
}

/// The captures that can be replayed here.
fn fixtures() -> Vec<&'static str> {
    let mut all = vec!["runs/chain", "runs/softmax", "runs/calls_bytecode"];
    if cfg!(target_arch = "x86_64") {
        all.extend([
            "abs",
            "parameters",
            "runs/fences",
            "runs/layernorm",
            "runs/two_devices",
            "runs/calls",
            "runs/waits",
        ]);
    }
    all
}

/// The first `length` bytes of a buffer at the end of a replay.
fn buffer_after(plan: &Plan, id: u64, length: u64, serial: bool) -> Vec<u8> {
    let options = ReplayOptions { serial, keep_buffers: true, ..ReplayOptions::default() };
    let devices = devices(&["local-sync"]);
    let replayed = plan.run(&devices, &options, &mut ()).expect("it is replayed");
    buffer_to_vec(&*replayed.buffer(id).expect("the buffer was made"), length).expect("it can be mapped")
}

/// Fills that wait for each other, recorded in an order that was drawn: they end as if in the order of their waits, and
/// an ordered copy can be replayed serially.
#[test]
fn submissions_are_put_in_an_order_that_needs_no_later_one() {
    let (mut draw, mut moved) = (Draw(5), 0);
    for turn in 0..60 {
        let count = 1 + draw.below(12);
        let mut fills: Vec<(u64, (u64, u64), u8)> = (0..count)
            .map(|value| {
                let offset = draw.below(64);
                (value + 1, (offset, 1 + draw.below(64 - offset)), draw.next() as u8)
            })
            .collect();
        let mut expected = vec![0; 64];
        for (_, (offset, length), byte) in &fills {
            expected[*offset as usize..(offset + length) as usize].fill(*byte);
        }
        for index in (1..fills.len()).rev() {
            fills.swap(index, draw.below(index as u64 + 1) as usize);
        }
        let mut capture = Builder::new();
        capture.allocate(4);
        capture.fill_with(4, (0, 64), &[], &[point(1)], 0);
        for (value, range, byte) in &fills {
            capture.fill_with(4, *range, &[point(*value)], &[point(value + 1)], *byte);
        }
        let bytes = capture.finish();
        let plan = plan_of(&bytes).expect("it can be replayed");
        let is_in_order = fills.iter().map(|(value, ..)| *value).eq(1..=count);
        assert_eq!(plan.blocks_serial_replay().expect("it is whole").is_none(), is_in_order, "{turn}");
        assert_eq!(buffer_after(&plan, 4, 64, false), expected, "{turn}");
        let (edited, copy) =
            edited(&bytes, &EditOptions { order: true, ..EditOptions::default() }).expect("it has one");
        let plan = plan_of(&copy).expect("it can be replayed");
        assert_eq!(plan.blocks_serial_replay().expect("it is whole"), None, "{turn}");
        assert_eq!(buffer_after(&plan, 4, 64, true), expected, "{turn}");
        assert_eq!(edited.moved > 0, !is_in_order, "{turn}");
        assert_eq!((edited.left_out, edited.barriers), (0, 0), "{turn}");
        moved += edited.moved;
    }
    assert!(moved > 60, "{moved}");
}

/// A buffer that is there late, and a fill that uses it, which is recorded before.
#[test]
fn what_uses_a_late_buffer_comes_after_it() {
    let mut capture = Builder::new();
    capture.alloca_at(4, &[point(2)], &[point(3)]);
    capture.fill_with(4, (0, 64), &[point(3)], &[point(4)], 9);
    capture.barrier(&[], &[point(2)]);
    let bytes = capture.finish();
    let (_, copy) = edited(&bytes, &EditOptions { order: true, ..EditOptions::default() }).expect("it has an order");
    let plan = plan_of(&copy).expect("it can be replayed");
    assert_eq!(plan.blocks_serial_replay().expect("it is whole"), None);
    assert_eq!(buffer_after(&plan, 4, 64, true), [9; 64]);
    let mut capture = Builder::new();
    capture.fill_with(4, (0, 0), &[], &[], 9);
    let refused = edited(&capture.finish(), &EditOptions { order: true, ..EditOptions::default() });
    assert_eq!(refused.expect_err("there is no buffer").code(), StatusCode::FailedPrecondition);
}

/// Captures in an order already stay as they are, byte for byte but for padding.
#[test]
fn captures_in_order_stay_as_they_are() {
    for name in fixtures().into_iter().filter(|name| *name != "runs/waits") {
        let bytes = capture(name);
        let (_, plain) = edited(&bytes, &EditOptions::default()).expect("it can be read");
        let ordered = edited(&bytes, &EditOptions { order: true, ..EditOptions::default() }).expect("it can be read");
        assert!(plain == ordered.1, "{name}");
        assert_eq!(plain.len(), bytes.len(), "{name}");
        assert_eq!((ordered.0.moved, ordered.0.left_out), (0, 0), "{name}");
    }
}

/// Reads of the host, alone with the records that they need: the bytes are those of the whole capture.
#[test]
fn what_a_read_needs_is_kept() {
    for name in fixtures() {
        let bytes = capture(name);
        let plan = plan_of(&bytes).expect("it can be replayed");
        let all = reads_of(&plan, &ReplayOptions::default()).expect("it is replayed");
        for (record, expected) in all {
            let keep = Some(record.to_string().parse().expect("a number"));
            let (edited, copy) = edited(&bytes, &EditOptions { keep, ..EditOptions::default() }).expect("it is there");
            let plan = plan_of(&copy).unwrap_or_else(|status| panic!("{name}, {record}: {status}"));
            let reads = reads_of(&plan, &ReplayOptions::default());
            let reads = reads.unwrap_or_else(|status| panic!("{name}, {record}: {status}"));
            assert_eq!(reads.iter().map(|(_, bytes)| bytes).collect::<Vec<_>>(), [&expected], "{name}, {record}");
            assert!(edited.left_out > 0, "{name}, {record}");
            assert_eq!(plan.blocks_serial_replay().expect("it is whole"), None, "{name}, {record}");
        }
    }
}

/// Any records may be left out: what is left is a capture that can be planned.
#[test]
fn records_that_were_drawn_are_left_out() {
    let mut draw = Draw(7);
    for name in fixtures() {
        let bytes = capture(name);
        let count = Summary::read(&mut open(&bytes)).expect("it is whole").records;
        for turn in 0..40 {
            let first = draw.below(count);
            let most = draw.below(count - first);
            let last = first + draw.below(1 + most);
            let ranges = Some(format!("{first}-{last}").parse().expect("a range"));
            let (keep, drop) = if draw.below(2) == 0 { (ranges, None) } else { (None, ranges) };
            let options = EditOptions { keep, drop, ..EditOptions::default() };
            let (_, copy) = edited(&bytes, &options).unwrap_or_else(|status| panic!("{name}, {turn}: {status}"));
            let plan = plan_of(&copy).unwrap_or_else(|status| panic!("{name}, {turn}, {options:?}: {status}"));
            assert_eq!(plan.blocks_serial_replay().expect("it is whole"), None, "{name}, {turn}");
        }
        let beyond = Some(count.to_string().parse().expect("a number"));
        let refused = edited(&bytes, &EditOptions { drop: beyond, ..EditOptions::default() });
        assert_eq!(refused.expect_err("it is not there").code(), StatusCode::NotFound, "{name}");
    }
}

/// A submission that is left out, and that others wait for.
#[test]
fn barriers_signal_what_was_left_out() {
    let mut capture = Builder::new();
    capture.allocate(4);
    capture.fill_with(4, (0, 64), &[], &[point(1)], 1);
    capture.fill_with(4, (0, 32), &[point(1)], &[point(2)], 2);
    capture.fill_with(4, (0, 16), &[point(2)], &[point(3)], 3);
    let bytes = capture.finish();
    let second = "5".parse().expect("a number");
    let (edited, copy) =
        edited(&bytes, &EditOptions { drop: Some(second), ..EditOptions::default() }).expect("it is there");
    assert_eq!((edited.left_out, edited.barriers), (1, 1));
    let plan = plan_of(&copy).expect("it can be replayed");
    let mut expected = vec![1; 64];
    expected[..16].fill(3);
    assert_eq!(buffer_after(&plan, 4, 64, true), expected);
}

/// Nothing that the host gave is in the copy; it is still a capture that can be replayed.
#[test]
fn private_data_is_removed() {
    for name in fixtures() {
        let bytes = capture(name);
        // With expected outputs, which are data, too.
        let mut outputs = Outputs::default();
        let plan = plan_of(&bytes).expect("it can be replayed");
        let names = vec!["local-sync"; plan.device_count()];
        plan.run(&devices(&names), &ReplayOptions::default(), &mut outputs).expect("it is replayed");
        let mut noted = Cursor::new(Vec::new());
        outputs.write(&mut open(&bytes), &mut noted).expect("memory can be written");
        let options = EditOptions { strip_data: true, strip_paths: true, ..EditOptions::default() };
        let (edited, copy) = edited(&noted.into_inner(), &options).expect("it can be read");
        assert_eq!(edited.stripped.expected, outputs.count(), "{name}");
        assert_eq!(Expected::read(&mut open(&copy)).expect("it is whole").count(), 0, "{name}");
        vireo_replay::extract(&mut open(&copy), &mut |part| {
            let is_code = part.name.starts_with("executable");
            assert!(is_code || part.bytes.iter().all(|byte| *byte == 0), "{name}: {}", part.name);
            Ok(())
        })
        .expect("it is whole");
        let examined = Examined::read(&mut open(&copy), None).expect("it is whole");
        assert!(examined.files.iter().all(|file| file.path.starts_with("file-")), "{name}: {examined:?}");
        let plan = plan_of(&copy).expect("it can be replayed");
        plan.run(&devices(&names), &ReplayOptions::default(), &mut ()).expect("it is replayed");
        let again = edit(&mut open(&copy), &options, None, Cursor::new(Vec::new())).expect("it can be read");
        assert_eq!(again.stripped.expected + again.stripped.unknown, 0, "{name}");
    }
}

/// The bytes that are read of a file are in the copy, and the file may go.
#[test]
fn files_become_what_is_read_of_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.bin");
    let contents: Vec<u8> = (0..100).collect();
    std::fs::write(&path, &contents).expect("it can be written");
    let file = FileObject {
        queue_affinity: u64::MAX,
        file_length: 100,
        access: 1,
        handle_type: 1,
        reference_type: FileReferenceType::EXTERNAL_PATH,
        ..FileObject::default()
    };
    let mut capture = Builder::new();
    capture.allocate(4);
    capture.file(5, &file, path.to_str().expect("it is UTF-8").as_bytes());
    capture.read(5, 7, 4, (8, 20), &[], &[point(1)]);
    capture.read(5, 60, 4, (32, u64::MAX), &[point(1)], &[point(2)]);
    let bytes = capture.finish();
    let expected = buffer_after(&plan_of(&bytes).expect("it can be replayed"), 4, 64, false);
    assert_eq!((&expected[8..28], &expected[32..64]), (&contents[7..27], &contents[60..92]));
    let options = EditOptions { inline: true, ..EditOptions::default() };
    let (edited, copy) = edited(&bytes, &options).expect("the file is there");
    assert_eq!((edited.inlined_reads, edited.inlined_bytes), (2, 52));
    assert_eq!(edited.inlined_files, [path.display().to_string()]);
    std::fs::remove_file(&path).expect("it is there");
    assert_eq!(
        edit(&mut open(&bytes), &options, None, Cursor::new(Vec::new())).expect_err("it is gone").code(),
        StatusCode::NotFound
    );
    let plan = plan_of(&copy).expect("it can be replayed");
    let options = ReplayOptions { files: FileAccess::None, ..ReplayOptions::default() };
    let devices = devices(&["local-sync"]);
    let replayed = plan.run(&devices, &options, &mut ()).expect("it needs no file");
    let found = buffer_to_vec(&*replayed.buffer(4).expect("it was made"), 64).expect("it can be mapped");
    assert_eq!((&found[8..28], &found[32..64]), (&contents[7..27], &contents[60..92]));
    assert!(Examined::read(&mut open(&copy), None).expect("it is whole").summary.hermetic());
}

#[test]
fn executables_are_replaced_in_copies() {
    let bytes = capture("runs/chain");
    let with = |executable, data: &[u8]| {
        let substitution = vireo_replay::Substitution { executable, format: None, data: data.into() };
        edited(&bytes, &EditOptions { substitutions: vec![substitution], ..EditOptions::default() })
    };
    let (edited, copy) = with(Some(4), b"abc").expect("it is there");
    assert_eq!(edited.substituted, 1);
    let mut found = Vec::new();
    vireo_replay::extract(&mut open(&copy), &mut |part| {
        found.extend(part.name.starts_with("executable-4").then(|| part.bytes.to_vec()));
        Ok(())
    })
    .expect("it is whole");
    assert_eq!(found, [b"abc"]);
    assert_eq!(with(Some(5), b"abc").expect_err("it is no executable").code(), StatusCode::NotFound);
    assert_eq!(with(None, b"abc").expect("all").0.substituted, 1);
}
