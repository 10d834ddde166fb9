//! Captures of IREE's tools, replayed: what the host reads is what the programs computed there. Waits, files, objects
//! and ranges that a replay refuses. `fixtures/replay/README.md` says where the captures come from.
//!
//! With `VIREO_REFERENCE_TOOLS=FOLDER`, the bin folder of an environment with IREE's tools, every model of
//! `fixtures/models` is recorded there and replayed here.

#[path = "../../tests/support/skip.rs"]
mod skip;
#[path = "support/tensors.rs"]
mod tensors;

use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use skip::{Need, skipped};
use tensors::npy_bytes;
use vireo::hal::{BuiltinOptions, Device, buffer_to_vec};
use vireo::{Result, SecurityPolicy, Status, StatusCode};
use vireo_replay::payloads::{
    BufferRef, DeviceQueueAlloca, DeviceQueueExecute, DeviceQueueFill, FileObject, RecordHeader, SemaphoreObject,
    Timepoint,
};
use vireo_replay::{
    CaptureWriter, Examined, Expected, FileAccess, HostRead, Outputs, Plan, Reader, ReplayOptions, Substitution, Watch,
    extract, salvage,
};
use vireo_replay::{operations::operation, payload_type};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures")
}

fn capture(name: &str) -> Vec<u8> {
    std::fs::read(fixtures().join(format!("replay/{name}.ireereplay"))).expect("the capture exists")
}

fn plan_of(bytes: Vec<u8>) -> Result<Plan> {
    let mut reader = Reader::new("file", Box::new(Cursor::new(bytes))).map_err(|error| error.status())?;
    Plan::read(&mut reader, None)
}

fn devices(names: &[&str], policy: SecurityPolicy) -> Vec<Arc<dyn Device>> {
    let registry = BuiltinOptions { policy, ..BuiltinOptions::default() }.registry();
    names.iter().map(|name| registry.create_device(name).expect("a device of the host")).collect()
}

/// The ranges that the host read, each once: tools map a result twice.
#[derive(Default)]
struct Reads(Vec<(u64, u64, Vec<u8>)>);

impl Watch for Reads {
    fn wants_reads(&self) -> bool {
        true
    }

    fn read(&mut self, read: &HostRead<'_>) -> Result<()> {
        let read = (read.buffer, read.offset, read.bytes.to_vec());
        if self.0.last() != Some(&read) {
            self.0.push(read);
        }
        Ok(())
    }
}

fn reads_of(plan: &Plan, names: &[&str], options: &ReplayOptions) -> Result<Vec<Vec<u8>>> {
    let mut reads = Reads::default();
    plan.run(&devices(names, SecurityPolicy::trusted()), options, &mut reads)?;
    Ok(reads.0.into_iter().map(|(_, _, bytes)| bytes).collect())
}

/// Kernels of these captures are for x86-64.
fn can_run_kernels() -> bool {
    if !cfg!(target_arch = "x86_64") {
        skipped(Need::Platform("x86_64"), "the kernels of captures are for x86-64");
    }
    cfg!(target_arch = "x86_64")
}

#[test]
fn what_the_host_reads_is_what_programs_computed() {
    let expected = |paths: &[&str]| -> Vec<Vec<u8>> {
        paths.iter().map(|path| npy_bytes(&fixtures().join("models/expected").join(path))).collect()
    };
    let mut cases = vec![("runs/softmax", 1, expected(&["vmvx_softmax/ramp.0.npy"]))];
    if can_run_kernels() {
        cases.extend([
            ("abs", 1, expected(&["abs/negative.0.npy"])),
            ("runs/fences", 1, expected(&["fences/doubled_and_total.0.npy", "fences/doubled_and_total.1.npy"])),
            ("runs/layernorm", 1, expected(&["layernorm/rows_3.0.npy"])),
            ("runs/two_devices", 2, expected(&["abs/negative.0.npy"])),
        ]);
    }
    for (name, count, expected) in cases {
        let plan = plan_of(capture(name)).unwrap_or_else(|status| panic!("{name}: {status}"));
        assert_eq!(plan.device_count(), count, "{name}");
        for device in ["local-sync", "local-task"] {
            for serial in [false, true] {
                let options = ReplayOptions { serial, ..ReplayOptions::default() };
                let reads = reads_of(&plan, &vec![device; count], &options);
                let reads = reads.unwrap_or_else(|status| panic!("{name} on {device}: {status}"));
                // The tool reads all of the buffer that a result is in.
                let fits = reads.iter().zip(&expected).all(|(read, expected)| read.starts_with(expected));
                assert!(fits && reads.len() == expected.len(), "{name} on {device}: {reads:?}");
            }
        }
    }
}

