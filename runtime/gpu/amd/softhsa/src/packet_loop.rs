//! The loop of a packet processor ([`PacketLoop`]): finds packets, runs them in their order, and ends after one that
//! fails.
//!
//! The doorbell says up to which index packets may be run, and a packet runs once its header is published, which an
//! earlier packet may do. So the processor looks at the slot again and again. A packet is complete before the next one
//! begins, which is more than its barrier bit asks for; where the topology says so, kernels without it run in the
//! opposite order, or at the same time.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use vireo_hsa::ReadError;
use vireo_hsa::packet::Packet;
use vireo_hsa::ring::Ring;

use crate::doorbell::Doorbell;
use crate::lifecycle::Lifecycle;
use crate::rules::{Rule, keeps};

/// The event that ends the work on a packet before it is complete.
pub(crate) enum Interruption<F> {
    /// The queue was stopped.
    Stopped,
    /// The packet is wrong, or its kernel trapped.
    Failed(F),
}

/// The work on packets.
pub(crate) trait Packets: Sync {
    /// Why a packet fails.
    type Failure: Send;

    /// Does what is due when a packet begins. Packets begin in the order of the ring, also where they run in another
    /// one.
    fn begin(&self, packet: &Packet);

    /// Runs the packet with this index, which has begun.
    fn run(&self, packet: &Packet, index: u64) -> Result<(), Interruption<Self::Failure>>;

    /// The failure of a slot without a packet.
    fn malformed(&self, what: &str) -> Self::Failure;

    /// Tells the program of the failure of a packet; `ended` says that it ended the queue before.
    fn tell(&self, failure: &Self::Failure, index: u64, ended: bool);
}

/// Kernels that run at once at most.
const MOST_AT_ONCE: u64 = 16;

/// The packets that have begun and are not retired.
struct Begun<F> {
    /// Whether each of them has ended, in the order of the ring.
    ended: VecDeque<bool>,
    /// The first failure, with the index of its packet.
    failure: Option<(F, u64)>,
    /// Whether one of them was stopped.
    is_stopped: bool,
}

/// Runs what is in a slot.
fn run_one<P: Packets>(
    packets: &P,
    packet: Option<Result<Packet, ReadError>>,
    index: u64,
) -> Result<(), Interruption<P::Failure>> {
    match packet {
        Some(Ok(packet)) => packets.run(&packet, index),
        Some(Err(error)) => Err(Interruption::Failed(packets.malformed(&error.to_string()))),
        None => Err(Interruption::Failed(packets.malformed("its header was withdrawn"))),
    }
}

/// A queue from the side of its processor.
pub(crate) struct PacketLoop<'a> {
    pub(crate) ring: Ring<'a>,
    pub(crate) write: &'a AtomicU64,
    pub(crate) read: &'a AtomicU64,
    pub(crate) slots: u64,
    pub(crate) doorbell: &'a Doorbell,
    pub(crate) life: &'a Lifecycle,
    pub(crate) single_producer: bool,
    /// Whether kernels without the barrier bit run in the opposite order, or at once.
    pub(crate) reorder: bool,
    pub(crate) overlap: bool,
}

/// Notes the end of a processor, also if it panics.
struct End<'a, 'b>(&'b PacketLoop<'a>);

impl Drop for End<'_, '_> {
    fn drop(&mut self) {
        self.0.life.set_done(&self.0.doorbell.bell);
    }
}

