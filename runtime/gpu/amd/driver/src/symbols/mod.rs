//! The HSA library: `library` finds it and its functions, [`Hsa`] calls them with Rust types and statuses, `events` are
//! what it reports, `times` its clocks, and `counters` those of kernels. Everything above uses only this.

mod counters;
mod events;
mod library;
mod times;

use std::collections::HashMap;
use std::ffi::{CStr, CString, c_void};
use std::fmt;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use vireo_hsa::hsa::{
    Agent, AgentInfo, AgentMemoryPoolInfo, DefaultFloatRoundingMode, Executable, ExecutableSymbolInfo, HsaStatus, Isa,
    IsaInfo, MemoryPool, MemoryPoolInfo, Profile, QueueErrorCallback, WaitState,
};
use vireo_hsa::hsa_symbols::HsaFunctions;
use vireo_hsa::queue::{HsaQueue, QueueType};
use vireo_hsa::signal::{Signal, SignalCondition};

use crate::status::{Result, Status, StatusCode};

pub use counters::{PacketCounters, Signal as CompletionSignal};
pub(crate) use events::FaultListener;
pub use library::{LIBRARY_PATH_VARIABLE, load_library};
pub(crate) use times::duration;

/// An initialised HSA library.
pub struct Hsa {
    functions: HsaFunctions,
    /// Its number among those of the process.
    id: usize,
    /// Whether the library reports memory faults. Those that do not end the process.
    pub(crate) reports_faults: bool,
    /// The names of the kernels that are loaded, by the addresses of their descriptors.
    kernels: Mutex<HashMap<u64, Arc<str>>>,
    /// Counters of what kernels do, which the interface of the library has not.
    counters: OnceLock<Arc<dyn PacketCounters>>,
    /// Keeps the library loaded.
    _library: Option<Box<dyn Send + Sync>>,
}

impl fmt::Debug for Hsa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("hsa")
    }
}

impl Drop for Hsa {
    fn drop(&mut self) {
        // SAFETY: this ends what `start` began; what was made of the library holds it.
        unsafe { (self.functions.hsa_shut_down)() };
    }
}

impl Hsa {
    /// Initialises a library, of which `library` keeps the code loaded.
    ///
    /// # Errors
    /// UNAVAILABLE if it cannot be initialised here.
    ///
    /// # Safety
    /// The functions are those of one HSA library, and stay there as long as `library` is held.
    pub unsafe fn start(functions: HsaFunctions, library: Option<Box<dyn Send + Sync>>) -> Result<Arc<Hsa>> {
        // SAFETY: the caller guarantees that it is the function of this name.
        let status = unsafe { (functions.hsa_init)() };
        if status != HsaStatus::SUCCESS {
            let message =
                format!("`hsa_init` failed with {status:?}: is there a GPU, and may this process use `/dev/kfd`?");
            return Err(Status::new(StatusCode::Unavailable, message));
        }
        static NEXT_ID: AtomicUsize = AtomicUsize::new(1);
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let reports_faults = functions.hsa_amd_register_system_event_handler.is_some_and(|register| {
            // SAFETY: the function stays, and takes a number as its data. Some libraries have room for one handler
            // only, and refuse a second one.
            unsafe { register(Some(events::on_event), ptr::without_provenance_mut(id)) == HsaStatus::SUCCESS }
        });
        Ok(Arc::new(Hsa {
            functions,
            id,
            reports_faults,
            kernels: Mutex::default(),
            counters: OnceLock::new(),
            _library: library,
        }))
    }

    fn kernels(&self) -> MutexGuard<'_, HashMap<u64, Arc<str>>> {
        self.kernels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The name of a kernel that is loaded, by the address of its descriptor.
    pub(crate) fn kernel_name(&self, object: u64) -> Option<Arc<str>> {
        self.kernels().get(&object).cloned()
    }

    /// Adds a listener to memory faults of a GPU.
    pub(crate) fn listen(&self, agent: Agent, listener: Weak<dyn FaultListener>) {
        events::listen(self.id, agent, listener);
    }

