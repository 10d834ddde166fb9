//! Admission ([`QueueCore::admit`]): turns a submission into packets of the queue, one submission at a time.
//!
//! Admission reserves memory and slots, which may have to wait for the packet processor: packets wait only for submissions that were admitted
//! before, here or on another queue, so the ring always drains. A submission whose queue has been used before allocates nothing: packets are put
//! together in memory of the queue, and what the submission holds is in memory of one that completed.

use std::ptr::NonNull;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::thread;
use std::time::Duration;

use vireo_hsa::packet::{BarrierAndPacket, BarrierValuePacket, FenceScope, PacketHeader, Pm4IbPacket};
use vireo_hsa::packets::Order;
use vireo_hsa::pm4::Pm4WaitRegMem64;
use vireo_hsa::signal::{Signal, SignalCondition};

use super::completion::complete;
use super::core::{PM4_SLOT, QueueCore, SubmissionPoint};
use super::frontier::Frontier;
use super::kernarg_ring::KernargRing;
use crate::command_buffer::{PacketBytes, Program, Resolved, RingPlace, Template, TransferKernels};
use crate::hal::Timepoint;
use crate::semaphore::own;
use crate::status::{Result, Status};
use crate::target::QueueWait;

/// Most submissions whose memory a queue keeps. Their vectors hold few points and addresses each.
const MAX_SPARE: usize = 1024;

/// Points and addresses that a submission has memory for at first.
const FEW: usize = 4;

/// Most waits that are published together with what waits, so that all of it fits the smallest ring.
const MAX_WAITS: usize = 64;

/// What is done when a submission has completed.
pub(crate) type Reclaim = Box<dyn FnOnce() -> Result<()> + Send>;

/// A submission, and what it holds until it has completed.
#[derive(Default)]
pub(super) struct Submission {
    /// The points to signal.
    pub(super) signal: Vec<Timepoint>,
    /// The points that packets wait for: a timeline that fails meanwhile fails the submission.
    pub(super) waits: Vec<Timepoint>,
    /// The submissions that its packets wait for; empty once they are published.
    pub(super) device: Vec<SubmissionPoint>,
    /// What it executes, with the addresses of that.
    pub(super) program: Option<Arc<Program>>,
    pub(super) resolved: Resolved,
    /// What is done once it has completed, before the points are signaled.
    pub(super) reclaim: Option<Reclaim>,
    /// Why it failed before it was admitted, if it did: it completes as one that did nothing, after what it waits for.
    pub(super) failure: Option<Status>,
}

impl Submission {
    /// An empty one with memory for a few points and addresses, so that most submissions need no more.
    fn with_capacity() -> Submission {
        Submission {
            signal: Vec::with_capacity(FEW),
            waits: Vec::with_capacity(FEW),
            device: Vec::with_capacity(FEW),
            resolved: Resolved {
                slots: Vec::with_capacity(FEW),
                owners: Vec::with_capacity(FEW),
                ..Resolved::default()
            },
            ..Submission::default()
        }
    }

    /// Lets go of what its packets use: who is told that it is complete finds no references of it left.
    pub(super) fn release(&mut self) {
        self.program = None;
        self.resolved.clear();
    }

    /// Lets go of what it holds, and keeps its memory.
    pub(super) fn clear(&mut self) {
        self.signal.clear();
        self.waits.clear();
        self.device.clear();
        self.release();
        (self.reclaim, self.failure) = (None, None);
    }
}

/// A submission that has not completed.
pub(super) struct Entry {
    pub(super) epoch: u64,
    /// None for a part of a submission: its last part holds what it holds.
    pub(super) submission: Option<Box<Submission>>,
}

/// What admission changes.
pub(super) struct Admission {
    /// The epoch of the next submission.
    next_epoch: u64,
    pub(super) frontier: Frontier,
    kernargs: KernargRing,
    /// The packets that are put together.
    packets: Vec<PacketBytes>,
}

impl Admission {
    pub(super) fn new(kernargs: KernargRing) -> Admission {
        Admission { next_epoch: 1, frontier: Frontier::default(), kernargs, packets: Vec::new() }
    }
}

/// The order of the packets that a submission adds itself.
const BETWEEN: Order = Order { barrier: true, acquire: FenceScope::NONE, release: FenceScope::NONE };

/// The order of a packet that completes a submission.
const LAST: Order = Order { barrier: true, acquire: FenceScope::SYSTEM, release: FenceScope::SYSTEM };

