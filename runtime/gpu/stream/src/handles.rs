//! Objects that the library makes for a context, and that end when they are dropped: [`Stream`], [`Event`],
//! [`Code`] and [`MemoryPool`].

use std::ffi::CString;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use vireo_cuda::attributes::{JitOption, MemPoolAttribute};
use vireo_cuda::types::{
    CuEvent, CuFunction, CuMemPool, CuModule, CuStream, EVENT_BLOCKING_SYNC, EVENT_DISABLE_TIMING,
    MEM_ACCESS_READ_WRITE, MemAccessDesc, MemAllocationType, MemLocation, MemLocationType, MemPoolProps,
    STREAM_NON_BLOCKING,
};

use crate::context::Context;
use crate::status::{Result, Status, StatusCode};

/// Bytes of what the compiler of the library says at most.
const LOG_BYTES: usize = 4096;

/// Bytes that a pool keeps for its next allocations.
const POOL_KEEPS: u64 = 64 << 20;

/// Events that are kept to be used again.
const MAX_EVENTS: usize = 1024;

macro_rules! debug_as_handle {
    ($name:ident, $text:literal) => {
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($text, " {:#x} of {:?}"), self.handle.0, self.context)
            }
        }
    };
}

/// A stream.
pub struct Stream {
    /// Its handle.
    pub handle: CuStream,
    context: Arc<Context>,
}
debug_as_handle!(Stream, "stream");

impl Stream {
    /// A stream of a context, which does not wait for the default one.
    ///
    /// # Errors
    /// Those of the library.
    pub fn new(context: &Arc<Context>) -> Result<Stream> {
        // SAFETY: the context is current.
        let handle = context.call(|api| unsafe { api.stream_create(STREAM_NON_BLOCKING) })?;
        Ok(Stream { handle, context: context.clone() })
    }

    /// The context.
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// Waits until all of its work has ended.
    ///
    /// # Errors
    /// Those of the library, and of the work.
    pub fn synchronize(&self) -> Result<()> {
        // SAFETY: the stream is alive.
        self.context.call(|api| unsafe { api.stream_synchronize(self.handle) })
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: nothing uses it any more. A failure changes nothing here.
        let _ = self.context.call(|api| unsafe { api.stream_destroy(self.handle) });
    }
}

/// An event, which says that the work before it has ended.
pub struct Event {
    /// Its handle.
    pub handle: CuEvent,
    context: Arc<Context>,
}
debug_as_handle!(Event, "event");

impl Event {
    /// An event; with times, the time between two can be asked for.
    ///
    /// # Errors
    /// Those of the library.
    pub fn new(context: &Arc<Context>, has_times: bool) -> Result<Event> {
        let flags = EVENT_BLOCKING_SYNC | if has_times { 0 } else { EVENT_DISABLE_TIMING };
        // SAFETY: the context is current.
        let handle = context.call(|api| unsafe { api.event_create(flags) })?;
        Ok(Event { handle, context: context.clone() })
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: streams that wait for it keep what they need. A failure changes nothing here.
        let _ = self.context.call(|api| unsafe { api.event_destroy(self.handle) });
    }
}

/// Events that were used before.
#[derive(Default)]
pub struct EventPool {
    has_times: bool,
    free: Mutex<Vec<Event>>,
}

impl fmt::Debug for EventPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EventPool")
    }
}

impl EventPool {
    /// Events with times; those of the default have none.
    pub fn with_times() -> EventPool {
        EventPool { has_times: true, ..EventPool::default() }
    }

    /// An event of the pool, or a new one.
    ///
    /// # Errors
    /// Those of the library.
    pub fn take(&self, context: &Arc<Context>) -> Result<Event> {
        let known = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        known.map_or_else(|| Event::new(context, self.has_times), Ok)
    }

    /// Keeps an event that nothing waits for any more.
    pub fn give(&self, event: Event) {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        if free.len() < MAX_EVENTS {
            free.push(event);
        }
    }
}

/// A module in a context.
pub struct Code {
    /// Its handle.
    pub handle: CuModule,
    context: Arc<Context>,
}
debug_as_handle!(Code, "module");

