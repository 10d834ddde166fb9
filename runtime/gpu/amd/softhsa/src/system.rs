//! The state of the library between `hsa_init` and `hsa_shut_down` ([`System`]), and what a program sets before
//! ([`configure`]).

use std::collections::HashMap;
use std::ffi::c_void;
use std::fs::File;
use std::io::LineWriter;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread::JoinHandle;

use vireo_hsa::hsa::{Agent as AgentHandle, HsaStatus, MemoryPool, SystemEventCallback};
use vireo_simt::Stop;
use vireo_simt::sanitize::Sanitizer;
use vireo_soft::handles::Handles;
use vireo_soft::memory::backing::Backing;
use vireo_soft::memory::map::{Allocation, Kind};

use crate::agents::{Agent, Pool};
use crate::api::MemoryMap;
#[cfg(target_os = "linux")]
use crate::api::VirtualMemory;
use crate::code_object::storage::Storage;
use crate::dispatch::KernelRunner;
use crate::executable::{Executable, LoadedObject, Symbol};
use crate::interpreter::Interpreter;
use crate::lifecycle::is_in_callback;
use crate::queue::Queue;
use crate::sanitizer;
use crate::signals::{Handlers, Signal, Signals};
use crate::status::{Result, tell};
use crate::topology::{Topology, VARIABLE};
use crate::trace::{PacketObserver, PacketTrace, TraceFormat, Tracer};

/// The configuration of the next `hsa_init`.
struct Configuration {
    topology: Option<Topology>,
    runner: Option<Arc<dyn KernelRunner>>,
    observer: Option<Arc<dyn PacketObserver>>,
}

static CONFIGURATION: Mutex<Configuration> = Mutex::new(Configuration { topology: None, runner: None, observer: None });

/// The system with the number of its users; none unless it is initialised.
static SYSTEM: RwLock<Option<(u32, Arc<System>)>> = RwLock::new(None);

/// The error of [`configure`] while the library is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InUse;

impl std::fmt::Display for InUse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the software agent has been initialised already")
    }
}

impl std::error::Error for InUse {}

/// Sets the machine that the next `hsa_init` starts, instead of what the environment variable [`VARIABLE`] says, and
/// who runs its kernels; the interpreter if no runner is named.
///
/// # Errors
/// If the library is initialised.
pub fn configure(topology: Topology, runner: Option<Arc<dyn KernelRunner>>) -> std::result::Result<(), InUse> {
    set(|configuration| {
        configuration.topology = Some(topology);
        configuration.runner = runner;
    })
}

/// Sets who is told of the packets from the next `hsa_init` on, if there is an observer.
///
/// # Errors
/// If the library is initialised, and not with the same observer.
pub fn trace_packets(observer: Option<Arc<dyn PacketObserver>>) -> std::result::Result<(), InUse> {
    let as_it_is = |configuration: &Configuration| match (&configuration.observer, &observer) {
        (Some(one), Some(other)) => Arc::ptr_eq(one, other),
        (one, other) => one.is_none() && other.is_none(),
    };
    if as_it_is(&CONFIGURATION.lock().unwrap_or_else(PoisonError::into_inner)) {
        return Ok(());
    }
    set(|configuration| configuration.observer = observer)
}

fn set(change: impl FnOnce(&mut Configuration)) -> std::result::Result<(), InUse> {
    let system = SYSTEM.read().unwrap_or_else(PoisonError::into_inner);
    if system.is_some() {
        return Err(InUse);
    }
    change(&mut CONFIGURATION.lock().unwrap_or_else(PoisonError::into_inner));
    Ok(())
}

/// A function of the program that is told of events.
#[derive(Clone, Copy)]
pub(crate) struct EventHandler {
    pub(crate) callback: SystemEventCallback,
    pub(crate) data: *mut c_void,
}

// SAFETY: the program gave the function and its argument to be called on any thread.
unsafe impl Send for EventHandler {}

