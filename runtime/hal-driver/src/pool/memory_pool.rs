//! Pools over a slab provider ([`MemoryPool`]): budgets, statistics and reservations, whatever strategy divides the
//! slabs.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::fixed_block::FixedBlockStrategy;
use super::frontier::dominates;
use super::strategy::{GRAIN, Request, Strategy, TakenRange};
use super::tlsf::Tlsf;
use super::whole_slab::WholeSlabs;
use crate::hal::{
    Buffer, BufferParams, FrontierEntry, HeapBuffer, Pool, PoolAcquireFlags, PoolAcquireResult, PoolAcquisition,
    PoolCapabilities, PoolMaterializeFlags, PoolReservation, PoolReserveFlags, PoolStats, Slab, SlabProvider,
};
use crate::status::{Result, Status, StatusCode};

/// Largest alignment of reservations, which is the alignment of slabs.
pub const MAX_ALIGNMENT: u64 = 4096;

/// Most bytes of a slab that a pool asks for by itself.
const MAX_SLAB_SIZE: u64 = 1 << 46;

/// Whether a point is in the past, so that every operation comes after it.
pub type Reached = dyn Fn(FrontierEntry) -> bool + Send + Sync;

/// Options of pools of all strategies.
#[derive(Clone, Default)]
pub struct PoolOptions {
    /// Most bytes that may be reserved at a time; 0 for no limit.
    pub budget: u64,
    /// Which points are reached; without it only frontiers are compared.
    pub reached: Option<Arc<Reached>>,
}

/// A pool of the memory of a slab provider.
///
/// A released range is reserved again for requesters that come after its death frontier, and for others only if they
/// allow that they have to wait. Slabs are acquired as they are needed and released when the pool is trimmed or
/// dropped, each once there is no buffer in it.
pub struct MemoryPool(Arc<SharedPool>);

/// The pool as it is shared with its reservations.
struct SharedPool {
    provider: Arc<dyn SlabProvider>,
    options: PoolOptions,
    kind: &'static str,
    max_size: u64,
    state: Mutex<PoolState>,
}

struct PoolState {
    strategy: Box<dyn Strategy>,
    slabs: Vec<Option<Arc<SharedSlab>>>,
    reservations: ReservationTable,
    stats: PoolStats,
    subscribers: Vec<Callback>,
}

type Callback = Box<dyn FnOnce(Result<()>) + Send>;

/// A slab, held by the pool and by the buffers in it.
struct SharedSlab {
    provider: Arc<dyn SlabProvider>,
    slab: Slab,
}

// SAFETY: the address of a slab is only handed to its provider.
unsafe impl Send for SharedSlab {}
// SAFETY: the address of a slab is only handed to its provider.
unsafe impl Sync for SharedSlab {}

impl Drop for SharedSlab {
    fn drop(&mut self) {
        // SAFETY: the provider handed it out once and this is its only holder; buffers in it hold this.
        unsafe { self.provider.release_slab(&self.slab) };
    }
}

/// The reservations of a pool. A handle is the index of a slot and the number of its uses, so that a released handle is
/// recognised.
#[derive(Default)]
struct ReservationTable {
    slots: Vec<ReservationSlot>,
    free_slots: Vec<u32>,
}

#[derive(Default)]
struct ReservationSlot {
    uses: u32,
    reservation: Option<(PoolReservation, u64)>,
}

impl ReservationTable {
    fn insert(&mut self, taken: &TakenRange) -> PoolReservation {
        let index = self.free_slots.pop().unwrap_or_else(|| {
            self.slots.push(ReservationSlot::default());
            (self.slots.len() - 1) as u32
        });
        let slot = &mut self.slots[index as usize];
        slot.uses = slot.uses.wrapping_add(1);
        let block_handle = u64::from(slot.uses) << 32 | u64::from(index);
        let TakenRange { slab, offset, length, handle, .. } = *taken;
        let reservation = PoolReservation { offset, length, block_handle, slab_index: slab };
        slot.reservation = Some((reservation, handle));
        reservation
    }

    fn contains(&self, reservation: PoolReservation) -> bool {
        let slot = self.slots.get(reservation.block_handle as u32 as usize);
        slot.and_then(|slot| slot.reservation).is_some_and(|(known, _)| known == reservation)
    }

    /// Removes a reservation and returns the strategy's handle of it; none if it is not reserved.
    fn remove(&mut self, reservation: PoolReservation) -> Option<u64> {
        if !self.contains(reservation) {
            return None;
        }
        let index = reservation.block_handle as u32;
        self.free_slots.push(index);
        self.slots[index as usize].reservation.take().map(|(_, handle)| handle)
    }
}

