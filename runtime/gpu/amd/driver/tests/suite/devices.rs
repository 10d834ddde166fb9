//! The driver and its devices: paths, parameters, what is said of agents, command buffers and dispatches.

use std::sync::Arc;

use vireo_core::status::{Result, StatusCode};
use vireo_hal::{
    AllocaFlags, Buffer, BufferBinding, BufferParams, BufferRef, CommandBuffer, CommandBufferMode, CommandCategory,
    DeallocaFlags, Device, DeviceId, DispatchConfig, DispatchFlags, Driver, ExecutableFunction, ExecuteFlags,
    ExecutionBarrierFlags, ExecutionStage, HostCall, HostCallContext, HostCallFlags, MemoryType, QueueAffinity,
    Timepoint,
};

use super::support::{ABS, ADD, Machine, TestDevice, at, queue, wait, whole};

const DEVICE: MemoryType = MemoryType::DEVICE_LOCAL;

#[test]
fn devices_are_named_by_ordinals_and_unique_names() {
    let machine = Machine::new("agents=3");
    let listed = machine.driver.query_available_devices().expect("there are some");
    assert_eq!(listed.len(), 3);
    let queues = |path: &str| {
        let device = machine.driver.create_device_by_path("amdgpu", path, &[])?;
        device.query_i64("hal.device", "concurrency")
    };
    let count = |path: &str| queues(path).unwrap_or_else(|error| panic!("{path}: {error}"));
    assert_eq!(count(""), 3, "all agents");
    assert_eq!((count("1"), count("2,0"), count(&listed[1].path)), (1, 2, 1));
    for path in ["3", "0,0", "GPU-nothing", "0,"] {
        let error = queues(path).expect_err("there is no such device");
        assert!(matches!(error.code(), StatusCode::NotFound | StatusCode::InvalidArgument), "{path}: {error}");
    }
    let error = queues("7").expect_err("there is no such device");
    assert!(error.message().contains("no device `7`: it has `0` ("), "{error}");
    assert!(machine.driver.create_device_by_id(DeviceId(2), &[]).is_ok());
    assert_eq!(
        machine.driver.create_device_by_id(DeviceId(4), &[]).map(drop).expect_err("three").code(),
        StatusCode::NotFound
    );
    let text = machine.driver.dump_device_info(DeviceId::default()).expect("it is described");
    assert!(text.contains("AMD GPUs over HSA: 3") && text.contains("memory of 2: "), "{text}");
    let odd = [vireo_hal::StringPair { key: "amdgpu_queues".to_string(), value: "0".to_string() }];
    assert!(machine.driver.create_device_by_path("amdgpu", "", &odd).is_err());
}

#[test]
fn programs_find_the_device_and_its_target() {
    let machine = Machine::new("");
    let device = machine.device("", &[]);
    let query = |category: &str, key: &str| device.query_i64(category, key).expect("it is known");
    assert_eq!((query("hal.device.id", "amdgpu"), query("hal.device.id", "cuda")), (1, 0));
    let format = |key: &str| query("hal.executable.format", key);
    assert_eq!((format("gfx1100"), format("gfx11-generic"), format("gfx942"), format("vmvx")), (1, 1, 0, 0));
    let cache = device.create_executable_cache("").expect("there are caches");
    let other = include_bytes!("../../../../../../fixtures/amdgpu/kernels_gfx942.amd1");
    let mode = vireo_hal::ExecutableCachingMode::empty();
    assert_eq!(cache.infer_format(mode, other).expect("well-formed"), "gfx942");
    let prepared = cache.prepare_executable(QueueAffinity::ANY, mode, "gfx1100", other, &[]);
    let error = prepared.map(drop).expect_err("for another target");
    assert!(error.message().contains("an executable for `gfx942` does not run on agent 0 (gfx1100"), "{error}");
}

