//! The functions of the software agent, counted, of which one fails, or calls a test, when the test says so.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Duration;

use vireo_hsa::hsa::{
    Agent, AgentCallback, AgentInfo, AgentMemoryPoolInfo, CChar, CodeObjectReader, DefaultFloatRoundingMode,
    Executable, ExecutableSymbol, ExecutableSymbolInfo, HsaStatus, Isa, IsaCallback, IsaInfo, LoadedCodeObject,
    MemoryPool, MemoryPoolCallback, MemoryPoolInfo, Profile, ProfilingDispatchTime, QueueErrorCallback,
    SystemEventCallback, SystemInfo,
};
use vireo_hsa::hsa_symbols::HsaFunctions;
use vireo_hsa::queue::{HsaQueue, QueueType};
use vireo_hsa::signal::Signal;

const REAL: HsaFunctions = vireo_softhsa::functions();

/// A call of a function: its name, and which of its calls, from 1.
pub type Nth = (&'static str, u64);

type Hook = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct State {
    calls: BTreeMap<&'static str, u64>,
    /// Calls that succeeded.
    successes: BTreeMap<&'static str, u64>,
    fails: Option<(Nth, HsaStatus)>,
    hook: Option<(&'static str, ThreadId, Hook)>,
    /// The callback of the queue that was created last, with its argument.
    queue_callback: Option<(QueueErrorCallback, usize)>,
}

static STATE: Mutex<Option<State>> = Mutex::new(None);

fn with<R>(use_state: impl FnOnce(&mut State) -> R) -> R {
    let mut state: MutexGuard<'_, Option<State>> = STATE.lock().unwrap_or_else(PoisonError::into_inner);
    use_state(state.get_or_insert_default())
}

/// Calls what a test wants to be called before this.
fn run_hook(name: &'static str) {
    let is_next =
        |(hooked, thread, _): &mut (&str, ThreadId, Hook)| *hooked == name && *thread == thread::current().id();
    let hook = with(|state| state.hook.take_if(is_next));
    // Without the lock: it may call functions.
    if let Some((_, _, hook)) = hook {
        hook();
    }
}

/// Counts a call; the status of one that fails.
fn begin(name: &'static str) -> Option<HsaStatus> {
    run_hook(name);
    with(|state| {
        let calls = state.calls.entry(name).or_default();
        *calls += 1;
        let this = (name, *calls);
        state.fails.filter(|(nth, _)| *nth == this).map(|(_, status)| status)
    })
}

fn end(name: &'static str, status: HsaStatus) -> HsaStatus {
    if status == HsaStatus::SUCCESS {
        with(|state| *state.successes.entry(name).or_default() += 1);
    }
    status
}

/// Defines the table: functions that every library has, and those that some lack.
macro_rules! counted {
    (
        required { $($name:ident($($argument:ident: $type:ty),*);)* }
        optional { $($other:ident($($parameter:ident: $kind:ty),*);)* }
    ) => {
        /// The functions, counted from here on.
        pub fn functions() -> HsaFunctions {
            let mut functions = REAL;
            $({
                unsafe extern "C" fn counted($($argument: $type),*) -> HsaStatus {
                    let name = stringify!($name);
                    match begin(name) {
                        Some(status) => status,
                        // SAFETY: the arguments are passed on.
                        None => end(name, unsafe { (REAL.$name)($($argument),*) }),
                    }
                }
                functions.$name = counted;
            })*
            $({
                unsafe extern "C" fn counted($($parameter: $kind),*) -> HsaStatus {
                    let name = stringify!($other);
                    let real = const { REAL.$other.expect("the software agent has all functions") };
                    match begin(name) {
                        Some(status) => status,
                        // SAFETY: the arguments are passed on.
                        None => end(name, unsafe { real($($parameter),*) }),
                    }
                }
                functions.$other = Some(counted);
            })*
            functions.hsa_queue_create = create_queue;
            functions.hsa_signal_store_screlease = store_signal;
            functions
        }
    };
}

counted! {
    required {
        hsa_init();
        hsa_shut_down();
        hsa_system_get_info(attribute: SystemInfo, value: *mut c_void);
        hsa_iterate_agents(callback: Option<AgentCallback>, data: *mut c_void);
        hsa_agent_get_info(agent: Agent, attribute: AgentInfo, value: *mut c_void);
        hsa_agent_iterate_isas(agent: Agent, callback: Option<IsaCallback>, data: *mut c_void);
        hsa_isa_get_info_alt(isa: Isa, attribute: IsaInfo, value: *mut c_void);
        hsa_amd_agent_iterate_memory_pools(
            agent: Agent,
            callback: Option<MemoryPoolCallback>,
            data: *mut c_void
        );
        hsa_amd_memory_pool_get_info(pool: MemoryPool, attribute: MemoryPoolInfo, value: *mut c_void);
        hsa_amd_agent_memory_pool_get_info(
            agent: Agent,
            pool: MemoryPool,
            attribute: AgentMemoryPoolInfo,
            value: *mut c_void
        );
        hsa_amd_memory_pool_allocate(pool: MemoryPool, size: u64, flags: u32, ptr: *mut *mut c_void);
        hsa_amd_memory_pool_free(ptr: *mut c_void);
        hsa_amd_agents_allow_access(count: u32, agents: *const Agent, flags: *const u32, ptr: *const c_void);
        hsa_amd_memory_lock(
            host_ptr: *mut c_void,
            size: u64,
            agents: *mut Agent,
            count: i32,
            agent_ptr: *mut *mut c_void
        );
        hsa_amd_memory_unlock(host_ptr: *mut c_void);
        hsa_memory_copy(target: *mut c_void, source: *const c_void, size: u64);
        hsa_amd_signal_create(value: i64, count: u32, consumers: *const Agent, flags: u64, signal: *mut Signal);
        hsa_signal_destroy(signal: Signal);
        hsa_queue_destroy(queue: *mut HsaQueue);
        hsa_executable_create_alt(
            profile: Profile,
            rounding: DefaultFloatRoundingMode,
            options: *const CChar,
            executable: *mut Executable
        );
        hsa_executable_destroy(executable: Executable);
        hsa_code_object_reader_create_from_memory(data: *const c_void, size: u64, reader: *mut CodeObjectReader);
        hsa_code_object_reader_destroy(reader: CodeObjectReader);
        hsa_executable_load_agent_code_object(
            executable: Executable,
            agent: Agent,
            reader: CodeObjectReader,
            options: *const CChar,
            loaded: *mut LoadedCodeObject
        );
        hsa_executable_freeze(executable: Executable, options: *const CChar);
        hsa_executable_get_symbol_by_name(
            executable: Executable,
            name: *const CChar,
            agent: *const Agent,
            symbol: *mut ExecutableSymbol
        );
        hsa_executable_symbol_get_info(
            symbol: ExecutableSymbol,
            attribute: ExecutableSymbolInfo,
            value: *mut c_void
        );
        hsa_amd_profiling_set_profiler_enabled(queue: *mut HsaQueue, enabled: i32);
    }
    optional {
        hsa_queue_inactivate(queue: *mut HsaQueue);
        hsa_amd_memory_fill(ptr: *mut c_void, value: u32, count: u64);
        hsa_amd_register_system_event_handler(callback: Option<SystemEventCallback>, data: *mut c_void);
        hsa_amd_profiling_get_dispatch_time(agent: Agent, signal: Signal, time: *mut ProfilingDispatchTime);
    }
}

unsafe extern "C" fn create_queue(
    agent: Agent,
    size: u32,
    kind: QueueType,
    callback: Option<QueueErrorCallback>,
    data: *mut c_void,
    private_size: u32,
    group_size: u32,
    queue: *mut *mut HsaQueue,
) -> HsaStatus {
    let name = "hsa_queue_create";
    if let Some(status) = begin(name) {
        return status;
    }
    with(|state| state.queue_callback = callback.map(|callback| (callback, data.expose_provenance())));
    // SAFETY: the arguments are passed on.
    let status = unsafe { (REAL.hsa_queue_create)(agent, size, kind, callback, data, private_size, group_size, queue) };
    end(name, status)
}

unsafe extern "C" fn store_signal(signal: Signal, value: i64) {
    run_hook("hsa_signal_store_screlease");
    // SAFETY: the arguments are passed on.
    unsafe { (REAL.hsa_signal_store_screlease)(signal, value) };
}

/// The functions are one test's at a time, which begins with this.
pub fn exclusive() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    reset(None);
    turn
}

/// Forgets all calls; a call may be to fail from here on.
pub fn reset(fails: Option<(Nth, HsaStatus)>) {
    with(|state| *state = State { fails, ..State::default() });
}

/// Calls `hook` before the next call of a function on this thread.
pub fn before_next(name: &'static str, hook: impl FnOnce() + Send + 'static) {
    with(|state| state.hook = Some((name, thread::current().id(), Box::new(hook))));
}

/// Stops the queue that was created last, as the library does when a packet is wrong.
pub fn stop_last_queue(status: HsaStatus) {
    let (callback, data) = with(|state| state.queue_callback).expect("there is a queue");
    // SAFETY: the driver gave both for this, and its queue is there.
    unsafe { callback(status, std::ptr::null_mut(), std::ptr::with_exposed_provenance_mut(data)) };
}

/// How often each function was called.
pub fn calls() -> BTreeMap<&'static str, u64> {
    with(|state| state.calls.clone())
}

