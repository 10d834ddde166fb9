//! A GPU with its context ([`Context`]): what it can do, and its loss.
//!
//! The context is the primary one of the device, which other users of the library in the process share. It is made
//! current for as long as the driver calls the library ([`Current`]), and the host's own context is current again
//! afterwards. A failure of a kernel loses it: every queue of it fails with that cause ([`Context::lose`]).

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Instant;

use vireo_cuda::attributes::DeviceAttribute;
use vireo_cuda::types::{CChar, CuContext, CuDevice};

use crate::api::{ApiError, ApiResult};
use crate::generated::api::CallGroup;
use crate::instance::Instance;
use crate::memory::DeviceSet;
use crate::status::{Result, Status, StatusCode};

/// Bytes of the place of a device on its bus at most.
const BUS_ID_BYTES: usize = 32;

/// Bytes of the name of a device at most.
const NAME_BYTES: usize = 256;

/// A library that was started.
pub struct Library {
    /// Its functions and names.
    pub instance: Box<dyn Instance>,
    /// A number that no other library of the process has, from 1.
    pub number: u32,
    /// The moment from which times of its devices count.
    pub(crate) started: Instant,
    /// The queues that there are of all its devices.
    pub(crate) queues: AtomicUsize,
    /// Keeps it loaded.
    _library: Option<Box<dyn Send + Sync>>,
}

impl fmt::Debug for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "library {}", self.number)
    }
}

impl Library {
    /// Starts a library.
    ///
    /// # Errors
    /// UNAVAILABLE with what the library says.
    ///
    /// # Safety
    /// The functions are those of one library that stays loaded as long as `library`.
    pub unsafe fn start(instance: Box<dyn Instance>, library: Option<Box<dyn Send + Sync>>) -> Result<Arc<Library>> {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        // SAFETY: it has no other arguments.
        unsafe { instance.init(0) }.map_err(|error| Status::new(StatusCode::Unavailable, error.to_string()))?;
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let (started, queues) = (Instant::now(), AtomicUsize::new(0));
        let library = Library { instance, number, started, queues, _library: library };
        let (version, names) = (library.version()?, library.instance.names());
        if version < names.least_version {
            let (text, least) = (version_text(version), version_text(names.least_version));
            let message = format!("the {} library is of version {text}, expected at least {least}", names.library);
            return Err(Status::new(StatusCode::Unavailable, message));
        }
        Ok(Arc::new(library))
    }

    /// The version of the driver: 1000 times the major and 10 times the minor number.
    ///
    /// # Errors
    /// Those of the library.
    pub fn version(&self) -> Result<i32> {
        // SAFETY: it has no arguments.
        Ok(unsafe { self.instance.driver_version() }?)
    }

    /// The number of devices.
    ///
    /// # Errors
    /// Those of the library.
    pub fn device_count(&self) -> Result<i32> {
        // SAFETY: it has no arguments.
        match unsafe { self.instance.device_count() } {
            Ok(count) => Ok(count.max(0)),
            Err(error) => Err(error.into()),
        }
    }

    /// A device, which is not opened.
    ///
    /// # Errors
    /// Those of the library.
    pub fn describe(&self, ordinal: i32) -> Result<Description> {
        // SAFETY: the pointer is to an array of as many bytes, and the device is one of the library.
        unsafe {
            let device = self.instance.device(ordinal)?;
            let mut name = [CChar(0); NAME_BYTES];
            self.instance.device_name(name.as_mut_ptr(), NAME_BYTES as i32, device)?;
            let name: Vec<u8> = name.iter().take_while(|byte| byte.0 != 0).map(|byte| byte.0).collect();
            let uuid = self.instance.device_uuid(device)?.bytes.map(|byte| byte.0);
            let major = self.instance.device_attribute(DeviceAttribute::COMPUTE_CAPABILITY_MAJOR, device)?;
            let minor = self.instance.device_attribute(DeviceAttribute::COMPUTE_CAPABILITY_MINOR, device)?;
            Ok(Description {
                device,
                ordinal,
                name: String::from_utf8_lossy(&name).into_owned(),
                uuid,
                capability: (major, minor),
                memory: self.instance.device_memory(device)?,
            })
        }
    }
}

/// `12.9` for 12090.
pub fn version_text(version: i32) -> String {
    format!("{}.{}", version / 1000, version % 1000 / 10)
}

