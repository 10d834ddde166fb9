//! Statistics of devices ([`ExecutionStatistics`]): how often queues were asked for what, and how often and how long
//! each kernel ran. Hosts wrap a device to get them.
//!
//! The wrapper sees the calls of a device, and wraps the executables that it prepares: a device asks them for their
//! kernels, and gets kernels whose runs are timed. So times are there for devices that run kernels on the host,
//! whichever loader they are from. Devices that measure times themselves ([`DeviceTimes`](crate::hal::DeviceTimes)) are
//! observed; others only have counts of operations.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use crate::execution_trace::{DeviceTrace, ExecutionTrace};
use crate::hal::device_times::{DispatchTime, SubmissionTime, TimesObserver};
use crate::hal::forward::{ForwardDevice, ForwardExecutable, ForwardExecutableCache, ForwardedMethod};
use crate::hal::host_kernels::{Arguments, HostKernels, KernelTiming, WorkgroupMemory};
use crate::hal::{
    Device, Executable, ExecutableCache, ExecutableCachingMode, ExecutableFunction, Forward, QueueAffinity,
};
use crate::limits::Limits;
use crate::status::Result;

/// The names of the methods that are counted begin with this.
const QUEUE_METHODS: &str = "device.queue_";

/// The operations and dispatches of devices since it was made, or since [`ExecutionStatistics::reset`].
///
/// ```
/// use vireo::hal::{ExecutionStatistics, create_device};
/// use vireo::{Session, inputs};
///
/// # fn main() -> vireo::Result<()> {
/// # std::env::set_current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).expect("the workspace exists");
/// let statistics = ExecutionStatistics::new();
/// let device = statistics.device(&create_device("local-sync")?);
/// let session = Session::builder().with_device(device).load("fixtures/models/abs.vmfb")?;
/// session.call("abs", inputs![-2.0f32])?;
/// let dispatches = statistics.dispatches();
/// assert_eq!((dispatches[0].name.as_str(), dispatches[0].count), ("abs_dispatch_0_elementwise", 1));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct ExecutionStatistics {
    is_paused: AtomicBool,
    operations: Mutex<BTreeMap<&'static str, u64>>,
    /// By name: executables of several sessions have the same kernels.
    kernels: Mutex<BTreeMap<String, Arc<KernelCounters>>>,
    trace: Option<Arc<ExecutionTrace>>,
}

/// How often queues were asked for an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperationCount {
    /// The name of the method without its object, such as `queue_execute`.
    pub name: &'static str,
    /// How often it was called.
    pub count: u64,
}

/// How often and how long a kernel ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DispatchStatistics {
    /// The name of the kernel.
    pub name: String,
    /// Dispatches. One without workgroups does not run and does not count.
    pub count: u64,
    /// Their workgroups, as far as the host knows them.
    pub workgroups: u64,
    /// How long workgroups ran, all threads together; on a GPU how long dispatches ran.
    pub time: Duration,
}

/// The counts of a kernel.
#[derive(Debug, Default)]
struct KernelCounters {
    dispatches: AtomicU64,
    workgroups: AtomicU64,
    nanoseconds: AtomicU64,
}

impl ExecutionStatistics {
    /// Statistics of nothing yet.
    pub fn new() -> Arc<ExecutionStatistics> {
        Self::of(None)
    }

    /// Statistics of nothing yet. What is counted of kernels from here on is written to a trace, too.
    pub fn with_trace(trace: Arc<ExecutionTrace>) -> Arc<ExecutionStatistics> {
        Self::of(Some(trace))
    }

    fn of(trace: Option<Arc<ExecutionTrace>>) -> Arc<ExecutionStatistics> {
        let (operations, kernels) = (Mutex::default(), Mutex::default());
        Arc::new(ExecutionStatistics { is_paused: AtomicBool::new(false), operations, kernels, trace })
    }

    /// The device with its operations counted, and the kernels of executables that it prepares.
    pub fn device(self: &Arc<Self>, device: &Arc<dyn Device>) -> Arc<dyn Device> {
        if let Some(times) = device.clone().device_times() {
            let trace = self.trace.as_ref().map(|trace| trace.device(device.id()));
            times.observe(Some(Arc::new(CountedTimes { statistics: self.clone(), trace })));
        }
        Arc::new(Forward(CountedDevice { inner: device.clone(), statistics: self.clone() }))
    }

