//! Failures of the HSA library: every call that can fail does so once. The cause reaches the caller, nothing hangs, and
//! nothing is left allocated.

use std::error::Error;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};

use vireo_amdgpu::device::DeviceOptions;
use vireo_core::status::Result;
use vireo_hal::{
    AllocaFlags, BufferParams, DeallocaFlags, DispatchConfig, DispatchFlags, DispatchTime, Driver,
    ExecutableCachingMode, ExecutableFunction, ExternalBuffer, ExternalBufferType, MemoryType, QueueAffinity,
    StringPair, SubmissionTime, TimesObserver,
};
use vireo_hsa::hsa::HsaStatus;

use super::library;
use super::support::{ADD, KERNELS, Machine, TestDevice, at, file, queue, wait, whole};

const ANY: QueueAffinity = QueueAffinity::ANY;

/// Functions without which the driver does as well: it then has no memory faults, and no times for observers.
const DISPENSABLE: [&str; 4] = [
    "hsa_system_get_info",
    "hsa_amd_register_system_event_handler",
    "hsa_amd_profiling_set_profiler_enabled",
    "hsa_amd_profiling_get_dispatch_time",
];

/// Signals that the four queues have. Those that are made later are for times.
const SIGNALS: u64 = 20;

/// The events that an observer was told: submissions, and dispatches with times and without.
#[derive(Default)]
struct Seen(Mutex<[usize; 3]>);

impl TimesObserver for Seen {
    fn is_active(&self) -> bool {
        true
    }

    fn dispatch(&self, time: &DispatchTime<'_>) {
        self.0.lock().expect("no panic")[if time.times.is_some() { 1 } else { 2 }] += 1;
    }

    fn submission(&self, _time: &SubmissionTime) {
        self.0.lock().expect("no panic")[0] += 1;
    }
}

