//! Counts the allocations of executions of recorded commands and of waits between queues. A program of its own, because
//! it replaces the allocator of the process. Only allocations of the thread that submits are counted.

#[expect(dead_code, reason = "other tests use the rest")]
#[path = "suite/support.rs"]
mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;

use support::{ADD, Machine, TestDevice, at, queue, wait};
use vireo_hal::{
    Buffer, BufferBinding, BufferRef, CommandBuffer, CommandBufferMode, CommandCategory, Device, DispatchConfig,
    DispatchFlags, ExecutableFunction, ExecuteFlags, ExecutionBarrierFlags, ExecutionStage, MemoryType, WHOLE_BUFFER,
};

struct Counting;

thread_local! {
    /// Allocations of this thread so far.
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    COUNT.set(COUNT.get() + 1);
}

// SAFETY: everything is left to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller guarantees that the layout is not empty, as the system's allocator requires.
        unsafe { System.alloc(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller guarantees that `block` is of this allocator, and so of the system's, with this layout,
        // and that `size` is not zero.
        unsafe { System.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller guarantees that `block` is of this allocator, and so of the system's, with this layout.
        unsafe { System.dealloc(block, layout) };
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The bindings of the dispatches of a command buffer.
#[derive(Clone, Copy, Debug)]
enum Bindings {
    Static,
    Dynamic,
    Mixed,
}

/// A command buffer of some dispatches, each after the one before.
fn record(device: &Arc<dyn Device>, buffers: &[Arc<dyn Buffer>; 3], bindings: Bindings) -> Arc<dyn CommandBuffer> {
    let commands = device
        .create_command_buffer(CommandBufferMode::empty(), CommandCategory::ANY, queue(0), 3)
        .expect("there are command buffers");
    let executable = device.executable();
    let references: [BufferRef; 3] = std::array::from_fn(|index| match (bindings, index) {
        (Bindings::Static, _) | (Bindings::Mixed, 0) => support::whole(&buffers[index]),
        _ => BufferRef { buffer: None, slot: index as u32, offset: 0, length: 64 },
    });
    let config = DispatchConfig { workgroup_count: [1, 1, 1], ..DispatchConfig::default() };
    let stages = ExecutionStage::empty();
    commands.begin().expect("begins");
    for _ in 0..100 {
        let (function, flags) = (ExecutableFunction(ADD), DispatchFlags::empty());
        commands.dispatch(&executable, function, &config, &[0; 4], &references, flags).expect("records");
        commands.execution_barrier(stages, stages, ExecutionBarrierFlags::empty(), &[], &[]).expect("records");
    }
    commands.end().expect("ends");
    commands
}

#[test]
fn executions_and_waits_between_queues_allocate_nothing() {
    let machine = Machine::new("");
    let device = machine.device("", &[("amdgpu_queues", "2"), ("amdgpu_queue_packets", "4096")]);
    let buffers: [Arc<dyn Buffer>; 3] = std::array::from_fn(|_| device.buffer(64, MemoryType::DEVICE_LOCAL));
    let table = [0, 1, 2].map(|index: usize| BufferBinding {
        buffer: Some(buffers[index].clone()),
        offset: 0,
        length: WHOLE_BUFFER,
    });
    let line = device.timeline();
    let flags = ExecuteFlags::empty();
    let commands = [Bindings::Static, Bindings::Dynamic, Bindings::Mixed]
        .map(|bindings| (bindings, record(&device, &buffers, bindings)));
    let execute = |step: u64, commands: &Arc<dyn CommandBuffer>, value: u64| {
        let (from, to) = ([at(&line, value)], [at(&line, value + 1)]);
        device.queue_execute(queue(step as u32 % 2), &from, &to, commands, &table, flags).expect("submits");
    };
    // More than the rounds below have in flight, so that whatever grows with that does so here.
    let mut value = 0;
    let held = machine.hold_kernels();
    for step in 0..16 {
        execute(step, &commands[1].1, value);
        value += 1;
    }
    drop(held);
    wait(&line, value);
    for (bindings, commands) in &commands {
        for round in 0..3 {
            let before = COUNT.get();
            for step in 0..4 {
                execute(step, commands, value);
                let (from, to) = ([at(&line, value + 1)], [at(&line, value + 2)]);
                device.queue_barrier(queue(1), &from, &to, flags).expect("submits");
                value += 2;
            }
            let allocated = COUNT.get() - before;
            wait(&line, value);
            assert_eq!(allocated, 0, "{bindings:?}, round {round}");
        }
    }
}
