//! Common parts of the tests: calls of functions of the table, sessions of the library with a runner of their own,
//! queues, and memory.

use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use vireo_hsa::hsa::{
    Agent, AgentInfo, DefaultFloatRoundingMode, DeviceType, Executable, HsaStatus, MemoryPool, MemoryPoolInfo, Profile,
};
use vireo_hsa::packet::{KernelDispatchPacket, PACKET_SIZE};
use vireo_hsa::packets::Order;
use vireo_hsa::queue::{AmdQueue, HsaQueue, QueueType};
use vireo_hsa::ring::{Ring, Slot};
use vireo_hsa::signal::{AmdSignal, Signal, SignalCondition};
use vireo_simt::{Port, Trap, TrapKind};
use vireo_softhsa::{KernelDispatch, KernelRunner, PacketObserver, Topology};

/// Calls a function of the library that all drivers need.
macro_rules! hsa {
    ($function:ident($($argument:expr),* $(,)?)) => {{
        let function = vireo_softhsa::functions().$function;
        // SAFETY: the tests pass pointers to values that live during the call, or that the library has to refuse.
        unsafe { function($($argument),*) }
    }};
}

/// Calls another function of the library.
macro_rules! optional {
    ($function:ident($($argument:expr),* $(,)?)) => {{
        let function = vireo_softhsa::functions().$function.expect("the software agent has all functions");
        // SAFETY: the tests pass pointers to values that live during the call, or that the library has to refuse.
        unsafe { function($($argument),*) }
    }};
}

pub const OK: HsaStatus = HsaStatus::SUCCESS;

/// The code object of `kernels.s`.
pub static KERNELS: &[u8] = include_bytes!("../kernels.co");

/// The name of the descriptor of its kernel.
pub const STORE: &std::ffi::CStr = c"store.kd";