impl PacketLoop<'_> {
    /// Runs packets until the queue is ended or one fails.
    pub(crate) fn run(&self, packets: &impl Packets) {
        let end = End(self);
        let ran = if self.overlap { self.run_overlapped(packets) } else { self.run_packets(packets) };
        if let Some((failure, index)) = ran {
            let ended = self.life.fail();
            if keeps(Rule::FailuresAreQuietFirst) {
                self.life.set_quiet(&self.doorbell.bell);
            }
            packets.tell(&failure, index, ended);
        }
        drop(end);
    }

    /// As [`Self::run`]; the failure with the index of its packet.
    fn run_packets<P: Packets>(&self, packets: &P) -> Option<(P::Failure, u64)> {
        // The first index that no doorbell has named yet.
        let mut end = 0u64;
        loop {
            let ready = self.doorbell.bell.wait(None, || self.look(&mut end, 0));
            let Some(ControlFlow::Continue(())) = ready else { return None };
            let count = self.batch(end);
            let first = self.read.load(Ordering::Relaxed);
            (0..count).filter_map(|ahead| self.ring.peek(ahead)?.ok()).for_each(|packet| packets.begin(&packet));
            for ahead in (0..count).rev() {
                let index = first.wrapping_add(ahead);
                let packet = self.ring.peek(ahead);
                if !keeps(Rule::PacketsKeepTheirSlots) {
                    self.ring.retire();
                }
                match run_one(packets, packet, index) {
                    Ok(()) => {}
                    Err(Interruption::Stopped) => return None,
                    Err(Interruption::Failed(_)) if !keeps(Rule::FailuresAreTheLast) => {}
                    Err(Interruption::Failed(failure)) => return Some((failure, index)),
                }
            }
            if keeps(Rule::PacketsKeepTheirSlots) {
                (0..count).for_each(|_| self.ring.retire());
            }
        }
    }

    /// The same, where kernels without the barrier bit run beside those before them, each on a thread of its own. Other
    /// packets run on the thread of the processor, so nothing after them begins before they have ended.
    fn run_overlapped<P: Packets>(&self, packets: &P) -> Option<(P::Failure, u64)> {
        let begun = Mutex::new(Begun { ended: VecDeque::new(), failure: None, is_stopped: false });
        let begun = &begun;
        let lock = || begun.lock().unwrap_or_else(PoisonError::into_inner);
        let end_of = move |index: u64, outcome: Result<(), Interruption<P::Failure>>| {
            let mut begun = begun.lock().unwrap_or_else(PoisonError::into_inner);
            let ahead = index.wrapping_sub(self.read.load(Ordering::Relaxed));
            match outcome {
                Ok(()) => begun.ended[ahead as usize] = true,
                Err(Interruption::Stopped) => begun.is_stopped = true,
                Err(Interruption::Failed(failure)) => {
                    begun.failure.get_or_insert((failure, index));
                }
            }
            if !begun.ended[ahead as usize] {
                // The kernels beside it end, too.
                self.life.stop.request();
            }
            drop(begun);
            self.doorbell.bell.ring();
        };
        std::thread::scope(|scope| {
            let mut end = 0u64;
            loop {
                let next = self.doorbell.bell.wait(None, || {
                    let mut begun = lock();
                    if begun.failure.is_some() || begun.is_stopped {
                        return Some(ControlFlow::Break(()));
                    }
                    while begun.ended.pop_front_if(|ended| *ended).is_some() {
                        self.ring.retire();
                    }
                    let ahead = begun.ended.len() as u64;
                    if self.look(&mut end, ahead)?.is_break() {
                        return Some(ControlFlow::Break(()));
                    }
                    let packet = self.ring.peek(ahead)?;
                    let overlaps = packet.as_ref().is_ok_and(|packet| !packet.header().barrier());
                    (ahead == 0 || overlaps && ahead < MOST_AT_ONCE).then_some(ControlFlow::Continue((packet, ahead)))
                });
                let Some(ControlFlow::Continue((packet, ahead))) = next else { break };
                let index = self.read.load(Ordering::Relaxed).wrapping_add(ahead);
                lock().ended.push_back(false);
                if let Ok(packet) = &packet {
                    packets.begin(packet);
                }
                if matches!(packet, Ok(Packet::KernelDispatch(_))) {
                    scope.spawn(move || end_of(index, run_one(packets, Some(packet), index)));
                } else {
                    end_of(index, run_one(packets, Some(packet), index));
                }
            }
        });
        lock().failure.take()
    }

    /// Whether there is a packet after `ahead` others that are not retired, or the queue was ended.
    fn look(&self, end: &mut u64, ahead: u64) -> Option<ControlFlow<()>> {
        let ended = || self.life.is_inactive().then_some(ControlFlow::Break(()));
        if keeps(Rule::StopsComeFirst)
            && let Some(ended) = ended()
        {
            return Some(ended);
        }
        if let Some(index) = self.doorbell.take() {
            let reserved = match self.single_producer || !keeps(Rule::ReservedPacketsCount) {
                true => 0,
                false => self.write.load(Ordering::Acquire),
            };
            *end = (*end).max(u64::try_from(index).map_or(0, |index| index.wrapping_add(1))).max(reserved);
        }
        let next = self.read.load(Ordering::Relaxed).wrapping_add(ahead);
        let found = (next < *end && self.ring.peek(ahead).is_some()).then_some(ControlFlow::Continue(()));
        found.or_else(|| if keeps(Rule::StopsComeFirst) { None } else { ended() })
    }

    /// How many packets run before the first of them is retired: one, or kernels that no barrier bit orders.
    fn batch(&self, end: u64) -> u64 {
        let is_kernel = |ahead| matches!(self.ring.peek(ahead), Some(Ok(Packet::KernelDispatch(_))));
        if !self.reorder || !is_kernel(0) {
            return 1;
        }
        let read = self.read.load(Ordering::Relaxed);
        let most = end.saturating_sub(read).min(self.slots);
        let overlaps = |ahead| match self.ring.peek(ahead) {
            Some(Ok(Packet::KernelDispatch(packet))) => !packet.header.barrier(),
            _ => false,
        };
        (1..most).find(|ahead| !overlaps(*ahead)).unwrap_or(most.max(1))
    }
}
