//! Devices that end before their operations do: everything that was submitted completes all the same.

use std::sync::{Arc, mpsc};

use vireo::Result;
use vireo::hal::*;

use super::dispatches::{kernels, multiply, multiply_constants, over};
use super::files::memory_file;
use super::*;

#[derive(Debug)]
struct Nothing;

impl HostCall for Nothing {
    fn call(&self, _context: HostCallContext, _signal: &[Timepoint]) -> Result<()> {
        Ok(())
    }
}

pub fn calls_that_wait_outlive_their_device(backend: &Backend) {
    let device = backend.device();
    let (gate, line) = (timeline(&*device), timeline(&*device));
    let call: Arc<dyn HostCall> = Arc::new(Nothing);
    let at = |value| [point(&line, value)];
    device.queue_host_call(ANY, &[point(&gate, 1)], &at(1), &call, &[], HostCallFlags::empty()).unwrap();
    device.queue_barrier(ANY, &at(1), &at(2), ExecuteFlags::empty()).unwrap();
    drop(device);
    gate.signal(1).unwrap();
    line.wait(2, in_time()).unwrap();
}

pub fn kernels_and_transfers_that_wait_outlive_their_device(backend: &Backend) {
    let device = backend.device();
    let executable = kernels(backend, &*device);
    let (gate, line) = (timeline(&*device), timeline(&*device));
    let at = |value| [point(&line, value)];
    let memory = buffer_of(&*device, &[0; 256]);
    let product = buffer_of(&*device, &[0; 256]);
    let copy = buffer_of(&*device, &[0; 256]);
    device.queue_fill(ANY, &[point(&gate, 1)], &at(1), &memory, 0, 256, &[3, 0, 0, 0], FillFlags::empty()).unwrap();
    match &executable {
        Some(executable) => {
            let (function, config) = (multiply(&**executable), over(backend, 64));
            let bindings = [&memory, &memory, &product].map(whole);
            let (constants, flags) = (multiply_constants(64), DispatchFlags::empty());
            device
                .queue_dispatch(ANY, &at(1), &at(2), executable, function, &config, &constants, &bindings, flags)
                .unwrap();
        }
        None => device.queue_barrier(ANY, &at(1), &at(2), ExecuteFlags::empty()).unwrap(),
    }
    device.queue_copy(ANY, &at(2), &at(3), &product, 0, &copy, 0, 256, CopyFlags::empty()).unwrap();
    drop((device, executable, memory, product));
    gate.signal(1).unwrap();
    line.wait(3, in_time()).unwrap();
    let expected = if backend.runs_kernels { 9u32 } else { 0 };
    assert_eq!(bytes_of(&*copy), expected.to_le_bytes().repeat(64));
}

/// The last reference to the device is dropped by the thread that completes its operations, while others wait.
pub fn a_device_may_end_where_its_operations_complete(backend: &Backend) {
    let device = backend.device();
    let (gate, line) = (timeline(&*device), timeline(&*device));
    let at = |value| [point(&line, value)];
    let (memory, copy) = (buffer_of(&*device, &[0; 256]), buffer_of(&*device, &[0; 256]));
    let mut wait = [point(&gate, 1)];
    for value in 1..=3 {
        device.queue_fill(ANY, &wait, &at(value), &memory, 0, 256, &[value as u8], FillFlags::empty()).unwrap();
        wait = at(value);
    }
    device.queue_copy(ANY, &wait, &at(4), &memory, 0, &copy, 0, 256, CopyFlags::empty()).unwrap();
    let (sender, ended) = mpsc::channel();
    let end = move |outcome: Result<()>| {
        drop(device);
        sender.send(outcome).expect("the test listens");
    };
    line.notify(1, Box::new(end));
    gate.signal(1).unwrap();
    ended.recv().unwrap().unwrap();
    line.wait(4, in_time()).unwrap();
    assert_eq!(bytes_of(&*copy), [3; 256]);
}

/// Files of several megabytes may be copied in pieces, which are submitted one after the other.
pub fn transfers_of_files_outlive_their_device(backend: &Backend) {
    let device = backend.device();
    if !device.supports(OptionalMethod::DeviceQueueRead.name()) {
        return;
    }
    let length = (5usize << 20) + 13;
    let mut contents: Arc<[u8]> = (0..length).map(|index| ((index * 7) >> 3) as u8).collect();
    let mut written: Arc<[u8]> = vec![0; length].into();
    let source = memory_file(&*device, &mut contents, MemoryAccess::READ);
    let target = memory_file(&*device, &mut written, MemoryAccess::READ | MemoryAccess::WRITE);
    let memory = device.allocator().allocate_buffer(params(), length as u64).unwrap();
    let line = timeline(&*device);
    let at = |value| [point(&line, value)];
    let size = length as u64;
    device.queue_read(ANY, &[], &at(1), &source, 0, &memory, 0, size, ReadFlags::empty()).unwrap();
    device.queue_write(ANY, &at(1), &at(2), &memory, 0, &target, 0, size, WriteFlags::empty()).unwrap();
    drop(device);
    line.wait(2, in_time()).unwrap();
    drop((source, target));
    assert!(written == contents);
}