/// A function that runs kernels in a test.
pub type Run = dyn Fn(&KernelDispatch<'_>) -> Result<(), Trap> + Send + Sync;

struct Runner(Box<Run>);

impl KernelRunner for Runner {
    fn run(&self, dispatch: &KernelDispatch<'_>) -> Result<(), Trap> {
        (self.0)(dispatch)
    }
}

/// The library between `hsa_init` and `hsa_shut_down`. There is one library in a process, so tests take turns.
pub struct Session {
    _turn: MutexGuard<'static, ()>,
}

impl Session {
    pub fn with(topology: &str, run: impl Fn(&KernelDispatch<'_>) -> Result<(), Trap> + Send + Sync + 'static) -> Self {
        Self::start(topology, Some(Arc::new(Runner(Box::new(run)))), None)
    }

    /// A session whose kernels are interpreted.
    pub fn interpreted(topology: &str) -> Self {
        Self::start(topology, None, None)
    }

    /// A session whose kernels do what those of `kernels.s` do, and whose packets are observed.
    pub fn observed(topology: &str, observer: Arc<dyn PacketObserver>) -> Self {
        Self::start(topology, Some(Arc::new(Runner(Box::new(store)))), Some(observer))
    }

    fn start(topology: &str, runner: Option<Arc<dyn KernelRunner>>, observer: Option<Arc<dyn PacketObserver>>) -> Self {
        static TURN: Mutex<()> = Mutex::new(());
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let topology: Topology = topology.parse().expect("a topology");
        vireo_softhsa::configure(topology, runner).expect("nobody uses the library");
        vireo_softhsa::trace_packets(observer).expect("nobody uses the library");
        assert_eq!(hsa!(hsa_init()), OK);
        Session { _turn: turn }
    }

    /// A session whose kernels do what those of `kernels.s` do.
    pub fn new(topology: &str) -> Self {
        Self::with(topology, store)
    }

    pub fn agents(&self) -> Vec<Agent> {
        unsafe extern "C" fn collect(agent: Agent, data: *mut c_void) -> HsaStatus {
            // SAFETY: `data` is the vector below.
            unsafe { (*data.cast::<Vec<Agent>>()).push(agent) };
            OK
        }
        let mut agents: Vec<Agent> = Vec::new();
        assert_eq!(hsa!(hsa_iterate_agents(Some(collect), (&raw mut agents).cast())), OK);
        agents
    }

    pub fn gpus(&self) -> Vec<Agent> {
        let is_gpu = |agent: &Agent| agent_word(*agent, AgentInfo::DEVICE) == DeviceType::GPU.0;
        self.agents().into_iter().filter(is_gpu).collect()
    }

    pub fn gpu(&self) -> Agent {
        self.gpus()[0]
    }

    pub fn cpu(&self) -> Agent {
        self.agents()[0]
    }

    pub fn pools(&self, agent: Agent) -> Vec<MemoryPool> {
        unsafe extern "C" fn collect(pool: MemoryPool, data: *mut c_void) -> HsaStatus {
            // SAFETY: `data` is the vector below.
            unsafe { (*data.cast::<Vec<MemoryPool>>()).push(pool) };
            OK
        }
        let mut pools: Vec<MemoryPool> = Vec::new();
        let status = hsa!(hsa_amd_agent_iterate_memory_pools(agent, Some(collect), (&raw mut pools).cast()));
        assert_eq!(status, OK);
        pools
    }

    /// The pool of an agent with these flags.
    pub fn pool(&self, agent: Agent, flags: u32) -> MemoryPool {
        let has = |pool: &MemoryPool| {
            let mut found = 0u32;
            hsa!(hsa_amd_memory_pool_get_info(*pool, MemoryPoolInfo::GLOBAL_FLAGS, (&raw mut found).cast()));
            found == flags
        };
        self.pools(agent).into_iter().find(has).expect("the agent has the pool")
    }

    /// Memory of the GPU's coarse-grained pool.
    pub fn device_memory(&self, bytes: u64) -> Memory {
        Memory::new(self.pool(self.gpu(), COARSE), bytes)
    }

    /// Memory for arguments that the GPU can access.
    pub fn kernarg_memory(&self, bytes: u64) -> Memory {
        let memory = Memory::new(self.pool(self.cpu(), KERNARG), bytes);
        memory.allow(&self.gpus());
        memory
    }

    pub fn signal(&self, value: i64) -> Signal {
        let mut signal = Signal(0);
        let status = hsa!(hsa_amd_signal_create(value, 0, std::ptr::null(), 0, &raw mut signal));
        assert_eq!(status, OK);
        signal
    }

    /// An executable with the kernels, and the address of the descriptor of `store`.
    pub fn load(&self, agent: Agent) -> (Executable, u64) {
        let executable = load(agent, KERNELS).expect("the kernels are loaded");
        (executable, kernel_object(executable))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let status = hsa!(hsa_shut_down());
        if !std::thread::panicking() {
            assert_eq!(status, OK);
        }
    }
}

/// Flags of pools.
pub const FINE: u32 = 2;
pub const KERNARG: u32 = 3;
pub const COARSE: u32 = 4;

/// An attribute of 32 bits.
pub fn agent_word(agent: Agent, attribute: AgentInfo) -> u32 {
    let mut value = 0u32;
    assert_eq!(hsa!(hsa_agent_get_info(agent, attribute, (&raw mut value).cast())), OK);
    value
}

/// Loads a code object.
pub fn load(agent: Agent, bytes: &[u8]) -> Result<Executable, HsaStatus> {
    let (mut reader, mut executable) = (Default::default(), Executable(0));
    let (pointer, length) = (bytes.as_ptr().cast(), bytes.len() as u64);
    assert_eq!(hsa!(hsa_code_object_reader_create_from_memory(pointer, length, &raw mut reader)), OK);
    let (profile, rounding) = (Profile::BASE, DefaultFloatRoundingMode::DEFAULT);
    let status = hsa!(hsa_executable_create_alt(profile, rounding, std::ptr::null(), &raw mut executable));
    assert_eq!(status, OK);
    let (options, loaded) = (std::ptr::null(), std::ptr::null_mut());
    let status = hsa!(hsa_executable_load_agent_code_object(executable, agent, reader, options, loaded));
    assert_eq!(hsa!(hsa_code_object_reader_destroy(reader)), OK);
    if status != OK {
        assert_eq!(hsa!(hsa_executable_destroy(executable)), OK);
        return Err(status);
    }
    assert_eq!(hsa!(hsa_executable_freeze(executable, std::ptr::null())), OK);
    Ok(executable)
}

/// The address of the descriptor of `store`.
pub fn kernel_object(executable: Executable) -> u64 {
    use vireo_hsa::hsa::{ExecutableSymbol, ExecutableSymbolInfo};
    let (mut symbol, mut object) = (ExecutableSymbol(0), 0u64);
    let (name, agent) = (STORE.as_ptr().cast(), std::ptr::null());
    assert_eq!(hsa!(hsa_executable_get_symbol_by_name(executable, name, agent, &raw mut symbol)), OK);
    let attribute = ExecutableSymbolInfo::KERNEL_OBJECT;
    assert_eq!(hsa!(hsa_executable_symbol_get_info(symbol, attribute, (&raw mut object).cast())), OK);
    object
}

/// An allocation; freed when it is dropped.
pub struct Memory {
    pub address: u64,
}

impl Memory {
    pub fn new(pool: MemoryPool, bytes: u64) -> Self {
        let mut pointer = std::ptr::null_mut();
        assert_eq!(hsa!(hsa_amd_memory_pool_allocate(pool, bytes, 0, &raw mut pointer)), OK);
        Memory { address: pointer.expose_provenance() as u64 }
    }

    pub fn pointer(&self) -> *mut c_void {
        std::ptr::with_exposed_provenance_mut(self.address as usize)
    }

    pub fn allow(&self, agents: &[Agent]) {
        let (count, list) = (agents.len() as u32, agents.as_ptr());
        assert_eq!(hsa!(hsa_amd_agents_allow_access(count, list, std::ptr::null(), self.pointer())), OK);
    }

    /// The 64-bit word with this index.
    pub fn word(&self, index: usize) -> &AtomicU64 {
        // SAFETY: the tests stay in their allocations.
        unsafe { AtomicU64::from_ptr(self.pointer().cast::<u64>().add(index)) }
    }

    pub fn load(&self, index: usize) -> u64 {
        self.word(index).load(Ordering::Relaxed)
    }

    pub fn store(&self, index: usize, value: u64) {
        self.word(index).store(value, Ordering::Relaxed);
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        hsa!(hsa_amd_memory_pool_free(self.pointer()));
    }
}

/// The status that a queue stopped with, which its callback received.
#[derive(Default)]
pub struct QueueError(pub AtomicU64);

unsafe extern "C" fn queue_error(status: HsaStatus, _source: *mut HsaQueue, data: *mut c_void) {
    // SAFETY: `data` is the error of the queue, which outlives it.
    let error = unsafe { &*data.cast::<QueueError>() };
    error.0.store(status.0.into(), Ordering::Release);
}

/// A queue; destroyed when it is dropped.
pub struct Queue {
    pub pointer: *mut HsaQueue,
    pub error: Box<QueueError>,
}

impl Queue {
    pub fn new(agent: Agent, size: u32) -> Self {
        Self::of_type(agent, size, QueueType::MULTI).expect("a queue")
    }

    pub fn of_type(agent: Agent, size: u32, queue_type: QueueType) -> Result<Self, HsaStatus> {
        let error = Box::<QueueError>::default();
        let data = (&raw const *error).cast_mut().cast();
        let mut pointer = std::ptr::null_mut();
        let callback = Some(queue_error as vireo_hsa::hsa::QueueErrorCallback);
        let status =
            hsa!(hsa_queue_create(agent, size, queue_type, callback, data, u32::MAX, u32::MAX, &raw mut pointer));
        if status == OK { Ok(Queue { pointer, error }) } else { Err(status) }
    }

    /// The fields of the queue that the program sees.
    pub fn shared(&self) -> HsaQueue {
        // SAFETY: the queue is there, and the library does not change this part of it.
        unsafe { *self.pointer }
    }

    /// The ring of the queue, made from what the program sees.
    pub fn ring(&self) -> Ring<'_> {
        let shared = self.shared();
        let base = self.pointer.cast::<u8>();
        // SAFETY: the queue is there; these are its ring and its indices, which are atomics.
        unsafe {
            let slots: *const Slot = std::ptr::with_exposed_provenance(shared.base_address as usize);
            let slots = std::slice::from_raw_parts(slots, shared.size as usize);
            let index = |offset: usize| AtomicU64::from_ptr(base.add(offset).cast());
            let write = index(std::mem::offset_of!(AmdQueue, write_dispatch_id));
            let read = index(std::mem::offset_of!(AmdQueue, read_dispatch_id));
            Ring::new(slots, write, read).expect("a ring")
        }
    }

    /// Publishes packets and rings the doorbell.
    pub fn submit(&self, packets: &[[u8; PACKET_SIZE as usize]]) {
        let ring = self.ring();
        let reservation = loop {
            match ring.try_reserve(packets.len() as u64) {
                Some(reservation) => break reservation,
                None => std::thread::yield_now(),
            }
        };
        self.ring_doorbell(ring.publish(reservation, packets));
    }

    pub fn ring_doorbell(&self, index: u64) {
        hsa!(hsa_signal_store_screlease(self.shared().doorbell_signal, index as i64));
    }

    /// Waits until the queue stops, and returns why.
    pub fn wait_for_error(&self) -> HsaStatus {
        loop {
            match self.error.0.load(Ordering::Acquire) {
                0 => std::thread::yield_now(),
                status => return HsaStatus(status as u32),
            }
        }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        hsa!(hsa_queue_destroy(self.pointer));
    }
}

/// Waits until a signal is less than 1.
pub fn wait(signal: Signal) {
    let (condition, state) = (SignalCondition::LT, Default::default());
    assert!(hsa!(hsa_signal_wait_scacquire(signal, condition, 1, u64::MAX, state)) < 1);
}

/// The value of a signal where it is in memory.
pub fn value_of(signal: Signal) -> &'static std::sync::atomic::AtomicI64 {
    let address = signal.0 as usize + std::mem::offset_of!(AmdSignal, value);
    // SAFETY: the tests keep the signal.
    unsafe { std::sync::atomic::AtomicI64::from_ptr(std::ptr::with_exposed_provenance_mut(address)) }
}