/// A device as it is known before it is opened.
#[derive(Clone, Debug)]
pub struct Description {
    /// Its handle.
    pub device: CuDevice,
    /// Its place among the devices of the library.
    pub ordinal: i32,
    /// The name of the product.
    pub name: String,
    /// The 16 bytes that name it.
    pub uuid: [u8; 16],
    /// Its compute capability.
    pub capability: (i32, i32),
    /// Bytes of memory.
    pub memory: u64,
}

impl Description {
    /// `GPU-` and the 16 bytes, in groups.
    pub fn path(&self) -> String {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let groups = [0..4, 4..6, 6..8, 8..10, 10..16].map(|range| hex(&self.uuid[range]));
        format!("GPU-{}", groups.join("-"))
    }
}

/// The limits of a launch.
#[derive(Clone, Copy, Debug)]
pub struct LaunchLimits {
    /// Threads of a block at most.
    pub block_threads: u32,
    /// The same along each dimension.
    pub block: [u32; 3],
    /// Blocks of a grid along each dimension at most.
    pub grid: [u32; 3],
    /// Bytes of shared memory of a block at most, where a kernel asks for so many.
    pub shared: u32,
}

/// Told when a context is lost.
pub trait LossListener: Send + Sync {
    /// The context is lost, for this reason.
    fn lost(&self, cause: &Status);
}

/// A GPU with its context.
pub struct Context {
    /// The library.
    pub library: Arc<Library>,
    /// The device.
    pub description: Description,
    /// The context.
    pub context: CuContext,
    /// The limits of launches.
    pub limits: LaunchLimits,
    /// Multiprocessors.
    pub multiprocessors: u32,
    /// Whether memory can be allocated from pools.
    pub has_pools: bool,
    /// Whether host and device may access managed memory at once.
    pub has_managed: bool,
    lost: OnceLock<Status>,
    listeners: Mutex<Vec<Weak<dyn LossListener>>>,
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Description { ordinal, name, capability: (major, minor), .. } = &self.description;
        write!(f, "device {ordinal} ({name}, sm_{major}{minor})")
    }
}

impl Context {
    /// Opens a device.
    ///
    /// # Errors
    /// Those of the library.
    pub fn open(library: &Arc<Library>, description: Description) -> Result<Arc<Context>> {
        let (api, device) = (&library.instance, description.device);
        // SAFETY: the device is one of the library.
        let attribute = |attribute| unsafe { api.device_attribute(attribute, device) };
        let number = |which| attribute(which).map(|value| u32::try_from(value).unwrap_or(0));
        let block =
            [DeviceAttribute::MAX_BLOCK_DIM_X, DeviceAttribute::MAX_BLOCK_DIM_Y, DeviceAttribute::MAX_BLOCK_DIM_Z];
        let grid = [DeviceAttribute::MAX_GRID_DIM_X, DeviceAttribute::MAX_GRID_DIM_Y, DeviceAttribute::MAX_GRID_DIM_Z];
        let all = |which: [DeviceAttribute; 3]| -> ApiResult<[u32; 3]> {
            Ok([number(which[0])?, number(which[1])?, number(which[2])?])
        };
        // Older devices have no more than the default.
        let optin = number(DeviceAttribute::MAX_SHARED_MEMORY_PER_BLOCK_OPTIN).unwrap_or(0);
        let limits = LaunchLimits {
            block_threads: number(DeviceAttribute::MAX_THREADS_PER_BLOCK)?,
            block: all(block)?,
            grid: all(grid)?,
            shared: optin.max(number(DeviceAttribute::MAX_SHARED_MEMORY_PER_BLOCK)?),
        };
        let multiprocessors = number(DeviceAttribute::MULTIPROCESSOR_COUNT)?;
        let has_pools = number(DeviceAttribute::MEMORY_POOLS_SUPPORTED).unwrap_or(0) != 0 && api.has(CallGroup::Pools);
        let has_managed = number(DeviceAttribute::CONCURRENT_MANAGED_ACCESS).unwrap_or(0) != 0;
        // SAFETY: the device is one of the library.
        let context = unsafe { api.context_retain(device) }.map_err(Status::from)?;
        Ok(Arc::new(Context {
            library: library.clone(),
            description,
            context,
            limits,
            multiprocessors,
            has_pools,
            has_managed,
            lost: OnceLock::new(),
            listeners: Mutex::default(),
        }))
    }

    /// The functions of the library.
    #[inline]
    pub fn api(&self) -> &dyn Instance {
        &*self.library.instance
    }