    /// A status as an error that names the function.
    pub(crate) fn check(&self, status: HsaStatus, function: &str) -> Result<()> {
        if status == HsaStatus::SUCCESS || status == HsaStatus::INFO_BREAK {
            return Ok(());
        }
        let code = match status {
            HsaStatus::ERROR_OUT_OF_RESOURCES => StatusCode::ResourceExhausted,
            HsaStatus::ERROR_INVALID_ARGUMENT | HsaStatus::ERROR_INVALID_CODE_OBJECT => StatusCode::InvalidArgument,
            _ => StatusCode::Unknown,
        };
        Err(Status::new(code, format!("`{function}` failed with {status:?}: {}", self.status_text(status))))
    }

    /// The library's text for a status.
    pub(crate) fn status_text(&self, status: HsaStatus) -> String {
        let mut text = ptr::null();
        // SAFETY: `text` is written, and texts of statuses live as long as the library.
        let named = unsafe { (self.functions.hsa_status_string)(status, &mut text) };
        if named != HsaStatus::SUCCESS || text.is_null() {
            return "no text".to_string();
        }
        // SAFETY: it is a string of C.
        unsafe { CStr::from_ptr(text.cast()) }.to_string_lossy().into_owned()
    }

    /// All agents.
    pub(crate) fn agents(&self) -> Result<Vec<Agent>> {
        unsafe extern "C" fn add(agent: Agent, data: *mut c_void) -> HsaStatus {
            // SAFETY: `data` is the list that the iteration was given.
            unsafe { &mut *data.cast::<Vec<Agent>>() }.push(agent);
            HsaStatus::SUCCESS
        }
        let mut agents: Vec<Agent> = Vec::new();
        // SAFETY: the callback is called during the call only, with this list.
        let status = unsafe { (self.functions.hsa_iterate_agents)(Some(add), ptr::from_mut(&mut agents).cast()) };
        self.check(status, stringify!(hsa_iterate_agents))?;
        Ok(agents)
    }

    /// The memory pools of an agent.
    pub(crate) fn pools(&self, agent: Agent) -> Result<Vec<MemoryPool>> {
        unsafe extern "C" fn add(pool: MemoryPool, data: *mut c_void) -> HsaStatus {
            // SAFETY: `data` is the list that the iteration was given.
            unsafe { &mut *data.cast::<Vec<MemoryPool>>() }.push(pool);
            HsaStatus::SUCCESS
        }
        let mut pools: Vec<MemoryPool> = Vec::new();
        let list = ptr::from_mut(&mut pools).cast();
        // SAFETY: the callback is called during the call only, with this list.
        let status = unsafe { (self.functions.hsa_amd_agent_iterate_memory_pools)(agent, Some(add), list) };
        self.check(status, stringify!(hsa_amd_agent_iterate_memory_pools))?;
        Ok(pools)
    }

    /// The names of the instruction sets of an agent, the preferred one first.
    pub(crate) fn isa_names(&self, agent: Agent) -> Result<Vec<String>> {
        unsafe extern "C" fn add(isa: Isa, data: *mut c_void) -> HsaStatus {
            // SAFETY: `data` is the list that the iteration was given.
            unsafe { &mut *data.cast::<Vec<Isa>>() }.push(isa);
            HsaStatus::SUCCESS
        }
        let mut isas: Vec<Isa> = Vec::new();
        let list = ptr::from_mut(&mut isas).cast();
        // SAFETY: the callback is called during the call only, with this list.
        let status = unsafe { (self.functions.hsa_agent_iterate_isas)(agent, Some(add), list) };
        self.check(status, stringify!(hsa_agent_iterate_isas))?;
        let name = |isa: Isa| {
            let mut length = 0u32;
            let target = ptr::from_mut(&mut length).cast();
            // SAFETY: the attribute is a `u32`.
            let status = unsafe { (self.functions.hsa_isa_get_info_alt)(isa, IsaInfo::NAME_LENGTH, target) };
            self.check(status, stringify!(hsa_isa_get_info_alt))?;
            let mut bytes = vec![0u8; length as usize + 1];
            // SAFETY: the attribute has as many bytes as was just said.
            let status =
                unsafe { (self.functions.hsa_isa_get_info_alt)(isa, IsaInfo::NAME, bytes.as_mut_ptr().cast()) };
            self.check(status, stringify!(hsa_isa_get_info_alt))?;
            Ok(text(&bytes))
        };
        isas.into_iter().map(name).collect()
    }

