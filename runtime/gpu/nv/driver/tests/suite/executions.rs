//! Command buffers as streams and as graphs get them: nodes that change, barriers, more nodes than other drivers take.

use std::sync::Arc;

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

fn traced(params: &[(&str, &str)]) -> (Arc<dyn Device>, Calls) {
    let calls = Calls::default();
    let driver = StreamDriver::new(library(Some(Box::new(calls.clone()))), 0, DeviceOptions::default());
    let params: Vec<StringPair> =
        params.iter().map(|(key, value)| StringPair { key: key.to_string(), value: value.to_string() }).collect();
    let device = driver.expect("there are devices").create_device_by_path("cuda", "0", &params).expect("a device");
    (device, calls)
}

/// A command buffer with `count` additions to the words of slot 0, a barrier after each `every`.
fn additions(device: &dyn Device, count: u64, every: u64, distinct: u64) -> Arc<dyn CommandBuffer> {
    let data = executable(&module(1, ADD), "main", [1, 1, 1], 1, 0);
    let kernels = prepare(device, &data).expect("loads");
    let commands = device
        .create_command_buffer(CommandBufferMode::empty(), CommandCategory::ANY, QueueAffinity::ANY, 1)
        .expect("a command buffer");
    commands.begin().expect("begins");
    let config = DispatchConfig { workgroup_count: [1, 1, 1], ..DispatchConfig::default() };
    for index in 0..count {
        if index > 0 && index % every == 0 {
            let (source, target) = (ExecutionStage::empty(), ExecutionStage::empty());
            commands.execution_barrier(source, target, ExecutionBarrierFlags::empty(), &[], &[]).expect("is recorded");
        }
        let binding = [BufferRef { buffer: None, slot: 0, offset: index % distinct * 4, length: 4 }];
        let flags = DispatchFlags::empty();
        commands.dispatch(&kernels, ExecutableFunction(0), &config, &[], &binding, flags).expect("is recorded");
    }
    commands.end().expect("ends");
    commands
}

fn execute(device: &dyn Device, commands: &Arc<dyn CommandBuffer>, buffer: &Arc<dyn Buffer>) {
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
