//! The machine ([`System`]): its devices, all objects by their handles, and what each thread has current.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use vireo_cuda::attributes::DeviceAttribute;
use vireo_cuda::devices::{Row, TABLES};
use vireo_cuda::result::CuResult;
use vireo_cuda::types::{CuDevice, CuStream, STREAM_LEGACY, STREAM_PER_THREAD};
use vireo_simt::Pool;
use vireo_simt::sanitize::{Report, Sanitizer, Warning};
use vireo_soft::handles::Handles;

use crate::api::Outcome;
use crate::call_trace::CallTrace;
use crate::capture::Captures;
use crate::context::{Context, Event, Stream, StreamKind};
use crate::crew::Crew;
use crate::graph::{Exec, Graph};
use crate::memory::Memory;
use crate::module::{Function, LibraryKernel, LinkState, Module, SharedLibrary};
use crate::options::{Options, OptionsError, VARIABLE};
use crate::poisoned::PoisonedHost;
use crate::reports::tell;
use crate::sanitizer;
use crate::user_object::UserObject;

/// A device.
#[derive(Debug)]
pub(crate) struct Device {
    /// Its attributes.
    pub(crate) rows: &'static [Row],
    /// The name that people know it by.
    pub(crate) name: &'static str,
    primary: Mutex<Primary>,
    /// The handle of its default pool, and of the one that allocations are from.
    pub(crate) default_pool: u64,
    pool: AtomicU64,
}

/// The primary context of a device.
#[derive(Debug, Default)]
pub(crate) struct Primary {
    /// The context, while it has users.
    pub(crate) context: Option<Arc<Context>>,
    /// How often it was retained.
    pub(crate) users: u64,
    /// The flags for it.
    pub(crate) flags: u32,
}

impl Device {
    /// Its primary context.
    pub(crate) fn primary(&self) -> MutexGuard<'_, Primary> {
        self.primary.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The value of an attribute; 0 for one that its table does not have.
    pub(crate) fn attribute(&self, attribute: DeviceAttribute) -> u32 {
        self.rows.iter().find(|(known, _)| *known == attribute).map_or(0, |(_, value)| *value)
    }

    /// The handle of the pool that allocations are from.
    pub(crate) fn pool(&self) -> u64 {
        self.pool.load(Ordering::Relaxed)
    }

    /// Chooses the pool that allocations are from.
    pub(crate) fn set_pool(&self, pool: u64) {
        self.pool.store(pool, Ordering::Relaxed);
    }
}

/// A memory pool.
#[derive(Debug, Default)]
pub(crate) struct MemPool {
    /// Its device.
    pub(crate) device: u32,
    /// Bytes at most; 0 for as many as the device has.
    pub(crate) limit: u64,
    attributes: Mutex<HashMap<u32, u64>>,
    /// The most bytes that were in use at once.
    pub(crate) high: AtomicU64,
}

impl MemPool {
    /// A pool of a device with at most `limit` bytes, or as many as the device has for 0.
    pub(crate) fn new(device: u32, limit: u64) -> Self {
        MemPool { device, limit, ..MemPool::default() }
    }