    /// Pauses counting, or resumes it. While it is paused a kernel takes no more time than without it, but for a look
    /// whether it is.
    pub fn set_paused(&self, is_paused: bool) {
        self.is_paused.store(is_paused, Ordering::Relaxed);
    }

    /// Counts from zero again.
    pub fn reset(&self) {
        self.operations.lock().unwrap_or_else(PoisonError::into_inner).clear();
        for counters in self.kernels.lock().unwrap_or_else(PoisonError::into_inner).values() {
            let KernelCounters { dispatches, workgroups, nanoseconds } = &**counters;
            [dispatches, workgroups, nanoseconds].into_iter().for_each(|counter| counter.store(0, Ordering::Relaxed));
        }
    }

    /// The operations that queues were asked for, by name.
    pub fn operations(&self) -> Vec<OperationCount> {
        let operations = self.operations.lock().unwrap_or_else(PoisonError::into_inner);
        operations.iter().map(|(name, count)| OperationCount { name, count: *count }).collect()
    }

    /// The kernels that ran, by name.
    pub fn dispatches(&self) -> Vec<DispatchStatistics> {
        let kernels = self.kernels.lock().unwrap_or_else(PoisonError::into_inner);
        let of = |(name, counters): (&String, &Arc<KernelCounters>)| DispatchStatistics {
            name: name.clone(),
            count: counters.dispatches.load(Ordering::Relaxed),
            workgroups: counters.workgroups.load(Ordering::Relaxed),
            time: Duration::from_nanos(counters.nanoseconds.load(Ordering::Relaxed)),
        };
        kernels.iter().map(of).filter(|dispatch| dispatch.workgroups > 0 || dispatch.count > 0).collect()
    }

    fn is_counting(&self) -> bool {
        !self.is_paused.load(Ordering::Relaxed)
    }

    fn counters(&self, name: &str) -> Arc<KernelCounters> {
        let mut kernels = self.kernels.lock().unwrap_or_else(PoisonError::into_inner);
        kernels.entry(name.to_string()).or_default().clone()
    }
}

/// Counts the dispatches that a device times.
struct CountedTimes {
    statistics: Arc<ExecutionStatistics>,
    trace: Option<DeviceTrace>,
}

impl TimesObserver for CountedTimes {
    fn is_active(&self) -> bool {
        self.statistics.is_counting()
    }

    fn dispatch(&self, time: &DispatchTime<'_>) {
        let counters = self.statistics.counters(time.kernel);
        let ran = time.times.map_or(0, |(start, end)| end.saturating_sub(start).as_nanos());
        counters.dispatches.fetch_add(1, Ordering::Relaxed);
        counters.workgroups.fetch_add(time.workgroups, Ordering::Relaxed);
        counters.nanoseconds.fetch_add(u64::try_from(ran).unwrap_or(u64::MAX), Ordering::Relaxed);
        if let Some(trace) = &self.trace {
            trace.dispatch(time);
        }
    }

    fn submission(&self, time: &SubmissionTime) {
        if let Some(trace) = &self.trace {
            trace.submission(time);
        }
    }
}

/// A device whose operations are counted.
#[derive(Debug)]
struct CountedDevice {
    inner: Arc<dyn Device>,
    statistics: Arc<ExecutionStatistics>,
}

impl ForwardDevice for CountedDevice {
    fn inner(&self) -> &Arc<dyn Device> {
        &self.inner
    }

    fn before(&self, method: ForwardedMethod) {
        if method.name().starts_with(QUEUE_METHODS) && self.statistics.is_counting() {
            let name = method.name().split_once('.').map_or(method.name(), |(_, name)| name);
            let mut operations = self.statistics.operations.lock().unwrap_or_else(PoisonError::into_inner);
            *operations.entry(name).or_default() += 1;
        }
    }

    fn create_executable_cache(&self, identifier: &str) -> Result<Arc<dyn ExecutableCache>> {
        let inner = self.inner.create_executable_cache(identifier)?;
        Ok(Arc::new(Forward(CountedCache { inner, statistics: self.statistics.clone() })))
    }
}

