//! The packets of a queue ([`PacketQueue`]): an HSA queue with its ring, the memory for arguments, and the signals that
//! count what has run. The core of the queue says what is published when.
//!
//! Each part of a submission ends with a packet that decrements the epoch signal of its lane, so its value says how
//! many have completed. Packets are put together in memory of the queue, so that a submission allocates nothing.
//!
//! # Fences
//! The first packet with work acquires at the scope of the system: the host wrote its arguments, and may have written
//! to buffers. The last packet releases at that scope if the host or another agent may learn of its end, which a
//! timeline says unless the program made it for one agent ([`Part::is_private`]); otherwise, and between the parts of a
//! submission, at the scope of the agent. A submission without work acquires at the scope of the agent, so what it
//! waited for is released again with it.

use std::fmt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use vireo_hsa::hsa::HsaStatus;
use vireo_hsa::packet::{
    BarrierAndPacket, BarrierValuePacket, FenceScope, KernelDispatchPacket, PacketHeader, Pm4IbPacket,
};
use vireo_hsa::packets::Order;
use vireo_hsa::pm4::Pm4WaitRegMem64;
use vireo_hsa::queue::{AmdQueue, HsaQueue};
use vireo_hsa::ring::{Ring, Slot};
use vireo_hsa::signal::{Signal, SignalCondition};

use super::kernarg_ring::KernargRing;
use super::times::PacketTimes;
use crate::agent::GpuAgent;
use crate::command_buffer::{ArgumentMemory, KernelSource, PacketBytes, Program, Resolved, RingPlace};
use crate::hal::BufferBinding;
use crate::hal::recycle::{MAX_FREE, free_list};
use crate::hal_driver::device_queue::{Clock, Core, Hardware, Job, LANES, ParkedMemory, Part, SubmissionPoint, Work};
use crate::memory::{DeviceMemory, MemoryClass, Publication};
use crate::status::{Result, Status, StatusCode};
use crate::symbols::{FaultListener, Hsa, OwnedQueue, OwnedSignal};
use vireo_hsa::target::QueueWait;

/// The epoch signal begins here and counts down.
const INITIAL_EPOCH_VALUE: i64 = i64::MAX / 2;

/// The value of the epoch signal of a queue that failed, so that all waits for it end: less than any epoch has, and
/// positive, since PM4 commands compare without the sign.
const FAILED_EPOCH_VALUE: i64 = 1 << 32;

/// Bytes of a PM4 command buffer for each slot.
const PM4_SLOT: u64 = 64;
const _: () = assert!(Pm4WaitRegMem64::SIZE as u64 <= PM4_SLOT);

/// The order of a packet that waits: packets after it do not begin before it has ended.
const WAIT: Order = Order { barrier: false, acquire: FenceScope::NONE, release: FenceScope::NONE };

/// The order of a packet that completes a submission whose commands may overlap.
const LAST: Order = Order { barrier: true, acquire: FenceScope::AGENT, release: FenceScope::AGENT };

/// The signal that counts what a lane of a queue has run. Others wait for it by packets. It has cache lines of its own,
/// apart from the count of its owners, which other threads change all the time.
#[repr(align(64))]
pub(crate) struct QueueClock {
    /// The number of the queue, which is unique in the process and from 1, times the number of lanes, and the lane.
    id: u64,
    hsa: Arc<Hsa>,
    epoch: OwnedSignal,
}

impl fmt::Debug for QueueClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "lane {} of queue {}", self.id % LANES as u64, self.id / LANES as u64)
    }
}

/// The value of the epoch signal below which a part has completed.
fn value_of(epoch: u64) -> i64 {
    INITIAL_EPOCH_VALUE - epoch as i64 + 1
}

impl Clock for QueueClock {
    fn number(&self) -> u64 {
        self.id
    }

    fn completed(&self) -> u64 {
        (INITIAL_EPOCH_VALUE as u64).wrapping_sub(self.epoch.load() as u64)
    }
}

/// Wakes a completion thread when it is set to zero.
struct WakeSignal(OwnedSignal);

