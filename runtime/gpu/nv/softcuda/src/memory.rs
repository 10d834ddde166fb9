//! Memory of devices and of the host ([`Memory`]): allocations with what the API knows of them, and how much of each
//! device is in use. Addresses are those of the host, so that managed and pinned memory needs no second one.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use vireo_core::pages::PageMapping;
use vireo_cuda::result::CuResult;
use vireo_cuda::types::TEXTURE_ALIGNMENT;
use vireo_simt::memory::WIDEST;
use vireo_simt::sanitize::{BlockInfo, Sanitizer, poison};
use vireo_soft::memory::GRANULE;
use vireo_soft::memory::backing::Backing;
use vireo_soft::memory::map::{Allocation, Kind};

use crate::api::{MemoryMap, Outcome};
use crate::options::Bounds;

/// The kind of memory of an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sort {
    /// Memory of a device.
    Device,
    /// Memory that is the host's and the devices'.
    Managed,
    /// Memory of the host that the library allocated and pinned.
    Pinned,
    /// Memory of the program that is pinned.
    Registered,
    /// A variable of a module.
    Variable,
}

impl Sort {
    /// Whether the host may access it in place.
    pub(crate) fn is_host(self) -> bool {
        matches!(self, Sort::Pinned | Sort::Registered)
    }
}

/// The details of an allocation that the API has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Detail {
    /// Its kind.
    pub(crate) sort: Sort,
    /// The handle of the context that allocated it.
    pub(crate) context: u64,
    /// Its device.
    pub(crate) device: u32,
    /// The handle of its pool; 0 if it is of none.
    pub(crate) pool: u64,
    /// The bytes that were asked for.
    pub(crate) size: u64,
    /// The flags that it was allocated with.
    pub(crate) flags: u32,
    /// True from the call that frees it in the order of a stream.
    pub(crate) is_ending: bool,
}

/// The memory of all devices.
#[derive(Debug)]
pub(crate) struct Memory {
    /// All allocations.
    pub(crate) map: MemoryMap,
    details: Mutex<BTreeMap<u64, Detail>>,
    used: Vec<AtomicU64>,
    limit: u64,
    bounds: Bounds,
    /// The sanitizer, if the options ask for one.
    pub(crate) sanitizer: Option<Sanitizer>,
    /// For each device, a bit for each device that may access its memory.
    peers: Vec<AtomicU64>,
}

impl Memory {
    /// The memory of `devices` devices with `limit` bytes each.
    pub(crate) fn new(devices: u32, limit: u64, bounds: Bounds, sanitizer: Option<Sanitizer>) -> Self {
        Memory {
            map: MemoryMap::default(),
            details: Mutex::default(),
            used: (0..devices).map(|_| AtomicU64::new(0)).collect(),
            limit,
            bounds,
            sanitizer,
            peers: (0..devices).map(|device| AtomicU64::new(1 << device)).collect(),
        }
    }

    fn details(&self) -> MutexGuard<'_, BTreeMap<u64, Detail>> {
        self.details.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes of a device that are in use.
    pub(crate) fn used(&self, device: u32) -> u64 {
        self.used.get(device as usize).map_or(0, |used| used.load(Ordering::Relaxed))
    }

    /// Bytes that a device has.
    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    /// The bits of the devices that may access an allocation.
    fn mask(&self, sort: Sort, device: u32) -> u64 {
        match sort {
            Sort::Device | Sort::Variable => {
                self.peers.get(device as usize).map_or(0, |peers| peers.load(Ordering::Relaxed))
            }
            Sort::Managed | Sort::Pinned | Sort::Registered => u64::MAX,
        }
    }