/// Each operation that can be replayed, on each device of the host. IREE's tool leaves the same bytes.
#[test]
fn every_operation_is_replayed() {
    let expected = std::fs::read(fixtures().join("replay/runs/calls.bin")).expect("the bytes exist");
    for (capture_name, name) in [
        ("calls", "local-sync"),
        ("calls", "local-task"),
        ("calls_bytecode", "local-sync"),
        ("calls_bytecode", "local-task"),
    ] {
        if capture_name == "calls" && !can_run_kernels() {
            continue;
        }
        let plan = plan_of(capture(&format!("runs/{capture_name}"))).expect("it can be replayed");
        for serial in [false, true] {
            let options = ReplayOptions { serial, keep_buffers: true, ..ReplayOptions::default() };
            let devices = devices(&[name], SecurityPolicy::trusted());
            let replayed = plan.run(&devices, &options, &mut ()).unwrap_or_else(|status| panic!("{name}: {status}"));
            let buffer = replayed.buffer(8).expect("the buffer was made");
            assert_eq!(buffer_to_vec(&*buffer, 64).expect("it can be mapped"), expected, "{name}");
            assert!(replayed.buffer(5).is_none(), "a semaphore is no buffer");
        }
    }
}

#[derive(Default)]
struct Scopes(Vec<(String, bool)>);

impl Watch for Scopes {
    fn scope(&mut self, name: &str, begins: bool) {
        self.0.push((name.to_string(), begins));
    }
}

#[test]
fn scopes_are_told() {
    let plan = plan_of(capture("runs/softmax")).expect("it can be replayed");
    let mut scopes = Scopes::default();
    let devices = devices(&["local-sync"], SecurityPolicy::trusted());
    plan.run(&devices, &ReplayOptions::default(), &mut scopes).expect("it is replayed");
    let expected =
        ["init", "execute", "deinit"].iter().flat_map(|name| [(name.to_string(), true), (name.to_string(), false)]);
    assert_eq!(scopes.0, expected.collect::<Vec<_>>());
}

/// IREE's tool waits for ever; here the submission waits, and the next one signals.
#[test]
fn a_submission_may_wait_for_a_later_one() {
    if !can_run_kernels() {
        return;
    }
    let plan = plan_of(capture("runs/waits")).expect("it can be replayed");
    assert_eq!(plan.blocks_serial_replay().expect("it is whole"), Some(16));
    assert_eq!(plan_of(capture("abs")).expect("it is whole").blocks_serial_replay().expect("it is whole"), None);
    for name in ["local-sync", "local-task"] {
        let devices = devices(&[name], SecurityPolicy::trusted());
        plan.run(&devices, &ReplayOptions::default(), &mut ()).unwrap_or_else(|status| panic!("{name}: {status}"));
        let serial = ReplayOptions { serial: true, ..ReplayOptions::default() };
        let status = plan.run(&devices, &serial, &mut ()).expect_err("it would wait for ever");
        assert_eq!(status.code(), StatusCode::FailedPrecondition);
    }
}

#[test]
fn other_numbers_of_devices_are_refused() {
    let plan = plan_of(capture("runs/two_devices")).expect("it can be replayed");
    for count in [0, 1, 3] {
        let devices = devices(&vec!["local-sync"; count], SecurityPolicy::trusted());
        let status = plan.run(&devices, &ReplayOptions::default(), &mut ()).expect_err("two are there");
        assert_eq!(status.code(), StatusCode::InvalidArgument, "{count}");
    }
}

/// Builds captures of few records, on one device.
struct Builder {
    writer: CaptureWriter<Cursor<Vec<u8>>>,
}

