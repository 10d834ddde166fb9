//! The functions of the `hal` module that need a device: files, channels, queries, and the choice among devices.

use std::sync::{Arc, Mutex};

use vireo::hal::*;
use vireo::modules::hal::HalModule;
use vireo::status::StatusCode;
use vireo::vm::{Buffer as VmBuffer, Obj, Ref};
use vireo::{Result, Status};

use super::hal_module::{Program, code, text};

const ANY: u64 = u64::MAX;
const READ: u64 = 1;
const WRITE: u64 = 2;

fn program() -> (Program, Option<Ref>) {
    let device = create_device("local-sync").expect("the device exists everywhere");
    let reference = Some(Handle::to_ref(device.clone()));
    (Program::of(HalModule::new(vec![device])), reference)
}

fn device_buffer(device: &dyn Device, bytes: &[u8]) -> Option<Ref> {
    Some(Handle::to_ref(buffer_from_bytes(device, bytes).expect("a buffer")))
}

fn bytes_of(buffer: &Option<Ref>) -> Vec<u8> {
    let buffer = buffer.as_ref().and_then(|buffer| buffer.get::<BufferRefObject>()).expect("a buffer");
    buffer_to_vec(&**buffer, buffer.byte_length()).expect("can be read")
}

/// Bytes of a program, which may not write to them.
fn constant(bytes: &[u8]) -> Option<Ref> {
    let source = Obj::new(VmBuffer::copy_of(bytes).expect("a small buffer"));
    let (owner, data) = (Arc::new(source.clone()), std::ptr::NonNull::new(source.as_ptr()).expect("an address"));
    // SAFETY: the owner keeps the bytes alive, and no reference to them exists.
    Some(Ref::new(unsafe { VmBuffer::from_shared(owner, data, bytes.len(), false) }))
}

#[test]
fn programs_read_and_write_their_memory_as_files() {
    let (mut program, device) = program();
    let local = create_device("local-sync").expect("the device exists everywhere");
    let memory = Obj::new(VmBuffer::copy_of(&[0, 1, 2, 3, 4, 5, 6, 7]).expect("a small buffer"));
    let refs = [device.clone(), Some(memory.as_ref().clone())];
    let file = program.reference("ex.file.from_memory", &[ANY, READ | WRITE, 2, ANY, 0], &refs).unwrap();
    assert_eq!(file.type_name(), "hal.file");
    let target = device_buffer(&*local, &[9; 8]);
    let fence = || Some(Fence::create().to_ref());
    let (read, written) = (fence(), fence());
    // Submitted in the wrong order; the fences tell what comes first.
    let write_refs = [device.clone(), read.clone(), written.clone(), target.clone(), Some(file.clone())];
    program.call("device.queue.write", &[ANY, 1, 3, 3, 0], &write_refs).unwrap();
    let read_refs = [device.clone(), None, read, Some(file.clone()), target.clone()];
    program.call("device.queue.read", &[ANY, 0, 1, 3, 0], &read_refs).unwrap();
    assert_eq!(program.word("fence.query", &[], &[written]).unwrap(), 0);
    assert_eq!(bytes_of(&target), [9, 2, 3, 4, 9, 9, 9, 9]);
    assert_eq!(memory.to_vec(), [0, 1, 2, 3, 4, 2, 3, 4]);

    // An operation that a queue cannot do fails its fence, with the cause.
    let failed = fence();
    let beyond = [device.clone(), None, failed.clone(), Some(file), target];
    program.call("device.queue.read", &[ANY, 4, 0, 3, 0], &beyond).unwrap();
    assert_eq!(program.word("fence.query", &[], &[failed]).unwrap(), StatusCode::OutOfRange as u64);
}

#[test]
fn files_allow_what_their_memory_allows() {
    let (mut program, device) = program();
    let refs = [device.clone(), constant(&[1, 2, 3, 4])];
    let mut import = |words: &[u64]| program.reference("ex.file.from_memory", words, &refs);
    let file = import(&[ANY, READ, 1, 2, 0]).unwrap();
    assert_eq!(file.get::<FileRef>().expect("a file").length(), 2);
    for (words, expected) in [
        ([ANY, READ | WRITE, 0, 4, 0], StatusCode::PermissionDenied),
        ([ANY, READ | 8, 0, 4, 0], StatusCode::PermissionDenied),
        ([ANY, 1 << 20, 0, 4, 0], StatusCode::InvalidArgument),
        ([ANY, READ, 2, 3, 0], StatusCode::OutOfRange),
        ([ANY, READ, u64::MAX, 1, 0], StatusCode::OutOfRange),
        ([ANY, READ, 0, 4, 1], StatusCode::InvalidArgument),
    ] {
        assert_eq!(code(import(&words)), expected, "{words:?}");
    }
    let local = create_device("local-sync").expect("the device exists everywhere");
    let write = [device, None, None, device_buffer(&*local, &[7; 4]), Some(file)];
    assert_eq!(code(program.call("device.queue.write", &[ANY, 0, 0, 1, 0], &write)), StatusCode::PermissionDenied);
}

