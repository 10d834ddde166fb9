//! The map of all allocations ([`MemoryMap`]). Kernels, packets and copies may access only what is in it, and functions
//! take only addresses that it knows.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use vireo_core::pages::PageMapping;

use super::backing::{Backing, copy, copy_changes};
use crate::api::{Api, Refusal};

/// The kind of an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Memory of the pool with this handle.
    Pool(u64),
    /// Memory of the program that is pinned.
    Locked,
    /// A ring, a queue, a doorbell, a signal or a register.
    Object,
    /// A segment of a code object; true if it has instructions.
    Code(bool),
    /// Memory that is mapped at reserved addresses.
    Mapped,
}

/// A second copy of an allocation for a GPU, for hidden writes of the host.
#[derive(Debug)]
pub struct Shadow {
    /// The pages as the GPU sees them.
    device: PageMapping,
    /// The contents that both sides had when they were last compared.
    base: PageMapping,
    /// True if the register of the host data path publishes writes of the host, false if acquires do.
    pub until_flush: bool,
    /// Held while the sides are compared. Of two threads that do so at once, one would take a write that the other one
    /// has just published for a new one, and overwrite what the side that made it has written since.
    publishing: Mutex<()>,
}

/// An allocation.
#[derive(Debug)]
pub struct Allocation {
    /// The address of its first byte.
    pub start: u64,
    /// A number that no other allocation of the process has.
    pub id: u64,
    /// Its bytes.
    pub length: u64,
    /// Bytes of its pages after its end that a load may read which begins in it.
    pub padding: u64,
    /// Its kind.
    pub kind: Kind,
    /// The index of the agent that owns it.
    pub owner: u32,
    /// The flags of its pool.
    pub flags: u32,
    /// A bit for each agent that may read it.
    pub readers: AtomicU64,
    /// A bit for each agent that may write to it.
    pub writers: AtomicU64,
    /// The addresses by which its memory was pinned, each as often as it was. Memory of the program is an allocation
    /// while there is one.
    pins: Mutex<Vec<u64>>,
    /// Data of the program.
    pub user_data: AtomicU64,
    /// A second copy.
    pub shadow: Option<Shadow>,
    _backing: Backing,
}

impl Allocation {
    /// An allocation that the agents of `mask` may read and write.
    pub fn new(start: u64, length: u64, kind: Kind, owner: u32, mask: u64, backing: Backing) -> Self {
        static IDS: AtomicU64 = AtomicU64::new(0);
        Allocation {
            start,
            id: IDS.fetch_add(1, Ordering::Relaxed),
            length,
            padding: 0,
            kind,
            owner,
            flags: 0,
            readers: AtomicU64::new(mask),
            writers: AtomicU64::new(mask),
            pins: Mutex::new(if kind == Kind::Locked { vec![start] } else { Vec::new() }),
            user_data: AtomicU64::new(0),
            shadow: None,
            _backing: backing,
        }
    }

    /// Gives the allocation a second copy.
    ///
    /// # Errors
    /// If there is no memory for it.
    pub fn with_shadow(mut self, until_flush: bool) -> Result<Self, Refusal> {
        let length = usize::try_from(self.length).map_err(|_| Refusal::OutOfResources)?;
        let pages = |purpose| PageMapping::reserved(length, purpose).map_err(|_| Refusal::OutOfResources);
        let (device, base) = (pages("a GPU's copy")?, pages("the last state")?);
        self.shadow = Some(Shadow { device, base, until_flush, publishing: Mutex::default() });
        Ok(self)
    }

    /// True if all of the bytes are in it.
    pub fn contains(&self, address: u64, length: u64) -> bool {
        let offset = address.wrapping_sub(self.start);
        address >= self.start && offset <= self.length && self.length - offset >= length
    }

    /// The host's address of what GPUs see.
    pub fn device(&self) -> *mut u8 {
        match &self.shadow {
            Some(shadow) => shadow.device.base().as_ptr(),
            // The address is where the bytes of the allocation are, and programs were given it.
            None => std::ptr::with_exposed_provenance_mut(self.start as usize),
        }
    }

    /// Fills the whole allocation, which is not in use yet, with a word for each address.
    pub fn fill(&self, word: impl Fn(u64) -> u32) {
        let host: *mut u8 = std::ptr::with_exposed_provenance_mut(self.start as usize);
        let copies = self.shadow.iter().flat_map(|shadow| [&shadow.device, &shadow.base]);
        for to in std::iter::once(host).chain(copies.map(|pages| pages.base().as_ptr())) {
            for offset in (0..self.length).step_by(4) {
                // SAFETY: the memory lives as long as the allocation, and all that access it are atomics; lengths of
                // pools are multiples of a page.
                let target = unsafe { AtomicU32::from_ptr(to.wrapping_add(offset as usize).cast()) };
                target.store(word(self.start + offset), Ordering::Relaxed);
            }
        }
    }