impl Wake for WakeSignal {
    fn wake(self: Arc<Self>) {
        self.0.store(0);
    }
}

/// The program of an execution, with the addresses of that.
#[derive(Default)]
pub(crate) struct Execution {
    program: Option<Arc<Program>>,
    resolved: Resolved,
}

impl Work for Execution {
    fn parts(&self) -> u64 {
        self.program.as_ref().map_or(1, |program| program.templates().len() as u64)
    }

    fn release(&mut self) {
        self.program = None;
        self.resolved.clear();
    }
}

/// A program with a binding table.
pub(crate) type ProgramJob = (Arc<Program>, Vec<BufferBinding>);

impl Job<PacketQueue> for ProgramJob {
    type Ref<'a> = (&'a Arc<Program>, &'a [BufferBinding]);

    fn borrow(&self) -> Self::Ref<'_> {
        (&self.0, &self.1)
    }

    fn to_owned((program, table): Self::Ref<'_>) -> Self {
        (program.clone(), table.to_vec())
    }

    fn resolve((program, table): Self::Ref<'_>, queue: &PacketQueue, work: &mut Execution) -> Result<()> {
        program.resolve(table, &mut work.resolved)?;
        if !work.resolved.reached_by.contains(queue.agent.mask()) {
            let agent = &queue.agent;
            let message = format!("{agent:?} may not access the memory of a buffer: it is of another device");
            return Err(Status::invalid_argument(message));
        }
        work.program = Some(program.clone());
        Ok(())
    }
}

free_list! { static PARKED: ParkedMemory<PacketQueue>, MAX_FREE }

/// The memory in which packets are put together.
pub(crate) struct Packets {
    kernargs: KernargRing,
    packets: Vec<PacketBytes>,
}

/// The sizes of the memory of a queue, and for how long its owner waits.
#[derive(Clone, Copy)]
pub(super) struct Sizes {
    pub(super) packets: u32,
    pub(super) kernarg_bytes: u64,
    pub(super) kernargs_on_device: bool,
    pub(super) patience: Duration,
}

/// The packets of a queue, and what they use.
pub(crate) struct PacketQueue {
    /// The first field, so it is dropped first: the packet processor ends before anything that packets use is freed.
    queue: OnceLock<OwnedQueue>,
    agent: Arc<GpuAgent>,
    wait: QueueWait,
    /// Unique in the process.
    number: u64,
    clocks: [Arc<QueueClock>; LANES],
    wake: Arc<WakeSignal>,
    slots: u64,
    /// Commands that wait, one place for each slot.
    pm4: Option<DeviceMemory>,
    /// How arguments become visible once they are written.
    publication: Publication,
    times: PacketTimes,
    /// Ticks a second of the clock of the library, for waits that have an end.
    frequency: OnceLock<u64>,
    patience: Duration,
    _kernargs: DeviceMemory,
    /// The source of its kernels, which packets use, also after the device is gone.
    _source: Arc<dyn KernelSource>,
}

impl fmt::Debug for PacketQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "queue {} of {:?}", self.number, self.agent)
    }
}

/// Called by the HSA library when a queue stops.
unsafe extern "C" fn queue_failed(status: HsaStatus, _source: *mut HsaQueue, data: *mut std::ffi::c_void) {
    // SAFETY: `data` is the queue, which destroys its HSA queue before it goes.
    let core = unsafe { &*data.cast::<Core<PacketQueue>>() };
    let text = core.hardware.hsa().status_text(status);
    core.fail(Status::new(StatusCode::Internal, format!("{core:?} stopped with {status:?}: {text}")));
}

/// A fault does not say which queue of the GPU it was on, and none of them goes on afterwards.
impl FaultListener for Core<PacketQueue> {
    fn memory_fault(&self, cause: Status) {
        self.fail(cause.context(format!("{self:?} stopped")));
    }
}

