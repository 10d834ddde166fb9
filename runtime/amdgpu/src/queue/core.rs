//! A queue ([`QueueCore`]): the ring of packets, the memory for arguments, the epoch signal, and the submissions that have not completed.

use std::collections::VecDeque;
use std::ffi::c_void;
use std::fmt;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;

use vireo_hsa::hsa::HsaStatus;
use vireo_hsa::pm4::Pm4WaitRegMem64;
use vireo_hsa::queue::{AmdQueue, HsaQueue};
use vireo_hsa::ring::{Ring, Slot};

use super::admission::{Admission, Entry, Submission};
use super::completion;
use super::frontier::Frontier;
use super::kernarg_ring::KernargRing;
use super::times::QueueTimes;
use crate::agent::GpuAgent;
use crate::command_buffer::{ArgumentMemory, KernelSource};
use crate::hal::TimesObserver;
use crate::memory::{DeviceMemory, MemoryClass, Publication};
use crate::status::{Result, Status, StatusCode};
use crate::symbols::{FaultListener, Hsa, OwnedQueue, OwnedSignal};
use crate::target::QueueWait;

/// Packets that a ring holds at least: the largest part of a submission fits it.
const LEAST_PACKETS: u32 = 256;

/// Packets that a ring holds if nobody says how many.
const DEFAULT_PACKETS: u32 = 1024;

/// The epoch signal begins here and counts down.
const INITIAL_EPOCH_VALUE: i64 = i64::MAX / 2;

/// What the epoch signal of a queue that failed is set to, so that all waits for it end: less than any epoch has, and positive, since PM4
/// commands compare without the sign.
const FAILED_EPOCH_VALUE: i64 = 1 << 32;

/// Bytes of a PM4 command buffer for each slot.
pub(super) const PM4_SLOT: u64 = 64;
const _: () = assert!(Pm4WaitRegMem64::SIZE as u64 <= PM4_SLOT);

/// The sizes of a queue.
#[derive(Clone, Copy, Debug)]
pub struct QueueOptions {
    /// Packets of the ring, a power of two. Without it the ring has 1024, or as many as the agent allows.
    pub packets: Option<u32>,
    /// Bytes of memory for arguments.
    pub kernarg_bytes: u64,
    /// Whether that is memory of the GPU, which kernels read faster and the host writes through its link.
    pub kernargs_on_device: bool,
}

impl Default for QueueOptions {
    fn default() -> QueueOptions {
        QueueOptions { packets: None, kernarg_bytes: 1 << 20, kernargs_on_device: false }
    }
}

/// A submission that a timeline will be advanced by.
#[derive(Clone, Debug)]
pub(crate) struct SubmissionPoint {
    pub(crate) queue: Arc<QueueCore>,
    pub(crate) epoch: u64,
    /// What has completed before it.
    pub(super) frontier: Frontier,
}

/// A queue.
pub(crate) struct QueueCore {
    /// The first field, so it is dropped first: the packet processor ends before anything that packets use is freed.
    queue: OnceLock<OwnedQueue>,
    /// Unique in the process; from 1.
    pub(crate) id: u64,
    pub(super) agent: Arc<GpuAgent>,
    pub(super) wait: QueueWait,
    admission: Mutex<Admission>,
    /// In the order of epochs.
    pub(super) entries: Mutex<VecDeque<Entry>>,
    /// Memory of submissions that completed, to use again.
    #[expect(clippy::vec_box, reason = "submissions are moved from place to place by their address")]
    pub(super) spare: Mutex<Vec<Box<Submission>>>,
    /// Why it takes no more packets.
    pub(super) failure: OnceLock<Status>,
    /// Whether its owner is gone: the thread ends once everything has completed.
    pub(super) is_closing: AtomicBool,
    /// How many [`Hold`]s there are.
    holds: AtomicUsize,
    pub(super) epoch: OwnedSignal,
    /// Wakes the completion thread when it is set to zero.
    pub(super) wake: OwnedSignal,
    pub(super) slots: u64,
    /// Commands that wait, one place for each slot.
    pub(super) pm4: Option<DeviceMemory>,
    /// How arguments become visible once they are written.
    pub(super) publication: Publication,
    pub(super) times: QueueTimes,
    _kernargs: DeviceMemory,
    /// What its packets were recorded for. They use its kernels, also after the device is gone.
    _source: Arc<dyn KernelSource>,
}

/// Somebody who may still submit to a queue: an operation that is held back, or one that runs on the host. The completion thread of the queue
/// stays as long as there is one, also if the device is gone.
pub(super) struct Hold(Arc<QueueCore>);