    /// An attribute of an agent.
    ///
    /// # Safety
    /// The attribute is of type `T`, of which any bytes are a value.
    pub(crate) unsafe fn agent_info<T: Default>(&self, agent: Agent, attribute: AgentInfo) -> Result<T> {
        let mut value = T::default();
        // SAFETY: the caller guarantees that it fits.
        let status = unsafe { (self.functions.hsa_agent_get_info)(agent, attribute, ptr::from_mut(&mut value).cast()) };
        self.check(status, &format!("hsa_agent_get_info({attribute:?})"))?;
        Ok(value)
    }

    /// An attribute of an agent that is a text.
    pub(crate) fn agent_text(&self, agent: Agent, attribute: AgentInfo) -> Result<String> {
        // SAFETY: texts of agents have at most 64 characters.
        let bytes = unsafe { self.agent_info::<[u64; 9]>(agent, attribute) }?;
        let bytes: Vec<u8> = bytes.iter().flat_map(|word| word.to_ne_bytes()).collect();
        Ok(text(&bytes))
    }

    /// An attribute of a pool.
    ///
    /// # Safety
    /// The attribute is of type `T`, of which any bytes are a value.
    pub(crate) unsafe fn pool_info<T: Default>(&self, pool: MemoryPool, attribute: MemoryPoolInfo) -> Result<T> {
        let mut value = T::default();
        let target = ptr::from_mut(&mut value).cast();
        // SAFETY: the caller guarantees that it fits.
        let status = unsafe { (self.functions.hsa_amd_memory_pool_get_info)(pool, attribute, target) };
        self.check(status, &format!("hsa_amd_memory_pool_get_info({attribute:?})"))?;
        Ok(value)
    }

    /// An attribute of a pool for an agent.
    ///
    /// # Safety
    /// The attribute is of type `T`, of which any bytes are a value.
    pub(crate) unsafe fn agent_pool_info<T: Default>(
        &self,
        agent: Agent,
        pool: MemoryPool,
        attribute: AgentMemoryPoolInfo,
    ) -> Result<T> {
        let mut value = T::default();
        let target = ptr::from_mut(&mut value).cast();
        // SAFETY: the caller guarantees that it fits.
        let status = unsafe { (self.functions.hsa_amd_agent_memory_pool_get_info)(agent, pool, attribute, target) };
        self.check(status, &format!("hsa_amd_agent_memory_pool_get_info({attribute:?})"))?;
        Ok(value)
    }

    /// Allocates from a pool and lets agents access the memory.
    pub(crate) fn allocate(self: &Arc<Self>, pool: MemoryPool, size: u64, agents: &[Agent]) -> Result<PoolMemory> {
        let mut address = ptr::null_mut();
        // SAFETY: `address` is written.
        let status = unsafe { (self.functions.hsa_amd_memory_pool_allocate)(pool, size, 0, &mut address) };
        self.check(status, stringify!(hsa_amd_memory_pool_allocate))?;
        let address = NonNull::new(address.cast::<u8>())
            .ok_or_else(|| Status::internal("`hsa_amd_memory_pool_allocate` returned no address"))?;
        let memory = PoolMemory { hsa: self.clone(), address };
        if !agents.is_empty() {
            let (count, list) = (agents.len() as u32, agents.as_ptr());
            let allow = self.functions.hsa_amd_agents_allow_access;
            // SAFETY: the list has that many agents, and the address is that of an allocation.
            let status = unsafe { allow(count, list, ptr::null(), address.as_ptr().cast()) };
            self.check(status, stringify!(hsa_amd_agents_allow_access))?;
        }
        Ok(memory)
    }

