//! Addresses apart from memory ([`VirtualMemory`]): ranges of addresses are reserved, memory without an address is
//! created, and one is mapped at the other. Memory is a file without a name, so that it can be mapped several times.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous};
use vireo_core::pages::PageMapping;

use super::GRANULE;
use super::backing::Backing;
use super::map::{Allocation, Kind, MemoryMap};
use crate::api::{Api, Refusal};
use crate::handles::Handles;

/// The largest alignment of addresses.
const MAX_ALIGNMENT: u64 = 1 << 30;

/// Reserved addresses.
#[derive(Debug)]
struct Reservation {
    pages: PageMapping,
    start: u64,
    length: u64,
    /// The mappings that were there, for as long as a kernel may use them.
    mappings: Mutex<Vec<Weak<Mapping>>>,
}

/// Memory without an address.
#[derive(Debug)]
struct Memory {
    file: OwnedFd,
    length: u64,
    /// The agent and the flags of its pool.
    owner: u32,
    flags: u32,
    _charge: Charge,
}

/// Bytes of the memory of an agent that are counted while this lives.
#[derive(Debug)]
pub struct Charge {
    used: Arc<AtomicU64>,
    bytes: u64,
}

impl Charge {
    /// Takes over bytes that were added to a count.
    pub fn of(used: Arc<AtomicU64>, bytes: u64) -> Self {
        Charge { used, bytes }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Memory that is mapped at reserved addresses. The addresses can be mapped again once it is dropped.
#[derive(Debug)]
struct Mapping {
    reservation: Arc<Reservation>,
    start: u64,
    length: usize,
    _memory: Arc<Memory>,
}

impl Mapping {
    fn address(&self) -> *mut std::ffi::c_void {
        let offset = (self.start - self.reservation.pages.base().as_ptr().addr() as u64) as usize;
        self.reservation.pages.base().as_ptr().wrapping_add(offset).cast()
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let (protection, flags) = (ProtFlags::empty(), MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::NORESERVE);
        // SAFETY: the range is in the reservation, which this keeps, and no other mapping is there: `map` checks that.
        // Nothing refers to the bytes any more but programs that were told that they are gone.
        let _ = unsafe { mmap_anonymous(self.address(), self.length, protection, flags) };
    }
}

/// The addresses and the memory of the system.
#[derive(Debug)]
pub struct VirtualMemory<A: Api> {
    reservations: Mutex<BTreeMap<u64, Arc<Reservation>>>,
    memory: Handles<Memory>,
    _api: PhantomData<fn() -> A>,
}

/// Refuses sizes that are not multiples of the granule.
fn whole_pages<A: Api>(size: u64) -> Result<usize, A::Status> {
    let size = Some(size).filter(|size| *size != 0 && size.is_multiple_of(GRANULE));
    size.and_then(|size| usize::try_from(size).ok()).ok_or(A::status(Refusal::InvalidArgument))
}

impl<A: Api> VirtualMemory<A> {
    /// No addresses and no memory, whose handles begin after `first`.
    pub fn new(first: u64) -> Self {
        VirtualMemory { reservations: Mutex::default(), memory: Handles::new(first), _api: PhantomData }
    }

    /// Reserves addresses.
    ///
    /// # Errors
    /// If size or alignment cannot be, or there are no such addresses.
    pub fn reserve(&self, size: u64, alignment: u64) -> Result<u64, A::Status> {
        whole_pages::<A>(size)?;
        if alignment != 0 && !alignment.is_power_of_two() || alignment > MAX_ALIGNMENT {
            return Err(A::status(Refusal::InvalidArgument));
        }
        let alignment = alignment.max(GRANULE);
        let length = size.checked_add(alignment).and_then(|length| usize::try_from(length).ok());
        let length = length.ok_or(A::status(Refusal::OutOfResources))?;
        let pages = PageMapping::inaccessible(length, "addresses").map_err(|_| A::status(Refusal::OutOfResources))?;
        let start = (pages.base().as_ptr().expose_provenance() as u64).next_multiple_of(alignment);
        let reservation = Reservation { pages, start, length: size, mappings: Mutex::default() };
        self.reservations.lock().unwrap_or_else(PoisonError::into_inner).insert(start, Arc::new(reservation));
        Ok(start)
    }

    /// Frees reserved addresses at which nothing is mapped.
    ///
    /// # Errors
    /// If these are not reserved, or something is mapped there.
    pub fn free(&self, start: u64, size: u64) -> Result<(), A::Status> {
        let mut reservations = self.reservations.lock().unwrap_or_else(PoisonError::into_inner);
        let reservation = reservations.get(&start).filter(|reservation| reservation.length == size);
        let reservation = reservation.ok_or(A::status(Refusal::InvalidAllocation))?;
        let mappings = reservation.mappings.lock().unwrap_or_else(PoisonError::into_inner);
        if mappings.iter().any(|mapping| mapping.strong_count() != 0) {
            return Err(A::status(Refusal::InUse));
        }
        drop(mappings);
        reservations.remove(&start);
        Ok(())
    }

    /// Creates memory of an agent, with the flags of the pool that its bytes are charged to.
    ///
    /// # Errors
    /// If the size is not a multiple of a page, or the system has no memory.
    pub fn create(&self, size: u64, charge: Charge, owner: u32, flags: u32) -> Result<u64, A::Status> {
        whole_pages::<A>(size)?;
        let exhausted = |_| A::status(Refusal::OutOfResources);
        let file = memfd_create("device memory", MemfdFlags::CLOEXEC).map_err(exhausted)?;
        ftruncate(&file, size).map_err(exhausted)?;
        Ok(self.memory.insert(Arc::new(Memory { file, length: size, owner, flags, _charge: charge })))
    }

    /// Gives up a handle; the memory stays while it is mapped.
    ///
    /// # Errors
    /// If there is no such handle.
    pub fn release(&self, handle: u64) -> Result<(), A::Status> {
        self.memory.remove(handle).map(|_| ()).ok_or(A::status(Refusal::InvalidAllocation))
    }

    /// Maps memory at reserved addresses; no agent may access it yet.
    ///
    /// # Errors
    /// If the addresses are not reserved or not free, or the memory is shorter.
    pub fn map(&self, map: &MemoryMap<A>, start: u64, size: u64, offset: u64, handle: u64) -> Result<(), A::Status> {
        let length = whole_pages::<A>(size)?;
        let memory = self.memory.get(handle).ok_or(A::status(Refusal::InvalidAllocation))?;
        let in_memory = offset.checked_add(size).is_some_and(|end| end <= memory.length);
        if !in_memory || !offset.is_multiple_of(GRANULE) || !start.is_multiple_of(GRANULE) {
            return Err(A::status(Refusal::InvalidArgument));
        }
        let reservations = self.reservations.lock().unwrap_or_else(PoisonError::into_inner);
        let before = reservations.range(..=start).next_back().map(|(_, reservation)| reservation.clone());
        let holds = |reservation: &Arc<Reservation>| {
            start - reservation.start <= reservation.length && reservation.length - (start - reservation.start) >= size
        };
        let reservation = before.filter(holds).ok_or(A::status(Refusal::InvalidAllocation))?;
        let mut mappings = reservation.mappings.lock().unwrap_or_else(PoisonError::into_inner);
        mappings.retain(|mapping| mapping.strong_count() != 0);
        let overlaps =
            |mapping: Arc<Mapping>| mapping.start < start + size && start < mapping.start + mapping.length as u64;
        if mappings.iter().filter_map(Weak::upgrade).any(overlaps) {
            return Err(A::status(Refusal::InvalidAllocation));
        }
        let (owner, flags) = (memory.owner, memory.flags);
        let mapping = Mapping { reservation: reservation.clone(), start, length, _memory: memory.clone() };
        let (protection, map_flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::FIXED);
        // SAFETY: the range is in the reservation, and nothing is mapped there.
        let mapped = unsafe { mmap(mapping.address(), length, protection, map_flags, &memory.file, offset) };
        mapped.map_err(|_| A::status(Refusal::OutOfResources))?;
        let mapping = Arc::new(mapping);
        mappings.push(Arc::downgrade(&mapping));
        let mut allocation = Allocation::new(start, size, Kind::Mapped, owner, 0, Backing::of(mapping));
        allocation.flags = flags;
        map.insert(allocation).map(|_| ())
    }

    /// Unmaps what one call mapped.
    ///
    /// # Errors
    /// If no call mapped that.
    pub fn unmap(&self, map: &MemoryMap<A>, start: u64, size: u64) -> Result<(), A::Status> {
        let removed = map.remove(start, |allocation| allocation.kind == Kind::Mapped && allocation.length == size);
        removed.map(|_| ()).ok_or(A::status(Refusal::InvalidAllocation))
    }

    /// Sets the agents that may read and write mapped memory.
    ///
    /// # Errors
    /// If something else than mapped memory is in the range.
    pub fn set_access(
        &self,
        map: &MemoryMap<A>,
        start: u64,
        size: u64,
        access: &[(u64, bool, bool)],
    ) -> Result<(), A::Status> {
        whole_pages::<A>(size)?;
        let end = start.checked_add(size).ok_or(A::status(Refusal::InvalidArgument))?;
        let inside = map.matching(|allocation| {
            allocation.kind == Kind::Mapped && allocation.start >= start && allocation.start + allocation.length <= end
        });
        let covered: u64 = inside.iter().map(|allocation| allocation.length).sum();
        if covered != size {
            return Err(A::status(Refusal::InvalidAllocation));
        }
        for allocation in &inside {
            for (mask, read, write) in access {
                for (allowed, agents) in [(*read, &allocation.readers), (*write, &allocation.writers)] {
                    if allowed {
                        agents.fetch_or(*mask, Ordering::Relaxed);
                    } else {
                        agents.fetch_and(!mask, Ordering::Relaxed);
                    }
                }
            }
        }
        Ok(())
    }
}