/// Uses a device in every way that calls the library, up to the first failure.
fn use_a_device(topology: &str) -> Result<()> {
    let machine = Machine::try_over(topology, None, library::functions(), DeviceOptions::default())?;
    let pair = StringPair { key: "amdgpu_queues".to_string(), value: "2".to_string() };
    let device = machine.driver.create_device_by_path("amdgpu", "", &[pair])?;
    let times = device.clone().device_times().expect("the library has them");
    times.observe(Some(Arc::new(Seen::default())));
    let allocator = device.allocator();
    let params = |memory_type| BufferParams { memory_type, ..BufferParams::default() };
    let (local, of_host) = (params(MemoryType::DEVICE_LOCAL), params(MemoryType::HOST_LOCAL));
    let buffers = [allocator.allocate_buffer(local, 128)?, allocator.allocate_buffer(local, 128)?];
    let host = allocator.allocate_buffer(of_host, 128)?;
    #[repr(align(64))]
    struct Aligned([u8; 128]);
    let mut bytes = Box::new(Aligned([7; 128]));
    let data = NonNull::from(&mut bytes.0).cast();
    let external = ExternalBuffer { r#type: ExternalBufferType::HostAllocation, data, size: 128, owner: Arc::new(()) };
    // SAFETY: the bytes outlive the buffer, and nothing else uses them meanwhile.
    let imported = unsafe { allocator.import_buffer(params(MemoryType::HOST_LOCAL), &external) }?;
    let cache = device.create_executable_cache("tests")?;
    let executable = cache.prepare_executable(ANY, ExecutableCachingMode::empty(), "gfx1100", KERNELS, &[])?;
    let mut contents = [3u8; 128];
    let file = file(&device, &mut contents);
    let line = device.timeline();
    let mut value = 0;
    let mut next = || {
        value += 1;
        ([at(&line, value - 1)], [at(&line, value)])
    };
    let none = AllocaFlags::empty();
    let (before, after) = next();
    let transient = device.queue_alloca(ANY, &before, &after, None, local, 1 << 20, none)?;
    let (before, after) = next();
    device.queue_fill(queue(1), &before, &after, &transient, 0, 1 << 20, &[5], Default::default())?;
    let (before, after) = next();
    device.queue_copy(queue(2), &before, &after, &transient, 0, &buffers[0], 0, 128, Default::default())?;
    let (before, after) = next();
    device.queue_read(queue(0), &before, &after, &file, 0, &buffers[1], 0, 128, Default::default())?;
    let bindings = [whole(&buffers[0]), whole(&buffers[1]), whole(&imported)];
    let config = DispatchConfig { workgroup_count: [1, 1, 1], ..DispatchConfig::default() };
    let (function, flags) = (ExecutableFunction(ADD), DispatchFlags::empty());
    let (before, after) = next();
    device.queue_dispatch(
        queue(0),
        &before,
        &after,
        &executable,
        function,
        &config,
        &[32, 0, 32, 0],
        &bindings,
        flags,
    )?;
    let (before, after) = next();
    device.queue_copy(queue(3), &before, &after, &imported, 0, &host, 0, 128, Default::default())?;
    let (before, after) = next();
    device.queue_dealloca(ANY, &before, &after, &transient, DeallocaFlags::empty())?;
    line.wait(value, None)?;
    device.trim()?;
    let sum = f32::from_bits(0x0505_0505) + f32::from_bits(0x0303_0303);
    assert_eq!(vireo_hal::buffer_to_vec(&*host, 128)?, sum.to_le_bytes().repeat(32));
    times.observe(None);
    Ok(())
}

#[test]
fn every_call_that_fails_is_reported_and_leaves_nothing_behind() {
    let _turn = library::exclusive();
    // Functions that end something return statuses that callers can do nothing about.
    let ends = |name: &str| ["_destroy", "_free", "_unlock", "_shut_down"].iter().any(|end| name.ends_with(end));
    // Where the host reaches no memory of the GPU, other functions make and fill it.
    let memory =
        ["hsa_memory_copy", "hsa_amd_memory_fill", "hsa_amd_memory_pool_allocate", "hsa_amd_agents_allow_access"];
    for (topology, functions) in [("agents=2", None), ("agents=2,without=large-bar", Some(memory))] {
        library::reset(None);
        use_a_device(topology).expect("nothing fails");
        assert_eq!(library::leaked(), [""; 0], "{topology}");
        let is_tested = |name: &str| functions.is_none_or(|functions| functions.contains(&name));
        for (name, count) in library::calls().into_iter().filter(|(name, _)| !ends(name) && is_tested(name)) {
            for number in 1..=count {
                library::reset(Some(((name, number), HsaStatus::ERROR_OUT_OF_RESOURCES)));
                let is_for_times = name == "hsa_amd_signal_create" && number > SIGNALS;
                let is_dispensable = is_for_times || DISPENSABLE.contains(&name);
                match use_a_device(topology) {
                    Ok(()) => assert!(is_dispensable, "{topology}: {name}, call {number}"),
                    Err(error) => {
                        assert!(!is_dispensable, "{topology}: {name}, call {number}: {error}");
                        let errors = std::iter::successors(Some(&error as &dyn Error), |error| (*error).source());
                        let chain: Vec<String> = errors.map(ToString::to_string).collect();
                        assert!(chain.iter().any(|text| text.contains(&format!("`{name}"))), "{name}: {chain:?}");
                    }
                }
                assert_eq!(library::leaked(), [""; 0], "{topology}: {name}, call {number}");
            }
        }
    }
}

/// A queue that stops while it admits a submission, after it has been asked whether it has stopped.
#[test]
fn a_queue_that_stops_during_an_admission_fails_it() {
    let _turn = library::exclusive();
    let machine = Machine::over("", None, library::functions(), DeviceOptions::default());
    let device = machine.device("", &[("amdgpu_queues", "3")]);
    let memory = device.buffer(64, MemoryType::DEVICE_LOCAL);
    let [kernel, first, second, after] = [(); 4].map(|()| device.timeline());
    device.clone().device_times().expect("the library has them").observe(Some(Arc::new(Seen::default())));
    let held = machine.hold_kernels();
    device.fill(0, &[], &[at(&kernel, 1)], &memory, 1);
    device.queue_barrier(queue(2), &[at(&kernel, 1)], &[at(&first, 1)], Default::default()).expect("submits");
    device.queue_barrier(queue(1), &[at(&first, 1)], &[at(&after, 1)], Default::default()).expect("submits");
    // Admission asks for the time when all packets are there. Meanwhile the queue fails all that was submitted, and
    // ends the wait for it.
    library::before_next("hsa_system_get_info", move || {
        library::stop_last_queue(HsaStatus::ERROR_INVALID_PACKET_FORMAT);
        after.wait(1, None).expect_err("it waits for what failed");
    });
    device.fill(2, &[], &[at(&second, 1)], &memory, 2);
    for line in [first, second] {
        let failure = line.wait(1, None).expect_err("the queue stopped");
        assert!(failure.message().contains("stopped with"), "{failure}");
    }
    // A caller that learns of the failure may use the memory again: no packet does any more.
    assert_eq!(library::calls().get("hsa_queue_inactivate"), Some(&1));
    drop(held);
    wait(&kernel, 1);
}

/// The same, while it waits for more queues than fit the ring at once.
#[test]
fn a_queue_that_stops_between_its_waits_fails_what_waits() {
    let _turn = library::exclusive();
    let machine = Machine::over("queues=200", None, library::functions(), DeviceOptions::default());
    let devices = [(); 9].map(|()| machine.device("", &[("amdgpu_queues", "16")]));
    let device = machine.device("", &[]);
    let memory = device.buffer(64, MemoryType::DEVICE_LOCAL);
    let held = machine.hold_kernels();
    let mut points = Vec::new();
    for other in &devices {
        for index in 0..16 {
            let line = device.timeline();
            other.fill(index, &[], &[at(&line, 1)], &other.buffer(64, MemoryType::DEVICE_LOCAL), 1);
            points.push(at(&line, 1));
        }
    }
    // The doorbell of the first waits.
    library::before_next("hsa_signal_store_screlease", || {
        library::stop_last_queue(HsaStatus::ERROR_INVALID_PACKET_FORMAT);
    });
    let line = device.timeline();
    device.fill(0, &points, &[at(&line, 1)], &memory, 1);
    let failure = line.wait(1, None).expect_err("the queue stopped");
    assert!(failure.message().contains("stopped with"), "{failure}");
    drop(held);
    points.iter().for_each(|point| wait(&point.semaphore, 1));
}
