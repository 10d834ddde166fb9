//! Failures: of kernels, of queues, of admission. Whoever waits learns the cause.

use std::sync::Arc;

use vireo_core::limits::{Cancellation, Limits, MemoryBudget, scope};
use vireo_core::status::StatusCode;
use vireo_hal::{
    BufferBinding, BufferRef, CommandBufferMode, CommandCategory, DispatchConfig, DispatchFlags, Driver,
    ExecutableFunction, ExecuteFlags, HostCall, HostCallContext, HostCallFlags, HostSemaphore, MemoryType,
    QueueAffinity, Semaphore, Timepoint,
};

use super::support::{ABS, ADD, Machine, TestDevice, at, queue, wait, whole};

const DEVICE: MemoryType = MemoryType::DEVICE_LOCAL;

#[test]
fn a_kernel_that_traps_fails_its_queue_and_everyone_who_waits() {
    let machine = Machine::with("", Some("abs_dispatch_0_elementwise_64_f32"));
    let device = machine.device("", &[("amdgpu_queues", "2")]);
    let memory = device.buffer(256, DEVICE);
    let lines: Vec<Arc<dyn Semaphore>> = (0..4).map(|_| device.timeline()).collect();
    let foreign: Arc<dyn Semaphore> = Arc::new(HostSemaphore::new(0));
    let config = DispatchConfig { workgroup_count: [2, 1, 1], ..DispatchConfig::default() };
    let bindings = [whole(&memory), whole(&memory)];
    let (function, flags) = (ExecutableFunction(ABS), DispatchFlags::empty());
    let first = [at(&lines[0], 1)];
    let executable = device.executable();
    device
        .queue_dispatch(queue(0), &[], &first, &executable, function, &config, &[], &bindings, flags)
        .expect("submits");
    // On another queue, on the same queue, and through a timeline of the host.
    device.fill(1, &first, &[at(&lines[1], 1)], &memory, 1);
    device.fill(0, &first, &[at(&foreign, 1)], &memory, 2);
    device.queue_barrier(queue(1), &[at(&foreign, 1)], &[at(&lines[2], 1)], ExecuteFlags::empty()).expect("submits");
    for line in lines[..3].iter().chain([&foreign]) {
        let failure = line.wait(1, None).expect_err("it failed");
        assert!(failure.message().contains("stopped with"), "{failure}");
    }
    // The other queue works on; the one that failed refuses with the cause.
    device.fill(1, &[], &[at(&lines[3], 1)], &memory, 3);
    wait(&lines[3], 1);
    let later = device.timeline();
    device.fill(0, &[], &[at(&later, 1)], &memory, 4);
    assert!(later.wait(1, None).expect_err("the queue failed").message().contains("stopped with"));
}

#[test]
fn an_execution_that_is_refused_runs_nothing_and_fails_after_its_waits() {
    let machine = Machine::new("");
    let device = machine.device("", &[]);
    let memory = device.buffer(1 << 16, DEVICE);
    let commands = device
        .create_command_buffer(CommandBufferMode::empty(), CommandCategory::ANY, QueueAffinity::ANY, 1)
        .expect("there are command buffers");
    commands.begin().expect("begins");
    // Several blocks, of which the last one copies as many bytes as the binding has.
    for index in 0..300u64 {
        let target = BufferRef { buffer: Some(memory.clone()), slot: 0, offset: index * 16, length: 16 };
        commands.fill_buffer(&target, &[7], Default::default()).expect("records");
    }
    let slot = BufferRef { buffer: None, slot: 0, offset: 0, length: vireo_hal::WHOLE_BUFFER };
    commands.fill_buffer(&slot, &[9; 4], Default::default()).expect("records");
    commands.end().expect("ends");
    let before = device.timeline();
    let execute = |value: u64, length: u64| {
        let table = [BufferBinding { buffer: Some(memory.clone()), offset: 32768, length }];
        let line = device.timeline();
        let flags = ExecuteFlags::empty();
        device
            .queue_execute(QueueAffinity::ANY, &[at(&before, value)], &[at(&line, 1)], &commands, &table, flags)
            .expect("submits");
        line
    };
    let refused = execute(1, 63);
    assert_eq!(refused.query().expect("it waits"), 0);
    before.signal(1).expect("advances");
    let failure = refused.wait(1, None).expect_err("that is no multiple of four");
    assert_eq!(failure.code(), StatusCode::InvalidArgument, "{failure}");
    assert_eq!(machine.ran().len(), 0);
    // The queue goes on, and so does the command buffer.
    wait(&execute(1, 64), 1);
    assert_eq!(machine.ran().len(), 301);
    assert_eq!(device.read(&memory)[32768..32768 + 65], [[9; 64].as_slice(), &[0]].concat());
}

#[test]
fn a_device_without_kernels_of_the_driver_says_which_it_needs() {
    let machine = Machine::new("isa=gfx950");
    let device = machine.device("", &[]);
    let memory = device.buffer(64, DEVICE);
    let filled = device.queue_fill(QueueAffinity::ANY, &[], &[], &memory, 0, 64, &[1], Default::default());
    let error = filled.expect_err("there are no kernels for it");
    let expected = "no kernels for `gfx950` (family gfx950): expected `gfx950` or `gfx9-4-generic`";
    assert!(error.message().contains(expected), "{error}");
}

