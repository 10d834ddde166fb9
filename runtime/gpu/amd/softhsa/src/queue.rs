//! Queues: the memory that programs see (`amd_queue`, ring, doorbell), and the state that they do not.

use std::ffi::c_void;
use std::mem::offset_of;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use vireo_hsa::hsa::{HsaStatus, QueueErrorCallback};
use vireo_hsa::queue::{AmdQueue, HsaQueue, QueueFeatures, QueueProperties, QueueType};
use vireo_hsa::ring::{Ring, Slot};
use vireo_hsa::signal::Signal as SignalHandle;
use vireo_soft::bell::Bell;

use crate::doorbell::Doorbell;
use crate::lifecycle::{Lifecycle, is_in_callback};
use crate::signals::Signal;
use crate::status::Result;

/// The memory of a queue. Indices are atomics; the rest is written when the queue is created, but for the properties.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct QueueMemory {
    head: [AtomicU32; 14],
    write: AtomicU64,
    middle: [AtomicU32; 16],
    read: AtomicU64,
    tail: [AtomicU32; 30],
}

/// The word of the tail that has the properties.
const PROPERTIES: usize = (offset_of!(AmdQueue, queue_properties) - offset_of!(QueueMemory, tail)) / 4;

const _: () = {
    assert!(size_of::<QueueMemory>() == AmdQueue::SIZE);
    assert!(offset_of!(QueueMemory, write) == offset_of!(AmdQueue, write_dispatch_id));
    assert!(offset_of!(QueueMemory, read) == offset_of!(AmdQueue, read_dispatch_id));
};

impl QueueMemory {
    fn new(queue: &AmdQueue) -> Self {
        let bytes = queue.to_bytes();
        let word = |index: usize| u32::from_le_bytes([0, 1, 2, 3].map(|byte| bytes[4 * index + byte]));
        let words = |offset: usize| move |index: usize| AtomicU32::new(word(offset / 4 + index));
        QueueMemory {
            head: std::array::from_fn(words(0)),
            write: AtomicU64::new(0),
            middle: std::array::from_fn(words(offset_of!(QueueMemory, middle))),
            read: AtomicU64::new(0),
            tail: std::array::from_fn(words(offset_of!(QueueMemory, tail))),
        }
    }

    /// The index that producers reserve at.
    pub(crate) fn write_index(&self) -> &AtomicU64 {
        &self.write
    }

    /// The index that the packet processor is at.
    pub(crate) fn read_index(&self) -> &AtomicU64 {
        &self.read
    }
}

/// The function that is called when a queue stops.
pub(crate) struct ErrorHandler {
    pub(crate) callback: QueueErrorCallback,
    pub(crate) data: *mut c_void,
}

// SAFETY: the program gave the function and its argument to be called on any thread.
unsafe impl Send for ErrorHandler {}
// SAFETY: the program gave the function and its argument to be called on any thread.
unsafe impl Sync for ErrorHandler {}

impl std::fmt::Debug for ErrorHandler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ErrorHandler")
    }
}

/// A queue.
#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) memory: Arc<QueueMemory>,
    pub(crate) slots: Arc<[Slot]>,
    pub(crate) doorbell: Arc<Doorbell>,
    pub(crate) doorbell_signal: Arc<Signal>,
    /// The index of its agent.
    pub(crate) agent: u32,
    pub(crate) id: u64,
    pub(crate) queue_type: QueueType,
    pub(crate) error_handler: Option<ErrorHandler>,
    /// How far its packet processor is.
    pub(crate) life: Lifecycle,
    pub(crate) profiling: AtomicBool,
    /// The packet processor; none for a queue that the program serves itself.
    pub(crate) thread: Mutex<Option<JoinHandle<()>>>,
}

/// How a queue is created.
pub(crate) struct QueueOptions {
    pub(crate) size: u32,
    pub(crate) queue_type: QueueType,
    pub(crate) agent: u32,
    pub(crate) compute_units: u32,
    /// Waves of a compute unit at most.
    pub(crate) waves: u32,
    pub(crate) features: QueueFeatures,
    pub(crate) error_handler: Option<ErrorHandler>,
    /// The doorbell that the program brings along.
    pub(crate) doorbell: Option<Arc<Signal>>,
}