impl Builder {
    const DEVICE: u64 = 1;
    const SEMAPHORE: u64 = 3;

    /// A device with the number 1, its allocator 2, and a semaphore 3.
    fn new() -> Builder {
        let mut builder = Builder { writer: CaptureWriter::new(Cursor::new(Vec::new())).expect("memory") };
        builder.object(1, 1, 0);
        builder.object(2, 2, 1);
        let semaphore = SemaphoreObject { queue_affinity: u64::MAX, ..SemaphoreObject::default() };
        builder.call(
            operation::DEVICE_CREATE_SEMAPHORE,
            Self::SEMAPHORE,
            payload_type::SEMAPHORE_OBJECT,
            &semaphore.to_bytes(),
        );
        builder
    }

    fn object(&mut self, object_type: u32, object_id: u64, device_id: u64) {
        let header = RecordHeader { record_type: 2, object_type, object_id, device_id, ..RecordHeader::default() };
        self.writer.record(&header, &[]).expect("memory");
    }

    fn call(&mut self, operation_code: u32, related_object_id: u64, payload_type: u32, payload: &[u8]) {
        let header = RecordHeader {
            record_type: 3,
            device_id: Self::DEVICE,
            object_id: Self::DEVICE,
            object_type: 1,
            related_object_id,
            operation_code,
            payload_type,
            ..RecordHeader::default()
        };
        self.writer.record(&header, payload).expect("memory");
    }

