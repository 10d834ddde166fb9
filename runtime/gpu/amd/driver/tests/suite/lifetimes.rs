//! Devices that end before their operations do: what was submitted completes all the same.

use std::sync::{Arc, mpsc};

use vireo_hal::{
    DispatchConfig, DispatchFlags, ExecutableFunction, HostCall, HostCallContext, HostCallFlags, MemoryType,
    QueueAffinity, Timepoint,
};

use super::support::{ABS, Machine, TestDevice, at, file, queue, wait, whole};

const DEVICE: MemoryType = MemoryType::DEVICE_LOCAL;

#[test]
fn operations_that_wait_outlive_their_device() {
    for isa in ["gfx1100", "gfx950"] {
        let machine = Machine::new(&format!("isa={isa}"));
        let device = machine.device("", &[]);
        let (gate, line) = (device.timeline(), device.timeline());
        let call: Arc<dyn HostCall> = Arc::new(Nothing);
        let any = QueueAffinity::ANY;
        device
            .queue_host_call(any, &[at(&gate, 1)], &[at(&line, 1)], &call, &[], HostCallFlags::empty())
            .expect("submits");
        device.queue_barrier(any, &[at(&line, 1)], &[at(&line, 2)], Default::default()).expect("submits");
        drop(device);
        gate.signal(1).expect("advances");
        wait(&line, 2);
    }
}

#[derive(Debug)]
struct Nothing;

impl HostCall for Nothing {
    fn call(&self, _context: HostCallContext, _signal: &[Timepoint]) -> vireo_core::status::Result<()> {
        Ok(())
    }
}

#[test]
fn kernels_and_transfers_that_wait_outlive_their_device() {
    let machine = Machine::new("");
    let device = machine.device("", &[]);
    let (gate, line) = (device.timeline(), device.timeline());
    let memory = [0, 1].map(|_| device.buffer(256, DEVICE));
    let host = device.buffer(256, MemoryType::HOST_LOCAL);
    device.fill(0, &[at(&gate, 1)], &[at(&line, 1)], &memory[0], 0xbf80_0000);
    let config = DispatchConfig { workgroup_count: [2, 1, 1], ..DispatchConfig::default() };
    let (bindings, function) = (memory.each_ref().map(whole), ExecutableFunction(ABS));
    let executable = device.executable();
    let (any, flags) = (QueueAffinity::ANY, DispatchFlags::empty());
    device
        .queue_dispatch(any, &[at(&line, 1)], &[at(&line, 2)], &executable, function, &config, &[], &bindings, flags)
        .expect("submits");
    device
        .queue_copy(any, &[at(&line, 2)], &[at(&line, 3)], &memory[1], 0, &host, 0, 256, Default::default())
        .expect("submits");
    drop((device, executable));
    gate.signal(1).expect("advances");
    wait(&line, 3);
    assert_eq!(vireo_hal::buffer_to_vec(&*host, 256).expect("the host reaches it"), 1f32.to_le_bytes().repeat(64));
}

/// The last reference to the device is dropped by its own completion thread, while kernels of the driver are still to
/// run.
#[test]
fn a_device_may_end_on_its_own_completion_thread() {
    let machine = Machine::new("");
    let device = machine.device("", &[]);
    let (line, memory) = (device.timeline(), device.buffer(256, DEVICE));
    let host = device.buffer(256, MemoryType::HOST_LOCAL);
    let held = machine.hold_kernels();
    for value in 1..=3 {
        device.fill(0, &[at(&line, value - 1)], &[at(&line, value)], &memory, value as u32);
    }
    let (any, copied) = (QueueAffinity::ANY, [at(&line, 4)]);
    device.queue_copy(any, &[at(&line, 3)], &copied, &memory, 0, &host, 0, 256, Default::default()).expect("submits");
    let (sender, ended) = mpsc::channel();
    let end = move |outcome| {
        drop((device, outcome));
        sender.send(()).expect("somebody listens");
    };
    line.notify(1, Box::new(end));
    held.let_one_pass();
    ended.recv().expect("it ended");
    drop(held);
    wait(&line, 4);
    assert_eq!(vireo_hal::buffer_to_vec(&*host, 256).expect("the host reaches it"), 3u32.to_le_bytes().repeat(64));
}

/// A file is copied in pieces by packets, which are submitted one after the other.
#[test]
fn transfers_of_files_outlive_their_device() {
    let machine = Machine::new("without=large-bar");
    let device = machine.device("", &[]);
    let length = (5usize << 20) + 13;
    let mut contents: Vec<u8> = (0..length).map(|index| ((index * 7) >> 3) as u8).collect();
    let mut written = vec![0u8; length];
    let (source, target) = (file(&device, &mut contents), file(&device, &mut written));
    let memory = device.buffer(length as u64, DEVICE);
    let line = device.timeline();
    let (any, size) = (QueueAffinity::ANY, length as u64);
    let (read, wrote) = ([at(&line, 1)], [at(&line, 2)]);
    device.queue_read(any, &[], &read, &source, 0, &memory, 0, size, Default::default()).expect("submits");
    device.queue_write(queue(0), &read, &wrote, &memory, 0, &target, 0, size, Default::default()).expect("submits");
    drop(device);
    wait(&line, 2);
    drop((source, target));
    assert!(written == contents);
}