    /// Shows the writes of one side to the other one.
    fn publish(&self, to_device: bool) {
        let Some(shadow) = &self.shadow else { return };
        let host: *mut u8 = std::ptr::with_exposed_provenance_mut(self.start as usize);
        let (device, base) = (shadow.device.base().as_ptr(), shadow.base.base().as_ptr());
        // Only memory of pools has a second copy. Its length is a multiple of a page.
        let length = self.length as usize;
        let (from, to) = if to_device { (host, device) } else { (device, host) };
        let _turn = shadow.publishing.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the three ranges are pages of this length, which live as long as the allocation; all that refer to
        // them are atomics, or are programs that got the address.
        unsafe { copy_changes(from, base, to, length) };
    }
}

/// All allocations by their first addresses. They do not overlap.
#[derive(Debug, Default)]
pub struct MemoryMap<A: Api> {
    allocations: RwLock<BTreeMap<u64, Arc<Allocation>>>,
    /// Counts removals, so that who remembers allocations knows when to look again.
    removals: AtomicU64,
    _api: PhantomData<fn() -> A>,
}

impl<A: Api> MemoryMap<A> {
    /// Adds an allocation.
    ///
    /// # Errors
    /// If it is empty, or overlaps another one.
    pub fn insert(&self, allocation: Allocation) -> Result<Arc<Allocation>, A::Status> {
        let mut all = self.allocations.write().unwrap_or_else(PoisonError::into_inner);
        let end = allocation.start.checked_add(allocation.length).ok_or(A::status(Refusal::InvalidArgument))?;
        let overlaps = all.range(..end).next_back().is_some_and(|(start, last)| start + last.length > allocation.start);
        if allocation.length == 0 || overlaps {
            return Err(A::status(Refusal::InvalidAllocation));
        }
        let allocation = Arc::new(allocation);
        all.insert(allocation.start, allocation.clone());
        Ok(allocation)
    }

    /// Removes the allocation that begins at `start`, if `wanted` says so.
    pub fn remove(&self, start: u64, wanted: impl FnOnce(&Allocation) -> bool) -> Option<Arc<Allocation>> {
        let mut all = self.allocations.write().unwrap_or_else(PoisonError::into_inner);
        if !wanted(all.get(&start)?) {
            return None;
        }
        let removed = all.remove(&start);
        self.removals.fetch_add(1, Ordering::Release);
        removed
    }

    /// Pins memory for the agents of `mask` that is in an allocation already; none if it is in none.
    pub fn pin_again(&self, address: u64, length: u64, mask: u64) -> Option<Result<(), A::Status>> {
        // The lock is held, so that it is not unpinned for the last time meanwhile.
        let all = self.allocations.read().unwrap_or_else(PoisonError::into_inner);
        let (_, known) = all.range(..=address).next_back().filter(|(_, known)| known.contains(address, 1))?;
        if !known.contains(address, length) {
            return Some(Err(A::status(Refusal::InvalidArgument)));
        }
        known.pins.lock().unwrap_or_else(PoisonError::into_inner).push(address);
        known.readers.fetch_or(mask, Ordering::Relaxed);
        known.writers.fetch_or(mask, Ordering::Relaxed);
        Some(Ok(()))
    }

    /// Undoes one call that pinned memory at an address. Memory of the program is removed with its last one.
    ///
    /// # Errors
    /// If there was no such call.
    pub fn unpin(&self, address: u64) -> Result<(), A::Status> {
        let mut all = self.allocations.write().unwrap_or_else(PoisonError::into_inner);
        let wrong = A::status(Refusal::InvalidArgument);
        let (start, known) = all.range(..=address).next_back().ok_or(wrong)?;
        let start = *start;
        let is_last = {
            let mut pins = known.pins.lock().unwrap_or_else(PoisonError::into_inner);
            let index = pins.iter().position(|pin| *pin == address).ok_or(wrong)?;
            pins.swap_remove(index);
            pins.is_empty() && known.kind == Kind::Locked
        };
        if is_last {
            all.remove(&start);
            self.removals.fetch_add(1, Ordering::Release);
        }
        Ok(())
    }

    /// The number of removals so far.
    pub fn removals(&self) -> u64 {
        self.removals.load(Ordering::Acquire)
    }

    /// The allocation that `address` is in.
    pub fn find(&self, address: u64) -> Option<Arc<Allocation>> {
        let all = self.allocations.read().unwrap_or_else(PoisonError::into_inner);
        let (_, allocation) = all.range(..=address).next_back()?;
        allocation.contains(address, 1).then(|| allocation.clone())
    }

    /// The allocation that has all of the bytes.
    pub fn range(&self, address: u64, length: u64) -> Option<Arc<Allocation>> {
        self.find(address).filter(|allocation| allocation.contains(address, length))
    }

    /// Those that `wanted` chooses.
    pub fn matching(&self, wanted: impl Fn(&Allocation) -> bool) -> Vec<Arc<Allocation>> {
        let all = self.allocations.read().unwrap_or_else(PoisonError::into_inner);
        all.values().filter(|allocation| wanted(allocation)).cloned().collect()
    }