/// The state of the library.
pub(crate) struct System {
    pub(crate) topology: Topology,
    pub(crate) agents: Vec<Agent>,
    pub(crate) memory: MemoryMap,
    #[cfg(target_os = "linux")]
    pub(crate) virtual_memory: VirtualMemory,
    pub(crate) signals: Signals,
    /// Queues by their addresses.
    queues: RwLock<HashMap<u64, Arc<Queue>>>,
    queue_ids: AtomicU64,
    pub(crate) readers: Handles<Storage>,
    pub(crate) executables: Handles<Executable>,
    pub(crate) loaded_objects: Handles<LoadedObject>,
    pub(crate) symbols: Handles<Symbol>,
    pub(crate) events: Mutex<Vec<EventHandler>>,
    pub(crate) handlers: Handlers,
    /// Whether completion signals of copies receive times.
    pub(crate) copy_profiling: AtomicBool,
    /// How many users want to know what kernels count.
    pub(crate) counting: AtomicUsize,
    pub(crate) runner: Arc<dyn KernelRunner>,
    pub(crate) sanitizer: Option<Sanitizer>,
    pub(crate) threads: NonZeroUsize,
    /// Asks the thread that calls handlers of signals, and copies that wait, to stop.
    pub(crate) stop: Stop,
    helpers: Mutex<Vec<JoinHandle<()>>>,
}

impl System {
    fn new(topology: Topology, configuration: &Configuration, tracer: Option<Tracer>) -> Result<Self> {
        let runner = configuration.runner.clone().unwrap_or_else(|| Arc::new(Interpreter::default()));
        // A host that chose the topology asks for the reports; a program that is run with a variable sees them.
        let sanitizer = sanitizer::of_topology(&topology, configuration.topology.is_none());
        let cores = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        let agents: Vec<Agent> = (0..=topology.agents).map(|index| Agent::new(index, &topology)).collect();
        let memory = MemoryMap::default();
        for agent in &agents {
            let [address, _] = agent.flush_addresses();
            let backing = Backing::of(Arc::new(agent.flush.clone()));
            memory.insert(Allocation::new(address, 8, Kind::Object, agent.index, 0, backing))?;
        }
        Ok(System {
            topology,
            agents,
            memory,
            #[cfg(target_os = "linux")]
            virtual_memory: VirtualMemory::new(0x3e3 << 32),
            signals: Signals::new(tracer),
            queues: RwLock::default(),
            queue_ids: AtomicU64::new(1),
            readers: Handles::new(0x4ead << 32),
            executables: Handles::new(0xe8ec << 32),
            loaded_objects: Handles::new(0x10ad << 32),
            symbols: Handles::new(0x5b01 << 32),
            events: Mutex::default(),
            handlers: Handlers::default(),
            copy_profiling: AtomicBool::new(false),
            counting: AtomicUsize::new(0),
            runner,
            // In turn, work-groups are reported in the same order each time.
            threads: if sanitizer.is_some() { NonZeroUsize::MIN } else { cores },
            sanitizer,
            stop: Stop::default(),
            helpers: Mutex::default(),
        })
    }

    /// The agent with this handle.
    pub(crate) fn agent(&self, handle: AgentHandle) -> Result<&Agent> {
        let agent = Agent::index_of(handle).and_then(|index| self.agents.get(index));
        agent.ok_or(HsaStatus::ERROR_INVALID_AGENT)
    }

    /// The pool with this handle.
    pub(crate) fn pool(&self, handle: MemoryPool) -> Result<&Pool> {
        let pool = Agent::pool_of(handle).and_then(|(agent, pool)| self.agents.get(agent)?.pools.get(pool));
        pool.ok_or(HsaStatus::ERROR_INVALID_MEMORY_POOL)
    }

    /// A bit for each agent.
    pub(crate) fn all_agents(&self) -> u64 {
        u64::MAX >> (64 - self.agents.len())
    }

    /// Adds a signal that all agents can access.
    pub(crate) fn add_signal(&self, signal: Arc<Signal>) -> Result<u64> {
        let handle = signal.handle();
        let (length, backing) = (vireo_hsa::signal::AmdSignal::SIZE as u64, Backing::of(signal.clone()));
        self.memory.insert(Allocation::new(handle.0, length, Kind::Object, 0, self.all_agents(), backing))?;
        Ok(self.signals.insert(signal).0)
    }

    /// Changes a signal for the host or a copy, and wakes those who wait. Returns the old value.
    pub(crate) fn update_signal(&self, signal: &Signal, mut change: impl FnMut(i64) -> i64) -> i64 {
        if let Some(sanitizer) = &self.sanitizer {
            match signal.is_doorbell().then(|| self.queue(signal.queue())) {
                // A packet that is complete when the doorbell is rung is before those that are submitted.
                Some(Ok(queue)) => sanitizer.submitted(queue.id, change(0).wrapping_add(1) as u64),
                _ => sanitizer.signalled_by_host(signal.handle().0),
            }
        }
        self.signals.update(signal, change)
    }

