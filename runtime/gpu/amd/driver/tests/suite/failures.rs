//! Failures: of kernels, of queues, of admission. Every waiter learns the cause.

use std::sync::Arc;

use vireo_hal::{
    DispatchConfig, DispatchFlags, Driver, ExecutableFunction, ExecuteFlags, HostSemaphore, MemoryType, QueueAffinity,
    Semaphore,
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
