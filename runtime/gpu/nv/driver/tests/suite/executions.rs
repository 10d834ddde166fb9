//! Command buffers as streams and as graphs get them: nodes that change, barriers, more nodes than other drivers take.

use std::sync::Arc;

use vireo_core::status::Result;
use vireo_hal::*;
use vireo_stream::device::DeviceOptions;
use vireo_stream::driver::StreamDriver;

use crate::support::*;

const ADD: &str = "
    .reg .b32 %r<3>;
    .reg .b64 %rd<3>;
    ld.param.b64 %rd1, [p0];
    ld.global.b32 %r1, [%rd1];
    add.u32 %r1, %r1, 1;
    st.global.b32 [%rd1], %r1;
    ret;";

pub fn traced(params: &[(&str, &str)]) -> (Arc<dyn Device>, Calls) {
    let calls = Calls::default();
    let driver = StreamDriver::new(library(Some(Box::new(calls.clone()))), 0, DeviceOptions::default());
    let params: Vec<StringPair> =
        params.iter().map(|(key, value)| StringPair { key: key.to_string(), value: value.to_string() }).collect();
    let device = driver.expect("there are devices").create_device_by_path("cuda", "0", &params).expect("a device");
    (device, calls)
}

/// A command buffer with `count` additions to the words of slot 0, a barrier after each `every`.
pub fn additions(device: &dyn Device, count: u64, every: u64, distinct: u64) -> Arc<dyn CommandBuffer> {
    try_additions(device, count, every, distinct).expect("is recorded")
}

/// The same, where the library may fail.
pub fn try_additions(device: &dyn Device, count: u64, every: u64, distinct: u64) -> Result<Arc<dyn CommandBuffer>> {
    let data = executable(&module(1, ADD), "main", [1, 1, 1], 1, 0);
    let kernels = prepare(device, &data)?;
    let commands =
        device.create_command_buffer(CommandBufferMode::empty(), CommandCategory::ANY, QueueAffinity::ANY, 1)?;
    commands.begin()?;
    let config = DispatchConfig { workgroup_count: [1, 1, 1], ..DispatchConfig::default() };
    for index in 0..count {
        if index > 0 && index % every == 0 {
            let (source, target) = (ExecutionStage::empty(), ExecutionStage::empty());
            commands.execution_barrier(source, target, ExecutionBarrierFlags::empty(), &[], &[])?;
        }
        let binding = [BufferRef { buffer: None, slot: 0, offset: index % distinct * 4, length: 4 }];
        let flags = DispatchFlags::empty();
        commands.dispatch(&kernels, ExecutableFunction(0), &config, &[], &binding, flags)?;
    }
    commands.end()?;
    Ok(commands)
}

pub fn execute(device: &dyn Device, commands: &Arc<dyn CommandBuffer>, buffer: &Arc<dyn Buffer>) {
    let table = [BufferBinding { buffer: Some(buffer.clone()), offset: 0, length: WHOLE_BUFFER }];
    outcome(device, |signal| {
        device.queue_execute(QueueAffinity::ANY, &[], signal, commands, &table, ExecuteFlags::empty())
    })
    .expect("runs");
}

/// Indirect command buffers are graphs too, from the second execution on, and only nodes that change are set.
#[test]
fn graphs_are_made_once_and_changed_where_addresses_differ() {
    let (device, calls) = traced(&[]);
    let buffers = [buffer(&*device, &[0; 64]), buffer(&*device, &[0; 64])];
    let commands = additions(&*device, 64, 64, 64);
    execute(&*device, &commands, &buffers[0]);
    assert_eq!((calls.take("cuLaunchKernel"), calls.take("cuGraphLaunch")), (64, 0));
    for _ in 0..3 {
        execute(&*device, &commands, &buffers[0]);
    }
    assert_eq!((calls.take("cuGraphInstantiate"), calls.take("cuLaunchKernel")), (0, 0));
    assert_eq!((calls.take("cuGraphInstantiateWithFlags"), calls.take("cuGraphLaunch")), (1, 3));
    assert_eq!(calls.take("cuGraphExecKernelNodeSetParams"), 0);
    // All nodes would change: the stream is faster.
    execute(&*device, &commands, &buffers[1]);
    assert_eq!((calls.take("cuLaunchKernel"), calls.take("cuGraphExecKernelNodeSetParams")), (64, 0));
    assert_eq!((words(&*buffers[0]), words(&*buffers[1])), (vec![4; 64], vec![1; 64]));
    let (device, calls) = traced(&[("graphs", "always")]);
    let buffers = [buffer(&*device, &[0; 64]), buffer(&*device, &[0; 64])];
    let commands = additions(&*device, 64, 64, 64);
    for index in [0, 1, 1, 0] {
        execute(&*device, &commands, &buffers[index]);
    }
    assert_eq!((calls.take("cuGraphLaunch"), calls.take("cuGraphExecKernelNodeSetParams")), (4, 128));
    assert_eq!((words(&*buffers[0]), words(&*buffers[1])), (vec![2; 64], vec![2; 64]));
}