    /// Pins memory of the host for agents.
    ///
    /// # Safety
    /// The memory stays valid as long as the result lives.
    pub(crate) unsafe fn lock(
        self: &Arc<Self>,
        host: NonNull<u8>,
        size: u64,
        agents: &mut [Agent],
    ) -> Result<LockedMemory> {
        let mut address = ptr::null_mut();
        let (list, count) = (agents.as_mut_ptr(), agents.len() as i32);
        // SAFETY: the caller guarantees that the memory is there; the list has that many agents.
        let status =
            unsafe { (self.functions.hsa_amd_memory_lock)(host.as_ptr().cast(), size, list, count, &mut address) };
        self.check(status, stringify!(hsa_amd_memory_lock))?;
        Ok(LockedMemory { hsa: self.clone(), host, address: address.addr() as u64 })
    }

    /// Copies memory that agents reach, and waits.
    ///
    /// # Safety
    /// Both ranges have that many bytes, and nothing else writes to them meanwhile.
    pub(crate) unsafe fn copy(&self, target: u64, source: u64, length: u64) -> Result<()> {
        let (target, source) =
            (ptr::with_exposed_provenance_mut(target as usize), ptr::with_exposed_provenance(source as usize));
        // SAFETY: the caller guarantees that both ranges have `length` bytes, and that nothing else writes to them
        // meanwhile.
        let status = unsafe { (self.functions.hsa_memory_copy)(target, source, length) };
        self.check(status, stringify!(hsa_memory_copy))
    }

    /// Fills memory that agents reach with zeros, and waits. False if the library has no function for it.
    ///
    /// # Safety
    /// The range begins at a multiple of 4 and has so many words, and nothing else uses it meanwhile.
    pub(crate) unsafe fn zero(&self, target: u64, words: u64) -> Result<bool> {
        let Some(fill) = self.functions.hsa_amd_memory_fill else { return Ok(false) };
        // SAFETY: the caller guarantees that the range is aligned and has `words` words, and that nothing else uses it
        // meanwhile.
        let status = unsafe { fill(ptr::with_exposed_provenance_mut(target as usize), 0, words) };
        self.check(status, stringify!(hsa_amd_memory_fill)).map(|()| true)
    }

    /// Creates a signal that the host waits for.
    pub(crate) fn signal(self: &Arc<Self>, value: i64) -> Result<OwnedSignal> {
        let mut signal = Signal::default();
        // SAFETY: `signal` is written; there is no list of consumers.
        let status = unsafe { (self.functions.hsa_amd_signal_create)(value, 0, ptr::null(), 0, &mut signal) };
        self.check(status, stringify!(hsa_amd_signal_create))?;
        Ok(OwnedSignal { hsa: self.clone(), signal })
    }

    /// Stores a value to a signal with release semantics: that of this library, such as a doorbell.
    ///
    /// # Safety
    /// The signal is alive.
    pub(crate) unsafe fn store(&self, signal: Signal, value: i64) {
        // SAFETY: the caller guarantees that the signal is alive.
        unsafe { (self.functions.hsa_signal_store_screlease)(signal, value) };
    }

    /// Waits until one of `signals` is less than its value, or for so many ticks.
    ///
    /// # Safety
    /// The signals are alive.
    pub(crate) unsafe fn wait_any_less<const N: usize>(
        &self,
        mut signals: [Signal; N],
        mut values: [i64; N],
        timeout: u64,
    ) {
        let mut conditions = [SignalCondition::LT; N];
        let mut value = 0;
        let wait = self.functions.hsa_amd_signal_wait_any;
        let (signals, conditions) = (signals.as_mut_ptr(), conditions.as_mut_ptr());
        // SAFETY: there are `N` of each, and the caller guarantees that the signals are alive.
        unsafe {
            wait(N as u32, signals, conditions, values.as_mut_ptr(), timeout, WaitState::BLOCKED, &mut value);
        }
    }

    /// Creates a queue for one producer at a time.
    ///
    /// # Safety
    /// The callback may be called with `data` on any thread until the queue is destroyed.
    pub(crate) unsafe fn queue(
        self: &Arc<Self>,
        agent: Agent,
        size: u32,
        callback: QueueErrorCallback,
        data: *mut c_void,
    ) -> Result<OwnedQueue> {
        let mut queue = ptr::null_mut();
        let create = self.functions.hsa_queue_create;
        let (private, group) = (u32::MAX, u32::MAX);
        // SAFETY: `queue` is written; the caller guarantees what the callback needs.
        let status = unsafe { create(agent, size, QueueType::MULTI, Some(callback), data, private, group, &mut queue) };
        self.check(status, stringify!(hsa_queue_create))?;
        let queue = NonNull::new(queue).ok_or_else(|| Status::internal("`hsa_queue_create` returned no queue"))?;
        Ok(OwnedQueue { hsa: self.clone(), queue })
    }

