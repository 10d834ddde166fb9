//! The loop of a packet processor ([`PacketLoop`]): finds packets, runs them in their order, and ends after one that fails.
//!
//! The doorbell says up to which index packets may be run, and a packet runs once its header is published, which an earlier packet may do.
//! So the processor looks at the slot again and again. A packet is complete before the next one begins, which is more than its barrier bit
//! asks for; where the topology says so, kernels without it run in the opposite order.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};

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
pub(crate) trait Packets {
    /// Why a packet fails.
    type Failure;

    /// Runs the packet after `ahead` others that are not retired.
    fn run(&self, packet: &Packet, ahead: u64) -> Result<(), Interruption<Self::Failure>>;

    /// The failure of a slot without a packet.
    fn malformed(&self, what: &str) -> Self::Failure;

    /// Tells the program of a failure; `ended` says that it ended the queue before.
    fn tell(&self, failure: &Self::Failure, ahead: u64, ended: bool);
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
    pub(crate) reorder: bool,
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
        if let Some((failure, ahead)) = self.run_packets(packets) {
            let ended = self.life.fail();
            if keeps(Rule::FailuresAreQuietFirst) {
                self.life.set_quiet(&self.doorbell.bell);
            }
            packets.tell(&failure, ahead, ended);
        }
        drop(end);
    }

    /// As [`Self::run`]; the failure with the number of packets before it that are not retired.
    fn run_packets<P: Packets>(&self, packets: &P) -> Option<(P::Failure, u64)> {
        // The first index that no doorbell has named yet.
        let mut end = 0u64;
        loop {
            let ready = self.doorbell.bell.wait(None, || self.look(&mut end));
            let Some(ControlFlow::Continue(())) = ready else { return None };
            let count = self.batch(end);
            for ahead in (0..count).rev() {
                let packet = self.ring.peek(ahead);
                if !keeps(Rule::PacketsKeepTheirSlots) {
                    self.ring.retire();
                }
                let outcome = match packet {
                    Some(Ok(packet)) => packets.run(&packet, ahead),
                    Some(Err(error)) => Err(Interruption::Failed(packets.malformed(&error.to_string()))),
                    None => Err(Interruption::Failed(packets.malformed("its header was withdrawn"))),
                };
                match outcome {
                    Ok(()) => {}
                    Err(Interruption::Stopped) => return None,
                    Err(Interruption::Failed(_)) if !keeps(Rule::FailuresAreTheLast) => {}
                    Err(Interruption::Failed(failure)) => return Some((failure, ahead)),
                }
            }
            if keeps(Rule::PacketsKeepTheirSlots) {
                (0..count).for_each(|_| self.ring.retire());
            }
        }
    }

    /// Whether there is a packet to run, or the queue was ended.
    fn look(&self, end: &mut u64) -> Option<ControlFlow<()>> {
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
        let read = self.read.load(Ordering::Relaxed);
        let found = (read < *end && self.ring.peek(0).is_some()).then_some(ControlFlow::Continue(()));
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