/// A queue of an agent, the one at a place among those of its device, without threads. It keeps `source`, which its
/// packets are recorded for.
///
/// # Errors
/// Those of the HSA library.
pub(super) fn queue_of_agent(
    agent: &Arc<GpuAgent>,
    sizes: Sizes,
    ordinal: u32,
    source: Arc<dyn KernelSource>,
) -> Result<Arc<Core<PacketQueue>>> {
    static NEXT_NUMBER: AtomicU64 = AtomicU64::new(1);
    let hsa = agent.hsa();
    let slots = u64::from(sizes.packets);
    let class = agent.kernarg_class(sizes.kernargs_on_device)?;
    let kernargs = agent.allocate(class, sizes.kernarg_bytes.max(1 << 20), &[])?;
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
    let number = NEXT_NUMBER.fetch_add(1, Ordering::Relaxed);
    let clock = |lane: usize| {
        let (id, epoch) = (number * LANES as u64 + lane as u64, hsa.signal(INITIAL_EPOCH_VALUE)?);
        Ok(Arc::new(QueueClock { id, hsa: hsa.clone(), epoch }))
    };
    let clocks: Result<Vec<_>> = (0..LANES).map(clock).collect();
    let clocks = clocks?.try_into().map_err(|_| Status::internal("other lanes than there are"))?;
    let hardware = PacketQueue {
        queue: OnceLock::new(),
        agent: agent.clone(),
        wait,
        number,
        clocks,
        wake: Arc::new(WakeSignal(hsa.signal(1)?)),
        slots,
        pm4,
        publication: kernargs.publication,
        times: PacketTimes::new(ordinal),
        frequency: OnceLock::new(),
        patience: sizes.patience,
        _kernargs: kernargs,
        _source: source,
    };
    let packets = Packets { kernargs: KernargRing::new(ring), packets: Vec::new() };
    let core = Arc::new(Core::new(hardware, packets, &PARKED));
    let listener = Arc::downgrade(&core);
    hsa.listen(agent.agent, listener);
    let data = Arc::as_ptr(&core).cast_mut().cast();
    // SAFETY: the HSA queue is destroyed with `core`, whose address does not change.
    let queue = unsafe { hsa.queue(agent.agent, sizes.packets, queue_failed, data) }?;
    // It was not set before.
    let _ = core.hardware.queue.set(queue);
    Ok(core)
}

impl PacketQueue {
    fn hsa(&self) -> &Arc<Hsa> {
        self.agent.hsa()
    }

    /// Whether it waits for other queues by packets.
    pub(crate) fn waits_on_device(&self) -> bool {
        self.wait != QueueWait::Host
    }

    /// Its times, and the queue that they are of.
    pub(super) fn times(&self) -> Option<(&PacketTimes, &OwnedQueue)> {
        Some((&self.times, self.queue.get()?))
    }

    /// The HSA queue, with the indices of its ring: of the next packet that is added, and of the first that is still in
    /// use.
    fn shared(&self) -> Result<(&HsaQueue, &AtomicU64, &AtomicU64)> {
        let queue = self.queue.get().ok_or_else(|| Status::internal("a queue without an HSA queue"))?;
        let amd = queue.shared().cast::<AmdQueue>().as_ptr();
        // SAFETY: the library keeps the queue as long as it is not destroyed, which is with this. It changes nothing of
        // the shared part; the indices are where queues of AMD GPUs have them, and all sides access them atomically.
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

    /// The index of the first of so many free slots; none if there are fewer. Only the holder of the admission adds
    /// packets, so they stay free.
    fn free_slots(&self, count: u64) -> Result<Option<u64>> {
        if count > self.slots {
            return Err(Status::internal(format!("{count} packets at once, the ring has {} slots", self.slots)));
        }
        let (_, write, read) = self.shared()?;
        let first = write.load(Ordering::Relaxed);
        // Acquire: the packet processor has read what was in the slots.
        Ok((first.wrapping_sub(read.load(Ordering::Acquire)) <= self.slots - count).then_some(first))
    }

    /// A packet that waits until another queue has reached an epoch, for a slot that is free.
    fn wait_packet(&self, point: &SubmissionPoint<QueueClock>, slot: u64) -> Result<PacketBytes> {
        let (signal, value) = (point.clock.epoch.handle(), value_of(point.epoch));
        match (self.wait, &self.pm4) {
            (QueueWait::BarrierValue, _) => {
                let packet = BarrierValuePacket::new(WAIT, signal, i64::MAX, SignalCondition::LT, value)?;
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
                Ok(Pm4IbPacket::new(WAIT, memory.address + offset, command.len() as u32 / 4)?.to_bytes())
            }
            _ => Err(Status::internal("a wait that the host should have done")),
        }
    }

    /// Adds packets that wait for other queues, in slots from `first` on, which are free.
    fn add_waits(
        &self,
        packets: &mut Vec<PacketBytes>,
        points: &[SubmissionPoint<QueueClock>],
        first: u64,
    ) -> Result<()> {
        for (offset, point) in (0..).zip(points) {
            packets.push(self.wait_packet(point, first.wrapping_add(offset))?);
        }
        Ok(())
    }
}

impl Hardware for PacketQueue {
    type Clock = QueueClock;
    type Work = Execution;
    type Job = ProgramJob;
    type Builder = Packets;