impl MemoryPool {
    /// A pool of `block_count` blocks of `block_size` bytes, in one slab.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if that is zero or too large.
    pub fn fixed_block(
        provider: Arc<dyn SlabProvider>,
        block_size: u64,
        block_count: u32,
        options: PoolOptions,
    ) -> Result<MemoryPool> {
        let size = rounded(block_size).filter(|size| *size > 0 && block_count > 0);
        let size = size.filter(|size| size.checked_mul(block_count.into()).is_some_and(|all| all <= MAX_SLAB_SIZE));
        let size = size.ok_or_else(|| {
            Status::invalid_argument(format!(
                "a pool of {block_count} blocks of {block_size} bytes: expected 1 to {MAX_SLAB_SIZE} bytes"
            ))
        })?;
        Ok(MemoryPool::new(provider, Box::new(FixedBlockStrategy::new(size, block_count)), options))
    }

    /// A pool in which each reservation has a slab of its own, which goes back to the provider when it is released.
    pub fn slab(provider: Arc<dyn SlabProvider>, options: PoolOptions) -> MemoryPool {
        MemoryPool::new(provider, Box::new(WholeSlabs::default()), options)
    }

    /// A pool of ranges of any size in slabs of `slab_size` bytes, which is the largest reservation (two-level
    /// segregated fit).
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if that is zero or too large.
    pub fn tlsf(provider: Arc<dyn SlabProvider>, slab_size: u64, options: PoolOptions) -> Result<MemoryPool> {
        let size = rounded(slab_size).filter(|size| (1..=MAX_SLAB_SIZE).contains(size));
        let size = size.ok_or_else(|| {
            Status::invalid_argument(format!("slabs of {slab_size} bytes: expected 1 to {MAX_SLAB_SIZE}"))
        })?;
        Ok(MemoryPool::new(provider, Box::new(Tlsf::new(size)), options))
    }

    fn new(provider: Arc<dyn SlabProvider>, strategy: Box<dyn Strategy>, options: PoolOptions) -> MemoryPool {
        let (kind, max_size) = (strategy.name(), strategy.max_size());
        let stats = PoolStats { budget_limit: options.budget, ..PoolStats::default() };
        let state = PoolState {
            strategy,
            slabs: Vec::new(),
            reservations: ReservationTable::default(),
            stats,
            subscribers: Vec::new(),
        };
        MemoryPool(Arc::new(SharedPool { provider, options, kind, max_size, state: Mutex::new(state) }))
    }
}

/// A size rounded up to [`GRAIN`]; none if that overflows.
fn rounded(size: u64) -> Option<u64> {
    size.checked_next_multiple_of(GRAIN)
}