    /// A transient buffer of 64 bytes, there once the semaphore has the value 1.
    fn alloca(&mut self, id: u64) {
        let mut alloca = DeviceQueueAlloca { queue_affinity: u64::MAX, ..DeviceQueueAlloca::default() };
        alloca.allocation.allocation_size = 64;
        alloca.allocation.queue_affinity = u64::MAX;
        (alloca.allocation.usage, alloca.allocation.r#type, alloca.allocation.access) = (0x0900_0c03, 0x32, 7);
        let mut payload = Vec::new();
        alloca.write(&mut payload, &[], &[point(1)]).expect("it is short");
        self.call(operation::DEVICE_QUEUE_ALLOCA, id, payload_type::DEVICE_QUEUE_ALLOCA, &payload);
    }

    /// A fill that waits for one value and signals another.
    fn fill(&mut self, buffer: u64, (offset, length): (u64, u64), wait: u64, signal: u64) {
        let fill = DeviceQueueFill {
            queue_affinity: u64::MAX,
            target_ref: BufferRef { buffer_id: buffer, offset, length, ..BufferRef::default() },
            ..DeviceQueueFill::default()
        };
        let mut payload = Vec::new();
        fill.write(&mut payload, &[point(wait)], &[point(signal)], &[7]).expect("it is short");
        self.call(operation::DEVICE_QUEUE_FILL, 0, payload_type::DEVICE_QUEUE_FILL, &payload);
    }

    fn barrier(&mut self, wait: &[Timepoint], signal: &[Timepoint]) {
        let execute = DeviceQueueExecute { queue_affinity: u64::MAX, ..DeviceQueueExecute::default() };
        let mut payload = Vec::new();
        execute.write(&mut payload, wait, signal, &[]).expect("it is short");
        self.call(operation::DEVICE_QUEUE_EXECUTE, 0, payload_type::DEVICE_QUEUE_EXECUTE, &payload);
    }

    fn file(&mut self, id: u64, file: &FileObject, reference: &[u8]) {
        let mut payload = Vec::new();
        file.write(&mut payload, reference).expect("it is short");
        self.call(operation::DEVICE_IMPORT_FILE, id, payload_type::FILE_OBJECT, &payload);
    }

    fn plan(self) -> Result<Plan> {
        plan_of(self.writer.finish().expect("memory").into_inner())
    }

    fn run(self, options: &ReplayOptions) -> Result<()> {
        let plan = self.plan()?;
        let devices = devices(&["local-sync"], SecurityPolicy::trusted());
        plan.run(&devices, options, &mut ()).map(drop)
    }
}

fn point(value: u64) -> Timepoint {
    Timepoint { semaphore_id: Builder::SEMAPHORE, value }
}

/// The messages of captures that contradict themselves.
#[test]
fn contradictions_are_told_with_their_records() {
    type Change = (&'static str, fn(&mut Builder), &'static str);
    let changes: [Change; 8] = [
        (
            "beyond",
            |capture| capture.fill(4, (0, 65), 1, 2),
            "65 bytes at 0 of buffer 4: expected a range of its 64 bytes",
        ),
        ("far", |capture| capture.fill(4, (u64::MAX, 1), 1, 2), "expected a range of its 64 bytes"),
        ("unknown", |capture| capture.fill(9, (0, 1), 1, 2), "the buffer 9 is not there yet"),
        ("type", |capture| capture.fill(3, (0, 1), 1, 2), "object 3 is a semaphore: expected a buffer"),
        ("again", |capture| capture.alloca(4), "object 4 is made again, as buffer"),
        ("zero", |capture| capture.alloca(0), "a buffer has the number 0"),
        (
            "payload",
            |capture| capture.call(operation::DEVICE_QUEUE_FILL, 0, 0, &[]),
            "the payload has type 0: expected 15",
        ),
        (
            "refused",
            |capture| capture.call(operation::DEVICE_CREATE_CHANNEL, 5, 0, &[]),
            "`device.create_channel` cannot be replayed",
        ),
    ];
    for (name, change, expected) in changes {
        let mut capture = Builder::new();
        capture.alloca(4);
        change(&mut capture);
        let status = capture.plan().expect_err(name);
        assert!(status.message().contains(expected), "{name}: {status}");
        assert!(status.message().starts_with("file: byte "), "{name}: {status}");
    }
}

/// A wait that nothing ends is refused before anything is done, and at once.
#[test]
fn waits_for_nothing_are_refused() {
    let mut capture = Builder::new();
    capture.alloca(4);
    capture.fill(4, (0, 64), 7, 8);
    let status = capture.run(&ReplayOptions::default()).expect_err("nothing signals");
    assert_eq!(status.code(), StatusCode::FailedPrecondition);
    let told = "it waits for value 7 of semaphore 3, which nothing signals";
    assert!(status.message().contains(told), "{status}");
}

/// Submissions that nothing orders in the capture run in their order.
#[test]
fn submissions_without_waits_keep_their_order() {
    for name in ["local-sync", "local-task"] {
        let mut capture = Builder::new();
        capture.alloca(4);
        for value in 2..40 {
            capture.fill(4, (0, 64), 1, value);
        }
        capture.barrier(&[], &[point(40)]);
        let plan = capture.plan().expect("it can be replayed");
        plan.run(&devices(&[name], SecurityPolicy::trusted()), &ReplayOptions::default(), &mut ()).expect(name);
    }
}

#[test]
fn numbers_of_objects_may_be_any() {
    let mut capture = Builder::new();
    capture.alloca(u64::MAX);
    capture.fill(u64::MAX, (0, 64), 1, 2);
    capture.run(&ReplayOptions::default()).expect("it is replayed");
}

/// Files are opened as the options say, and are the captured ones.
#[test]
fn files_are_opened_as_options_say() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.bin");
    std::fs::write(&path, b"abcd").expect("it can be written");
    let file = FileObject {
        queue_affinity: u64::MAX,
        file_length: 4,
        access: 3,
        handle_type: 1,
        reference_type: vireo_replay::format::FileReferenceType::EXTERNAL_PATH,
        ..FileObject::default()
    };
    let opened = |file: &FileObject, path: &Path, files: FileAccess| {
        let mut capture = Builder::new();
        capture.file(4, file, path.to_str().expect("it is UTF-8").as_bytes());
        capture.run(&ReplayOptions { files, ..ReplayOptions::default() }).map_err(|status| status.code())
    };
    assert_eq!(opened(&file, &path, FileAccess::Read), Ok(()));
    assert_eq!(opened(&file, &path, FileAccess::Write), Ok(()));
    assert_eq!(opened(&file, &path, FileAccess::None), Err(StatusCode::PermissionDenied));
    let longer = FileObject { file_length: 5, ..file };
    assert_eq!(opened(&longer, &path, FileAccess::Read), Err(StatusCode::FailedPrecondition));
    let other = FileObject {
        validation_type: vireo_replay::format::FileValidationType::IDENTITY,
        file_inode: 1,
        file_mtime_ns: 1,
        ..file
    };
    assert_eq!(opened(&other, &path, FileAccess::Read), Err(StatusCode::FailedPrecondition));
    let mut digest = FileObject {
        validation_type: vireo_replay::format::FileValidationType::CONTENT_DIGEST,
        digest_type: 1,
        ..file
    };
    // FNV-1a of "abcd".
    digest.digest[..8].copy_from_slice(&0xfc17_9f83_ee07_24dd_u64.to_le_bytes());
    assert_eq!(opened(&digest, &path, FileAccess::Read), Ok(()));
    digest.digest[0] ^= 1;
    assert_eq!(opened(&digest, &path, FileAccess::Read), Err(StatusCode::FailedPrecondition));
    assert_eq!(opened(&file, folder.path(), FileAccess::Read), Err(StatusCode::InvalidArgument));
    assert_eq!(opened(&file, &folder.path().join("no"), FileAccess::Read), Err(StatusCode::NotFound));
}