/// The objects that were made and not ended: calls that succeeded of a function without as many of its opposite. A
/// device that failed may end on a thread of its own, a moment after the failure is known, so this waits as long as
/// that might take.
pub fn leaked() -> Vec<String> {
    for _ in 0..10_000 {
        if unequal().is_empty() {
            break;
        }
        thread::sleep(Duration::from_millis(1));
    }
    unequal()
}

fn unequal() -> Vec<String> {
    const PAIRS: [(&str, &str); 7] = [
        ("hsa_init", "hsa_shut_down"),
        ("hsa_amd_memory_pool_allocate", "hsa_amd_memory_pool_free"),
        ("hsa_amd_memory_lock", "hsa_amd_memory_unlock"),
        ("hsa_amd_signal_create", "hsa_signal_destroy"),
        ("hsa_queue_create", "hsa_queue_destroy"),
        ("hsa_executable_create_alt", "hsa_executable_destroy"),
        ("hsa_code_object_reader_create_from_memory", "hsa_code_object_reader_destroy"),
    ];
    with(|state| {
        let count = |name: &str| state.successes.get(name).copied().unwrap_or(0);
        let unequal = PAIRS.iter().filter(|(made, ended)| count(made) != count(ended));
        unequal.map(|(made, ended)| format!("{} {made}, {} {ended}", count(made), count(ended))).collect()
    })
}