impl Code {
    /// Loads an image, which ends with a zero byte where it is text.
    ///
    /// # Errors
    /// INVALID_ARGUMENT with what the compiler of the library says, and its other errors.
    ///
    /// # Safety
    /// The image is one of a kind that ends by itself: text with a zero after it, or a file with its length in it.
    pub unsafe fn load(context: &Arc<Context>, image: &[u8]) -> Result<Code> {
        let mut log = vec![0u8; LOG_BYTES];
        let mut options = [JitOption::ERROR_LOG_BUFFER, JitOption::ERROR_LOG_BUFFER_SIZE_BYTES];
        let mut values = [log.as_mut_ptr().cast(), std::ptr::without_provenance_mut(LOG_BYTES)];
        // SAFETY: the caller promises that the image ends by itself; the options have as many values, and the buffer
        // for the log has as many bytes as the option says.
        let loaded = context.call(|api| unsafe {
            api.module_load(image.as_ptr().cast(), 2, options.as_mut_ptr(), values.as_mut_ptr())
        });
        let handle = loaded.map_err(|status| {
            let end = log.iter().position(|byte| *byte == 0).unwrap_or(log.len());
            match String::from_utf8_lossy(&log[..end]).trim() {
                "" => status,
                said => {
                    let message = format!("{}: {said}", status.message());
                    Status::new(status.code(), message)
                }
            }
        })?;
        Ok(Code { handle, context: context.clone() })
    }

    /// A kernel.
    ///
    /// # Errors
    /// NOT_FOUND if there is no such kernel.
    pub fn function(&self, name: &str) -> Result<CuFunction> {
        let text = c_string(name)?;
        // SAFETY: the module is alive, and the name ends with a zero.
        self.context.call(|api| unsafe { api.module_function(self.handle, text.as_ptr().cast()) })
    }

    /// The address and the size of a variable, if there is one of this name.
    ///
    /// # Errors
    /// Those of the library.
    pub fn global(&self, name: &str) -> Result<Option<(u64, u64)>> {
        let text = c_string(name)?;
        // SAFETY: the module is alive, and the name ends with a zero.
        let found = self.context.call(|api| unsafe { api.module_global(self.handle, text.as_ptr().cast()) });
        match found {
            Err(status) if status.code() == StatusCode::NotFound => Ok(None),
            found => found.map(Some),
        }
    }
}

fn c_string(name: &str) -> Result<CString> {
    CString::new(name).map_err(|_| Status::invalid_argument(format!("the name {name:?} has a zero in it")))
}

impl Drop for Code {
    fn drop(&mut self) {
        // SAFETY: nothing runs its kernels any more. A failure changes nothing here.
        let _ = self.context.call(|api| unsafe { api.module_unload(self.handle) });
    }
}

/// A memory pool of a device.
pub struct MemoryPool {
    /// Its handle.
    pub handle: CuMemPool,
    /// The stream in whose order memory is taken and given back. Nothing else is on it.
    pub stream: Stream,
    context: Arc<Context>,
}
debug_as_handle!(MemoryPool, "memory pool");

impl MemoryPool {
    /// A pool of the memory of a device.
    ///
    /// # Errors
    /// Those of the library.
    pub fn new(context: &Arc<Context>) -> Result<MemoryPool> {
        let stream = Stream::new(context)?;
        let location = MemLocation { r#type: MemLocationType::DEVICE, id: context.description.ordinal };
        let props = MemPoolProps {
            alloc_type: MemAllocationType::PINNED,
            handle_types: 0,
            location,
            win32_security_attributes: std::ptr::null_mut(),
            max_size: 0,
            usage: 0,
            reserved: [0; 54],
        };
        // SAFETY: the properties are those of a device of the library.
        let handle = context.call(|api| unsafe { api.pool_create(&raw const props) })?;
        let pool = MemoryPool { handle, stream, context: context.clone() };
        let mut keeps = POOL_KEEPS;
        // SAFETY: the attribute is a number of 64 bits.
        context.call(|api| unsafe {
            api.pool_set_attribute(handle, MemPoolAttribute::RELEASE_THRESHOLD, (&raw mut keeps).cast())
        })?;
        Ok(pool)
    }

    /// Lets other devices access its memory.
    ///
    /// # Errors
    /// Those of the library.
    pub fn share_with(&self, others: &[Arc<Context>]) -> Result<()> {
        let access = |other: &Arc<Context>| MemAccessDesc {
            location: MemLocation { r#type: MemLocationType::DEVICE, id: other.description.ordinal },
            flags: MEM_ACCESS_READ_WRITE,
        };
        let map: Vec<MemAccessDesc> = others.iter().map(access).collect();
        if map.is_empty() {
            return Ok(());
        }
        // SAFETY: there are as many descriptions.
        self.context.call(|api| unsafe { api.pool_set_access(self.handle, map.as_ptr(), map.len() as u64) })
    }

    /// Gives memory back that nothing uses.
    ///
    /// # Errors
    /// Those of the library.
    pub fn trim(&self) -> Result<()> {
        self.stream.synchronize()?;
        // SAFETY: the pool is alive.
        self.context.call(|api| unsafe { api.pool_trim(self.handle, 0) })
    }
}

impl Drop for MemoryPool {
    fn drop(&mut self) {
        // SAFETY: its memory is kept until it is given back. A failure changes nothing here.
        let _ = self.context.call(|api| unsafe { api.pool_destroy(self.handle) });
    }
}