    /// Loads a code object for an agent.
    pub(crate) fn load_code(self: &Arc<Self>, agent: Agent, image: Arc<[u8]>) -> Result<LoadedCode> {
        let functions = &self.functions;
        let mut executable = Executable::default();
        let (profile, rounding) = (Profile::FULL, DefaultFloatRoundingMode::DEFAULT);
        // SAFETY: `executable` is written; there are no options.
        let status =
            unsafe { (functions.hsa_executable_create_alt)(profile, rounding, c"".as_ptr().cast(), &mut executable) };
        self.check(status, stringify!(hsa_executable_create_alt))?;
        // Destroyed with the code, whatever happens from here on.
        let objects = Mutex::default();
        let code = LoadedCode { hsa: self.clone(), executable, agent, objects, _image: image.clone() };
        let mut reader = Default::default();
        let (data, size) = (image.as_ptr().cast(), image.len() as u64);
        // SAFETY: the image outlives the reader.
        let status = unsafe { (functions.hsa_code_object_reader_create_from_memory)(data, size, &mut reader) };
        self.check(status, stringify!(hsa_code_object_reader_create_from_memory))?;
        let load = functions.hsa_executable_load_agent_code_object;
        // SAFETY: the handles are those that the library returned; the result is not asked for.
        let status = unsafe { load(executable, agent, reader, ptr::null(), ptr::null_mut()) };
        let loaded = self.check(status, stringify!(hsa_executable_load_agent_code_object));
        // SAFETY: it is used no more.
        unsafe { (functions.hsa_code_object_reader_destroy)(reader) };
        loaded?;
        // SAFETY: the handle is alive.
        let status = unsafe { (functions.hsa_executable_freeze)(executable, ptr::null()) };
        self.check(status, stringify!(hsa_executable_freeze))?;
        Ok(code)
    }
}

/// The text before the first zero.
fn text(bytes: &[u8]) -> String {
    let length = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..length]).trim().to_string()
}

/// An allocation of a pool.
#[derive(Debug)]
pub(crate) struct PoolMemory {
    hsa: Arc<Hsa>,
    address: NonNull<u8>,
}

// SAFETY: it is an address, and the library may be called on any thread.
unsafe impl Send for PoolMemory {}
// SAFETY: shared references only read the address, and the library may be called on many threads at once.
unsafe impl Sync for PoolMemory {}

impl PoolMemory {
    /// The address of the first byte, for agents and, where it reaches the memory, for the host.
    pub(crate) fn address(&self) -> NonNull<u8> {
        self.address
    }
}

impl Drop for PoolMemory {
    fn drop(&mut self) {
        // SAFETY: it was allocated and is freed once. A failure would leave it allocated.
        unsafe { (self.hsa.functions.hsa_amd_memory_pool_free)(self.address.as_ptr().cast()) };
    }
}

/// Memory of the host that is pinned for agents.
#[derive(Debug)]
pub(crate) struct LockedMemory {
    hsa: Arc<Hsa>,
    host: NonNull<u8>,
    /// Its address for agents.
    pub(crate) address: u64,
}

// SAFETY: it is an address, and the library may be called on any thread.
unsafe impl Send for LockedMemory {}
// SAFETY: shared references only read the addresses, and the library may be called on many threads at once.
unsafe impl Sync for LockedMemory {}

impl Drop for LockedMemory {
    fn drop(&mut self) {
        // SAFETY: it was locked and is unlocked once.
        unsafe { (self.hsa.functions.hsa_amd_memory_unlock)(self.host.as_ptr().cast()) };
    }
}

/// A signal.
#[derive(Debug)]
pub(crate) struct OwnedSignal {
    hsa: Arc<Hsa>,
    signal: Signal,
}

impl OwnedSignal {
    pub(crate) fn handle(&self) -> Signal {
        self.signal
    }