    /// Lets `other` access the memory of `device`, or not.
    pub(crate) fn set_peer(&self, device: u32, other: u32, is_allowed: bool) {
        let Some(peers) = self.peers.get(device as usize) else { return };
        let bit = 1 << other;
        let _ = peers.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |mask| {
            Some(if is_allowed { mask | bit } else { mask & !bit })
        });
        let details = self.details();
        for (start, detail) in details.iter() {
            let is_its = detail.device == device && matches!(detail.sort, Sort::Device | Sort::Variable);
            if is_its && let Some(allocation) = self.map.find(*start) {
                let mask = self.mask(detail.sort, device);
                allocation.readers.store(mask, Ordering::Relaxed);
                allocation.writers.store(mask, Ordering::Relaxed);
            }
        }
    }

    /// Allocates memory, which is zero.
    ///
    /// # Errors
    /// INVALID_VALUE for nothing, OUT_OF_MEMORY if the device or the host has not as much.
    pub(crate) fn allocate(&self, detail: Detail) -> Outcome<u64> {
        if detail.size == 0 {
            return Err(CuResult::ERROR_INVALID_VALUE);
        }
        let bytes = detail.size.checked_next_multiple_of(GRANULE).ok_or(CuResult::ERROR_OUT_OF_MEMORY)?;
        let length = usize::try_from(bytes).map_err(|_| CuResult::ERROR_OUT_OF_MEMORY)?;
        self.charge(&detail, bytes)?;
        let inserted = PageMapping::reserved(length, "device memory")
            .map_err(|_| CuResult::ERROR_OUT_OF_MEMORY)
            .and_then(|pages| self.insert(pages, &detail));
        if inserted.is_err() {
            self.discharge(&detail, bytes);
        }
        inserted
    }

    fn insert(&self, pages: PageMapping, detail: &Detail) -> Outcome<u64> {
        let start = pages.base().as_ptr().expose_provenance() as u64;
        let kind = Kind::Pool(detail.pool);
        let mask = self.mask(detail.sort, detail.device);
        // A page has whole granules of either kind.
        let length = match self.bounds {
            Bounds::Granule => detail.size.next_multiple_of(TEXTURE_ALIGNMENT),
            Bounds::Exact | Bounds::Vector => detail.size,
        };
        let mut allocation = Allocation::new(start, length, kind, detail.device, mask, Backing::of(Arc::new(pages)));
        if self.bounds == Bounds::Vector {
            allocation.padding = length.next_multiple_of(WIDEST) - length;
        }
        let padding = allocation.padding;
        self.poison(&allocation, detail);
        // The details come first: a thread that finds the allocation finds them.
        self.details().insert(start, *detail);
        match self.map.insert(allocation) {
            Ok(_) => {
                self.tell_of(start, (length, padding), detail);
                Ok(start)
            }
            Err(status) => {
                self.details().remove(&start);
                Err(status)
            }
        }
    }

    /// Whether the sanitizer looks for unwritten bytes of an allocation.
    fn is_poisoned(&self, sort: Sort) -> bool {
        let is_new = matches!(sort, Sort::Device | Sort::Managed | Sort::Pinned);
        is_new && self.sanitizer.as_ref().is_some_and(|sanitizer| sanitizer.checks().init)
    }

    fn poison(&self, allocation: &Allocation, detail: &Detail) {
        if self.is_poisoned(detail.sort) {
            allocation.fill(poison);
        }
    }

    /// Tells the sanitizer of an allocation.
    fn tell_of(&self, start: u64, (length, padding): (u64, u64), detail: &Detail) {
        let Some(sanitizer) = &self.sanitizer else { return };
        let what = match detail.sort {
            Sort::Device => "device memory",
            Sort::Managed => "managed memory",
            Sort::Pinned => "pinned memory",
            Sort::Registered => "registered memory",
            Sort::Variable => "a variable",
        };
        let (poisoned, what) = (self.is_poisoned(detail.sort), what.to_string());
        let reserved = if detail.sort == Sort::Registered { length } else { length.next_multiple_of(GRANULE) };
        sanitizer.allocated(BlockInfo { start, length, padding, reserved, poisoned, what });
    }

    fn charge(&self, detail: &Detail, bytes: u64) -> Outcome {
        // Managed memory moves between the devices and the host.
        if !matches!(detail.sort, Sort::Device | Sort::Variable) {
            return Ok(());
        }
        let used = self.used.get(detail.device as usize).ok_or(CuResult::ERROR_INVALID_DEVICE)?;
        let more = |used: u64| used.checked_add(bytes).filter(|used| *used <= self.limit);
        let charged = used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        charged.map(|_| ()).map_err(|_| CuResult::ERROR_OUT_OF_MEMORY)
    }

    fn discharge(&self, detail: &Detail, bytes: u64) {
        if matches!(detail.sort, Sort::Device | Sort::Variable)
            && let Some(used) = self.used.get(detail.device as usize)
        {
            used.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    /// Pins memory of the program.
    ///
    /// # Errors
    /// HOST_MEMORY_ALREADY_REGISTERED if some of it is in an allocation.
    pub(crate) fn register(&self, start: u64, detail: Detail) -> Outcome {
        let allocation = Allocation::new(start, detail.size, Kind::Locked, detail.device, u64::MAX, Backing::PROGRAM);
        let mut details = self.details();
        self.map.insert(allocation).map_err(|_| CuResult::ERROR_HOST_MEMORY_ALREADY_REGISTERED)?;
        details.insert(start, detail);
        self.tell_of(start, (detail.size, 0), &detail);
        Ok(())
    }

    /// The start and the details of the allocation that an address is in.
    pub(crate) fn find(&self, address: u64) -> Option<(u64, Detail)> {
        let details = self.details();
        let (start, detail) = details.range(..=address).next_back()?;
        (address - start < detail.size.max(1)).then_some((*start, *detail))
    }

    /// The allocation that has all of the bytes.
    pub(crate) fn range(&self, address: u64, length: u64) -> Option<Arc<Allocation>> {
        self.map.range(address, length)
    }

    /// Claims the allocation that starts at an address for a free in the order of a stream.
    ///
    /// # Errors
    /// INVALID_VALUE if there is none of the kinds that `is_wanted` chooses, or if it has been freed.
    pub(crate) fn claim(&self, start: u64, is_wanted: impl Fn(Sort) -> bool) -> Outcome<Detail> {
        let mut details = self.details();
        let found = details.get_mut(&start).filter(|detail| is_wanted(detail.sort) && !detail.is_ending);
        let detail = found.ok_or(CuResult::ERROR_INVALID_VALUE)?;
        detail.is_ending = true;
        Ok(*detail)
    }

    /// Frees an allocation, for a function with this name. Kernels that run keep its pages.
    pub(crate) fn free(&self, start: u64, by: &str) {
        self.free_and_tell(start, |sanitizer, allocation| sanitizer.freed(start, by.to_string(), allocation));
    }

    /// As [`Memory::free`]; `tell` tells the sanitizer. It hears of it first: an access that finds no memory any more
    /// finds there why.
    pub(crate) fn free_and_tell(&self, start: u64, tell: impl FnOnce(&Sanitizer, Arc<Allocation>)) {
        let mut details = self.details();
        let Some(detail) = details.remove(&start) else { return };
        if let (Some(sanitizer), Some(allocation)) = (&self.sanitizer, self.map.find(start)) {
            tell(sanitizer, allocation);
        }
        self.map.remove(start, |_| true);
        self.discharge(&detail, detail.size.next_multiple_of(GRANULE));
    }

    /// Frees all that a context has allocated.
    pub(crate) fn free_all(&self, context: u64) {
        let own: Vec<u64> =
            self.details().iter().filter(|(_, detail)| detail.context == context).map(|(start, _)| *start).collect();
        own.into_iter().for_each(|start| self.free(start, "the end of its context"));
    }

    /// Bytes of a pool that are in use.
    pub(crate) fn used_of_pool(&self, pool: u64) -> u64 {
        self.details().values().filter(|detail| detail.pool == pool).map(|detail| detail.size).sum()
    }
}