impl Hold {
    pub(super) fn new(queue: &Arc<QueueCore>) -> Hold {
        queue.holds.fetch_add(1, Ordering::SeqCst);
        Hold(queue.clone())
    }
}

impl Deref for Hold {
    type Target = Arc<QueueCore>;

    fn deref(&self) -> &Arc<QueueCore> {
        &self.0
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        // After what it submitted has become an entry, which the thread looks at after this.
        if self.0.holds.fetch_sub(1, Ordering::SeqCst) == 1 && self.0.is_closing.load(Ordering::SeqCst) {
            self.0.wake.store(0);
        }
    }
}

impl fmt::Debug for QueueCore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "queue {} of {:?}", self.id, self.agent)
    }
}

/// A queue, and the thread that completes its submissions.
pub struct HostQueue {
    core: Arc<QueueCore>,
    thread: Option<thread::JoinHandle<()>>,
}

impl fmt::Debug for HostQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.core, f)
    }
}

impl Drop for HostQueue {
    fn drop(&mut self) {
        self.core.is_closing.store(true, Ordering::SeqCst);
        self.core.wake.store(0);
        // The thread ends when all submissions have completed. Those that are held back may wait for what the caller does next, so then it
        // ends by itself.
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != thread::current().id()
            && !self.core.is_held()
        {
            let _ = thread.join();
        }
    }
}

/// Called by the HSA library when a queue stops.
unsafe extern "C" fn queue_failed(status: HsaStatus, _source: *mut HsaQueue, data: *mut c_void) {
    // SAFETY: `data` is the queue, which destroys its HSA queue before it goes.
    let core = unsafe { &*data.cast::<QueueCore>() };
    let text = core.agent.hsa().status_text(status);
    core.fail(Status::new(StatusCode::Internal, format!("{core:?} stopped with {status:?}: {text}")));
}

/// A fault does not say which queue of the GPU it was on, and none of them goes on afterwards.
impl FaultListener for QueueCore {
    fn memory_fault(&self, cause: Status) {
        self.fail(cause.context(format!("{self:?} stopped")));
    }
}

impl HostQueue {
    /// A queue of an agent, the one at a place among those of its device. It keeps `source`, which its packets are recorded for.
    ///
    /// # Errors
    /// Those of the HSA library.
    pub(crate) fn new(
        agent: &Arc<GpuAgent>,
        options: QueueOptions,
        ordinal: u32,
        source: Arc<dyn KernelSource>,
    ) -> Result<HostQueue> {
        static NEXT_ID: AtomicU64 = AtomicU64::new(1);
        let hsa = agent.hsa();
        let packets = ring_size(agent, options.packets)?;
        let slots = u64::from(packets);
        let class = agent.kernarg_class(options.kernargs_on_device)?;
        let kernargs = agent.allocate(class, options.kernarg_bytes.max(1 << 20), &[])?;
        let host = |memory: &DeviceMemory| {
            memory.host.ok_or_else(|| Status::internal("the host does not reach memory for arguments"))
        };
        // SAFETY: the memory is held by the queue, and only its packets and its ring use it.
        let ring = unsafe { ArgumentMemory::new(host(&kernargs)?, kernargs.address, kernargs.length as usize) };
        let wait = agent.target.queue_wait();
        let pm4 = match wait {
            QueueWait::Pm4 => Some(agent.allocate(MemoryClass::HostFine, slots * PM4_SLOT, &[])?),
            QueueWait::BarrierValue | QueueWait::Host => None,
        };
        let core = Arc::new(QueueCore {
            queue: OnceLock::new(),
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            agent: agent.clone(),
            wait,
            admission: Mutex::new(Admission::new(KernargRing::new(ring))),
            entries: Mutex::default(),
            spare: Mutex::default(),
            failure: OnceLock::new(),
            is_closing: AtomicBool::new(false),
            holds: AtomicUsize::new(0),
            epoch: hsa.signal(INITIAL_EPOCH_VALUE)?,
            wake: hsa.signal(1)?,
            slots,
            pm4,
            publication: kernargs.publication,
            times: QueueTimes::new(ordinal),
            _kernargs: kernargs,
            _source: source,
        });
        let listener = Arc::downgrade(&core);
        hsa.listen(agent.agent, listener);
        let data = Arc::as_ptr(&core).cast_mut().cast();
        // SAFETY: the HSA queue is destroyed with `core`, whose address does not change.
        let queue = unsafe { hsa.queue(agent.agent, packets, queue_failed, data) }?;
        // It was not set before.
        let _ = core.queue.set(queue);
        let same = core.clone();
        let thread = thread::Builder::new().name(format!("amdgpu-{}", core.id)).spawn(move || completion::run(&same));
        let thread = thread.map_err(|error| {
            Status::resource_exhausted("there is no thread for the completions of a queue").with_source(error)
        })?;
        Ok(HostQueue { core, thread: Some(thread) })
    }