impl Queue {
    /// A queue whose packet processor has not started. Its size is a power of two.
    pub(crate) fn new(id: u64, options: QueueOptions) -> Result<Self> {
        let slots: std::result::Result<Arc<[Slot]>, _> = (0..options.size).map(|_| Slot::invalid()).collect();
        let slots = slots.map_err(|_| HsaStatus::ERROR_INVALID_QUEUE_CREATION)?;
        let doorbell = Arc::new(Doorbell::new(options.agent, id));
        let base_address = slots.as_ptr().expose_provenance() as u64;
        let queue = AmdQueue {
            hsa_queue: HsaQueue {
                r#type: options.queue_type,
                features: options.features,
                base_address,
                size: options.size,
                id,
                ..HsaQueue::default()
            },
            max_cu_id: options.compute_units - 1,
            max_wave_id: options.waves - 1,
            read_dispatch_id_field_base_byte_offset: offset_of!(AmdQueue, read_dispatch_id) as u32,
            queue_properties: QueueProperties(0).with_is_ptr64(true),
            ..AmdQueue::default()
        };
        let memory = Arc::new(QueueMemory::new(&queue));
        let address = Arc::as_ptr(&memory).expose_provenance() as u64;
        let doorbell_signal = options.doorbell.unwrap_or_else(|| Signal::doorbell(doorbell.clone(), address));
        // The doorbell names the queue, so its own handle is known last.
        let SignalHandle(handle) = doorbell_signal.handle();
        let at = offset_of!(AmdQueue, hsa_queue.doorbell_signal) / 4;
        memory.head[at].store(handle as u32, Ordering::Relaxed);
        memory.head[at + 1].store((handle >> 32) as u32, Ordering::Relaxed);
        Ok(Queue {
            memory,
            slots,
            doorbell,
            doorbell_signal,
            agent: options.agent,
            id,
            queue_type: options.queue_type,
            error_handler: options.error_handler,
            life: Lifecycle::new(),
            profiling: AtomicBool::new(false),
            thread: Mutex::new(None),
        })
    }

    /// The address of the `amd_queue`, which begins with the `hsa_queue`.
    pub(crate) fn address(&self) -> u64 {
        Arc::as_ptr(&self.memory).expose_provenance() as u64
    }

    /// The address of the ring, and its bytes.
    pub(crate) fn ring_memory(&self) -> (u64, u64) {
        (self.slots.as_ptr().expose_provenance() as u64, size_of_val(&*self.slots) as u64)
    }

    /// The ring with its indices. The number of slots is what the queue was created with, whatever programs write to
    /// its memory.
    pub(crate) fn ring(&self) -> Option<Ring<'_>> {
        Ring::new(&self.slots, &self.memory.write, &self.memory.read)
    }

    /// Whether completion signals receive times.
    pub(crate) fn set_profiling(&self, enable: bool) {
        self.profiling.store(enable, Ordering::Relaxed);
        let word = &self.memory.tail[PROPERTIES];
        let properties = QueueProperties(word.load(Ordering::Relaxed)).with_enable_profiling(enable);
        word.store(properties.0, Ordering::Relaxed);
    }

    /// Ends the packet processor and waits until it runs nothing; `signals` is where its packets sleep.
    pub(crate) fn end(&self, signals: &Bell) {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        let own = thread.as_ref().is_some_and(|thread| thread.thread().id() == std::thread::current().id());
        let taken = if is_in_callback() { None } else { thread.take() };
        drop(thread);
        self.life.end(&self.doorbell.bell, signals, own);
        // Functions of the program do not wait for each other; the thread that called them ends by itself.
        if let Some(thread) = taken.filter(|_| !own) {
            // A panic of the thread was reported when it happened.
            let _ = thread.join();
        }
    }
}
