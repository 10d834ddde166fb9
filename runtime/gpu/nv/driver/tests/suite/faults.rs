//! Failures of the library: every call that can fail does so, once as a failure of its own and once with the loss of
//! the context. The cause reaches the caller, nothing hangs, and what was made is ended.

use std::collections::BTreeMap;
use std::error::Error;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use vireo_core::status::{Result, StatusCode};
use vireo_cuda_driver::library;
use vireo_hal::*;
use vireo_stream::api::{ApiError, FailureKind, Tracer};
use vireo_stream::device::DeviceOptions;
use vireo_stream::driver::StreamDriver;

use crate::executions::try_additions;
use crate::support::*;

/// The longest wait for threads that end.
const PATIENCE: Duration = Duration::from_secs(60);

const ANY: QueueAffinity = QueueAffinity::ANY;

/// Functions without which the driver does as well: descriptions, and the context of a handle that ends, whose owner
/// nothing can be reported to.
const DISPENSABLE: [&str; 3] = ["cuDeviceGetPCIBusId", "cuMemGetInfo", "cuCtxPushCurrent"];

/// Those whose failure says nothing: an attribute that a library does not know is one that its device lacks, and the
/// context that was current before cannot be had back.
const UNTESTED: [&str; 2] = ["cuDeviceGetAttribute", "cuCtxPopCurrent"];

/// The functions that make something, with those that end it.
const PAIRS: [(&str, &str); 12] = [
    ("cuDevicePrimaryCtxRetain", "cuDevicePrimaryCtxRelease"),
    ("cuStreamCreate", "cuStreamDestroy"),
    ("cuEventCreate", "cuEventDestroy"),
    ("cuMemAlloc", "cuMemFree"),
    ("cuMemAllocManaged", "cuMemFree"),
    ("cuMemHostAlloc", "cuMemFreeHost"),
    ("cuMemHostRegister", "cuMemHostUnregister"),
    ("cuMemPoolCreate", "cuMemPoolDestroy"),
    ("cuMemAllocFromPoolAsync", "cuMemFreeAsync"),
    ("cuModuleLoadDataEx", "cuModuleUnload"),
    ("cuGraphCreate", "cuGraphDestroy"),
    ("cuGraphInstantiateWithFlags", "cuGraphExecDestroy"),
];

