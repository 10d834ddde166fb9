//! The doorbell of a queue ([`Doorbell`]): producers write the index of their last packet to it, or ring it by a
//! function.

use crate::sync::{AtomicI64, Bell, Ordering};

/// The register that a producer rings, in the form of a word that the packet processor empties.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Doorbell {
    word: AtomicI64,
    /// The numbers of the agent and of its queue.
    place: (u32, u64),
    /// Where the packet processor of the queue sleeps.
    pub(crate) bell: Bell,
}

impl Doorbell {
    /// The number that no producer rings with.
    const SILENT: i64 = i64::MIN;

    /// The doorbell of a queue of an agent.
    pub(crate) fn new(agent: u32, queue: u64) -> Self {
        Doorbell { word: AtomicI64::new(Self::SILENT), place: (agent, queue), bell: Bell::default() }
    }

    /// The address of the word.
    pub(crate) fn address(&self) -> u64 {
        (&raw const self.word).expose_provenance() as u64
    }

    /// The index that was rung with since the last time.
    pub(crate) fn take(&self) -> Option<i64> {
        // Most looks find nothing, and need not own the cache line.
        if self.word.load(Ordering::Relaxed) == Self::SILENT {
            return None;
        }
        Some(self.word.swap(Self::SILENT, Ordering::Acquire)).filter(|index| *index != Self::SILENT)
    }

    /// The numbers of the agent and of its queue.
    pub(crate) fn place(&self) -> (u32, u64) {
        self.place
    }

    /// Rings with an index.
    pub(crate) fn ring(&self, index: i64) {
        self.word.store(index, Ordering::Release);
        self.bell.ring();
    }
}