/// Records a dispatch of `abs` between two references.
fn record(device: &Arc<dyn Device>, mode: CommandBufferMode, bindings: &[BufferRef]) -> Result<Arc<dyn CommandBuffer>> {
    let commands = device.create_command_buffer(mode, CommandCategory::ANY, QueueAffinity::ANY, 2)?;
    commands.begin()?;
    let config = DispatchConfig { workgroup_count: [2, 1, 1], ..DispatchConfig::default() };
    let (function, flags) = (ExecutableFunction(ABS), DispatchFlags::empty());
    commands.dispatch(&device.executable(), function, &config, &[], bindings, flags)?;
    let stage = ExecutionStage::empty();
    commands.execution_barrier(stage, stage, ExecutionBarrierFlags::empty(), &[], &[])?;
    commands.end()?;
    Ok(commands)
}

#[test]
fn command_buffers_run_with_fixed_and_bound_buffers() {
    let machine = Machine::new("");
    let device = machine.device("", &[]);
    let (source, target) = (device.buffer(256, DEVICE), device.buffer(256, DEVICE));
    let values: Vec<u8> = (0..64).flat_map(|index| (-(index as f32)).to_le_bytes()).collect();
    let expected: Vec<u8> = (0..64).flat_map(|index| (index as f32).abs().to_le_bytes()).collect();
    device.write(&source, &values);
    let slot = |slot| BufferRef { buffer: None, slot, offset: 0, length: 256 };
    let binding = |buffer: &Arc<dyn Buffer>| BufferBinding { buffer: Some(buffer.clone()), offset: 0, length: 256 };
    let table = [binding(&source), binding(&target)];
    for bindings in [[whole(&source), whole(&target)], [slot(0), slot(1)], [whole(&source), slot(1)]] {
        for mode in [CommandBufferMode::empty(), CommandBufferMode::ONE_SHOT] {
            let commands = record(&device, mode, &bindings).expect("records");
            let line = device.timeline();
            let executions = if mode.is_empty() { 3 } else { 1 };
            for execution in 1..=executions {
                device.write(&target, &[0; 256]);
                let signal = [at(&line, execution)];
                let flags = ExecuteFlags::empty();
                device.queue_execute(QueueAffinity::ANY, &[], &signal, &commands, &table, flags).expect("submits");
                wait(&line, execution);
                assert_eq!(device.read(&target), expected, "{bindings:?}");
            }
            let again = device.queue_execute(QueueAffinity::ANY, &[], &[], &commands, &table, ExecuteFlags::empty());
            assert_eq!(again.is_ok(), mode.is_empty(), "one-shot command buffers run once");
        }
    }
}

#[test]
fn dispatches_take_their_size_from_memory() {
    let machine = Machine::new("");
    let device = machine.device("", &[]);
    let [left, right, target] = [0, 1, 2].map(|_| device.buffer(128, DEVICE));
    device.write(&left, &[1.5f32; 32].map(f32::to_le_bytes).concat());
    device.write(&right, &[2.0f32; 32].map(f32::to_le_bytes).concat());
    let counts = device.buffer(64, DEVICE);
    let executable = device.executable();
    let config = DispatchConfig {
        workgroup_count_ref: BufferRef { buffer: Some(counts.clone()), slot: 0, offset: 4, length: 12 },
        ..DispatchConfig::default()
    };
    let line = device.timeline();
    for (value, (count, result)) in (1u64..).zip([(0u32, 0.0f32), (1, 3.5)]) {
        device.write(&counts, &[9, count, 1, 1].map(u32::to_le_bytes).concat());
        let bindings = [whole(&left), whole(&right), whole(&target)];
        let dispatched = device.queue_dispatch(
            QueueAffinity::ANY,
            &[],
            &[at(&line, value)],
            &executable,
            ExecutableFunction(ADD),
            &config,
            &[32, 0, 32, 0],
            &bindings,
            DispatchFlags::DYNAMIC_INDIRECT_PARAMETERS,
        );
        dispatched.expect("submits");
        wait(&line, value);
        assert_eq!(device.read(&target), [result; 32].map(f32::to_le_bytes).concat(), "{count} work-groups");
    }
}