/// A call that fails: its function, its number from 1, and how.
type Plan = (&'static str, usize, FailureKind);

/// The calls of a library so far, and one of them that fails.
#[derive(Clone, Default)]
struct Faults(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    plan: Option<Plan>,
    has_failed: bool,
    calls: BTreeMap<&'static str, usize>,
    succeeded: BTreeMap<&'static str, usize>,
    /// Whether all that has to succeed has: an observer wants times, without which a device does as well, or ends.
    is_over: bool,
    /// Whether the call failed before that.
    has_failed_early: bool,
}

/// The name of a function without the suffix of its version.
fn plain(function: &'static str) -> &'static str {
    function.trim_end_matches("_v2").trim_end_matches("_v3")
}

impl Faults {
    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits until all that was made is ended: threads of queues end after their device. Gives what is left after a
    /// time that none of them takes.
    fn left(&self) -> Vec<String> {
        let began = Instant::now();
        loop {
            let left = self.change(|state| left(state));
            if left.is_empty() || began.elapsed() > PATIENCE {
                return left;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Tracer for Faults {
    fn refuses(&self, function: &'static str) -> Option<ApiError> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = state.calls.entry(plain(function)).or_default();
        *count += 1;
        let number = *count;
        let (_, _, kind) = state.plan.filter(|plan| (plan.0, plan.1) == (plain(function), number))?;
        state.has_failed = true;
        state.has_failed_early = !state.is_over;
        Some(ApiError { function, code: 999, kind, text: Some("a fault of the test".into()) })
    }

    fn call(&self, function: &'static str, _: Instant, _: std::fmt::Arguments<'_>, failure: Option<&ApiError>) {
        if failure.is_none() {
            let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            *state.succeeded.entry(plain(function)).or_default() += 1;
        }
    }
}

/// An observer that wants all times.
struct Observer;

impl TimesObserver for Observer {
    fn is_active(&self) -> bool {
        true
    }

    fn dispatch(&self, _time: &DispatchTime<'_>) {}

    fn submission(&self, _time: &SubmissionTime) {}
}

/// Uses a device in every way that calls the library, up to the first failure.
fn use_a_device(faults: &Faults, pools: &str) -> Result<()> {
    configure();
    // SAFETY: it finds the functions of one library, which is part of the program.
    let library =
        unsafe { library::start_found(vireo_softcuda::entries::cuGetProcAddress_v2, Some(Box::new(faults.clone()))) }?;
    let driver = StreamDriver::new(library, 0, DeviceOptions::default())?;
    let pair = |(key, value): (&str, &str)| StringPair { key: key.to_string(), value: value.to_string() };
    let device = driver.create_device_by_path("cuda", "0", &[("streams", "2"), ("pools", pools)].map(pair))?;
    let allocator = device.allocator();
    let params = |memory_type| BufferParams { memory_type, ..BufferParams::default() };
    let local = params(MemoryType::DEVICE_LOCAL);
    let buffers = [allocator.allocate_buffer(local, 256)?, allocator.allocate_buffer(local, 256)?];
    let host = allocator.allocate_buffer(params(MemoryType::HOST_LOCAL | MemoryType::DEVICE_VISIBLE), 256)?;
    let managed = allocator.allocate_buffer(params(MemoryType::DEVICE_LOCAL | MemoryType::HOST_VISIBLE), 256)?;
    #[repr(align(64))]
    struct Aligned([u8; 256]);
    let mut bytes = Box::new(Aligned([7; 256]));
    let data = NonNull::from(&mut bytes.0).cast();
    let external = ExternalBuffer { r#type: ExternalBufferType::HostAllocation, data, size: 256, owner: Arc::new(()) };
    // SAFETY: the bytes outlive the buffer, and nothing else uses them meanwhile.
    let imported = unsafe { allocator.import_buffer(params(MemoryType::HOST_LOCAL), &external) }?;
    let commands = try_additions(&*device, 16, 4, 4)?;
    let line = device.create_semaphore(ANY, 0, SemaphoreFlags::empty())?;
    let at = |value| [Timepoint { semaphore: line.clone(), value }];
    let queue = |index: u64| QueueAffinity::from_bits_retain(1 << index);
    let mut value = 0;
    let mut next = || {
        value += 1;
        (at(value - 1), at(value))
    };
    let (before, after) = next();
    let transient = device.queue_alloca(ANY, &before, &after, None, local, 1 << 16, AllocaFlags::empty())?;
    for (index, target) in [&transient, &buffers[0], &buffers[1], &managed].into_iter().enumerate() {
        let (before, after) = next();
        device.queue_fill(queue(index as u64 % 2), &before, &after, target, 0, 256, &[0; 4], FillFlags::empty())?;
    }
    for pattern in [&[1u8][..], &[1, 2]] {
        let (before, after) = next();
        device.queue_fill(ANY, &before, &after, &transient, 256, 256, pattern, FillFlags::empty())?;
    }
    for buffer in [&buffers[0], &buffers[0], &buffers[0], &buffers[1]] {
        let (before, after) = next();
        let table = [BufferBinding { buffer: Some(buffer.clone()), offset: 0, length: WHOLE_BUFFER }];
        device.queue_execute(queue(0), &before, &after, &commands, &table, ExecuteFlags::empty())?;
    }
    let (before, after) = next();
    device.queue_update(queue(1), &before, &after, &[9; 64], &buffers[1], 64, UpdateFlags::empty())?;
    for (source, target) in [(&buffers[0], &host), (&imported, &transient), (&buffers[1], &managed)] {
        let (before, after) = next();
        device.queue_copy(queue(1), &before, &after, source, 0, target, 0, 128, CopyFlags::empty())?;
    }
    let (before, after) = next();
    device.queue_dealloca(ANY, &before, &after, &transient, DeallocaFlags::empty())?;
    line.wait(value, None)?;
    if let Some(times) = device.clone().device_times() {
        faults.change(|state| state.is_over = true);
        times.observe(Some(Arc::new(Observer)));
        let table = [BufferBinding { buffer: Some(buffers[1].clone()), offset: 0, length: WHOLE_BUFFER }];
        device.queue_execute(queue(0), &at(value), &at(value + 1), &commands, &table, ExecuteFlags::empty())?;
        line.wait(value + 1, None)?;
        times.observe(None);
    }
    device.trim()?;
    assert_eq!(&buffer_to_vec(&*host, 16)?, &[12u32; 4].map(u32::to_le_bytes).concat());
    assert_eq!(buffer_to_vec(&*managed, 128)?[64..], [9; 64]);
    Ok(())
}

/// Things that were made and not ended.
fn left(state: &State) -> Vec<String> {
    let count = |name: &str| state.succeeded.get(name).copied().unwrap_or(0);
    let ends: std::collections::BTreeSet<&str> = PAIRS.iter().map(|(_, end)| *end).collect();
    let left = ends.into_iter().filter_map(|end| {
        let made: usize = PAIRS.iter().filter(|(_, other)| *other == end).map(|(make, _)| count(make)).sum();
        (made != count(end)).then(|| format!("{made} made, {} calls of {end}", count(end)))
    });
    left.collect()
}

#[test]
fn every_call_that_fails_is_reported_and_leaves_nothing_behind() {
    let mut failures = Vec::new();
    for pools in ["on", "off"] {
        let faults = Faults::default();
        use_a_device(&faults, pools).expect("nothing fails");
        let left = faults.left();
        assert!(left.is_empty(), "pools {pools}: {left:?}");
        let calls = faults.change(|state| state.calls.clone());
        for (function, count) in calls {
            // Functions that end something return statuses that callers can do nothing about.
            if PAIRS.iter().any(|(_, end)| *end == function) || UNTESTED.contains(&function) {
                continue;
            }
            let kinds = [FailureKind::Status(StatusCode::ResourceExhausted), FailureKind::Lost];
            for (number, kind) in (1..=count).flat_map(|number| kinds.map(|kind| (number, kind))) {
                let faults = Faults::default();
                faults.0.lock().expect("no panic").plan = Some((function, number, kind));
                let outcome = use_a_device(&faults, pools);
                let what = format!("pools {pools}: {function}, call {number}, {kind:?}");
                let (has_failed, is_early) = faults.change(|state| (state.has_failed, state.has_failed_early));
                let is_dispensable = !is_early || DISPENSABLE.contains(&function);
                match outcome {
                    Ok(()) if has_failed && !is_dispensable => failures.push(format!("{what}: it was not reported")),
                    Ok(()) => {}
                    Err(error) if has_failed => {
                        let errors = std::iter::successors(Some(&error as &dyn Error), |error| (*error).source());
                        let chain: Vec<String> = errors.map(ToString::to_string).collect();
                        if !chain.iter().any(|text| text.contains(function)) {
                            failures.push(format!("{what}: {chain:?}"));
                        }
                    }
                    Err(error) => failures.push(format!("{what}: it did not fail, and yet: {error}")),
                }
                // A context that is lost, or cannot be made current to end a handle, has no use for its handles.
                let is_gone = kind == FailureKind::Lost || function == "cuCtxPushCurrent";
                let left = if is_gone { Vec::new() } else { faults.left() };
                if !left.is_empty() {
                    failures.push(format!("{what}: {left:?}"));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{}:\n{}", failures.len(), failures.join("\n"));
}