    /// Attributes that the program set, by their numbers.
    pub(crate) fn attributes(&self) -> MutexGuard<'_, HashMap<u32, u64>> {
        self.attributes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The machine.
#[derive(Debug)]
pub(crate) struct System {
    pub(crate) options: Options,
    pub(crate) memory: Memory,
    pub(crate) crew: Arc<Crew>,
    /// The threads that run blocks of kernels, beside those of the crew.
    pub(crate) pool: Pool,
    pub(crate) devices: Vec<Device>,
    pub(crate) contexts: Handles<Context>,
    pub(crate) modules: Handles<Module>,
    pub(crate) functions: Handles<Function>,
    pub(crate) libraries: Handles<SharedLibrary>,
    pub(crate) kernels: Handles<LibraryKernel>,
    pub(crate) streams: Handles<Stream>,
    pub(crate) events: Handles<Event>,
    pub(crate) graphs: Handles<Graph>,
    /// The handles of the graphs of nodes.
    pub(crate) nodes: Handles<u64>,
    pub(crate) execs: Handles<Exec>,
    pub(crate) pools: Handles<MemPool>,
    pub(crate) links: Handles<LinkState>,
    pub(crate) user_objects: Handles<UserObject>,
    pub(crate) captures: Captures,
    /// The host memory of pending operations, if the options ask for it.
    pub(crate) poisoned: Option<PoisonedHost>,
    ids: AtomicU64,
    /// The trace of calls, if the options ask for one.
    pub(crate) trace: Option<CallTrace>,
    /// Calls so far of the functions that are to fail.
    calls: Vec<AtomicU64>,
}

static OPTIONS: OnceLock<Result<Options, OptionsError>> = OnceLock::new();
static SYSTEM: OnceLock<System> = OnceLock::new();

/// The error for a machine that is in use already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InUse;

impl std::fmt::Display for InUse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("functions of the software CUDA driver have been called already")
    }
}

impl std::error::Error for InUse {}

/// The findings of the sanitizer since the last call. See [`Options::sanitize`].
pub fn take_reports() -> Vec<Report> {
    let sanitizer = SYSTEM.get().and_then(|system| system.memory.sanitizer.as_ref());
    sanitizer.map(Sanitizer::take_reports).unwrap_or_default()
}

/// The limits of the sanitizer that were reached since the last call.
pub fn take_warnings() -> Vec<Warning> {
    let sanitizer = SYSTEM.get().and_then(|system| system.memory.sanitizer.as_ref());
    sanitizer.map(Sanitizer::take_warnings).unwrap_or_default()
}

/// The checks of the sanitizer that are on, once the first function has been called.
pub fn active_checks() -> Option<vireo_simt::sanitize::Checks> {
    SYSTEM.get().map(|system| system.options.sanitize)
}

/// Chooses the machine, in place of the environment variable.
///
/// # Errors
/// If functions have been called already.
pub fn configure(options: Options) -> Result<(), InUse> {
    OPTIONS.set(Ok(options)).map_err(|_| InUse)
}

fn options() -> &'static Result<Options, OptionsError> {
    OPTIONS.get_or_init(|| {
        let options = std::env::var(VARIABLE).unwrap_or_default().parse();
        if let Err(error) = &options {
            tell(format_args!("{VARIABLE}: {error}"));
        }
        options
    })
}

/// Starts the machine, or finds that it runs.
///
/// # Errors
/// INVALID_VALUE if the options are wrong, which has been told.
pub(crate) fn start() -> Outcome {
    let Ok(options) = options() else { return Err(CuResult::ERROR_INVALID_VALUE) };
    SYSTEM.get_or_init(|| System::new(options));
    match options.devices {
        0 => Err(CuResult::ERROR_NO_DEVICE),
        _ => Ok(()),
    }
}

/// The machine.
///
/// # Errors
/// NOT_INITIALIZED before it was started.
pub(crate) fn system() -> Outcome<&'static System> {
    SYSTEM.get().ok_or(CuResult::ERROR_NOT_INITIALIZED)
}

/// The version of the driver.
pub(crate) fn version() -> u32 {
    options().as_ref().map_or_else(|_| Options::default().version, |options| options.version)
}