/// Far more nodes between two barriers than IREE's driver takes (32), and a barrier after each node.
#[test]
fn order_holds_with_many_nodes_and_with_many_barriers() {
    for (count, every, distinct) in [(500, 1, 1), (600, 100, 100), (1000, 250, 250), (40, 7, 7)] {
        for graphs in ["always", "never"] {
            let device = device(&[("graphs", graphs)]);
            let target = buffer(&*device, &vec![0; distinct as usize]);
            let commands = additions(&*device, count, every, distinct);
            execute(&*device, &commands, &target);
            execute(&*device, &commands, &target);
            let expected: Vec<u32> = (0..distinct).map(|word| 2 * (count - word).div_ceil(distinct) as u32).collect();
            assert_eq!(words(&*target), expected, "{count} nodes, a barrier after {every}, graphs {graphs}");
        }
    }
}

/// A barrier that nothing came after the last one for keeps the order of what follows.
#[test]
fn barriers_without_commands_in_between_keep_the_order() {
    let device = device(&[("graphs", "always")]);
    let target = buffer(&*device, &[0; 1]);
    let commands = device
        .create_command_buffer(CommandBufferMode::empty(), CommandCategory::ANY, QueueAffinity::ANY, 0)
        .expect("a command buffer");
    commands.begin().expect("begins");
    for value in 1..=50u8 {
        for _ in 0..3 {
            let (source, to) = (ExecutionStage::empty(), ExecutionStage::empty());
            commands.execution_barrier(source, to, ExecutionBarrierFlags::empty(), &[], &[]).expect("is recorded");
        }
        commands.fill_buffer(&whole(&target), &[value], FillFlags::empty()).expect("is recorded");
    }
    commands.end().expect("ends");
    for _ in 0..4 {
        outcome(&*device, |signal| {
            device.queue_execute(QueueAffinity::ANY, &[], signal, &commands, &[], ExecuteFlags::empty())
        })
        .expect("runs");
        assert_eq!(words(&*target), [0x3232_3232]);
    }
}

/// One event ends each submission, whatever it signals, and no thread but the caller's issues it.
#[test]
fn a_submission_records_one_event() {
    let (device, calls) = traced(&[]);
    let target = buffer(&*device, &[0; 16]);
    let fill = |signal: &[Timepoint]| {
        device.queue_fill(QueueAffinity::ANY, &[], signal, &target, 0, 64, &[1], FillFlags::empty())
    };
    outcome(&*device, fill).expect("fills");
    let _ = (calls.take("cuEventRecord"), calls.take("cuEventCreate"));
    let lines: Vec<_> = (0..8)
        .map(|_| device.create_semaphore(QueueAffinity::ANY, 0, SemaphoreFlags::empty()).expect("a timeline"))
        .collect();
    let points: Vec<Timepoint> = lines.iter().map(|line| Timepoint { semaphore: line.clone(), value: 1 }).collect();
    fill(&points).expect("is submitted");
    for line in &lines {
        line.wait(1, None).expect("is signaled");
    }
    assert_eq!((calls.take("cuEventRecord"), calls.take("cuEventCreate")), (1, 0));
}