/// The reads of a file with parameters, by all policies of the tools that record them: `parameters` has the ranges.
#[test]
fn parameters_are_read_from_captures() {
    if !can_run_kernels() {
        return;
    }
    let plan = plan_of(capture("parameters")).expect("it can be replayed");
    // It names a file that is not there, and does not need it.
    let options = ReplayOptions { files: FileAccess::None, ..ReplayOptions::default() };
    let reads = reads_of(&plan, &["local-sync"], &options).expect("it is replayed");
    assert_eq!(reads.last().map(Vec::len), Some(16), "{reads:?}");
    assert_eq!(reads, reads_of(&plan, &["local-task"], &options).expect("it is replayed"));
}

#[test]
fn executables_are_replaced_by_those_with_their_functions() {
    if !can_run_kernels() {
        return;
    }
    let plan = plan_of(capture("abs")).expect("it can be replayed");
    let with = |data: &[u8], executable, format: Option<&str>| {
        let format = format.map(str::to_string);
        let substitutions = vec![Substitution { executable, format, data: data.into() }];
        reads_of(&plan, &["local-sync"], &ReplayOptions { substitutions, ..ReplayOptions::default() })
    };
    // Its own executable, and that of another model.
    let own = executable_of("abs");
    let other = executable_of("runs/softmax");
    assert!(with(&own, None, None).is_ok());
    assert!(with(&own, Some(99), Some("no-such-format")).is_ok(), "another executable is replaced");
    let status = with(&other, None, Some("vmvx-bytecode-fb")).expect_err("it has other functions");
    assert!(status.message().contains("what takes the place of executable"), "{status}");
    assert!(with(b"nothing", None, None).is_err());
}

/// The first executable of a capture.
fn executable_of(name: &str) -> Vec<u8> {
    let mut reader = Reader::new("file", Box::new(Cursor::new(capture(name)))).expect("it is a capture");
    while let Some(record) = reader.next_record().expect("it is whole") {
        if record.header.operation_code == operation::EXECUTABLE_CACHE_PREPARE_EXECUTABLE
            && record.header.status_code == 0
        {
            let payload = reader.payload(&record, u64::MAX).expect("it is whole");
            let parts = vireo_replay::payloads::ExecutablePrepareParts::read(&payload).expect("it is whole");
            return parts.data.to_vec();
        }
    }
    panic!("{name} has no executable");
}

/// Machine code, files, time and memory of untrusted captures.
#[test]
fn captures_of_strangers_are_held_to_limits() {
    let policy = SecurityPolicy::untrusted();
    let options = ReplayOptions {
        limits: policy.limits.clone(),
        files: FileAccess::None,
        longest_wait: Duration::from_secs(5),
        ..ReplayOptions::default()
    };
    let run = |name: &str| {
        let plan = plan_of(capture(name))?;
        plan.run(&devices(&["local-sync"], policy.clone()), &options, &mut ()).map(drop)
    };
    run("runs/softmax").expect("its kernels are bytecode");
    run("runs/calls_bytecode").expect("its kernels are bytecode");
    let status = run("abs").expect_err("its kernels are machine code");
    assert!(status.message().contains("the security policy refuses executables of format"), "{status}");
    let small = vireo::MemoryBudget::new(1000);
    let mut reader = Reader::new("file", Box::new(Cursor::new(capture("abs")))).expect("it is a capture");
    let status = Plan::read(&mut reader, Some(&small)).expect_err("it is larger");
    assert_eq!(status.code(), StatusCode::ResourceExhausted);
}