#[test]
fn programs_run_collectives() {
    let (mut program, device) = program();
    let local = create_device("local-sync").expect("the device exists everywhere");
    let nobody_says = program.call("channel.create", &[ANY, 0, u64::MAX, u64::MAX], &[device.clone(), None, None]);
    assert_eq!(code(nobody_says), StatusCode::FailedPrecondition);
    let id = constant(b"programs");
    let mut targets = Vec::new();
    for rank in 0..2 {
        let refs = [device.clone(), id.clone(), text("all")];
        let channel = Some(program.reference("channel.create", &[ANY, 0, rank, 2], &refs).unwrap());
        let call = program.call("channel.rank_and_count", &[], std::slice::from_ref(&channel)).unwrap();
        assert_eq!(call.result_words[..], [rank, 2]);
        let commands =
            program.reference("command_buffer.create", &[0, 3, ANY, 0], std::slice::from_ref(&device)).unwrap();
        let (source, target) = (device_buffer(&*local, &[7, rank as u8 + 1]), device_buffer(&*local, &[0; 3]));
        // The sum of one byte after the first, to after the first.
        let refs = [Some(commands.clone()), channel, source, target.clone()];
        program.call("command_buffer.collective", &[0x0001_0101, 0, 0, 0, 1, 1, 1, 2, 1], &refs).unwrap();
        program.call("command_buffer.finalize", &[], &[Some(commands.clone())]).unwrap();
        let commands = commands.get::<CommandBufferRef>().expect("a command buffer");
        targets.push(target);
        let device = device.as_ref().and_then(|device| device.get::<DeviceRef>()).expect("a device");
        device.queue_execute(QueueAffinity::ANY, &[], &[], &commands.0, &[], ExecuteFlags::empty()).unwrap();
    }
    assert!(targets.iter().all(|target| bytes_of(target) == [0, 3, 0]));
}

/// A channel of another driver.
#[derive(Debug)]
struct Group;

impl Channel for Group {
    fn split(&self, color: i32, key: i32, _flags: ChannelFlags) -> Result<Arc<dyn Channel>> {
        if color < 0 { Err(Status::not_found(format!("no group for key {key}"))) } else { Ok(Arc::new(Group)) }
    }

    fn rank_and_count(&self) -> ChannelRank {
        ChannelRank { rank: 1, count: 3 }
    }
}

#[test]
fn programs_use_the_channels_of_other_devices() {
    let (mut program, device) = program();
    let group: Arc<dyn Channel> = Arc::new(Group);
    let channel = Some(Handle::to_ref(group));
    let call = program.call("channel.rank_and_count", &[], std::slice::from_ref(&channel)).unwrap();
    assert_eq!(call.result_words[..], [1, 3]);
    let part = program.reference("channel.split", &[4, 2, 0], std::slice::from_ref(&channel)).unwrap();
    assert_eq!(part.type_name(), "hal.channel");
    assert_eq!(
        code(program.call("channel.split", &[u64::MAX, 2, 0], std::slice::from_ref(&channel))),
        StatusCode::NotFound
    );

    // A command buffer of a local device cannot use one of another driver.
    let commands = program.reference("command_buffer.create", &[0, 3, ANY, 1], &[device]).unwrap();
    let refs = [Some(commands), channel, None, None];
    let error = program.call("command_buffer.collective", &[0x0009_0101, 0, 0, 0, 0, 4, 0, 4, 1], &refs);
    assert_eq!(code(error), StatusCode::InvalidArgument);
    let reserved = program.call("command_buffer.collective", &[0x0100_0000, 0, 0, 0, 0, 4, 0, 4, 1], &refs);
    assert_eq!(code(reserved), StatusCode::InvalidArgument);
}

#[test]
fn a_policy_of_the_host_chooses_among_devices() {
    let [first, second] = [(); 2].map(|()| create_device("local-sync").expect("the device exists everywhere"));
    let words = [0x30, 0xC03, 7, 2, 1, 2];
    let refs = [Some(Handle::to_ref(first.clone())), Some(Handle::to_ref(second.clone()))];
    let mut without = Program::of(HalModule::new(vec![first.clone(), second.clone()]));
    let call = without.call("allocator.select", &words, &refs).unwrap();
    assert_eq!((&call.result_refs[0], call.result_words[0]), (&refs[0], 1));
    let none = without.call("allocator.select", &[0x30, 0xC03, 0, 0], &[]);
    assert_eq!(code(none), StatusCode::InvalidArgument);

    let asked = Arc::new(Mutex::new(Vec::new()));
    let noted = asked.clone();
    let policy =
        move |from: &[(Arc<dyn Device>, QueueAffinity)], memory: MemoryType, usage: BufferUsage, flags: u64| {
            noted.lock().unwrap().push((from.len(), memory.bits(), usage.bits(), flags));
            Ok(flags as usize - 6)
        };
    let module = HalModule::new(vec![first, second]).with_allocator_policy(Arc::new(policy));
    let mut with = Program::of(module);
    let call = with.call("allocator.select", &words, &refs).unwrap();
    assert_eq!((&call.result_refs[0], call.result_words[0]), (&refs[1], 2));
    assert_eq!(*asked.lock().unwrap(), [(2, 0x30, 0xC03, 7)]);
    let beyond = with.call("allocator.select", &[0x30, 0xC03, 8, 2, 1, 2], &refs);
    assert_eq!(code(beyond), StatusCode::OutOfRange);
}

#[test]
fn devices_answer_queries() {
    let (mut program, device) = program();
    let mut query = |category: &str, key: &str| {
        let call = program.call("device.query.i64", &[], &[device.clone(), text(category), text(key)]).unwrap();
        (call.result_words[0], call.result_words[1])
    };
    assert_eq!(query("hal.device.id", "local*"), (1, 1));
    assert_eq!(query("hal.device.id", "cuda*"), (1, 0));
    assert_eq!(query("hal.executable.format", "rocm-hsaco-fb"), (1, 0));
    assert_eq!(query("hal.device", "concurrency"), (1, 1));
    assert_eq!(query("hal.dispatch", "concurrency"), (1, 1));
    assert_eq!(query("hal.device", "colour"), (0, 0));
    assert_eq!(query("hal.cpu", "no such feature"), (0, 0));
    let runs = u64::from(crate::machine::HAS_KERNELS);
    assert_eq!(query("hal.executable.format", crate::machine::EMBEDDED), (1, runs));
}