    const NAME: &'static str = "amdgpu";

    /// All that is published together with them fits the smallest ring.
    const MAX_WAITS: usize = 64;

    fn clocks(&self) -> &[Arc<QueueClock>; LANES] {
        &self.clocks
    }

    fn agent(&self) -> u64 {
        self.agent.agent.0
    }

    /// Packets wait for signals of their own library only.
    fn can_wait_for(&self, other: &QueueClock) -> bool {
        self.waits_on_device() && Arc::ptr_eq(self.hsa(), &other.hsa)
    }

    fn prepare_waits(&self, builder: &mut Packets, points: &[SubmissionPoint<QueueClock>]) -> Result<bool> {
        let Some(first) = self.free_slots(points.len() as u64)? else { return Ok(false) };
        builder.packets.clear();
        self.add_waits(&mut builder.packets, points, first)?;
        Ok(true)
    }

    fn prepare(&self, builder: &mut Packets, part: Part<'_, PacketQueue>) -> Result<bool> {
        let Packets { kernargs, packets } = builder;
        let Part { lane, epoch, sequence, is_ordered, is_private, waits, work } = part;
        let program = work.and_then(|(work, index)| Some((work.program.as_deref()?, &work.resolved, index)));
        let block = program.and_then(|(program, resolved, index)| {
            Some((program.templates().get(index as usize)?, program.kernels(), resolved))
        });
        let commands = block.map_or(0, |(template, ..)| template.packet_count());
        // The packet of a wait or of a single command completes the part itself; several commands may overlap.
        let observer = self.times.active();
        let is_timed = commands > 0 && observer.is_some();
        let completes = commands > 1 || (commands == 0 && waits.is_empty()) || is_timed;
        let count = waits.len() + commands + usize::from(completes);
        let Some(first) = self.free_slots(count as u64)? else { return Ok(false) };
        packets.clear();
        self.add_waits(packets, waits, first)?;
        if let Some((template, kernels, resolved)) = block {
            let need = template.argument_bytes();
            if need > kernargs.length() {
                return Err(Status::internal(format!("a block with {need} bytes of arguments")));
            }
            // A ring of which nothing is in use begins anew, with memory that was used before.
            kernargs.free(|(lane, epoch)| self.clocks[lane].completed() >= epoch);
            let Some(mut arguments) = kernargs.reserve(need, (lane, epoch)) else { return Ok(false) };
            let ring = self.shared()?.0.base_address;
            let place = RingPlace { ring, slots: self.slots, first: first.wrapping_add(waits.len() as u64) };
            template.write(resolved, kernels, place, &mut arguments, packets)?;
        }
        if let Some(observer) = observer {
            self.times.begin(observer, self.hsa(), (lane, epoch), sequence, &mut packets[waits.len()..]);
        }
        if completes {
            packets.push(BarrierAndPacket::new(LAST, [Signal::default(); 5])?.to_bytes());
        }
        debug_assert_eq!(packets.len(), count);
        let last = packets.len() - 1;
        // The first one after the waits sees what was written before.
        let acquire = if commands > 0 { FenceScope::SYSTEM } else { FenceScope::AGENT };
        change_header(&mut packets[waits.len().min(last)], |header| {
            header.with_barrier(is_ordered || header.barrier()).with_acquire_fence_scope(acquire)
        })?;
        let release = if is_private { FenceScope::AGENT } else { FenceScope::SYSTEM };
        change_header(&mut packets[last], |header| header.with_release_fence_scope(release))?;
        let signal = std::mem::offset_of!(BarrierAndPacket, completion_signal);
        packets[last][signal..].copy_from_slice(&self.clocks[lane].epoch.handle().0.to_le_bytes());
        Ok(true)
    }

