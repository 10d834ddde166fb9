//! Fork-join parallelism with volunteers: one thread leads through parallel regions, and workers help. Executors keep
//! one for each leader.
//!
//! A leader opens one region after the other: a number of tiles that any thread may run. It runs tiles itself and
//! closes the region when none is left and no helper is inside. Helpers enter and leave at any time: without helpers
//! the leader runs all tiles, and with them the region ends with the last tile. Pools such as `rayon` run work on
//! threads of their own and wait for all of it; here the leader is any thread of the host, and waits only for tiles
//! that a helper has begun.

use std::cell::UnsafeCell;
use std::fmt;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::PoisonError;
use std::time::Duration;

use super::tile_range::TileRange;
use crate::hal::host_kernels::WorkgroupMemory;
use crate::rules::{Rule, keeps};
use crate::status::{Result, Status};
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Mutex, Thread, current, now, park, pauses, spin_loop};

/// The work of a region, in tiles.
pub(crate) trait TiledWork: Sync {
    /// Runs one tile.
    fn run(&self, tile: u32, workgroup_memory: &mut WorkgroupMemory) -> Result<()>;

    /// The first tile after the first `part` of `parts` equal parts of the work, which has `tiles` tiles.
    fn cut(&self, tiles: u32, part: u32, parts: u32) -> u32 {
        even_cut(tiles, part, parts)
    }
}

/// [`TiledWork::cut`] of tiles that take the same time.
pub(crate) fn even_cut(tiles: u32, part: u32, parts: u32) -> u32 {
    // At most the number of tiles, if the part is one of the parts.
    (u64::from(tiles) * u64::from(part) / u64::from(parts.max(1))) as u32
}

/// Bit of the gate: helpers may enter.
const OPEN: u64 = 1 << 63;
/// The increment of the gate for each helper inside.
const HELPER: u64 = 1;
/// Bits of the gate: the number of helpers inside.
const INSIDE: u64 = (1 << 32) - 1;
/// The increment of the gate for each region. The count wraps below [`OPEN`].
const REGION: u64 = 1 << 32;

/// How long a leader spins for the last helper before it parks.
const LEADER_SPIN: Duration = Duration::from_micros(100);
/// Spin iterations between two reads of the clock. The condition is checked in each.
const PAUSES: u32 = 64;

/// Index of the leader's seat.
const LEADER: usize = 0;

/// The regions of one leader, and the seats of its helpers.
pub(super) struct ForkJoin {
    /// [`OPEN`], the count of regions so far, and the number of helpers inside the region that is open or being closed.
    gate: AtomicU64,
    /// The work of the region. Written by the leader while the gate is closed and no helper is inside.
    work: UnsafeCell<Option<NonNull<dyn TiledWork>>>,
    seats: Box<[Seat]>,
    /// Whether a tile failed, so that no other has to run.
    failed: AtomicBool,
    failure: Mutex<Option<Status>>,
    leader: Mutex<Option<Thread>>,
    /// Whether the leader is a worker itself.
    led_by_worker: AtomicBool,
    /// Whether the leader is parked until the last helper leaves.
    parked: AtomicBool,
}

#[derive(Default)]
struct Seat {
    tiles: TileRange,
    /// Whether a helper has this seat and waits for regions or works on one.
    taken: AtomicBool,
}

// SAFETY: the pointer to the work is read only by threads that entered through the gate while it was open, and written
// only by the leader when no helper is inside; the work may be used by any number of threads.
unsafe impl Send for ForkJoin {}
// SAFETY: the pointer to the work is read only by threads that entered through the gate while it was open, and written
// only by the leader when no helper is inside; the work may be used by any number of threads.
unsafe impl Sync for ForkJoin {}

impl fmt::Debug for ForkJoin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "job({} helpers)", self.helpers())
    }
}

