//! The memory as an agent sees it ([`AgentView`]): the port of kernels and of the packet processor to the map of
//! allocations.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, RwLock};

use vireo_simt::{Memory, Region};

use super::map::{Allocation, Kind, MemoryMap};
use crate::api::Api;

/// The memory that an agent may access. It keeps what it has returned until it is dropped, even if the host frees it
/// meanwhile.
#[derive(Debug)]
pub struct AgentView<'a, A: Api> {
    map: &'a MemoryMap<A>,
    /// The bit of the agent.
    mask: u64,
    /// Removals from the map when the view was made.
    removals: u64,
    held: RwLock<Vec<Arc<Allocation>>>,
}

impl<'a, A: Api> AgentView<'a, A> {
    /// The view of the agent with this index.
    pub fn new(map: &'a MemoryMap<A>, agent: u32) -> Self {
        AgentView { map, mask: 1 << agent, removals: map.removals(), held: RwLock::default() }
    }

    fn region_of(&self, allocation: &Allocation) -> Option<Region> {
        let readable = allocation.readers.load(Ordering::Relaxed) & self.mask != 0;
        let writable = allocation.writers.load(Ordering::Relaxed) & self.mask != 0;
        let Allocation { start, length, padding, .. } = *allocation;
        let region = Region { start, length, host: allocation.device(), writable, padding };
        readable.then_some(region)
    }

    /// The segment of code that this address is in.
    pub fn code(&self, address: u64) -> Option<Arc<Allocation>> {
        self.map.find(address).filter(|allocation| matches!(allocation.kind, Kind::Code(true)))
    }
}

// SAFETY: the view holds each allocation that it returned a region of, and an allocation keeps its bytes, or that is
// what the program vouched for when it pinned them. They are readable, and writable where a region says so: only
// segments of code are not written by the host, and their pages are writable too. All that accesses them in this crate
// are atomics.
unsafe impl<A: Api> Memory for AgentView<'_, A> {
    fn region(&self, address: u64) -> Option<Region> {
        if self.map.removals() == self.removals {
            let held = self.held.read().unwrap_or_else(PoisonError::into_inner);
            if let Some(allocation) = held.iter().find(|allocation| allocation.contains(address, 1)) {
                return self.region_of(allocation);
            }
        }
        let allocation = self.map.find(address)?;
        let region = self.region_of(&allocation)?;
        let mut held = self.held.write().unwrap_or_else(PoisonError::into_inner);
        if !held.iter().any(|known| Arc::ptr_eq(known, &allocation)) {
            held.push(allocation);
        }
        Some(region)
    }
}
