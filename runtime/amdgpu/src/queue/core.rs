//! A queue ([`QueueCore`]): the ring of packets, the memory for arguments, the epoch signal, and the submissions that have not completed.
//!
//! One submission is admitted at a time. Admission reserves memory and slots, which may have to wait for the packet processor: packets wait only
//! for submissions that were admitted before, here or on another queue, so the ring always drains.

use std::collections::VecDeque;
use std::ffi::c_void;
use std::fmt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use vireo_hsa::hsa::HsaStatus;
use vireo_hsa::packet::{BarrierAndPacket, BarrierValuePacket, FenceScope, PACKET_SIZE, PacketHeader, Pm4IbPacket};
use vireo_hsa::packets::Order;
use vireo_hsa::pm4::Pm4WaitRegMem64;
use vireo_hsa::queue::{AmdQueue, HsaQueue};
use vireo_hsa::ring::{Ring, Slot};
use vireo_hsa::signal::{Signal, SignalCondition};

use super::completion;
use super::frontier::Frontier;
use super::kernarg_ring::KernargRing;
use crate::agent::{GpuAgent, MemoryClass};
use crate::command_buffer::{ArgumentMemory, PacketWriter, Processor, Program, Resolved, Terminator, TransferKernels};
use crate::hal::Timepoint;
use crate::memory::DeviceMemory;
use crate::status::{Result, Status, StatusCode};
use crate::symbols::{Hsa, OwnedQueue, OwnedSignal};
use crate::target::QueueWait;

/// Packets that a ring holds at least, as the parameter of devices says.
const LEAST_PACKETS: u32 = 256;

/// The epoch signal begins here and counts down.
const INITIAL_EPOCH_VALUE: i64 = i64::MAX / 2;

/// What the epoch signal of a queue that failed is set to, so that all waits for it end: less than any epoch has, and positive, since PM4
/// commands compare without the sign.
const FAILED_EPOCH_VALUE: i64 = 1 << 32;

/// Bytes of a PM4 command buffer for each slot.
const PM4_SLOT: u64 = 64;

/// Bytes of a packet.
type PacketBytes = [u8; PACKET_SIZE as usize];

/// The sizes of a queue.
#[derive(Clone, Copy, Debug)]
pub struct QueueOptions {
    /// Packets of the ring, a power of two.
    pub packets: u32,
    /// Bytes of memory for arguments.
    pub kernarg_bytes: u64,
}