    /// Rings the doorbell. Arguments are published before the headers of the packets, since the packet processor may be
    /// looking at the ring already.
    fn publish(&self, builder: &mut Packets) -> Result<()> {
        let ring = self.ring()?;
        let reservation = ring.try_reserve(builder.packets.len() as u64);
        let reservation = reservation.ok_or_else(|| Status::internal("slots that were free are in use"))?;
        self.publication.publish();
        let last = ring.publish(reservation, &builder.packets);
        // SAFETY: the doorbell lives as long as the queue.
        unsafe { self.hsa().store(self.shared()?.0.doorbell_signal, last as i64) };
        Ok(())
    }

    fn progress(&self) -> u64 {
        0
    }

    fn pause(&self, _seen: u64, attempts: u32) {
        // At first there may be room at once. Then it is waited for for longer and longer, up to a millisecond.
        match attempts {
            0..64 => thread::yield_now(),
            _ => thread::sleep(Duration::from_micros((50 * u64::from(attempts - 63)).min(1000))),
        }
    }

    fn wake(&self) {
        self.wake.0.store(0);
    }

    fn waker(&self) -> Waker {
        self.wake.clone().into()
    }

    fn rearm(&self) {
        self.wake.0.store(1);
    }

    fn wait(&self, seen: Option<&[u64; LANES]>, until: Option<Instant>) {
        let hsa = self.hsa();
        let timeout = until.map_or(u64::MAX, |until| {
            let frequency = *self.frequency.get_or_init(|| hsa.frequency().unwrap_or(0));
            let left = until.saturating_duration_since(Instant::now());
            // Rounded up, so that the time has come when the wait ends.
            (left.as_nanos() * u128::from(frequency) / 1_000_000_000 + 1).try_into().unwrap_or(u64::MAX)
        });
        let (mut signals, mut values) = ([self.wake.0.handle(); LANES + 1], [1; LANES + 1]);
        for (lane, clock) in self.clocks.iter().enumerate() {
            signals[lane] = clock.epoch.handle();
            // A queue that failed waits for nothing but to be woken.
            values[lane] = seen.map_or(i64::MIN, |seen| value_of(seen[lane] + 1));
        }
        // SAFETY: all of them live as long as the queue, which the thread holds.
        unsafe { hsa.wait_any_less(signals, values, timeout) };
    }

    fn report(&self, completed: &[u64; LANES]) {
        self.times.report(self.hsa(), self.agent.agent, completed);
    }

    fn can_stop(&self) -> bool {
        self.hsa().can_inactivate()
    }

    fn stop(&self) {
        if let Some(queue) = self.queue.get() {
            queue.inactivate();
        }
    }

    fn release_waiters(&self) {
        self.clocks.iter().for_each(|clock| clock.epoch.store(FAILED_EPOCH_VALUE));
    }

    /// The first packet that is not retired and has a kernel.
    fn running(&self) -> Option<Arc<str>> {
        let ring = self.ring().ok()?;
        ring.unretired().find_map(|bytes| self.hsa().kernel_name(KernelDispatchPacket::read(&bytes).kernel_object))
    }

    fn patience(&self) -> Option<Duration> {
        Some(self.patience)
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