impl System {
    fn new(options: &Options) -> Self {
        let (_, name, rows) = TABLES[options.table()];
        let pools = Handles::new(9 << 44);
        let device = |device| {
            let pool = pools.insert(Arc::new(MemPool::new(device, 0)));
            Device { rows, name, primary: Mutex::default(), default_pool: pool, pool: AtomicU64::new(pool) }
        };
        let devices = (0..options.devices).map(device).collect();
        let trace = options.trace.as_deref().and_then(CallTrace::to_file);
        System {
            memory: Memory::new(options.devices, options.memory, options.bounds, sanitizer::of_options(options)),
            crew: Crew::new(options.order),
            pool: Pool::default(),
            devices,
            contexts: Handles::new(1 << 44),
            modules: Handles::new(2 << 44),
            functions: Handles::new(3 << 44),
            libraries: Handles::new(4 << 44),
            kernels: Handles::new(5 << 44),
            streams: Handles::new(6 << 44),
            events: Handles::new(7 << 44),
            graphs: Handles::new(8 << 44),
            nodes: Handles::new(10 << 44),
            execs: Handles::new(11 << 44),
            pools,
            links: Handles::new(12 << 44),
            user_objects: Handles::new(13 << 44),
            captures: Captures::default(),
            poisoned: options.has_poisoned_host.then(PoisonedHost::default),
            // The first ones are those of default streams.
            ids: AtomicU64::new(8),
            trace,
            calls: options.faults.iter().map(|_| AtomicU64::new(0)).collect(),
            options: options.clone(),
        }
    }

    /// A number that this returns once.
    pub(crate) fn id(&self) -> u64 {
        self.ids.fetch_add(1, Ordering::Relaxed)
    }

    /// Refuses calls for pools where devices have none.
    ///
    /// # Errors
    /// NOT_SUPPORTED.
    pub(crate) fn needs_pools(&self) -> Outcome {
        if self.options.pools { Ok(()) } else { Err(CuResult::ERROR_NOT_SUPPORTED) }
    }

    /// Threads that run the blocks of a kernel.
    pub(crate) fn threads(&self) -> NonZeroUsize {
        let cores = || std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        NonZeroUsize::new(self.options.threads as usize).unwrap_or_else(cores)
    }

    /// The device with an ordinal.
    ///
    /// # Errors
    /// INVALID_DEVICE if there is none.
    pub(crate) fn device(&self, device: CuDevice) -> Outcome<&Device> {
        let index = usize::try_from(device.0).map_err(|_| CuResult::ERROR_INVALID_DEVICE)?;
        self.devices.get(index).ok_or(CuResult::ERROR_INVALID_DEVICE)
    }

    /// The context with a handle.
    ///
    /// # Errors
    /// INVALID_CONTEXT if there is none, or if it was destroyed.
    pub(crate) fn context(&self, handle: u64) -> Outcome<Arc<Context>> {
        let found = self.contexts.get(handle).filter(|context| !context.has_ended());
        found.ok_or(CuResult::ERROR_INVALID_CONTEXT)
    }

    /// Makes a context.
    pub(crate) fn add_context(&self, device: u32, api_version: u32, flags: u32) -> Arc<Context> {
        let context = Arc::new(Context::new(
            self.id(),
            device,
            [api_version, flags],
            self.crew.clone(),
            self.options.sanitize.race,
        ));
        let handle = self.contexts.insert(context.clone());
        let _ = context.handle.set(handle);
        context
    }

    /// Ends a context with all that it has.
    pub(crate) fn end_context(&self, context: &Arc<Context>) {
        if !context.end() {
            return;
        }
        context.drain();
        let is_its = |other: &Arc<Context>| Arc::ptr_eq(other, context);
        let ended = self.modules.all().into_iter().filter(|(_, module)| is_its(&module.context));
        ended.for_each(|(handle, _)| drop(self.modules.remove(handle)));
        let ended = self.functions.all().into_iter().filter(|(_, function)| is_its(&function.module.context));
        ended.for_each(|(handle, _)| drop(self.functions.remove(handle)));
        let ended = self.streams.all().into_iter().filter(|(_, stream)| is_its(&stream.context));
        ended.for_each(|(handle, _)| drop(self.streams.remove(handle)));
        let ended = self.events.all().into_iter().filter(|(_, event)| is_its(&event.context));
        ended.for_each(|(handle, _)| drop(self.events.remove(handle)));
        self.memory.free_all(context.handle());
        self.contexts.remove(context.handle());
    }

