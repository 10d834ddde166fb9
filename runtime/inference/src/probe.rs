//! The stand-in device and parameters on which initialisers of a program run to find out what it needs ([`run`]).
//! Nothing is loaded: the device accepts executables without reading them, and parameters of any name are zero.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use vireo_context::{LinkedModules, Module};
use vireo_core::limits::{Limits, MemoryBudget, Tier};
use vireo_core::status::{Result, Status};
use vireo_hal::forward::{ForwardDevice, ForwardExecutable, ForwardExecutableCache};
use vireo_hal::types::{AllocatorStatistics, ExecuteFlags};
use vireo_hal::{
    Buffer, BufferParams, Device, Executable, ExecutableCache, ExecutableCachingMode, ExecutableFunction,
    ExecutableLoader, Forward, HeapAllocator, ParameterProvider, ParameterProviderSignal, ParameterSpan, QueryCategory,
    QueueAffinity, SecurityPolicy, Timepoint,
};
use vireo_local::null::{NullLoader, null_device_on};
use vireo_modules::hal::HalModule;
use vireo_modules::hal_inline::HalInlineModule;
use vireo_modules::hal_loader::HalLoaderModule;
use vireo_modules::io_parameters::IoParameters;
use vireo_vm::interp::TraceRecorder;

/// How many devices and formats are remembered, and how many parameters. Programs of compilers ask for a few; a program
/// that anybody may have written can ask in a loop.
const MAX_NAMES: usize = 64;
const MAX_PARAMETERS: usize = 1 << 16;

/// The requests of initialisers.
#[derive(Debug, Default)]
pub struct Seen {
    /// Patterns of devices, in order.
    pub devices: Vec<String>,
    /// Formats of executables, in order.
    pub formats: Vec<String>,
    /// The executables that were made.
    pub executables: Vec<SeenExecutable>,
    /// Bytes of each parameter, by scope and name.
    pub parameters: BTreeMap<(String, String), u64>,
    /// Bytes of executables that are still remembered: no more than the modules have.
    executable_bytes: u64,
}

/// An executable that was made.
#[derive(Debug)]
pub struct SeenExecutable {
    pub format: String,
    pub data: Vec<u8>,
    /// The functions that were looked up by name.
    pub functions: Vec<String>,
}

/// The outcome of the initialisers.
pub struct Outcome {
    pub seen: Seen,
    /// The failure of linking or of an initialiser.
    pub failure: Option<Status>,
    /// Memory of the device after initialisation.
    pub memory: AllocatorStatistics,
}

type Shared = Arc<Mutex<Seen>>;

fn lock(seen: &Shared) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

fn add_once(list: &mut Vec<String>, text: &str) {
    if list.len() < MAX_NAMES && !list.iter().any(|known| known == text) {
        list.push(text.to_string());
    }
}

/// Links `modules` with modules of a host without devices, and runs their initialisers within `limits`; executables are
/// accepted in the format `accepted` alone.
pub fn run(modules: &[Module], accepted: Option<&str>, limits: &Limits) -> Result<Outcome> {
    let archives = modules.iter().filter_map(Module::archive);
    let seen = Seen { executable_bytes: archives.map(|archive| archive.bytes().len() as u64).sum(), ..Seen::default() };
    let seen: Shared = Arc::new(Mutex::new(seen));
    // The memory of this run is its own: what it takes is not taken from that of sessions.
    let memory = limits.memory.as_ref().map(|memory| MemoryBudget::new(memory.limit()));
    let allocator = memory.clone().map_or_else(HeapAllocator::without_reuse, HeapAllocator::with_budget);
    // Parameters of many gigabytes take no memory, since they are neither read nor written.
    let null = null_device_on("null", allocator.mapped());
    let device: Arc<dyn Device> = Arc::new(Forward(ProbeDevice {
        inner: null.clone(),
        accepted: accepted.map(str::to_string),
        seen: seen.clone(),
    }));
    let loader = ProbeLoader { accepted: accepted.map(str::to_string), seen: seen.clone() };
    let provider: Arc<dyn ParameterProvider> = Arc::new(ProbeProvider(seen.clone()));
    let host = [
        Module::native(HalModule::new(vec![device.clone()]))?,
        Module::native(HalInlineModule::new(device.allocator()))?,
        Module::native(HalLoaderModule::new(vec![Arc::new(loader)]))?,
        Module::native(IoParameters::new([provider]).with_policy(&SecurityPolicy::trusted()))?,
        #[cfg(feature = "vmvx")]
        Module::native(vireo_vmvx::VmvxModule::default())?,
    ];
    // The traces of initialisers are dropped here.
    let linked =
        LinkedModules::with_sink(host.into_iter().chain(modules.iter().cloned()), Arc::new(TraceRecorder::default()));
    let limits = Limits { memory, tier: Tier::Interpreter, ..limits.clone() };
    let context = linked.and_then(|linked| linked.context(limits));
    let memory = null.allocator().statistics();
    let failure = context.as_ref().err().cloned();
    drop(context);
    let seen = std::mem::take(&mut *lock(&seen));
    Ok(Outcome { seen, failure, memory })
}

/// A device that answers to every name, and takes executables of one format.
#[derive(Debug)]
struct ProbeDevice {
    inner: Arc<dyn Device>,
    accepted: Option<String>,
    seen: Shared,
}

impl ForwardDevice for ProbeDevice {
    fn inner(&self) -> &Arc<dyn Device> {
        &self.inner
    }