    /// Its place on the bus, if the library says that.
    pub fn bus_id(&self) -> Option<String> {
        let mut text = [CChar(0); BUS_ID_BYTES];
        // SAFETY: the pointer is to an array of as many bytes, and the device is one of the library.
        let found =
            unsafe { self.api().device_bus_id(text.as_mut_ptr(), BUS_ID_BYTES as i32, self.description.device) };
        found.ok()?;
        Some(text.iter().take_while(|byte| byte.0 != 0).map(|byte| char::from(byte.0)).collect())
    }

    /// Bytes of its memory that nothing uses.
    ///
    /// # Errors
    /// Those of the library.
    pub fn free_memory(&self) -> Result<u64> {
        // SAFETY: it has no arguments.
        Ok(self.call(|api| unsafe { api.memory_info() })?.0)
    }

    /// Whether its kernels can reach the memory of another device.
    ///
    /// # Errors
    /// Those of the library.
    pub fn reaches(&self, other: &Description) -> Result<bool> {
        // SAFETY: both are devices of the library.
        let reached = self.call(|api| unsafe { api.can_access_peer(self.description.device, other.device) })?;
        Ok(reached != 0)
    }

    /// The device among those of its library.
    pub fn set(&self) -> DeviceSet {
        DeviceSet::one(self.library.number, self.description.ordinal)
    }

    /// Makes the context current until the result is dropped.
    ///
    /// # Errors
    /// Those of the library.
    #[inline]
    pub fn enter(&self) -> ApiResult<Current<'_>> {
        let key = (self.library.number, self.context.0);
        if CURRENT.get() == key {
            return Ok(Current { context: None, before: key, _thread: PhantomData });
        }
        // SAFETY: the context is retained as long as this lives.
        unsafe { self.api().context_push(self.context) }?;
        Ok(Current { context: Some(self), before: CURRENT.replace(key), _thread: PhantomData })
    }

    /// Calls the library with the context current, and notices if that is lost.
    ///
    /// # Errors
    /// Those of the library.
    #[inline]
    pub fn call<T>(&self, call: impl FnOnce(&dyn Instance) -> ApiResult<T>) -> Result<T> {
        let outcome = self.enter().and_then(|_current| call(self.api()));
        outcome.map_err(|error| self.failed(error))
    }

    /// The status for a failure of a call, which may be the loss of the context.
    #[cold]
    pub fn failed(&self, error: ApiError) -> Status {
        let is_lost = error.is_lost();
        let status = Status::from(error).context(format!("{self:?}"));
        if is_lost {
            self.lose(&status);
        }
        self.lost.get().filter(|_| is_lost).cloned().unwrap_or(status)
    }

    /// Why the context is lost, if it is.
    pub fn loss(&self) -> Option<&Status> {
        self.lost.get()
    }

    /// The context is lost: all who listen are told, once.
    pub fn lose(&self, cause: &Status) {
        if self.lost.set(cause.clone()).is_err() {
            return;
        }
        let listeners = std::mem::take(&mut *self.listeners.lock().unwrap_or_else(PoisonError::into_inner));
        listeners.iter().filter_map(Weak::upgrade).for_each(|listener| listener.lost(cause));
    }

    /// Tells a listener of the loss of the context, also if that was before.
    pub fn listen(&self, listener: Weak<dyn LossListener>) {
        let mut listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        listeners.retain(|listener| listener.strong_count() > 0);
        listeners.push(listener.clone());
        drop(listeners);
        if let (Some(cause), Some(listener)) = (self.loss(), listener.upgrade()) {
            listener.lost(cause);
        }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: it was retained once, and nothing of it is left. A failure changes nothing here.
        let _ = unsafe { self.api().context_release(self.description.device) };
    }
}

thread_local! {
    /// The library and context that this driver has made current on the thread; zeros for none.
    static CURRENT: Cell<(u32, u64)> = const { Cell::new((0, 0)) };
}

/// The time for which a context is current. It stays on its thread.
#[derive(Debug)]
pub struct Current<'a> {
    /// None if it was current before.
    context: Option<&'a Context>,
    before: (u32, u64),
    _thread: PhantomData<*const ()>,
}

impl Drop for Current<'_> {
    fn drop(&mut self) {
        if let Some(context) = self.context {
            CURRENT.set(self.before);
            // SAFETY: it was pushed when this was made, on this thread. A failure changes nothing here.
            let _ = unsafe { context.api().context_pop() };
        }
    }
}