impl SharedPool {
    fn lock(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_reached(&self, entry: FrontierEntry) -> bool {
        self.options.reached.as_ref().is_some_and(|reached| reached(entry))
    }

    fn usable_by(&self, requester: &[FrontierEntry], death_frontier: &[FrontierEntry]) -> bool {
        dominates(requester, death_frontier, |entry| self.is_reached(entry))
    }

    fn acquire(
        &self,
        size: u64,
        alignment: u64,
        requester: &[FrontierEntry],
        flags: PoolReserveFlags,
    ) -> Result<PoolAcquisition> {
        if !alignment.is_power_of_two() || alignment > MAX_ALIGNMENT {
            let message = format!("alignment {alignment}: expected a power of two up to {MAX_ALIGNMENT}");
            return Err(Status::invalid_argument(message));
        }
        let size = rounded(size).filter(|size| (1..=self.max_size).contains(size)).ok_or_else(|| {
            Status::invalid_argument(format!(
                "a reservation of {size} bytes: expected 1 to {} of a {} pool",
                self.max_size, self.kind
            ))
        })?;
        let request = Request { size, alignment: alignment.max(GRAIN) };
        let mut state = self.lock();
        let state = &mut *state;
        if self.options.budget > 0 && state.stats.bytes_reserved.saturating_add(size) > self.options.budget {
            state.stats.over_budget_count += 1;
            return Ok(PoolAcquisition { result: PoolAcquireResult::OVER_BUDGET, ..PoolAcquisition::default() });
        }
        let misses = std::cell::Cell::new(0);
        let usable = |death_frontier: &[FrontierEntry]| {
            let usable = self.usable_by(requester, death_frontier);
            misses.set(misses.get() + u64::from(!usable));
            usable
        };
        let mut taken = state.strategy.reserve(request, &usable);
        state.stats.reuse_miss_count += misses.get();
        let growth = if taken.is_none() { state.strategy.growth(request) } else { None };
        if let Some(length) = growth
            && !flags.contains(PoolReserveFlags::DISALLOW_GROWTH)
            && self.grow(state, length)?
        {
            taken = state.strategy.reserve(request, &usable);
        }
        if taken.is_none() && flags.contains(PoolReserveFlags::ALLOW_WAIT_FRONTIER) {
            taken = state.strategy.reserve(request, &|_| true);
        }
        let Some(taken) = taken else {
            state.stats.exhausted_count += 1;
            let flags = if growth.is_some() { PoolAcquireFlags::GROWTH_REQUIRED } else { PoolAcquireFlags::empty() };
            return Ok(PoolAcquisition { result: PoolAcquireResult::EXHAUSTED, flags, ..PoolAcquisition::default() });
        };
        Ok(state.record(taken, |death_frontier| self.usable_by(requester, death_frontier)))
    }

    /// Acquires one more slab; false if the provider has none.
    fn grow(&self, state: &mut PoolState, length: u64) -> Result<bool> {
        let place = state.slabs.iter().position(Option::is_none).unwrap_or(state.slabs.len());
        let Ok(index) = u16::try_from(place) else { return Ok(false) };
        let slab = match self.provider.acquire_slab(length) {
            Ok(slab) => SharedSlab { provider: self.provider.clone(), slab },
            Err(status) if status.code() == StatusCode::ResourceExhausted => return Ok(false),
            Err(status) => return Err(status),
        };
        if slab.slab.length < length {
            let got = slab.slab.length;
            return Err(Status::internal(format!("the provider gave a slab of {got} bytes instead of {length}")));
        }
        state.stats.bytes_committed += slab.slab.length;
        state.stats.slab_count += 1;
        state.strategy.add_slab(index, length);
        if place == state.slabs.len() {
            state.slabs.push(None);
        }
        state.slabs[place] = Some(Arc::new(slab));
        Ok(true)
    }

    fn release(&self, reservation: PoolReservation, death_frontier: &[FrontierEntry]) {
        let mut removed = Vec::new();
        {
            let mut state = self.lock();
            let state = &mut *state;
            // An unknown reservation, or one that was released already, is ignored.
            let Some(handle) = state.reservations.remove(reservation) else { return };
            state.strategy.release(handle, death_frontier);
            state.stats.bytes_reserved -= reservation.length;
            if state.strategy.trims_on_release() {
                self.remove_idle_slabs(state, &mut removed);
            }
        }
        // Slabs are released, and callbacks called, without the lock.
        drop(removed);
        let subscribers = {
            let mut state = self.lock();
            // A release counts once its memory can be had again, also from the provider: who waits for one tries again
            // then.
            state.stats.release_count += 1;
            state.stats.reservation_count -= 1;
            std::mem::take(&mut state.subscribers)
        };
        for callback in subscribers {
            callback(Ok(()));
        }
    }

    fn remove_idle_slabs(&self, state: &mut PoolState, removed: &mut Vec<Arc<SharedSlab>>) {
        while let Some(index) = state.strategy.remove_idle(&|death_frontier| self.usable_by(&[], death_frontier)) {
            if let Some(slab) = state.slabs.get_mut(usize::from(index)).and_then(Option::take) {
                state.stats.bytes_committed -= slab.slab.length;
                state.stats.slab_count -= 1;
                removed.push(slab);
            }
        }
    }

    /// The slab of a reservation.
    fn slab_of(&self, reservation: PoolReservation) -> Result<Arc<SharedSlab>> {
        let state = self.lock();
        let found =
            state.reservations.contains(reservation).then(|| state.slabs.get(usize::from(reservation.slab_index)));
        found
            .flatten()
            .and_then(Clone::clone)
            .ok_or_else(|| Status::invalid_argument("the reservation is not one of this pool, or was returned"))
    }
}

impl PoolState {
    fn record(&mut self, taken: TakenRange, usable: impl Fn(&[FrontierEntry]) -> bool) -> PoolAcquisition {
        let reservation = self.reservations.insert(&taken);
        let stats = &mut self.stats;
        stats.reserve_count += 1;
        stats.reservation_count += 1;
        stats.bytes_reserved += taken.length;
        let result = if !usable(&taken.death_frontier) {
            stats.wait_count += 1;
            PoolAcquireResult::OK_NEEDS_WAIT
        } else if taken.fresh {
            stats.fresh_count += 1;
            PoolAcquireResult::OK_FRESH
        } else {
            stats.reuse_count += 1;
            PoolAcquireResult::OK
        };
        let wait = result == PoolAcquireResult::OK_NEEDS_WAIT;
        let wait_frontier = if wait { taken.death_frontier.to_vec() } else { Vec::new() };
        PoolAcquisition { result, reservation, wait_frontier, ..PoolAcquisition::default() }
    }
}

impl Drop for SharedPool {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        for callback in std::mem::take(&mut state.subscribers) {
            callback(Err(Status::new(StatusCode::Aborted, "the pool went away")));
        }
    }
}