#[test]
fn transient_buffers_live_from_their_allocation_to_their_deallocation() {
    let machine = Machine::new("");
    let device = machine.device("", &[("amdgpu_queues", "2")]);
    let line = device.timeline();
    let params = BufferParams { memory_type: DEVICE, ..BufferParams::default() };
    let (any, flags) = (QueueAffinity::ANY, AllocaFlags::empty());
    // The allocation waits for a point that is signaled at the end.
    let signal = [at(&line, 2)];
    let buffer = device.queue_alloca(any, &[at(&line, 1)], &signal, None, params, 64, flags).expect("submits");
    device.fill(1, &[at(&line, 2)], &[at(&line, 3)], &buffer, 0x0102_0304);
    let target = device.buffer(64, DEVICE);
    let (copied, none) = ([at(&line, 4)], Default::default());
    device.queue_copy(any, &[at(&line, 3)], &copied, &buffer, 0, &target, 0, 64, none).expect("submits");
    let freed = [at(&line, 5)];
    device.queue_dealloca(any, &copied, &freed, &buffer, DeallocaFlags::empty()).expect("submits");
    assert_eq!(line.query().expect("did not fail"), 0);
    line.signal(1).expect("advances");
    wait(&line, 5);
    assert_eq!(device.read(&target), 0x0102_0304u32.to_le_bytes().repeat(16));
    let after = device.timeline();
    device.queue_fill(any, &[], &[at(&after, 1)], &buffer, 0, 64, &[1], Default::default()).expect("submits");
    let failure = after.wait(1, None).expect_err("it has no memory any more");
    assert!(failure.message().contains("was deallocated"), "{failure}");
}

#[derive(Debug)]
struct Call;

impl HostCall for Call {
    fn call(&self, context: HostCallContext, signal: &[Timepoint]) -> Result<()> {
        assert_eq!((context.args, signal.len()), ([1, 2, 0, 0], 1));
        Ok(())
    }
}

#[test]
fn host_calls_are_ordered_by_timelines() {
    let machine = Machine::new("");
    let device = machine.device("", &[]);
    let (line, memory) = (device.timeline(), device.buffer(64, DEVICE));
    let call: Arc<dyn HostCall> = Arc::new(Call);
    let any = QueueAffinity::ANY;
    device
        .queue_host_call(any, &[at(&line, 1)], &[at(&line, 2)], &call, &[1, 2], HostCallFlags::empty())
        .expect("submits");
    device.fill(0, &[at(&line, 2)], &[at(&line, 3)], &memory, 7);
    device.fill(0, &[], &[at(&line, 1)], &memory, 3);
    wait(&line, 3);
    assert_eq!(device.read(&memory), 7u32.to_le_bytes().repeat(16));
}

#[test]
fn edges_between_devices_say_how_their_memory_is_reached() {
    use vireo_hsa::topology::{InteropMode, LinkClass, TopologyScheduling};
    let edge = |topology: &str, from: &str, to: &str| {
        let machine = Machine::new(&format!("agents=3,{topology}"));
        let (from, to) = (machine.device(from, &[]), machine.device(to, &[]));
        let known = vireo_hal::TopologyEdge { scheduling_word: 5, interop_word: 7 };
        let refined = from.refine_topology_edge(&to, known).expect("both are of the driver");
        assert_eq!(refined.interop_word, 7);
        TopologyScheduling::read(&refined.scheduling_word.to_le_bytes())
    };
    let pcie = edge("", "0", "1");
    assert_eq!((pcie.costs.link_class(), pcie.costs.numa_distance()), (LinkClass::PCIE_SAME_ROOT, 1));
    assert!(pcie.modes.p2p_copy() && pcie.modes.peer_coherent() && pcie.modes.atomic_system());
    assert_eq!((pcie.modes.wait_mode(), pcie.modes.buffer_read_mode()), (InteropMode::NATIVE, InteropMode::COPY));
    let xgmi = edge("peer-links=xgmi,without=atomics+coherency+hdp", "0", "1,2");
    assert_eq!((xgmi.costs.link_class(), xgmi.costs.numa_distance()), (LinkClass::NVLINK_IF, 0));
    assert!(xgmi.modes.p2p_copy() && !xgmi.modes.peer_coherent() && !xgmi.modes.atomic_system());
    assert!(xgmi.modes.host_coherent() && !pcie.modes.host_coherent());
    let apart = edge("without=peers", "0", "1");
    assert_eq!((apart.costs.link_class(), apart.modes.p2p_copy()), (LinkClass::HOST_STAGED, false));
    let same = edge("", "1,2", "1,2");
    assert_eq!((same.costs.link_class(), same.modes.buffer_write_mode()), (LinkClass::SAME_DIE, InteropMode::NATIVE));
    // Its queues are held back by the host.
    assert_eq!(edge("isa=gfx950", "0", "1").modes.wait_mode(), InteropMode::COPY);
}

