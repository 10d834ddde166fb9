//! Counts the allocations of executions, by streams and by graphs. A program of its own, because it replaces the
//! allocator of the process. Only allocations of the thread that submits are counted. The library is the null library,
//! which allocates nothing from the host.

#[path = "suite/container.rs"]
mod container;
#[expect(dead_code, reason = "other tests use the rest")]
#[path = "suite/support.rs"]
mod support;

#[path = "../../../../tests/support/counting.rs"]
mod counting;

use std::alloc::Layout;
use std::cell::Cell;
use std::sync::Arc;

use counting::Counting;
use support::{executable, module, prepare, whole};
use vireo_cuda_driver::library;
use vireo_hal::*;
use vireo_stream::device::DeviceOptions;
use vireo_stream::driver::StreamDriver;

thread_local! {
    /// Allocations of this thread so far.
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

fn count(_: Layout) {
    COUNT.set(COUNT.get() + 1);
}

#[global_allocator]
static ALLOCATOR: Counting = Counting { allocated: count, freed: |_| () };

/// A chain of dispatches, of which every second one takes its buffer from the table.
fn record(device: &dyn Device, target: &Arc<dyn Buffer>) -> Arc<dyn CommandBuffer> {
    let kernels = prepare(device, &executable(&module(1, "ret;"), "main", [1, 1, 1], 1, 0)).expect("loads");
    let (mode, all) = (CommandBufferMode::empty(), QueueAffinity::ANY);
    let commands = device.create_command_buffer(mode, CommandCategory::ANY, all, 1).expect("a command buffer");
    let config = DispatchConfig { workgroup_count: [1, 1, 1], ..DispatchConfig::default() };
    let stages = ExecutionStage::empty();
    commands.begin().expect("begins");
    for index in 0..64 {
        let dynamic = BufferRef { buffer: None, slot: 0, offset: 0, length: 4 };
        let binding = [if index % 2 == 0 { dynamic } else { whole(target) }];
        let (function, flags) = (ExecutableFunction(0), DispatchFlags::empty());
        commands.dispatch(&kernels, function, &config, &[], &binding, flags).expect("is recorded");
        commands.execution_barrier(stages, stages, ExecutionBarrierFlags::empty(), &[], &[]).expect("is recorded");
    }
    commands.end().expect("ends");
    commands
}

#[test]
fn executions_and_barriers_allocate_nothing() {
    for graphs in ["never", "always"] {
        // SAFETY: it finds the functions of one library, which is part of the program.
        let library = unsafe { library::start_found(vireo_nullcuda::entries::cuGetProcAddress_v2, None) };
        let driver = StreamDriver::new(library.expect("it starts"), 0, DeviceOptions::default()).expect("a device");
        let params = [StringPair { key: "graphs".to_string(), value: graphs.to_string() }];
        let device = driver.create_device_by_path("cuda", "0", &params).expect("a device");
        let params = BufferParams { memory_type: MemoryType::DEVICE_LOCAL, ..BufferParams::default() };
        let buffers = [(); 2].map(|()| device.allocator().allocate_buffer(params, 256).expect("there is memory"));
        let commands = record(&*device, &buffers[0]);
        let line = device.create_semaphore(QueueAffinity::ANY, 0, SemaphoreFlags::empty()).expect("a timeline");
        let at = |value| [Timepoint { semaphore: line.clone(), value }];
        let (all, table) = (QueueAffinity::ANY, |buffer: &Arc<dyn Buffer>| {
            [BufferBinding { buffer: Some(buffer.clone()), offset: 0, length: WHOLE_BUFFER }]
        });
        let mut value = 0;
        let mut submit = |steps: u64| {
            let before = COUNT.get();
            for step in 0..steps {
                let table = table(&buffers[step as usize % 2]);
                let flags = ExecuteFlags::empty();
                device.queue_execute(all, &at(value), &at(value + 1), &commands, &table, flags).expect("submits");
                device.queue_barrier(all, &at(value + 1), &at(value + 2), flags).expect("submits");
                value += 2;
            }
            (COUNT.get() - before, value)
        };
        // Parts are given back after their end is signaled, so how many there are at a time depends on the threads.
        // There are no new ones once there were as many as are ever used; one for each submission would never end.
        let (mut quiet, mut rounds) = (0, 0);
        while quiet < 4 {
            let (allocated, last) = submit(8);
            line.wait(last, None).expect("it is reached");
            quiet = if allocated == 0 { quiet + 1 } else { 0 };
            rounds += 1;
            assert!(rounds < 1000, "graphs {graphs}: {allocated} allocations in round {rounds}");
        }
    }
}