    /// Copies bytes for the host.
    ///
    /// # Safety
    /// As [`MemoryMap::copy`].
    pub(crate) unsafe fn copy(&self, to: u64, from: u64, length: u64) -> Result<()> {
        // SAFETY: the program vouches for the bytes where the map has no allocation with an address.
        unsafe { self.memory.copy(to, from, length) }?;
        if let Some(sanitizer) = &self.sanitizer {
            sanitizer.written(to, length);
        }
        Ok(())
    }

    /// The number of a new queue.
    pub(crate) fn next_queue_id(&self) -> u64 {
        self.queue_ids.fetch_add(1, Ordering::Relaxed)
    }

    /// Adds a queue with the memory that all agents can access. On an error nothing of it is left.
    pub(crate) fn add_queue(&self, queue: Arc<Queue>) -> Result<()> {
        if let Err(status) = self.add_queue_memory(&queue) {
            self.remove_queue_memory(&queue);
            return Err(status);
        }
        self.queues.write().unwrap_or_else(PoisonError::into_inner).insert(queue.address(), queue);
        Ok(())
    }

    fn add_queue_memory(&self, queue: &Queue) -> Result<()> {
        let all = self.all_agents();
        let (ring, ring_bytes) = queue.ring_memory();
        let object = |start, length, backing| Allocation::new(start, length, Kind::Object, queue.agent, all, backing);
        self.memory.insert(object(ring, ring_bytes, Backing::of(Arc::new(queue.slots.clone()))))?;
        let (queue_bytes, memory) = (vireo_hsa::queue::AmdQueue::SIZE as u64, queue.memory.clone());
        self.memory.insert(object(queue.address(), queue_bytes, Backing::of(memory)))?;
        self.memory.insert(object(queue.doorbell.address(), 8, Backing::of(queue.doorbell.clone())))?;
        if queue.doorbell_signal.is_doorbell() {
            self.add_signal(queue.doorbell_signal.clone())?;
        }
        Ok(())
    }

    /// Removes the memory of a queue, and its doorbell unless that is a signal of the program.
    fn remove_queue_memory(&self, queue: &Queue) {
        let is_object = |allocation: &Allocation| allocation.kind == Kind::Object;
        if queue.doorbell_signal.is_doorbell() {
            let _ = self.signals.remove(queue.doorbell_signal.handle());
            self.memory.remove(queue.doorbell_signal.handle().0, is_object);
        }
        for start in [queue.ring_memory().0, queue.address(), queue.doorbell.address()] {
            self.memory.remove(start, is_object);
        }
    }

    /// The queue at this address.
    pub(crate) fn queue(&self, address: u64) -> Result<Arc<Queue>> {
        let queues = self.queues.read().unwrap_or_else(PoisonError::into_inner);
        queues.get(&address).cloned().ok_or(HsaStatus::ERROR_INVALID_QUEUE)
    }