impl ForkJoin {
    /// A fork-join for up to `helpers` helpers.
    pub(super) fn new(helpers: usize) -> ForkJoin {
        ForkJoin {
            gate: AtomicU64::new(0),
            work: UnsafeCell::new(None),
            seats: (0..=helpers).map(|_| Seat::default()).collect(),
            failed: AtomicBool::new(false),
            failure: Mutex::default(),
            leader: Mutex::default(),
            led_by_worker: AtomicBool::new(false),
            parked: AtomicBool::new(false),
        }
    }

    /// Makes the calling thread the leader; there is no other.
    pub(super) fn begin(&self, is_worker: bool) {
        self.led_by_worker.store(is_worker, Ordering::Relaxed);
        *self.leader.lock().unwrap_or_else(PoisonError::into_inner) = Some(current());
    }

    /// Ends the calling thread's leadership.
    pub(super) fn end(&self) {
        *self.leader.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Whether there is a region to help with.
    pub(super) fn is_open(&self) -> bool {
        self.gate.load(Ordering::Relaxed) & OPEN != 0
    }

    /// Whether its leader is a worker.
    pub(super) fn is_led_by_worker(&self) -> bool {
        self.led_by_worker.load(Ordering::Relaxed)
    }

    /// Number of taken seats.
    pub(super) fn helpers(&self) -> usize {
        self.seats.iter().skip(1).filter(|seat| seat.taken.load(Ordering::Relaxed)).count()
    }

    /// Runs `tiles` tiles together with helpers, and returns when all have completed. The first failure is the outcome;
    /// tiles that were not begun by then are not run. Only the leader calls this. `open` is called once helpers may
    /// enter.
    pub(super) fn share(&self, tiles: u32, work: &dyn TiledWork, open: impl FnOnce()) -> Result<()> {
        self.distribute(tiles, work);
        self.failed.store(false, Ordering::Relaxed);
        // SAFETY: the lifetime is erased, but only threads that entered through the gate follow the pointer, and before
        // this returns or unwinds `region` closes the gate and waits until all of them have left.
        let work: NonNull<dyn TiledWork> = unsafe {
            std::mem::transmute::<NonNull<dyn TiledWork + '_>, NonNull<dyn TiledWork + 'static>>(work.into())
        };
        // SAFETY: the gate is closed and no helper is inside, since that is how the last region ended.
        unsafe { *self.work.get() = Some(work) };
        let count = self.gate.load(Ordering::Relaxed);
        self.gate.store((count.wrapping_add(REGION) & !INSIDE) | OPEN, Ordering::Release);
        let region = OpenRegion(self);
        open();
        self.run(LEADER);
        drop(region);
        // Only threads inside the region set the failure, and all of them have left.
        match self.failure.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(failure) => Err(failure),
            None => Ok(()),
        }
    }

    /// Distributes the work evenly over the taken seats and the leader's, which gets the last part.
    fn distribute(&self, tiles: u32, work: &dyn TiledWork) {
        let shares = self.helpers() as u32 + 1;
        let (mut share, mut start) = (0, 0);
        for seat in &self.seats[LEADER + 1..] {
            // A helper may have taken or left a seat since they were counted.
            let end = if share + 1 < shares && seat.taken.load(Ordering::Relaxed) {
                share += 1;
                work.cut(tiles, share, shares).clamp(start, tiles)
            } else {
                start
            };
            seat.tiles.set(start..end);
            start = end;
        }
        self.seats[LEADER].tiles.set(start..tiles);
    }

    /// Runs tiles from a seat until none is left to take or steal.
    fn run(&self, seat: usize) {
        // SAFETY: the caller is inside an open region, or is its leader.
        let Some(work) = (unsafe { *self.work.get() }) else { return };
        // SAFETY: the work lives until all threads have left the region.
        let work = unsafe { work.as_ref() };
        let tiles = || {
            WorkgroupMemory::with(|workgroup_memory| {
                while !self.failed.load(Ordering::Relaxed)
                    && let Some(tile) = self.next(seat)
                {
                    if let Err(status) = work.run(tile, workgroup_memory) {
                        self.fail(status);
                    }
                }
            });
        };
        // A panic must not end the thread; it fails the region.
        if !keeps(Rule::PanicsOfTilesAreCaught) {
            return tiles();
        }
        if catch_unwind(AssertUnwindSafe(tiles)).is_err() {
            self.fail(Status::internal("a workgroup panicked"));
        }
    }