/// A reservation that is released when its buffer is dropped.
struct OwnedReservation {
    pool: Arc<SharedPool>,
    /// Keeps the memory; dropped after the reservation is released.
    slab: Arc<SharedSlab>,
    reservation: PoolReservation,
}

impl Drop for OwnedReservation {
    fn drop(&mut self) {
        self.pool.release(self.reservation, &[]);
    }
}

/// A reservation for a buffer that the caller makes itself.
pub struct Reservation(OwnedReservation);

impl Reservation {
    /// A buffer over the reservation; none if the host does not reach its memory. The buffer, and mappings of it, keep
    /// the slab but not the reservation, which ends with `self`.
    pub fn buffer(&self, params: BufferParams, length: u64) -> Option<HeapBuffer> {
        let OwnedReservation { slab, reservation, .. } = &self.0;
        let base = slab.slab.base?;
        if length > reservation.length {
            return None;
        }
        let BufferParams { memory_type, access, usage, .. } = params;
        // SAFETY: the pool reserved that many bytes there in its slab, which the owner keeps and which are reached only
        // through raw pointers.
        Some(unsafe {
            let data = base.add(reservation.offset as usize);
            HeapBuffer::wrap(slab.clone(), data, length, memory_type, access, usage)
        })
    }
}

impl MemoryPool {
    /// Whether a reservation is memory of the host. The provider makes the buffers of other memory.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for a reservation that is not of this pool.
    pub fn is_on_host(&self, reservation: PoolReservation) -> Result<bool> {
        Ok(self.0.slab_of(reservation)?.slab.base.is_some())
    }

    /// Takes over a reservation, without a buffer object for it.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for a reservation that is not of this pool.
    pub fn reserve(&self, reservation: PoolReservation) -> Result<Reservation> {
        let slab = self.0.slab_of(reservation)?;
        Ok(Reservation(OwnedReservation { pool: self.0.clone(), slab, reservation }))
    }
}

impl Pool for MemoryPool {
    fn acquire_reservation(
        &self,
        size: u64,
        alignment: u64,
        requester_frontier: &[FrontierEntry],
        flags: PoolReserveFlags,
    ) -> Result<PoolAcquisition> {
        self.0.acquire(size, alignment, requester_frontier, flags)
    }

    fn release_reservation(&self, reservation: PoolReservation, death_frontier: &[FrontierEntry]) {
        self.0.release(reservation, death_frontier);
    }

    fn materialize_reservation(
        &self,
        params: BufferParams,
        reservation: PoolReservation,
        flags: PoolMaterializeFlags,
    ) -> Result<Arc<dyn Buffer>> {
        let slab = self.0.slab_of(reservation)?;
        let transfer = flags.contains(PoolMaterializeFlags::TRANSFER_RESERVATION_OWNERSHIP);
        let owner: Arc<dyn Any + Send + Sync> = if transfer {
            Arc::new(OwnedReservation { pool: self.0.clone(), slab: slab.clone(), reservation })
        } else {
            slab.clone()
        };
        let PoolReservation { offset, length, .. } = reservation;
        // SAFETY: the slab is of this provider, and the owner holds it.
        unsafe { self.0.provider.wrap_buffer(&slab.slab, offset, length, params, owner) }
    }

    fn capabilities(&self) -> PoolCapabilities {
        let properties = self.0.provider.properties();
        let max = self.0.max_size;
        PoolCapabilities {
            memory_type: properties.memory_type,
            supported_usage: properties.supported_usage,
            min_allocation_size: 1,
            max_allocation_size: if max == u64::MAX { 0 } else { max },
        }
    }

    fn stats(&self) -> PoolStats {
        let stats = self.0.lock().stats;
        PoolStats { bytes_free: stats.bytes_committed.saturating_sub(stats.bytes_reserved), ..stats }
    }

    fn trim(&self) -> Result<()> {
        let mut removed = Vec::new();
        self.0.remove_idle_slabs(&mut self.0.lock(), &mut removed);
        drop(removed);
        Ok(())
    }

    fn notify(&self, callback: Callback) {
        {
            let mut state = self.0.lock();
            // If nothing is reserved nothing will be released, and the caller may as well try again.
            if state.stats.reservation_count > 0 {
                state.subscribers.push(callback);
                return;
            }
        }
        callback(Ok(()));
    }
}

impl fmt::Debug for MemoryPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PoolStats { bytes_reserved, bytes_committed, .. } = self.0.lock().stats;
        write!(f, "{} pool({bytes_reserved} of {bytes_committed} bytes reserved)", self.0.kind)
    }
}