fn open(bytes: &[u8]) -> Reader {
    Reader::new("file", Box::new(Cursor::new(bytes.to_vec()))).expect("it is a capture")
}

#[test]
fn captures_say_what_they_need_and_hold() {
    let examined = |name: &str| Examined::read(&mut open(&capture(name)), None).expect("it can be read");
    let abs = examined("abs");
    assert!(abs.refused.is_none() && abs.blocks_serial_replay.is_none() && abs.files.is_empty(), "{abs:?}");
    assert_eq!((abs.data_bytes, abs.expected), (4, 0), "the argument is a number");
    assert_eq!(abs.executables.iter().map(|one| one.format.as_str()).collect::<Vec<_>>(), ["embedded-elf-x86_64"]);
    let parameters = examined("parameters");
    assert_eq!(parameters.files.len(), 1);
    assert!(parameters.files[0].path.ends_with("/weights.irpa") && !parameters.files[0].needed, "{parameters:?}");
    assert_eq!(examined("runs/waits").blocks_serial_replay, Some(16));
    assert!(examined("payloads").refused.is_some(), "it has no device");
}

#[test]
fn parts_of_captures_have_names_of_their_own() {
    let mut parts = std::collections::BTreeMap::new();
    for name in ["abs", "parameters", "runs/calls"] {
        parts.clear();
        let taken = extract(&mut open(&capture(name)), &mut |part| {
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
            assert!(part.name.bytes().all(is_plain), "{}", part.name);
            assert!(parts.insert(part.name.to_string(), part.bytes.to_vec()).is_none(), "{} is there twice", part.name);
            Ok(())
        });
        taken.expect("it can be read");
        assert!(parts.values().any(|bytes| *bytes == executable_of(name)), "{name}: {:?}", parts.keys());
    }
    assert_eq!(parts.get("file-9.bin").map(Vec::len), Some(16), "{:?}", parts.keys());
}

/// The records that were whole are there again, whatever the header says of the length.
#[test]
fn whole_records_are_saved() {
    let bytes = capture("runs/softmax");
    let saved = |bytes: &[u8]| {
        let mut out = Cursor::new(Vec::new());
        let saved = salvage("file", Box::new(Cursor::new(bytes.to_vec())), &mut out).expect("it is a capture");
        (saved, out.into_inner())
    };
    let (all, copy) = saved(&bytes);
    assert_eq!((all.lost, all.damage.is_none()), (0, true));
    assert_eq!(copy.len(), bytes.len());
    plan_of(copy).expect("it is whole");
    let (torn, copy) = saved(&bytes[..bytes.len() - 1]);
    assert_eq!(torn.records, all.records - 1);
    assert!(torn.lost > 0 && torn.damage.is_some(), "{torn:?}");
    let plan = plan_of(copy).expect("it is whole");
    let devices = devices(&["local-sync"], SecurityPolicy::trusted());
    plan.run(&devices, &ReplayOptions::default(), &mut ()).expect("it runs up to its last record");
}