#[test]
fn links_are_described() {
    let machine = Machine::new("agents=2,peer-links=xgmi,without=atomics");
    let text = machine.driver.dump_device_info(DeviceId::default()).expect("it is described");
    assert!(text.contains("memory of 1: xGMI, distance 15, coherent, if allowed"), "{text}");
    assert!(text.contains("memory of the host: PCI Express, distance 20, coherent, if allowed"), "{text}");
    let capabilities = machine.device("1", &[]).capabilities();
    assert_eq!(capabilities.numa_node, 0);
    assert_ne!(capabilities.driver_device_handle, 0);
}

#[test]
fn command_buffers_run_on_every_gpu_of_their_affinity() {
    let machine = Machine::new("agents=3");
    let device = machine.device("", &[]);
    let buffers = [(); 2].map(|()| device.buffer(256, DEVICE));
    let values: Vec<u8> = (0..64).flat_map(|index| (-(index as f32)).to_le_bytes()).collect();
    let expected: Vec<u8> = (0..64).flat_map(|index| (index as f32).abs().to_le_bytes()).collect();
    device.write(&buffers[0], &values);
    let bindings = buffers.each_ref().map(whole);
    let create = |affinity, mode| {
        let commands = device.create_command_buffer(mode, CommandCategory::ANY, affinity, 0).expect("creates");
        commands.begin().expect("begins");
        let config = DispatchConfig { workgroup_count: [2, 1, 1], ..DispatchConfig::default() };
        let (function, flags) = (ExecutableFunction(ABS), DispatchFlags::empty());
        let executable = device.executable();
        commands.dispatch(&executable, function, &config, &[], &bindings, flags).expect("records");
        // An operation that every device refuses is recorded by none.
        let odd = BufferRef { length: 1000, ..whole(&buffers[1]) };
        assert!(commands.fill_buffer(&odd, &[1], Default::default()).is_err());
        commands.end().expect("ends");
        commands
    };
    let line = device.timeline();
    let mut value = 0;
    let mut execute = |commands: &Arc<dyn CommandBuffer>, index: u32| {
        device.write(&buffers[1], &[0; 256]);
        let signal = [at(&line, value + 1)];
        device.queue_execute(queue(index), &[], &signal, commands, &[], ExecuteFlags::empty())?;
        value += 1;
        wait(&line, value);
        assert_eq!(device.read(&buffers[1]), expected, "queue {index}");
        Ok::<_, vireo_core::status::Status>(())
    };
    let all = create(QueueAffinity::ANY, CommandBufferMode::empty());
    for index in [0, 2, 1, 0] {
        execute(&all, index).expect("every GPU has it");
    }
    let two = create(QueueAffinity::from_bits_retain(0b110), CommandBufferMode::empty());
    execute(&two, 1).expect("the second GPU has it");
    execute(&two, 2).expect("the third GPU has it");
    let one = create(queue(1), CommandBufferMode::empty());
    execute(&one, 1).expect("the second GPU has it");
    for commands in [&two, &one] {
        let error = execute(commands, 0).expect_err("the first GPU does not have it");
        assert!(error.message().contains("recorded for other GPUs"), "{error}");
    }
    let once = create(QueueAffinity::ANY, CommandBufferMode::ONE_SHOT);
    execute(&once, 2).expect("it was not executed before");
    assert!(execute(&once, 2).is_err());
    let elsewhere = machine.device("", &[]);
    let error = elsewhere.queue_execute(queue(0), &[], &[], &all, &[], ExecuteFlags::empty());
    assert!(error.expect_err("recorded by another device").message().contains("recorded for other GPUs"));
}