impl Default for QueueOptions {
    fn default() -> QueueOptions {
        QueueOptions { packets: 1024, kernarg_bytes: 1 << 20 }
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

/// A submission that has not completed.
pub(super) struct Entry {
    pub(super) epoch: u64,
    pub(super) completion: Completion,
}

/// What happens when a submission has completed.
#[derive(Default)]
pub(super) struct Completion {
    /// The points to signal.
    pub(super) signal: Vec<Timepoint>,
    /// The points that packets waited for: a timeline that has failed meanwhile fails the submission.
    pub(super) waits: Vec<Timepoint>,
    /// What has to stay until then.
    pub(super) retained: Vec<Retained>,
    /// What is done then, before the points are signaled.
    pub(super) reclaim: Option<Box<dyn FnOnce() -> Result<()> + Send>>,
    /// Why the submission failed when it was admitted, if it did.
    pub(super) failure: Option<Status>,
}

/// What a submission holds.
pub(super) enum Retained {
    Program(#[expect(dead_code, reason = "held")] Arc<Program>),
    Resolved(#[expect(dead_code, reason = "held")] Resolved),
}

/// What admission changes.
pub(super) struct Admission {
    /// The epoch of the next submission.
    next_epoch: u64,
    pub(super) frontier: Frontier,
    kernargs: KernargRing,
    /// Memory of the last packets, to use again.
    packets: Vec<PacketBytes>,
}

/// A queue.
pub(crate) struct QueueCore {
    /// The first field, so it is dropped first: the packet processor ends before anything that packets use is freed.
    queue: OnceLock<OwnedQueue>,
    /// Unique in the process; from 1.
    pub(crate) id: u64,
    pub(super) agent: Arc<GpuAgent>,
    wait: QueueWait,
    transfers: Option<TransferKernels>,
    admission: Mutex<Admission>,
    /// In the order of epochs.
    pub(super) entries: Mutex<VecDeque<Entry>>,
    /// Why it takes no more packets.
    pub(super) failure: OnceLock<Status>,
    /// Whether its owner is gone: the thread ends once everything has completed.
    pub(super) is_closing: AtomicBool,
    pub(super) epoch: OwnedSignal,
    /// Wakes the completion thread when it is set to zero.
    pub(super) wake: OwnedSignal,
    slots: u64,
    /// Commands that wait, one place for each slot.
    pm4: Option<DeviceMemory>,
    _kernargs: DeviceMemory,
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
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != thread::current().id()
        {
            // The thread ends when all submissions have completed.
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

impl HostQueue {
    /// A queue of an agent, with the driver's kernels there.
    ///
    /// # Errors
    /// Those of the HSA library.
    pub fn new(agent: &Arc<GpuAgent>, transfers: Option<TransferKernels>, options: QueueOptions) -> Result<HostQueue> {
        static NEXT_ID: AtomicU64 = AtomicU64::new(1);
        let hsa = agent.hsa();
        let most = agent.queue_max_size;
        if most < LEAST_PACKETS {
            let message = format!("{agent:?} has queues of at most {most} packets, expected at least {LEAST_PACKETS}");
            return Err(Status::failed_precondition(message));
        }
        let packets = options.packets.clamp(LEAST_PACKETS, most).next_power_of_two();
        let slots = u64::from(packets);
        let kernargs = agent.allocate(MemoryClass::Kernarg, options.kernarg_bytes.max(1 << 20), &[])?;
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
            transfers,
            admission: Mutex::new(Admission {
                next_epoch: 1,
                frontier: Frontier::default(),
                kernargs: KernargRing::new(ring),
                packets: Vec::new(),
            }),
            entries: Mutex::default(),
            failure: OnceLock::new(),
            is_closing: AtomicBool::new(false),
            epoch: hsa.signal(INITIAL_EPOCH_VALUE)?,
            wake: hsa.signal(1)?,
            slots,
            pm4,
            _kernargs: kernargs,
        });
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

    /// The queue.
    pub(crate) fn core(&self) -> &Arc<QueueCore> {
        &self.core
    }
}

/// The order of the packets that a submission adds itself.
const BETWEEN: Order = Order { barrier: true, acquire: FenceScope::NONE, release: FenceScope::NONE };

impl QueueCore {
    fn hsa(&self) -> &Arc<Hsa> {
        self.agent.hsa()
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Admission> {
        self.admission.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn entries(&self) -> MutexGuard<'_, VecDeque<Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
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
    pub(super) fn waits_on_device(&self) -> bool {
        self.wait != QueueWait::Host
    }

    /// Stops it: what has not completed fails with the cause, and so does what is submitted from here on.
    pub(super) fn fail(&self, cause: Status) {
        if self.failure.set(cause).is_ok() {
            self.wake.store(0);
        }
    }

    /// Ends all waits for a queue that failed. Its entries have failed before.
    pub(super) fn release_waiters(&self) {
        self.epoch.store(FAILED_EPOCH_VALUE);
    }

    /// The HSA queue, with the indices of its ring: of the next packet that is added, and of the first that is still in use.
    fn shared(&self) -> Result<(&HsaQueue, &AtomicU64, &AtomicU64)> {
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

    fn ring(&self) -> Result<Ring<'_>> {
        let (queue, write, read) = self.shared()?;
        let base = std::ptr::with_exposed_provenance::<Slot>(queue.base_address as usize);
        // SAFETY: the ring has that many slots as long as the queue, and all sides access them atomically.
        let slots = unsafe { std::slice::from_raw_parts(base, queue.size as usize) };
        Ring::new(slots, write, read).ok_or_else(|| Status::internal("a ring of an odd size"))
    }

    /// Waits until `ready` gives something, while the packet processor makes progress.
    fn back_pressure<T>(&self, mut ready: impl FnMut() -> Result<Option<T>>) -> Result<T> {
        let mut attempts = 0u32;
        loop {
            if let Some(failure) = self.failure.get() {
                return Err(failure.clone());
            }
            if let Some(value) = ready()? {
                return Ok(value);
            }
            attempts = attempts.saturating_add(1);
            if attempts < 64 { thread::yield_now() } else { thread::sleep(Duration::from_micros(50)) }
        }
    }

    /// Publishes packets and rings the doorbell.
    fn publish(&self, packets: &[PacketBytes]) -> Result<()> {
        let ring = self.ring()?;
        let reservation = self.back_pressure(|| Ok(ring.try_reserve(packets.len() as u64)))?;
        let last = ring.publish(reservation, packets);
        // SAFETY: the doorbell lives as long as the queue.
        unsafe { self.hsa().store(self.shared()?.0.doorbell_signal, last as i64) };
        Ok(())
    }

    /// Begins packets at the next free slot. Only the holder of the admission adds packets, so it stays that.
    fn writer(&self, packets: Vec<PacketBytes>) -> Result<PacketWriter> {
        let (queue, write, _) = self.shared()?;
        Ok(PacketWriter::new(queue.base_address, self.slots, write.load(Ordering::Relaxed), packets))
    }

    /// A packet that waits until another queue has reached an epoch.
    fn wait_packet(&self, point: &SubmissionPoint, slot: u64) -> Result<PacketBytes> {
        let (signal, value) = (point.queue.epoch.handle(), QueueCore::value_of(point.epoch));
        match (self.wait, &self.pm4) {
            (QueueWait::BarrierValue, _) => {
                let packet = BarrierValuePacket::new(BETWEEN, signal, i64::MAX, SignalCondition::LT, value)?;
                Ok(packet.to_bytes())
            }
            (QueueWait::Pm4, Some(memory)) => {
                let command = Pm4WaitRegMem64::until_less(signal, i64::MAX as u64, value as u64)?.to_bytes();
                let offset = (slot % self.slots) * PM4_SLOT;
                let host = memory.host.ok_or_else(|| Status::internal("the host does not reach PM4 commands"))?;
                // SAFETY: the place is that of a slot which is free, so no packet uses it.
                unsafe {
                    host.add(offset as usize).copy_from_nonoverlapping(NonNull::from(&command).cast(), command.len())
                };
                Ok(Pm4IbPacket::new(BETWEEN, memory.address + offset, command.len() as u32 / 4)?.to_bytes())
            }
            _ => Err(Status::internal("a wait that the host should have done")),
        }
    }

    /// Adds packets that wait for other queues.
    pub(super) fn admit_waits(&self, admission: &mut Admission, points: &[SubmissionPoint]) -> Result<()> {
        for point in points {
            let (_, write, read) = self.shared()?;
            let slot = write.load(Ordering::Relaxed);
            // The commands of a slot may be written once it is free. Acquire: the packet processor has read them.
            self.back_pressure(|| Ok((slot.wrapping_sub(read.load(Ordering::Acquire)) < self.slots).then_some(())))?;
            let packet = self.wait_packet(point, slot)?;
            self.publish(&[packet])?;
            admission.frontier.merge(&point.frontier);
            admission.frontier.add(point.queue.id, point.epoch);
        }
        Ok(())
    }

    /// The epoch at which a submission of so many blocks completes, and what completes before it.
    pub(super) fn next_point(self: &Arc<Self>, admission: &Admission, blocks: u64) -> SubmissionPoint {
        SubmissionPoint { queue: self.clone(), epoch: admission.next_epoch + blocks - 1, frontier: admission.frontier }
    }

    /// Admits the blocks of a program; all but the last complete by themselves. Returns the packets of the last one.
    fn admit_program(
        self: &Arc<Self>,
        admission: &mut Admission,
        program: &Program,
        resolved: &Resolved,
    ) -> Result<Vec<PacketBytes>> {
        let processor =
            Processor { resolved, transfers: self.transfers.as_ref(), published: program.published_address() };
        let mut block = 0;
        loop {
            let bytes = program.blocks().get(block as usize);
            let bytes =
                bytes.ok_or_else(|| Status::internal(format!("a branch to block {block}, which is not there")))?;
            let need = program.kernarg_length(block);
            let epoch = admission.next_epoch;
            let mut arguments = self.back_pressure(|| {
                admission.kernargs.free(self.completed());
                if need > admission.kernargs.length() {
                    return Err(Status::out_of_range(format!("a block with {need} bytes of arguments")));
                }
                Ok(admission.kernargs.reserve(need, epoch))
            })?;
            let mut writer = self.writer(std::mem::take(&mut admission.packets))?;
            let terminator = processor.run(bytes, &mut writer, &mut arguments)?;
            let packets = writer.into_packets();
            match terminator {
                Terminator::Return => return Ok(packets),
                // The arguments of this block are freed when it has completed.
                Terminator::Branch(next) => {
                    self.finish(admission, packets, Completion::default())?;
                    block = next;
                }
            }
        }
    }

    /// Admits a submission, which completes at `epoch`. Its timelines know of it already.
    pub(super) fn admit(
        self: &Arc<Self>,
        admission: &mut Admission,
        program: Option<(Arc<Program>, Resolved)>,
        mut completion: Completion,
        epoch: u64,
    ) -> Result<()> {
        let mut packets = Vec::new();
        if let Some((program, resolved)) = program {
            match self.admit_program(admission, &program, &resolved) {
                Ok(of_program) => packets = of_program,
                // What was admitted of it has to complete first, and then the submission fails in the same way as one that ran.
                Err(status) => completion.failure = Some(status),
            }
            // Others may wait for the epoch that was announced.
            while admission.next_epoch < epoch {
                self.finish(admission, Vec::new(), Completion::default())?;
            }
            completion.retained.push(Retained::Program(program));
            completion.retained.push(Retained::Resolved(resolved));
        }
        self.finish(admission, packets, completion)
    }

    /// Publishes the packets of a submission, of which the last one completes it.
    fn finish(&self, admission: &mut Admission, mut packets: Vec<PacketBytes>, completion: Completion) -> Result<()> {
        let order = Order { barrier: true, acquire: FenceScope::SYSTEM, release: FenceScope::SYSTEM };
        if packets.len() != 1 {
            packets.push(BarrierAndPacket::new(order, [Signal::default(); 5])?.to_bytes());
        }
        let last = packets.len() - 1;
        change_header(&mut packets[0], |header| {
            header.with_barrier(true).with_acquire_fence_scope(FenceScope::SYSTEM)
        })?;
        change_header(&mut packets[last], |header| {
            header.with_barrier(true).with_release_fence_scope(FenceScope::SYSTEM)
        })?;
        let signal = std::mem::offset_of!(BarrierAndPacket, completion_signal);
        packets[last][signal..].copy_from_slice(&self.epoch.handle().0.to_le_bytes());
        let epoch = admission.next_epoch;
        admission.next_epoch += 1;
        self.entries().push_back(Entry { epoch, completion });
        let published = self.publish(&packets);
        packets.clear();
        admission.packets = packets;
        if published.is_err() {
            // The queue has failed, or fails by this, and its thread fails the entry too.
            self.wake.store(0);
        }
        published
    }
}

/// Changes the header of a packet that is not published yet.
fn change_header(
    packet: &mut PacketBytes,
    change: impl FnOnce(PacketHeader) -> std::result::Result<PacketHeader, vireo_hsa::FieldError>,
) -> Result<()> {
    let header = change(PacketHeader(u16::from_le_bytes([packet[0], packet[1]])))?;
    packet[..2].copy_from_slice(&header.0.to_le_bytes());
    Ok(())
}