    /// Stops and removes the queue at this address.
    pub(crate) fn remove_queue(&self, address: u64) -> Result<()> {
        let removed = self.queues.write().unwrap_or_else(PoisonError::into_inner).remove(&address);
        let queue = removed.ok_or(HsaStatus::ERROR_INVALID_QUEUE)?;
        queue.end(&self.signals.bell);
        if let Some(sanitizer) = &self.sanitizer {
            sanitizer.queue_removed(queue.id);
        }
        self.remove_queue_memory(&queue);
        if let Some(agent) = self.agents.get(queue.agent as usize) {
            agent.queues.fetch_sub(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Keeps a thread that ends with the system.
    pub(crate) fn add_helper(&self, thread: JoinHandle<()>) {
        let mut helpers = self.helpers.lock().unwrap_or_else(PoisonError::into_inner);
        // Threads that have ended need no attention any more.
        helpers.retain(|helper| !helper.is_finished());
        helpers.push(thread);
    }

    /// Ends all threads.
    fn end(&self) {
        self.stop.request();
        let addresses: Vec<u64> = self.queues.read().unwrap_or_else(PoisonError::into_inner).keys().copied().collect();
        for address in addresses {
            // One that the program destroys at the same time is gone already.
            let _ = self.remove_queue(address);
        }
        self.signals.bell.ring();
        let helpers = std::mem::take(&mut *self.helpers.lock().unwrap_or_else(PoisonError::into_inner));
        // Functions of the program do not wait for each other, and a helper may be in one.
        for helper in helpers.into_iter().filter(|_| !is_in_callback()) {
            // A panic of the thread was reported when it happened.
            let _ = helper.join();
        }
    }
}

/// The system.
pub(crate) fn system() -> Result<Arc<System>> {
    let system = SYSTEM.read().unwrap_or_else(PoisonError::into_inner);
    system.as_ref().map(|(_, system)| system.clone()).ok_or(HsaStatus::ERROR_NOT_INITIALIZED)
}

/// Starts the system, or counts one more user of it.
pub(crate) fn init() -> Result<()> {
    let mut system = SYSTEM.write().unwrap_or_else(PoisonError::into_inner);
    if let Some((users, _)) = system.as_mut() {
        *users = users.checked_add(1).ok_or(HsaStatus::ERROR_REFCOUNT_OVERFLOW)?;
        return Ok(());
    }
    let configuration = CONFIGURATION.lock().unwrap_or_else(PoisonError::into_inner);
    let topology = match &configuration.topology {
        Some(topology) => topology.check().map(|()| topology.clone()),
        None => std::env::var(VARIABLE).unwrap_or_default().parse(),
    };
    let topology = topology.map_err(|error| {
        tell(format_args!("{VARIABLE}: {error}"));
        HsaStatus::ERROR_INVALID_ARGUMENT
    })?;
    let observer = match &configuration.observer {
        Some(observer) => Some(observer.clone()),
        None => topology.trace.as_deref().map(trace_file).transpose()?,
    };
    *system = Some((1, Arc::new(System::new(topology, &configuration, observer.map(Tracer::new))?)));
    Ok(())
}

/// The trace to a file: JSON if its name ends in `.json`.
fn trace_file(path: &Path) -> Result<Arc<dyn PacketObserver>> {
    let format = TraceFormat::of_file(path);
    // Line by line, so that a program that never ends, or never shuts the library down, leaves what it did.
    let created = File::create(path).and_then(|file| PacketTrace::new(format, LineWriter::new(file)));
    created.map(|trace| Arc::new(trace) as Arc<dyn PacketObserver>).map_err(|error| {
        tell(format_args!("{VARIABLE}: trace: {}: {error}", path.display()));
        HsaStatus::ERROR_INVALID_ARGUMENT
    })
}

/// Counts one user less; the last one ends the system.
pub(crate) fn shut_down() -> Result<()> {
    let mut guard = SYSTEM.write().unwrap_or_else(PoisonError::into_inner);
    let (users, _) = guard.as_mut().ok_or(HsaStatus::ERROR_NOT_INITIALIZED)?;
    *users -= 1;
    if *users != 0 {
        return Ok(());
    }
    let ended = guard.take();
    // Threads that end may call functions of the library, which need the lock.
    drop(guard);
    if let Some((_, system)) = ended {
        system.end();
        if let Some(sanitizer) = &system.sanitizer {
            sanitizer::finish(sanitizer);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use vireo_hsa::queue::{QueueFeatures, QueueType};

    use super::*;
    use crate::queue::QueueOptions;

    #[test]
    fn nothing_is_left_of_a_queue_that_cannot_be_added() {
        let configuration = Configuration { topology: None, runner: None, observer: None };
        let system = System::new(Topology::default(), &configuration, None).expect("a system");
        let options = QueueOptions {
            size: 16,
            queue_type: QueueType::MULTI,
            agent: 1,
            compute_units: 1,
            waves: 1,
            features: QueueFeatures(0),
            error_handler: None,
            doorbell: None,
        };
        let queue = Arc::new(Queue::new(1, options).expect("a queue"));
        // The program says that it has memory where the doorbell is, which is added last but for the signal.
        let (doorbell, kind) = (queue.doorbell.address(), Kind::Locked);
        system.memory.insert(Allocation::new(doorbell, 8, kind, 0, 1, Backing::PROGRAM)).expect("it is free");
        assert_eq!(system.add_queue(queue.clone()), Err(HsaStatus::ERROR_INVALID_ALLOCATION));
        let (ring, _) = queue.ring_memory();
        assert!([ring, queue.address()].iter().all(|address| system.memory.find(*address).is_none()));
        assert!(system.queue(queue.address()).is_err() && system.memory.find(doorbell).is_some());
        system.memory.remove(doorbell, |_| true).expect("it was added");
        system.add_queue(queue).expect("nothing is in its way");
    }
}