const SCALE: &str = "
    .reg .b32 %r<3>;
    .reg .b64 %rd<3>;
    ld.param.b64 %rd1, [p0];
    ld.global.b32 %r1, [%rd1];
    mov.b64 %rd2, factor;
    cvta.global.u64 %rd2, %rd2;
    ld.b32 %r2, [%rd2];
    mul.lo.u32 %r1, %r1, %r2;
    st.global.b32 [%rd1], %r1;
    ret;";

/// Programs write a global by copies; a kernel reads it.
#[test]
fn globals_are_buffers() {
    let device = device(&[]);
    let text =
        module(1, SCALE).replace(".visible .entry", ".visible .global .align 4 .b32 factor = 3;\n.visible .entry");
    let kernels = prepare(&*device, &executable(&text, "main", [1, 1, 1], 1, 0)).expect("loads");
    let missing = refusal(kernels.lookup_global("divisor", QueueAffinity::ANY));
    assert_eq!(missing.code(), vireo_core::status::StatusCode::NotFound);
    let factor = kernels.lookup_global("factor", QueueAffinity::ANY).expect("is there");
    assert_eq!(factor.byte_length(), 4);
    let value = buffer(&*device, &[5]);
    let config = DispatchConfig { workgroup_count: [1, 1, 1], ..DispatchConfig::default() };
    let run = || {
        outcome(&*device, |signal| {
            let (function, bindings, flags) = (ExecutableFunction(0), [whole(&value)], DispatchFlags::empty());
            device.queue_dispatch(QueueAffinity::ANY, &[], signal, &kernels, function, &config, &[], &bindings, flags)
        })
        .expect("runs");
    };
    run();
    let update = |signal: &[Timepoint]| {
        device.queue_update(QueueAffinity::ANY, &[], signal, &7u32.to_le_bytes(), &factor, 0, UpdateFlags::empty())
    };
    // The buffer keeps the module loaded.
    outcome(&*device, update).expect("updates");
    run();
    drop(kernels);
    outcome(&*device, update).expect("updates");
    assert_eq!(words(&*value), [5 * 3 * 7]);
}

/// Streams count through the GPUs of a device; command buffers for all of them run on each, and their memory is shared.
#[test]
fn a_device_of_two_gpus_runs_on_both() {
    let params = [StringPair { key: "streams".to_string(), value: "2".to_string() }];
    let device = driver().create_device_by_path("cuda", "1,0", &params).expect("a device");
    let target = buffer(&*device, &[0; 4]);
    let commands = additions(&*device, 8, 4, 4);
    let line = device.create_semaphore(QueueAffinity::ANY, 0, SemaphoreFlags::empty()).expect("a timeline");
    let at = |value| [Timepoint { semaphore: line.clone(), value }];
    let table = [BufferBinding { buffer: Some(target.clone()), offset: 0, length: WHOLE_BUFFER }];
    // Each waits for the one before, on a stream of the other GPU.
    for (value, queue) in (0..).zip([0, 2, 1, 3, 0]) {
        let (affinity, flags) = (QueueAffinity::from_bits_retain(1 << queue), ExecuteFlags::empty());
        let (wait, signal) = (at(value), at(value + 1));
        device.queue_execute(affinity, &wait, &signal, &commands, &table, flags).expect("is submitted");
    }
    line.wait(5, None).expect("is reached");
    assert_eq!(words(&*target), [10; 4]);
    // Memory of each GPU.
    for queue in 0..4 {
        let affinity = QueueAffinity::from_bits_retain(1 << queue);
        let params =
            BufferParams { memory_type: MemoryType::DEVICE_LOCAL, queue_affinity: affinity, ..BufferParams::default() };
        let local = device.allocator().allocate_buffer(params, 16).expect("there is memory");
        let line = device.create_semaphore(QueueAffinity::ANY, 0, SemaphoreFlags::empty()).expect("a timeline");
        let point = [Timepoint { semaphore: line.clone(), value: 1 }];
        let other = QueueAffinity::from_bits_retain(1 << (3 - queue));
        device.queue_copy(other, &[], &point, &target, 0, &local, 0, 16, CopyFlags::empty()).expect("is submitted");
        line.wait(1, None).expect("is reached");
        assert_eq!(words(&*local), [10; 4], "queue {queue}");
    }
}