    /// Tells an observer of the times of submissions from here on, or nobody.
    pub(crate) fn observe(&self, observer: Option<Arc<dyn TimesObserver>>) {
        if let Some(queue) = self.core.queue.get() {
            self.core.times.observe(queue, observer);
        }
    }

    /// The queue.
    pub(crate) fn core(&self) -> &Arc<QueueCore> {
        &self.core
    }
}

/// Packets of the ring of a queue.
fn ring_size(agent: &GpuAgent, wanted: Option<u32>) -> Result<u32> {
    let most = agent.queue_max_size;
    if most < LEAST_PACKETS {
        let message = format!("{agent:?} has queues of at most {most} packets, expected at least {LEAST_PACKETS}");
        return Err(Status::failed_precondition(message));
    }
    let Some(packets) = wanted else {
        // The largest power of two that the agent allows, which is at least one.
        return Ok(1 << most.min(DEFAULT_PACKETS).ilog2());
    };
    if packets > most {
        let message = format!("queues of {packets} packets: {agent:?} has queues of at most {most}");
        return Err(Status::invalid_argument(message));
    }
    if packets < LEAST_PACKETS || !packets.is_power_of_two() {
        let message = format!("queues of {packets} packets: expected a power of two from {LEAST_PACKETS}");
        return Err(Status::invalid_argument(message));
    }
    Ok(packets)
}

impl QueueCore {
    pub(super) fn hsa(&self) -> &Arc<Hsa> {
        self.agent.hsa()
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Admission> {
        self.admission.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn entries(&self) -> MutexGuard<'_, VecDeque<Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether somebody may still submit, besides the device.
    pub(super) fn is_held(&self) -> bool {
        self.holds.load(Ordering::SeqCst) != 0
    }

    /// How many submissions have completed.
    pub(crate) fn completed(&self) -> u64 {
        (INITIAL_EPOCH_VALUE as u64).wrapping_sub(self.epoch.load() as u64)
    }

    /// The value of the epoch signal below which a submission has completed.
    pub(super) fn value_of(epoch: u64) -> i64 {
        INITIAL_EPOCH_VALUE - epoch as i64 + 1
    }

    /// Whether it waits for other queues by packets.
    pub(crate) fn waits_on_device(&self) -> bool {
        self.wait != QueueWait::Host
    }

    /// Stops it: what has not completed fails with the cause, and so does what is submitted from here on.
    pub(super) fn fail(&self, cause: Status) {
        if self.failure.set(cause).is_ok() {
            self.wake.store(0);
        }
    }

    /// Ends its packets after a failure, so that nothing uses the memory of submissions any more.
    pub(super) fn stop_packets(&self) {
        if let Some(queue) = self.queue.get() {
            queue.inactivate();
        }
    }

    /// Ends all waits for a queue that failed. Its entries have failed before.
    pub(super) fn release_waiters(&self) {
        self.epoch.store(FAILED_EPOCH_VALUE);
    }

    /// The HSA queue, with the indices of its ring: of the next packet that is added, and of the first that is still in use.
    pub(super) fn shared(&self) -> Result<(&HsaQueue, &AtomicU64, &AtomicU64)> {
        let queue = self.queue.get().ok_or_else(|| Status::internal("a queue without an HSA queue"))?;
        let amd = queue.shared().cast::<AmdQueue>().as_ptr();
        // SAFETY: the library keeps the queue as long as it is not destroyed, which is with this. It changes nothing of the shared part; the
        // indices are where queues of AMD GPUs have them, and all sides access them atomically.
        unsafe {
            Ok((
                queue.shared().as_ref(),
                AtomicU64::from_ptr(&raw mut (*amd).write_dispatch_id),
                AtomicU64::from_ptr(&raw mut (*amd).read_dispatch_id),
            ))
        }
    }

    pub(super) fn ring(&self) -> Result<Ring<'_>> {
        let (queue, write, read) = self.shared()?;
        let base = std::ptr::with_exposed_provenance::<Slot>(queue.base_address as usize);
        // SAFETY: the ring has that many slots as long as the queue, and all sides access them atomically.
        let slots = unsafe { std::slice::from_raw_parts(base, queue.size as usize) };
        Ring::new(slots, write, read).ok_or_else(|| Status::internal("a ring of an odd size"))
    }
}