    #[cold]
    fn fail(&self, status: Status) {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.get_or_insert(status);
        self.failed.store(true, Ordering::Release);
    }

    /// The next tile of a seat, stolen if it has none of its own.
    fn next(&self, seat: usize) -> Option<u32> {
        let own = &self.seats[seat].tiles;
        if let Some(tile) = own.take() {
            return Some(tile);
        }
        loop {
            let others = self.seats.iter().map(|other| (other.tiles.len(), other));
            let (left, victim) = others.max_by_key(|(left, _)| *left)?;
            if left == 0 {
                return None;
            }
            if let Some(Range { start, end }) = victim.tiles.steal() {
                own.set(start + 1..end);
                return Some(start);
            }
        }
    }

    /// Helps from a seat of the caller's until there was no region for `patience`, or `unwanted` is true. Helpers stay
    /// from one leader to the next.
    pub(super) fn help(&self, seat: usize, patience: Duration, unwanted: impl Fn() -> bool) {
        self.seats[seat].taken.store(true, Ordering::Relaxed);
        self.help_seated(seat, patience, unwanted);
        self.seats[seat].taken.store(false, Ordering::Relaxed);
    }

    fn help_seated(&self, seat: usize, patience: Duration, unwanted: impl Fn() -> bool) {
        let mut seen = None;
        let mut idle_since = None;
        loop {
            let gate = self.gate.load(Ordering::Acquire);
            let region = gate & !INSIDE;
            if gate & OPEN != 0 && seen != Some(region) {
                if self.gate.compare_exchange(gate, gate + HELPER, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                    let _visit = HelperEntry(self);
                    self.run(seat);
                    seen = Some(region);
                    idle_since = None;
                }
                continue;
            }
            let now = now();
            if unwanted() || now.duration_since(*idle_since.get_or_insert(now)) > patience {
                return;
            }
            spin_while(|| self.gate.load(Ordering::Relaxed) & !INSIDE == region);
        }
    }

    /// Waits until no helper is inside the closed region.
    fn wait_for_helpers(&self) {
        let is_empty = || self.gate.load(Ordering::SeqCst) & INSIDE == 0;
        let mut since = None;
        while !is_empty() {
            let now = now();
            if now.duration_since(*since.get_or_insert(now)) < LEADER_SPIN {
                spin_while(|| !is_empty());
                continue;
            }
            // Either the last helper sees the flag as it leaves, or this sees that it has left.
            self.parked.store(true, Ordering::SeqCst);
            if !is_empty() || !keeps(Rule::LeadersLookBeforeTheyPark) {
                park();
            }
            self.parked.store(false, Ordering::SeqCst);
        }
    }
}

/// Spins until `nothing` is false, or it is time to read the clock.
fn spin_while(nothing: impl Fn() -> bool) {
    for _ in 0..pauses(PAUSES) {
        if !nothing() {
            return;
        }
        spin_loop();
    }
}

/// An open region. Dropping it, also by unwinding, closes the gate and waits until the helpers have left.
struct OpenRegion<'a>(&'a ForkJoin);

impl Drop for OpenRegion<'_> {
    fn drop(&mut self) {
        self.0.gate.fetch_and(!OPEN, Ordering::SeqCst);
        if keeps(Rule::LeadersWait) {
            self.0.wait_for_helpers();
        }
    }
}

/// A helper inside a region.
struct HelperEntry<'a>(&'a ForkJoin);

impl Drop for HelperEntry<'_> {
    fn drop(&mut self) {
        self.0.gate.fetch_sub(HELPER, Ordering::SeqCst);
        if self.0.parked.load(Ordering::SeqCst)
            && keeps(Rule::HelpersUnpark)
            && let Some(leader) = &*self.0.leader.lock().unwrap_or_else(PoisonError::into_inner)
        {
            leader.unpark();
        }
    }
}