    fn query_i64(&self, category: &str, key: &str) -> Result<i64> {
        if category == QueryCategory::DeviceId.name() {
            add_once(&mut lock(&self.seen).devices, key);
            return Ok(1);
        }
        if category == QueryCategory::ExecutableFormat.name() {
            add_once(&mut lock(&self.seen).formats, key);
            return Ok(i64::from(self.accepted.as_deref() == Some(key)));
        }
        self.inner().query_i64(category, key)
    }

    fn create_executable_cache(&self, identifier: &str) -> Result<Arc<dyn ExecutableCache>> {
        let inner = self.inner().create_executable_cache(identifier)?;
        Ok(Arc::new(Forward(ProbeCache { inner, seen: self.seen.clone() })))
    }
}

#[derive(Debug)]
struct ProbeCache {
    inner: Arc<dyn ExecutableCache>,
    seen: Shared,
}

impl ForwardExecutableCache for ProbeCache {
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
        let inner = self.inner().prepare_executable(queue_affinity, caching_mode, format, data, constants)?;
        Ok(watched(&self.seen, inner, format, data))
    }
}

/// Remembers an executable, and the functions that are looked up in it.
fn watched(seen: &Shared, inner: Arc<dyn Executable>, format: &str, data: &[u8]) -> Arc<dyn Executable> {
    let mut list = lock(seen);
    add_once(&mut list.formats, format);
    let index = list.executables.len();
    if let Some(left) = list.executable_bytes.checked_sub(data.len() as u64).filter(|_| !data.is_empty()) {
        list.executable_bytes = left;
        list.executables.push(SeenExecutable { format: format.into(), data: data.to_vec(), functions: Vec::new() });
    }
    Arc::new(Forward(ProbeExecutable { inner, index, seen: seen.clone() }))
}

#[derive(Debug)]
struct ProbeExecutable {
    inner: Arc<dyn Executable>,
    index: usize,
    seen: Shared,
}

impl ForwardExecutable for ProbeExecutable {
    fn inner(&self) -> &Arc<dyn Executable> {
        &self.inner
    }

    fn lookup_function(&self, name: &str) -> Result<ExecutableFunction> {
        if let Some(executable) = lock(&self.seen).executables.get_mut(self.index) {
            add_once(&mut executable.functions, name);
        }
        self.inner().lookup_function(name)
    }
}

/// The loader of programs without devices.
#[derive(Debug)]
struct ProbeLoader {
    accepted: Option<String>,
    seen: Shared,
}

impl ExecutableLoader for ProbeLoader {
    fn infer_format(&self, caching_mode: ExecutableCachingMode, data: &[u8]) -> Result<String> {
        NullLoader.infer_format(caching_mode, data)
    }

    fn supports(&self, _caching_mode: ExecutableCachingMode, format: &str) -> bool {
        add_once(&mut lock(&self.seen).formats, format);
        self.accepted.as_deref() == Some(format)
    }

    fn load(
        &self,
        caching_mode: ExecutableCachingMode,
        format: &str,
        data: &[u8],
        constants: &[u32],
    ) -> Result<Arc<dyn Executable>> {
        Ok(watched(&self.seen, NullLoader.load(caching_mode, format, data, constants)?, format, data))
    }
}

/// Has parameters of every name and length, which are zero.
#[derive(Debug)]
struct ProbeProvider(Shared);

impl ProbeProvider {
    fn note(&self, scope: &str, spans: &[ParameterSpan]) -> Result<()> {
        let mut seen = lock(&self.0);
        for span in spans {
            if seen.parameters.len() >= MAX_PARAMETERS {
                let message = format!("the program loads more than {MAX_PARAMETERS} parameters");
                return Err(Status::resource_exhausted(message));
            }
            let bytes = seen.parameters.entry((scope.to_string(), span.key.clone())).or_default();
            *bytes = (*bytes).max(span.parameter_offset.saturating_add(span.length));
        }
        Ok(())
    }
}

impl ParameterProvider for ProbeProvider {
    fn notify(&self, _signal: ParameterProviderSignal) -> Result<()> {
        Ok(())
    }

    fn query_support(&self, _scope: &str) -> bool {
        true
    }

    fn load(
        &self,
        device: &Arc<dyn Device>,
        queue_affinity: QueueAffinity,
        wait: &[Timepoint],
        signal: &[Timepoint],
        source_scope: &str,
        target_params: BufferParams,
        spans: &[ParameterSpan],
    ) -> Result<Vec<Arc<dyn Buffer>>> {
        self.note(source_scope, spans)?;
        let allocator = device.allocator();
        let buffers = spans.iter().map(|span| allocator.allocate_buffer(target_params, span.length));
        let buffers = buffers.collect::<Result<Vec<_>>>()?;
        device.queue_barrier(queue_affinity, wait, signal, ExecuteFlags::default())?;
        Ok(buffers)
    }

    fn gather(
        &self,
        device: &Arc<dyn Device>,
        queue_affinity: QueueAffinity,
        wait: &[Timepoint],
        signal: &[Timepoint],
        source_scope: &str,
        _target_buffer: &Arc<dyn Buffer>,
        spans: &[ParameterSpan],
    ) -> Result<()> {
        self.note(source_scope, spans)?;
        device.queue_barrier(queue_affinity, wait, signal, ExecuteFlags::default())
    }

    fn scatter(
        &self,
        device: &Arc<dyn Device>,
        queue_affinity: QueueAffinity,
        wait: &[Timepoint],
        signal: &[Timepoint],
        _source_buffer: &Arc<dyn Buffer>,
        target_scope: &str,
        spans: &[ParameterSpan],
    ) -> Result<()> {
        self.note(target_scope, spans)?;
        device.queue_barrier(queue_affinity, wait, signal, ExecuteFlags::default())
    }
}