/// Expected outputs are found by replays here, and other readers see a record that they skip.
#[test]
fn outputs_are_compared_with_those_that_are_expected() {
    let bytes = capture("runs/softmax");
    let plan = plan_of(bytes.clone()).expect("it can be replayed");
    let mut outputs = Outputs::default();
    let here = devices(&["local-sync"], SecurityPolicy::trusted());
    plan.run(&here, &ReplayOptions::default(), &mut outputs).expect("it is replayed");
    let mut copy = Cursor::new(Vec::new());
    outputs.write(&mut open(&bytes), &mut copy).expect("memory can be written");
    let mut copy = copy.into_inner();
    let verify = |bytes: &[u8]| {
        let mut expected = Expected::read(&mut open(bytes)).expect("it is whole");
        let plan = plan_of(bytes.to_vec()).expect("it can be replayed");
        plan.run(&here, &ReplayOptions::default(), &mut expected).expect("it is replayed");
        expected
    };
    let expected = verify(&copy);
    assert!(expected.count() == outputs.count() && expected.count() > 0, "{expected:?}");
    assert_eq!((expected.found(), expected.differences()), (expected.count(), &[][..]));
    // The last byte of the last expected output, and its digest.
    let mut reader = open(&copy);
    let mut place = None;
    while let Some(record) = reader.next_record().expect("it is whole") {
        if record.header.payload_type == vireo_replay::format::PRIVATE_PAYLOAD {
            place = Some((record.payload_offset(), record.header.payload_length));
        }
    }
    let (start, length) = place.expect("an output is expected");
    copy[start as usize + 32] ^= 1;
    copy[(start + length - 1) as usize] ^= 1;
    let expected = verify(&copy);
    let [difference] = expected.differences() else { panic!("{expected:?}") };
    assert_eq!(difference.first.map(|(place, ..)| place), Some(length - 48 - 1));
}

/// Records every case of the models with IREE's tool and replays it.
#[test]
fn captures_of_every_model_compute_what_they_did() {
    let Some(tools) = std::env::var_os("VIREO_REFERENCE_TOOLS") else {
        return skipped(Need::Variable("VIREO_REFERENCE_TOOLS"), "it names no folder with the IREE tools");
    };
    let models = fixtures().join("models");
    let text = std::fs::read_to_string(models.join("manifest.json")).expect("the manifest exists");
    let manifest: Value = serde_json::from_str(&text).expect("the manifest is JSON");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("capture.ireereplay");
    let (mut replayed, mut failures) = (0, Vec::new());
    for case in manifest["cases"].as_array().expect("a list") {
        let (name, module) =
            (case["name"].as_str().expect("a name"), &manifest["modules"][case["module"].as_str().expect("a name")]);
        let calls = case["calls"].as_array().expect("a list");
        let ([call], false) = (calls.as_slice(), name.starts_with("aarch64")) else { continue };
        let Some(outputs) = call["outputs"].as_array() else { continue };
        for (recorder, policy) in
            [("local-sync", "reference"), ("local-task", "capture-ranges"), ("local-sync", "capture-all")]
        {
            let mut command = Command::new(Path::new(&tools).join("iree-run-module"));
            command.current_dir(&models).arg(format!("--module={}", module["file"].as_str().expect("a file")));
            command.arg(format!("--function={}", call["function"].as_str().expect("a name")));
            command.arg(format!("--device={recorder}")).arg(format!("--device_replay_file_policy={policy}"));
            command.arg(format!("--device_replay_output={}", path.display()));
            for input in call["inputs"].as_array().expect("a list") {
                command.arg(format!("--input={}", input.as_str().expect("a text")));
            }
            // Some calls fail on purpose, and some programs use no device.
            if !command.output().expect("the tool runs").status.success() {
                continue;
            }
            let outcome = Reader::open(&path).and_then(|mut reader| Plan::read(&mut reader, None)).and_then(|plan| {
                ["local-sync", "local-task"]
                    .iter()
                    .map(|device| reads_of(&plan, &[device], &ReplayOptions::default()))
                    .collect()
            });
            let outcome: Result<Vec<Vec<Vec<u8>>>, Status> = outcome;
            match outcome {
                Ok(all) => {
                    for reads in all {
                        replayed += 1;
                        for output in outputs.iter().filter_map(Value::as_str) {
                            let units = case["units"].as_u64().or(module["units"].as_u64()).unwrap_or(0);
                            if !tensors::is_among(&reads, &models.join(output), units) {
                                failures.push(format!("{name} ({recorder}, {policy}): {output}"));
                            }
                        }
                    }
                }
                Err(status) => failures.push(format!("{name} ({recorder}, {policy}): {status}")),
            }
        }
    }
    assert!(failures.is_empty() && replayed > 100, "{replayed} replayed\n{}", failures.join("\n"));
}