#[derive(Debug)]
struct CountedCache {
    inner: Arc<dyn ExecutableCache>,
    statistics: Arc<ExecutionStatistics>,
}

impl ForwardExecutableCache for CountedCache {
    fn inner(&self) -> &Arc<dyn ExecutableCache> {
        &self.inner
    }

    fn prepare_executable(
        &self,
        queue_affinity: QueueAffinity,
        caching_mode: ExecutableCachingMode,
        format: &str,
        data: &[u8],
        constants: &[u32],
    ) -> Result<Arc<dyn Executable>> {
        let inner = self.inner.prepare_executable(queue_affinity, caching_mode, format, data, constants)?;
        let Some(kernels) = inner.clone().host_kernels().filter(|kernels| !kernels.is_null()) else {
            // A device that runs its executables itself has to recognise them.
            return Ok(inner);
        };
        let (statistics, counters) = (self.statistics.clone(), RwLock::default());
        let kernels: Arc<dyn HostKernels> = Arc::new(CountedKernels { inner: kernels, statistics, counters });
        Ok(Arc::new(Forward(CountedExecutable { inner, kernels: Some(kernels) })))
    }
}

#[derive(Debug)]
struct CountedExecutable {
    inner: Arc<dyn Executable>,
    kernels: Option<Arc<dyn HostKernels>>,
}

impl ForwardExecutable for CountedExecutable {
    fn inner(&self) -> &Arc<dyn Executable> {
        &self.inner
    }

    fn host_kernels(&self) -> Option<Arc<dyn HostKernels>> {
        self.kernels.clone()
    }
}

/// Kernels whose runs are timed.
struct CountedKernels {
    inner: Arc<dyn HostKernels>,
    statistics: Arc<ExecutionStatistics>,
    /// Those of the functions that ran.
    counters: RwLock<HashMap<ExecutableFunction, Arc<KernelCounters>>>,
}

impl CountedKernels {
    fn count(&self, function: ExecutableFunction, workgroups: &Range<u64>, time: Duration) {
        let known = self.counters.read().unwrap_or_else(PoisonError::into_inner).get(&function).cloned();
        let counters = known.unwrap_or_else(|| {
            let counters = self.statistics.counters(self.inner.name(function));
            self.counters.write().unwrap_or_else(PoisonError::into_inner).insert(function, counters.clone());
            counters
        });
        // One of the parts of a dispatch has its first workgroup.
        counters.dispatches.fetch_add(u64::from(workgroups.start == 0), Ordering::Relaxed);
        counters.workgroups.fetch_add(workgroups.end.saturating_sub(workgroups.start), Ordering::Relaxed);
        counters.nanoseconds.fetch_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

impl fmt::Debug for CountedKernels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl HostKernels for CountedKernels {
    fn name(&self, function: ExecutableFunction) -> &str {
        self.inner.name(function)
    }

    fn check_arguments(&self, function: ExecutableFunction, constants: usize, bindings: usize) -> Result<()> {
        self.inner.check_arguments(function, constants, bindings)
    }

    fn is_null(&self) -> bool {
        self.inner.is_null()
    }

    fn is_sequential(&self, function: ExecutableFunction) -> bool {
        self.inner.is_sequential(function)
    }

    fn limits(&self) -> Option<&Limits> {
        self.inner.limits()
    }

    fn timing(&self, function: ExecutableFunction) -> Option<&KernelTiming> {
        self.inner.timing(function)
    }

    unsafe fn run(
        &self,
        function: ExecutableFunction,
        arguments: &Arguments<'_>,
        workgroups: Range<u64>,
        workgroup_memory: &mut WorkgroupMemory,
    ) -> Result<()> {
        let part = workgroups.clone();
        let start = self.statistics.is_counting().then(Instant::now);
        // SAFETY: what the caller promises of these kernels holds for the inner ones, whose `check_arguments` was
        // asked.
        let result = unsafe { self.inner.run(function, arguments, workgroups, workgroup_memory) };
        if let Some(start) = start {
            let end = Instant::now();
            self.count(function, &part, end.duration_since(start));
            if let Some(trace) = &self.statistics.trace {
                trace.ran_on_host(self.inner.name(function), &part, (start, end));
            }
        }
        result
    }
}