#[test]
fn operations_of_a_wait_that_fails_fail_with_it() {
    let machine = Machine::new("");
    let device = machine.device("", &[]);
    let memory = device.buffer(64, DEVICE);
    let (line, after) = (device.timeline(), device.timeline());
    device.fill(0, &[at(&line, 1)], &[at(&after, 1)], &memory, 1);
    line.fail(vireo_core::status::Status::internal("the cause"));
    assert!(after.wait(1, None).expect_err("it failed").message().contains("the cause"));
    assert_eq!(device.read(&memory), [0; 64]);
}

#[derive(Debug)]
struct Panics;

impl HostCall for Panics {
    fn call(&self, _context: HostCallContext, _signal: &[Timepoint]) -> vireo_core::status::Result<()> {
        panic!("on purpose");
    }
}

#[test]
fn a_host_call_that_panics_fails_its_points() {
    let machine = Machine::new("");
    let device = machine.device("", &[]);
    let (line, memory) = (device.timeline(), device.buffer(64, DEVICE));
    let call: Arc<dyn HostCall> = Arc::new(Panics);
    let any = QueueAffinity::ANY;
    device.queue_host_call(any, &[], &[at(&line, 1)], &call, &[], HostCallFlags::empty()).expect("submits");
    let failure = line.wait(1, None).expect_err("it panicked");
    assert!(failure.message().contains("panicked"), "{failure}");
    let after = device.timeline();
    device.fill(0, &[], &[at(&after, 1)], &memory, 1);
    wait(&after, 1);
    assert_eq!(device.read(&memory), 1u32.to_le_bytes().repeat(16));
}

#[test]
fn a_memory_fault_fails_all_queues_of_its_gpu_with_the_address() {
    let machine = Machine::new("agents=2");
    let device = machine.device("", &[("amdgpu_queues", "2")]);
    let memory = [0, 1, 2].map(|_| device.buffer(128, DEVICE));
    let bindings = memory.each_ref().map(whole);
    let lines: Vec<Arc<dyn Semaphore>> = (0..3).map(|_| device.timeline()).collect();
    let config = DispatchConfig { workgroup_count: [1, 1, 1], ..DispatchConfig::default() };
    let (executable, function, flags) = (device.executable(), ExecutableFunction(ADD), DispatchFlags::empty());
    // It adds far more numbers than the buffers have.
    let first = [at(&lines[0], 1)];
    let count = [1 << 20, 0, 1 << 20, 0];
    device
        .queue_dispatch(queue(0), &[], &first, &executable, function, &config, &count, &bindings, flags)
        .expect("submits");
    let failure = lines[0].wait(1, None).expect_err("it failed");
    let text = failure.message();
    assert!(text.contains("the GPU accessed memory at 0x") && text.contains("page_not_present"), "{text}");
    assert!(text.contains("queue ") && text.contains("of agent 0 (gfx1100"), "{text}");
    // The other queue of the GPU has the same cause; those of the other GPU work on.
    device.fill(1, &[], &[at(&lines[1], 1)], &memory[0], 3);
    let other = lines[1].wait(1, None).expect_err("its GPU failed");
    assert!(other.message().contains("the GPU accessed memory at 0x"), "{other}");
    device.fill(2, &[], &[at(&lines[2], 1)], &memory[0], 3);
    wait(&lines[2], 1);
    let text = machine.driver.dump_device_info(vireo_hal::DeviceId::default()).expect("it is described");
    assert!(text.contains("memory faults end queues"), "{text}");
}

#[test]
fn operations_are_held_to_the_limits_of_their_call() {
    let machine = Machine::new("");
    let device = machine.device("", &[]);
    let memory = device.buffer(64, DEVICE);
    let (gate, line) = (device.timeline(), device.timeline());
    let budget = MemoryBudget::new(1 << 20);
    let cancellation = Cancellation::new();
    let limits = Limits { memory: Some(budget.clone()), cancellation: Some(cancellation.clone()), ..Limits::default() };
    {
        let _started = scope::start(&limits).expect("there are limits");
        device.fill(0, &[], &[at(&line, 1)], &memory, 1);
        wait(&line, 1);
        // What waits is charged, and refused if the call has ended by then.
        device.fill(0, &[at(&gate, 1)], &[at(&line, 2)], &memory, 2);
        assert!(budget.used() > 0);
        cancellation.cancel();
        gate.signal(1).expect("advances");
        // It is ended by a thread of the queue, not by the one that signals.
        while line.query().is_ok() {
            std::thread::yield_now();
        }
        let failure = line.query().expect_err("the call was cancelled");
        assert_eq!(failure.code(), StatusCode::Cancelled, "{failure}");
        let late = device.timeline();
        device.fill(0, &[], &[at(&late, 1)], &memory, 3);
        assert_eq!(late.query().expect_err("the call was cancelled").code(), StatusCode::Cancelled);
    }
    assert_eq!(budget.used(), 0);
    assert_eq!(device.read(&memory), 1u32.to_le_bytes().repeat(16));
}
