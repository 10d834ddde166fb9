//! The null device: the tests of `hal`, and dispatches that are checked and do nothing.

use std::sync::Arc;

use vireo::hal::*;
use vireo::{Result, StatusCode};

/// The same tests on this device.
#[path = "hal.rs"]
mod hal;

fn device() -> Arc<dyn Device> {
    create_device("null").unwrap()
}

fn executable(device: &dyn Device, format: &str) -> Arc<dyn Executable> {
    let cache = device.create_executable_cache("cache").unwrap();
    let mode = ExecutableCachingMode::empty();
    assert!(cache.can_prepare_format(mode, format));
    cache.prepare_executable(QueueAffinity::ANY, mode, format, b"\x00\xFF whatever", &[1, 2, 3]).unwrap()
}

fn buffer(device: &dyn Device, bytes: &[u8]) -> Arc<dyn Buffer> {
    buffer_from_bytes(device, bytes).unwrap()
}

fn whole(buffer: &Arc<dyn Buffer>) -> BufferRef {
    BufferRef { buffer: Some(buffer.clone()), slot: 0, offset: 0, length: WHOLE_BUFFER }
}

fn slot(slot: u32) -> BufferRef {
    BufferRef { buffer: None, slot, offset: 0, length: WHOLE_BUFFER }
}

fn code<T>(result: Result<T>) -> StatusCode {
    result.err().expect("a failure").code()
}

#[test]
fn it_answers_to_every_name_and_format() {
    let device = device();
    assert_eq!(device.id(), "null");
    for (category, key) in [
        ("hal.device.id", "cuda*"),
        ("hal.device.id", "local*"),
        ("hal.executable.format", "rocm-hsaco-fb"),
        ("hal.executable.format", "embedded-elf-arm_64"),
    ] {
        assert_eq!(device.query_i64(category, key).unwrap(), 1, "{category} :: {key}");
    }
    assert_eq!(code(device.query_i64("hal.device", "colour")), StatusCode::NotFound);
}

#[test]
fn executables_are_not_looked_into() {
    let device = device();
    let executable = executable(&*device, "cuda-nvptx-fb");
    assert_eq!(executable.lookup_function("anything").unwrap(), ExecutableFunction(0));
    let status = executable.function_info(ExecutableFunction(3)).unwrap_err();
    assert_eq!(status.code(), StatusCode::Unimplemented);
    assert!(status.message().contains("cuda-nvptx-fb") && status.message().contains("function 3"), "{status}");
    let cache = device.create_executable_cache("cache").unwrap();
    assert_eq!(code(cache.infer_format(ExecutableCachingMode::empty(), b"\x7fELF")), StatusCode::Unimplemented);
}

#[test]
fn dispatches_are_ordered_and_write_nothing() {
    let device = device();
    let executable = executable(&*device, "any");
    let any = QueueAffinity::ANY;
    let line = device.create_semaphore(any, 0, SemaphoreFlags::DEFAULT).unwrap();
    let point = |value| [Timepoint { semaphore: line.clone(), value }];
    let target = buffer(&*device, &[7; 16]);
    let dispatch = |wait: &[Timepoint], signal: &[Timepoint], bindings: &[BufferRef]| {
        let config = DispatchConfig { workgroup_count: [1 << 20, 1 << 20, 7], ..DispatchConfig::default() };
        let flags = DispatchFlags::empty();
        device.queue_dispatch(any, wait, signal, &executable, ExecutableFunction(41), &config, &[1, 2], bindings, flags)
    };
    dispatch(&point(1), &point(2), &[whole(&target)]).unwrap();
    assert_eq!(line.query().unwrap(), 0);
    line.signal(1).unwrap();
    assert_eq!(line.query().unwrap(), 2);
    assert_eq!(buffer_to_vec(&*target, 16).unwrap(), [7; 16]);
    // Bindings are checked as on any device.
    let beyond = BufferRef { offset: 8, length: 9, ..whole(&target) };
    assert_eq!(code(dispatch(&[], &[], &[beyond])), StatusCode::OutOfRange);
    assert_eq!(code(dispatch(&[], &[], &[slot(0)])), StatusCode::OutOfRange);
}

#[test]
fn recorded_dispatches_are_checked() {
    let device = device();
    let executable = executable(&*device, "any");
    let any = QueueAffinity::ANY;
    let commands = device.create_command_buffer(CommandBufferMode::empty(), CommandCategory::ANY, any, 2).unwrap();
    commands.begin().unwrap();
    let config = DispatchConfig { workgroup_count: [1; 3], ..DispatchConfig::default() };
    let dispatch = |bindings: &[BufferRef]| {
        commands.dispatch(&executable, ExecutableFunction(0), &config, &[], bindings, DispatchFlags::empty())
    };
    dispatch(&[slot(1)]).unwrap();
    assert_eq!(code(dispatch(&[slot(2)])), StatusCode::OutOfRange);
    commands.end().unwrap();
    let execute =
        |table: &[BufferBinding]| device.queue_execute(any, &[], &[], &commands, table, ExecuteFlags::empty());
    let bound = BufferBinding { buffer: Some(buffer(&*device, &[0; 4])), offset: 0, length: WHOLE_BUFFER };
    execute(&[bound.clone(), bound.clone()]).unwrap();
    assert_eq!(code(execute(std::slice::from_ref(&bound))), StatusCode::InvalidArgument);
    let unbound = BufferBinding { buffer: None, ..bound.clone() };
    let status = execute(&[bound.clone(), unbound]).unwrap_err();
    assert!(status.message().contains("dispatch") && status.message().contains("slot 1"), "{status}");
    // An executable of a device that runs kernels is not one of this device, and the other way round.
    let local = create_device("local-sync").unwrap();
    let foreign = local.create_command_buffer(CommandBufferMode::empty(), CommandCategory::ANY, any, 0).unwrap();
    foreign.begin().unwrap();
    let result = foreign.dispatch(&executable, ExecutableFunction(0), &config, &[], &[], DispatchFlags::empty());
    assert!(result.unwrap_err().message().contains("another kind of device"));
}