impl QueueCore {
    /// An empty submission, in the memory of one that completed if there is one.
    pub(super) fn new_submission(&self) -> Box<Submission> {
        let spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner).pop();
        spare.unwrap_or_else(|| Box::new(Submission::with_capacity()))
    }

    /// Keeps the memory of a submission that holds nothing any more.
    pub(super) fn recycle(&self, submission: Box<Submission>) {
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        if spare.len() < MAX_SPARE {
            spare.push(submission);
        }
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

    /// Waits until so many slots are free; returns the index of the first one. Only the holder of the admission adds packets, so they stay free.
    fn wait_for_slots(&self, count: u64) -> Result<u64> {
        if count > self.slots {
            return Err(Status::internal(format!("{count} packets at once, the ring has {} slots", self.slots)));
        }
        let (_, write, read) = self.shared()?;
        let first = write.load(Ordering::Relaxed);
        // Acquire: the packet processor has read what was in the slots.
        let is_free = || first.wrapping_sub(read.load(Ordering::Acquire)) <= self.slots - count;
        self.back_pressure(|| Ok(is_free().then_some(first)))
    }

    /// Publishes packets for which there is room, and rings the doorbell. Their arguments are published before the headers of the packets, since
    /// the packet processor may be looking at the ring already.
    fn publish(&self, packets: &[PacketBytes]) -> Result<()> {
        let ring = self.ring()?;
        let reservation = ring.try_reserve(packets.len() as u64);
        let reservation = reservation.ok_or_else(|| Status::internal("slots that were free are in use"))?;
        self.publication.publish();
        let last = ring.publish(reservation, packets);
        // SAFETY: the doorbell lives as long as the queue.
        unsafe { self.hsa().store(self.shared()?.0.doorbell_signal, last as i64) };
        Ok(())
    }

    /// A packet that waits until another queue has reached an epoch, for a slot that is free.
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

    /// Admits a submission. Failures of the queue go to the points that it signals.
    pub(super) fn admit(self: &Arc<Self>, mut submission: Box<Submission>) {
        if submission.failure.is_some() {
            submission.program = None;
        }
        let mut admission = self.lock();
        if let Some(cause) = self.failure.get() {
            drop(admission);
            return self.recycle(complete(submission, Err(cause.clone())));
        }
        // What the queue knows already needs no packet.
        submission.device.retain(|point| !admission.frontier.has_reached(point.queue.id, point.epoch));
        keep_latest(&mut submission.device);
        for point in &submission.device {
            admission.frontier.merge(&point.frontier);
            admission.frontier.add(point.queue.id, point.epoch);
        }
        let blocks = submission.program.as_ref().map_or(1, |program| program.templates().len() as u64);
        let epoch = admission.next_epoch + blocks - 1;
        // Before the packets are published: who waits for a point that is not known to be pending waits on the host.
        for signal in &submission.signal {
            if let Some(own) = own::<SubmissionPoint>(signal) {
                let (queue, frontier) = (self.clone(), admission.frontier);
                own.add_pending(signal.value, SubmissionPoint { queue, epoch, frontier });
            }
        }
        let admitted = self.admit_parts(&mut admission, submission);
        drop(admission);
        if let Err(status) = admitted {
            // Nothing that was not published can complete, so the queue is of no use any more.
            self.fail(status);
        }
        if self.failure.get().is_some() {
            // Its thread may have failed all entries before there was this one, and looks again.
            self.wake.store(0);
        }
    }

    /// Publishes the waits that do not fit the first part of a submission, and leaves those that do.
    fn publish_early_waits(&self, packets: &mut Vec<PacketBytes>, waits: &mut Vec<SubmissionPoint>) -> Result<()> {
        let early = waits.len().saturating_sub(MAX_WAITS);
        for points in waits[..early].chunks(MAX_WAITS) {
            let first = self.wait_for_slots(points.len() as u64)?;
            packets.clear();
            self.add_waits(packets, points, first)?;
            self.publish(packets)?;
        }
        waits.drain(..early);
        Ok(())
    }

    /// Admits the waits and the blocks of a submission. Every block completes by itself, which frees its arguments.
    fn admit_parts(&self, admission: &mut Admission, mut submission: Box<Submission>) -> Result<()> {
        let mut waits = std::mem::take(&mut submission.device);
        let mut outcome = self.publish_early_waits(&mut admission.packets, &mut waits);
        let program = submission.program.clone();
        let templates = program.as_ref().map_or(&[][..], |program| program.templates());
        let kernels = program.as_ref().and_then(|program| program.kernels());
        // A submission without a program has one part, too.
        let last = templates.len().max(1) - 1;
        let mut part = 0;
        loop {
            let payload =
                templates.get(part).map(|template| Payload { template, kernels, resolved: &submission.resolved });
            outcome = outcome.and_then(|()| self.build(admission, &waits, payload));
            waits.clear();
            let epoch = admission.next_epoch;
            admission.next_epoch += 1;
            if part == last || outcome.is_err() {
                // The last part holds what the submission holds, and passes the cause on if the queue fails.
                submission.device = waits;
                self.entries().push_back(Entry { epoch, submission: Some(submission) });
                return outcome.and_then(|()| self.publish(&admission.packets));
            }
            self.entries().push_back(Entry { epoch, submission: None });
            outcome = self.publish(&admission.packets);
            part += 1;
        }
    }

    /// Adds packets that wait for other queues, in slots from `first` on, which are free.
    fn add_waits(&self, packets: &mut Vec<PacketBytes>, points: &[SubmissionPoint], first: u64) -> Result<()> {
        for (offset, point) in (0..).zip(points) {
            packets.push(self.wait_packet(point, first.wrapping_add(offset))?);
        }
        Ok(())
    }

    /// Puts the packets of a part together, of which the last one completes it.
    fn build(&self, admission: &mut Admission, waits: &[SubmissionPoint], payload: Option<Payload<'_>>) -> Result<()> {
        let commands = payload.as_ref().map_or(0, |payload| payload.template.packet_count());
        // The packet of a wait or of a single command completes the part itself; several commands may overlap.
        let observer = self.times.active();
        let is_timed = commands > 0 && observer.is_some();
        let completes = commands > 1 || (commands == 0 && waits.is_empty()) || is_timed;
        let count = waits.len() + commands + usize::from(completes);
        let Admission { next_epoch, kernargs, packets, .. } = admission;
        packets.clear();
        match payload {
            None => {
                let first = self.wait_for_slots(count as u64)?;
                self.add_waits(packets, waits, first)?;
            }
            Some(Payload { template, kernels, resolved }) => {
                let need = template.argument_bytes();
                if need > kernargs.length() {
                    return Err(Status::internal(format!("a block with {need} bytes of arguments")));
                }
                let mut arguments = self.back_pressure(|| {
                    // A ring of which nothing is in use begins anew, with memory that was used before.
                    kernargs.free(self.completed());
                    Ok(kernargs.reserve(need, *next_epoch))
                })?;
                let first = self.wait_for_slots(count as u64)?;
                self.add_waits(packets, waits, first)?;
                let ring = self.shared()?.0.base_address;
                let place = RingPlace { ring, slots: self.slots, first: first.wrapping_add(waits.len() as u64) };
                template.write(resolved, kernels, place, &mut arguments, packets)?;
            }
        }
        if let Some(observer) = observer {
            self.times.begin(observer, self.hsa(), *next_epoch, &mut packets[waits.len()..]);
        }
        if completes {
            packets.push(BarrierAndPacket::new(LAST, [Signal::default(); 5])?.to_bytes());
        }
        debug_assert_eq!(packets.len(), count);
        let last = packets.len() - 1;
        // The first one after the waits sees what was written before.
        change_header(&mut packets[waits.len().min(last)], |header| {
            header.with_barrier(true).with_acquire_fence_scope(FenceScope::SYSTEM)
        })?;
        change_header(&mut packets[last], |header| {
            header.with_barrier(true).with_release_fence_scope(FenceScope::SYSTEM)
        })?;
        let signal = std::mem::offset_of!(BarrierAndPacket, completion_signal);
        packets[last][signal..].copy_from_slice(&self.epoch.handle().0.to_le_bytes());
        Ok(())
    }
}

/// A block of an execution.
struct Payload<'a> {
    template: &'a Template,
    kernels: Option<&'a TransferKernels>,
    resolved: &'a Resolved,
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

/// Keeps the last submission of each queue.
fn keep_latest(points: &mut Vec<SubmissionPoint>) {
    let mut index = 0;
    while index < points.len() {
        let point = &points[index];
        let is_covered = |(other_index, other): (usize, &SubmissionPoint)| {
            other.queue.id == point.queue.id
                && (other.epoch > point.epoch || (other.epoch == point.epoch && other_index < index))
        };
        if points.iter().enumerate().any(is_covered) {
            points.swap_remove(index);
        } else {
            index += 1;
        }
    }
}