    /// Shows writes of the host to GPUs, for allocations that are published by flushes, or by acquires.
    pub fn publish_to_device(&self, by_flush: bool) {
        let hidden =
            |allocation: &Allocation| allocation.shadow.as_ref().is_some_and(|shadow| shadow.until_flush == by_flush);
        self.matching(hidden).iter().for_each(|allocation| allocation.publish(true));
    }

    /// Shows writes of GPUs to the host: at each packet where flushes publish the host's, else when a packet releases
    /// at system scope.
    pub fn publish_to_host(&self, by_flush: bool) {
        let hidden =
            |allocation: &Allocation| allocation.shadow.as_ref().is_some_and(|shadow| shadow.until_flush == by_flush);
        self.matching(hidden).iter().for_each(|allocation| allocation.publish(false));
    }

    /// Copies bytes for the host. Both sides see the result, as after a copy by the library on hardware.
    ///
    /// # Errors
    /// If a range leaves an allocation, or enters one.
    ///
    /// # Safety
    /// Where the map has no allocation with an address, the program vouches for the bytes.
    pub unsafe fn copy(&self, to: u64, from: u64, length: u64) -> Result<(), A::Status> {
        let sides = [self.side(to, length)?, self.side(from, length)?];
        let size = usize::try_from(length).map_err(|_| A::status(Refusal::InvalidArgument))?;
        for side in sides.iter().flatten() {
            side.publish(false);
        }
        // SAFETY: `side` refuses ranges that leave an allocation, and the arcs keep the allocations; the caller vouches
        // for the rest.
        unsafe {
            copy(
                std::ptr::with_exposed_provenance_mut(to as usize),
                std::ptr::with_exposed_provenance(from as usize),
                size,
            );
        }
        for side in sides.iter().flatten() {
            side.publish(true);
        }
        Ok(())
    }

    /// The allocation of one side of a copy; none for memory of the program. An error if the range leaves an allocation
    /// or enters one.
    fn side(&self, address: u64, length: u64) -> Result<Option<Arc<Allocation>>, A::Status> {
        let end = address.checked_add(length).ok_or(A::status(Refusal::InvalidArgument))?;
        if address == 0 && length != 0 {
            return Err(A::status(Refusal::InvalidArgument));
        }
        let all = self.allocations.read().unwrap_or_else(PoisonError::into_inner);
        match all.range(..end).next_back() {
            Some((_, last)) if last.contains(address, length) => Ok(Some(last.clone())),
            Some((start, last)) if length != 0 && start + last.length > address => {
                Err(A::status(Refusal::InvalidAllocation))
            }
            _ => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default)]
    struct Tested;

    impl Api for Tested {
        type Status = Refusal;

        fn status(refusal: Refusal) -> Refusal {
            refusal
        }
    }

    /// The host counts in one word and a GPU in another one, while others publish the writes of each side.
    #[test]
    fn threads_that_publish_at_once_lose_no_write() {
        const LENGTH: u64 = 16;
        const COUNTS: u64 = 8_000_000;
        let pages = Arc::new(PageMapping::reserved(LENGTH as usize, "a test").expect("memory"));
        let start = pages.base().as_ptr().expose_provenance() as u64;
        let allocation = Allocation::new(start, LENGTH, Kind::Pool(0), 1, 1, Backing::of(pages.clone()));
        let allocation = allocation.with_shadow(false).expect("memory");
        let map = MemoryMap::<Tested>::default();
        let allocation = map.insert(allocation).expect("it is the first one");
        // SAFETY: the memory lives as long as the allocation, and all that access it are atomics.
        let word = |side: *mut u8, index: usize| unsafe { AtomicU64::from_ptr(side.cast::<u64>().wrapping_add(index)) };
        let (host, device) = (pages.base().as_ptr(), allocation.device());
        let sides = [(word(host, 0), word(device, 0)), (word(device, 1), word(host, 1))];
        let (is_done, lost) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while is_done.load(Ordering::Acquire) < 2 {
                        map.publish_to_device(false);
                        map.publish_to_host(false);
                    }
                });
            }
            for (own, _) in sides {
                let (is_done, lost) = (&is_done, &lost);
                scope.spawn(move || {
                    for count in 1..=COUNTS {
                        // Only this thread writes to this word.
                        lost.fetch_add((own.load(Ordering::Relaxed) != count - 1).into(), Ordering::Relaxed);
                        own.store(count, Ordering::Relaxed);
                    }
                    is_done.fetch_add(1, Ordering::Release);
                });
            }
        });
        assert_eq!(lost.into_inner(), 0);
        map.publish_to_device(false);
        map.publish_to_host(false);
        for (own, other) in sides {
            assert_eq!((own.load(Ordering::Relaxed), other.load(Ordering::Relaxed)), (COUNTS, COUNTS));
        }
    }
}