    /// The status that this call of a function is to fail with, if it is.
    pub(crate) fn fault(&self, is_it: impl Fn(&str) -> bool) -> Option<CuResult> {
        let faults = self.options.faults.iter().zip(&self.calls);
        let mut due = faults.filter(|(fault, _)| is_it(&fault.function)).filter_map(|(fault, calls)| {
            let call = calls.fetch_add(1, Ordering::Relaxed) + 1;
            (call == fault.call).then_some(CuResult(fault.status))
        });
        let first = due.next();
        // The others count this call too.
        due.for_each(drop);
        first
    }
}

thread_local! {
    static CURRENT: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
    static PER_THREAD: Cell<bool> = const { Cell::new(false) };
    static STREAMS: RefCell<HashMap<u64, u64>> = RefCell::new(HashMap::new());
}

/// Runs a call for which the default stream is that of the thread, or not.
pub(crate) fn with_per_thread<T>(per_thread: bool, call: impl FnOnce() -> T) -> T {
    let before = PER_THREAD.replace(per_thread);
    let result = call();
    PER_THREAD.set(before);
    result
}

/// Changes the stack of contexts of the thread.
pub(crate) fn with_stack<T>(change: impl FnOnce(&mut Vec<u64>) -> T) -> T {
    CURRENT.with_borrow_mut(change)
}

/// The handle of the current context; 0 if there is none.
pub(crate) fn current_handle() -> u64 {
    CURRENT.with_borrow(|stack| stack.last().copied().unwrap_or(0))
}

/// The machine and the current context.
///
/// # Errors
/// INVALID_CONTEXT if there is none, CONTEXT_IS_DESTROYED if it was, or the error of its work.
pub(crate) fn current() -> Outcome<(&'static System, Arc<Context>)> {
    let (system, context) = current_whatever()?;
    context.status()?;
    Ok((system, context))
}

/// The machine and the current context, whatever became of its work.
///
/// # Errors
/// As [`current`], without that of its work.
pub(crate) fn current_whatever() -> Outcome<(&'static System, Arc<Context>)> {
    let system = system()?;
    match current_handle() {
        0 => Err(CuResult::ERROR_INVALID_CONTEXT),
        handle => Ok((system, system.context(handle).map_err(|_| CuResult::ERROR_CONTEXT_IS_DESTROYED)?)),
    }
}

/// The stream with a handle. Default streams are those of the current context.
///
/// # Errors
/// INVALID_HANDLE if there is none, or those of [`current`].
pub(crate) fn stream(handle: CuStream) -> Outcome<(&'static System, Arc<Stream>)> {
    let (system, found) = stream_whatever(handle)?;
    found.context.status()?;
    Ok((system, found))
}

/// As [`stream`], whatever became of the work of its context.
///
/// # Errors
/// INVALID_HANDLE if there is none, or those of [`current_whatever`].
pub(crate) fn stream_whatever(handle: CuStream) -> Outcome<(&'static System, Arc<Stream>)> {
    let system = system()?;
    let is_per_thread = handle.0 == STREAM_PER_THREAD || handle.0 == 0 && PER_THREAD.get();
    if is_per_thread {
        let (system, context) = current_whatever()?;
        return Ok((system, per_thread(system, &context)));
    }
    if handle.0 == 0 || handle.0 == STREAM_LEGACY {
        let (system, context) = current_whatever()?;
        return Ok((system, context.legacy()));
    }
    let found = system.streams.get(handle.0).filter(|stream| !stream.context.has_ended());
    Ok((system, found.ok_or(CuResult::ERROR_INVALID_HANDLE)?))
}

/// The default stream of this thread in a context.
fn per_thread(system: &System, context: &Arc<Context>) -> Arc<Stream> {
    let id = STREAMS.with_borrow_mut(|streams| *streams.entry(context.handle()).or_insert_with(|| system.id()));
    let kind = StreamKind::Blocking;
    Arc::new(Stream { handle: OnceLock::new(), id, context: context.clone(), kind, flags: 0, priority: 0 })
}