    pub(crate) fn load(&self) -> i64 {
        // SAFETY: it is alive.
        unsafe { (self.hsa.functions.hsa_signal_load_scacquire)(self.signal) }
    }

    pub(crate) fn store(&self, value: i64) {
        // SAFETY: it is alive.
        unsafe { self.hsa.store(self.signal, value) };
    }
}

impl Drop for OwnedSignal {
    fn drop(&mut self) {
        // SAFETY: it is destroyed once, and its owner has ended all that uses it before.
        unsafe { (self.hsa.functions.hsa_signal_destroy)(self.signal) };
    }
}

/// A queue.
#[derive(Debug)]
pub(crate) struct OwnedQueue {
    hsa: Arc<Hsa>,
    queue: NonNull<HsaQueue>,
}

// SAFETY: it is an address; the ring and its indices are accessed atomically.
unsafe impl Send for OwnedQueue {}
// SAFETY: shared references only read the address; the ring and its indices are accessed atomically.
unsafe impl Sync for OwnedQueue {}

impl OwnedQueue {
    /// The queue as the library shares it.
    pub(crate) fn shared(&self) -> NonNull<HsaQueue> {
        self.queue
    }
}

impl Hsa {
    /// Whether queues can be made to end the packets that run.
    pub(crate) fn can_inactivate(&self) -> bool {
        self.functions.hsa_queue_inactivate.is_some()
    }
}

impl OwnedQueue {
    /// Ends the packets that run, and runs no others.
    pub(crate) fn inactivate(&self) {
        if let Some(inactivate) = self.hsa.functions.hsa_queue_inactivate {
            // SAFETY: it is alive. The library refuses only what is no queue.
            unsafe { inactivate(self.queue.as_ptr()) };
        }
    }
}

impl Drop for OwnedQueue {
    fn drop(&mut self) {
        // SAFETY: it is destroyed once. Its packet processor does not run afterwards.
        unsafe { (self.hsa.functions.hsa_queue_destroy)(self.queue.as_ptr()) };
    }
}

/// A code object in the memory of an agent.
#[derive(Debug)]
pub(crate) struct LoadedCode {
    hsa: Arc<Hsa>,
    executable: Executable,
    agent: Agent,
    /// The kernels that were looked up.
    objects: Mutex<Vec<u64>>,
    _image: Arc<[u8]>,
}

impl LoadedCode {
    /// The address of a kernel descriptor.
    pub(crate) fn kernel_object(&self, symbol: &str) -> Result<u64> {
        let functions = &self.hsa.functions;
        let name = CString::new(symbol).map_err(|_| Status::invalid_argument("a symbol with a zero"))?;
        let mut handle = Default::default();
        let get = functions.hsa_executable_get_symbol_by_name;
        // SAFETY: the name is a string of C, the agent is there, and `handle` is written.
        let status = unsafe { get(self.executable, name.as_ptr().cast(), &self.agent, &mut handle) };
        self.hsa.check(status, &format!("hsa_executable_get_symbol_by_name({symbol})"))?;
        let mut address = 0u64;
        let (attribute, target) = (ExecutableSymbolInfo::KERNEL_OBJECT, ptr::from_mut(&mut address).cast());
        // SAFETY: the attribute is a `u64`.
        let status = unsafe { (functions.hsa_executable_symbol_get_info)(handle, attribute, target) };
        self.hsa.check(status, stringify!(hsa_executable_symbol_get_info))?;
        self.objects.lock().unwrap_or_else(PoisonError::into_inner).push(address);
        self.hsa.kernels().insert(address, Arc::from(symbol.strip_suffix(".kd").unwrap_or(symbol)));
        Ok(address)
    }
}

impl Drop for LoadedCode {
    fn drop(&mut self) {
        let objects = self.objects.get_mut().unwrap_or_else(PoisonError::into_inner);
        let mut kernels = self.hsa.kernels();
        objects.iter().for_each(|object| drop(kernels.remove(object)));
        drop(kernels);
        // SAFETY: it is destroyed once; executions hold their executables.
        unsafe { (self.hsa.functions.hsa_executable_destroy)(self.executable) };
    }
}