/// A dispatch of `store` with 32 work-items a work-group.
pub fn dispatch(order: Order, kernel: u64, kernarg: u64, items: u32, completion: Signal) -> [u8; 64] {
    let packet = KernelDispatchPacket::new(order, kernel, kernarg, [32, 1, 1], [items, 1, 1]).expect("a packet");
    KernelDispatchPacket { completion_signal: completion, ..packet }.to_bytes()
}

/// The effect of the kernel `store`.
pub fn store(dispatch: &KernelDispatch<'_>) -> Result<(), Trap> {
    let mut port = Port::new(dispatch.memory);
    let trap = |fault| Trap::new(TrapKind::Memory(fault));
    let [low, high, value] = port.load_words::<3>(dispatch.packet.kernarg_address).map_err(trap)?;
    let data = u64::from(high) << 32 | u64::from(low);
    for item in 0..dispatch.packet.grid_size[0] {
        port.store_words(data + 4 * u64::from(item), [value + item]).map_err(trap)?;
    }
    Ok(())
}

/// Writes the arguments of `store`.
pub fn arguments(memory: &Memory, offset: usize, data: u64, value: u64) -> u64 {
    memory.store(2 * offset, data);
    memory.store(2 * offset + 1, value);
    memory.address + 16 * offset as u64
}
