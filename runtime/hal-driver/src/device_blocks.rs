//! Blocks of device memory ([`DeviceBlocks`]): allocations of a library with a cache of free ones, since each is a
//! system call that maps memory on every GPU. The allocator of a device has one.
//!
//! A block is in use as long as a buffer, a mapping or a submission that has not completed holds its `BlockLease`.
//! Then it is cached, and a request of about its size gets it. **Bounds**: cached blocks and those in use have at most
//! as many bytes as were ever in use at once, an eighth of that, and `SLACK`; the oldest are freed first. So the
//! cache hardly raises the memory that a process takes from a GPU.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::hal::block_cache::{BlockStats, Bounds, CachedBlock, FreeBlocks};
use crate::limits::Charge;
use crate::pool::Notice;
use crate::status::{Result, StatusCode};

/// By how many bytes the memory held may exceed the most that was ever in use, besides an eighth of that.
const SLACK: u64 = 4 << 20;

/// A cached block serves requests of at least half its size less this.
const SMALL: u64 = 64 << 10;

/// Blocks that are cached at most.
const MAX_CACHED: usize = 1024;

/// Memory of a device.
pub trait BlockMemory: Clone + Send + Sync + 'static {
    /// Bytes.
    fn length(&self) -> u64;

    /// The same memory, which `owner` keeps allocated.
    fn owned_by(self, owner: Arc<dyn Any + Send + Sync>) -> Self;
}

/// The origin of blocks, such as a device and a kind of its memory: a block serves requests for its own origin alone.
pub trait Origin: Copy + PartialEq + Send + Sync + 'static {}

impl<O: Copy + PartialEq + Send + Sync + 'static> Origin for O {}

/// A free block.
struct Cached<O, M> {
    origin: O,
    memory: M,
}

impl<O: Origin, M: BlockMemory> CachedBlock for Cached<O, M> {
    fn size(&self) -> u64 {
        self.memory.length()
    }
}

/// Called once when a block was released.
type Waiter = Box<dyn FnOnce() + Send>;

struct State<O, M> {
    free: FreeBlocks<Cached<O, M>>,
    /// Blocks in use, and those that are being freed.
    leases: u64,
    /// Requests that have neither a block nor an error yet.
    attempts: u64,
    /// Blocks that were released so far, and whose memory is free.
    releases: u64,
    waiters: Vec<Waiter>,
}

/// A cache of blocks.
pub struct DeviceBlocks<O, M> {
    state: Mutex<State<O, M>>,
}

impl<O: Origin, M: BlockMemory> Default for DeviceBlocks<O, M> {
    fn default() -> Self {
        let free = FreeBlocks::new(Bounds { slack: SLACK, bytes: u64::MAX, blocks: MAX_CACHED });
        DeviceBlocks { state: Mutex::new(State { free, leases: 0, attempts: 0, releases: 0, waiters: Vec::new() }) }
    }
}

impl<O: Origin, M: BlockMemory> fmt::Debug for DeviceBlocks<O, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BlockStats { in_use, cached_bytes, .. } = self.lock().free.stats();
        write!(f, "block cache({in_use} bytes in use, {cached_bytes} cached)")
    }
}

/// A block in use.
struct BlockLease<O: Origin, M: BlockMemory> {
    cache: Arc<DeviceBlocks<O, M>>,
    origin: O,
    /// None only while this is dropped.
    memory: Option<M>,
    /// Whether it is cached afterwards.
    recycles: bool,
    _charge: Charge,
}

impl<O: Origin, M: BlockMemory> fmt::Debug for BlockLease<O, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "block({} bytes)", self.memory.as_ref().map_or(0, M::length))
    }
}

impl<O: Origin, M: BlockMemory> Drop for BlockLease<O, M> {
    fn drop(&mut self) {
        if let Some(memory) = self.memory.take() {
            self.cache.release(self.origin, memory, self.recycles);
        }
    }
}

impl<O, M> State<O, M> {
    /// Whether no block is in use or about to be.
    fn is_idle(&self) -> bool {
        self.leases == 0 && self.attempts == 0
    }
}

impl<O: Origin, M: BlockMemory> DeviceBlocks<O, M> {
    fn lock(&self) -> MutexGuard<'_, State<O, M>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A block of at least `length` bytes with any contents: a cached one, or one that `allocate` makes. The memory
    /// that it returns keeps the block in use, until its owner is dropped. Blocks that do not recycle come from no
    /// cache and go to none.
    ///
    /// # Errors
    /// Those of `allocate`.
    pub fn acquire(
        self: &Arc<Self>,
        origin: O,
        length: u64,
        (recycles, charge): (bool, Charge),
        allocate: impl Fn() -> Result<M>,
    ) -> Result<M> {
        let taken = {
            let mut state = self.lock();
            state.attempts += 1;
            let fits =
                |cached: &Cached<O, M>| cached.origin == origin && cached.size() / 2 <= length.saturating_add(SMALL);
            if recycles { state.free.take(length, fits) } else { None }
        };
        let is_hit = taken.is_some();
        let acquired = taken.map_or_else(|| self.allocate(allocate), |cached| Ok(cached.memory));
        let (outcome, evicted, waiters) = {
            let mut state = self.lock();
            state.attempts -= 1;
            match acquired {
                Ok(memory) => {
                    state.free.handed_out(memory.length(), is_hit);
                    state.leases += 1;
                    (Ok(memory), state.free.evict_for(0), Vec::new())
                }
                // Nothing will be released that waiters could wait for.
                Err(status) if state.is_idle() => (Err(status), Vec::new(), std::mem::take(&mut state.waiters)),
                Err(status) => (Err(status), Vec::new(), Vec::new()),
            }
        };
        waiters.into_iter().for_each(|waiter| waiter());
        let memory = outcome?;
        drop(evicted);
        let lent = memory.clone();
        let lease = BlockLease { cache: self.clone(), origin, memory: Some(memory), recycles, _charge: charge };
        Ok(lent.owned_by(Arc::new(lease)))
    }

    fn allocate(&self, allocate: impl Fn() -> Result<M>) -> Result<M> {
        match allocate() {
            // The memory of cached blocks may suffice.
            Err(status) if status.code() == StatusCode::ResourceExhausted && self.trim() => allocate(),
            allocated => allocated,
        }
    }

    fn release(&self, origin: O, memory: M, recycles: bool) {
        let unused = {
            let mut state = self.lock();
            state.free.came_back(memory.length());
            let freed = if recycles {
                state.free.put(Cached { origin, memory });
                None
            } else {
                Some(memory)
            };
            (state.free.evict_for(0), freed)
        };
        // Memory is freed, and waiters called, without the lock.
        drop(unused);
        let waiters = {
            let mut state = self.lock();
            // A release counts once its memory is free: who waits for one tries again then.
            state.leases -= 1;
            state.releases += 1;
            std::mem::take(&mut state.waiters)
        };
        waiters.into_iter().for_each(|waiter| waiter());
    }

    /// Frees all cached blocks; false if there were none.
    pub fn trim(&self) -> bool {
        let cached = self.lock().free.clear();
        !cached.is_empty()
    }

    /// How many blocks were released so far.
    pub fn releases(&self) -> u64 {
        self.lock().releases
    }

    /// Calls `waiter` when a block is released, on whatever thread that is, if none was since there were so many
    /// `releases`.
    pub fn notify(&self, releases: u64, waiter: impl FnOnce() + Send + 'static) -> Notice {
        let mut state = self.lock();
        if state.releases != releases {
            return Notice::Released;
        }
        if state.is_idle() {
            return Notice::Never;
        }
        state.waiters.push(Box::new(waiter));
        Notice::Later
    }

    /// Requests that cached blocks served.
    #[cfg(test)]
    fn hits(&self) -> u64 {
        self.lock().free.stats().hits
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::status::Status;

    /// The origin of blocks: a device, and a kind of its memory.
    type Origin = (usize, char);

    const LOCAL: Origin = (0, 'l');

    #[derive(Clone)]
    struct DeviceMemory {
        address: u64,
        length: u64,
        owner: Arc<dyn Any + Send + Sync>,
    }

    impl BlockMemory for DeviceMemory {
        fn length(&self) -> u64 {
            self.length
        }

        fn owned_by(self, owner: Arc<dyn Any + Send + Sync>) -> Self {
            DeviceMemory { owner, ..self }
        }
    }

    /// Memory that no test accesses, at addresses that are all different.
    struct Source {
        next: AtomicU64,
        left: Arc<AtomicU64>,
    }

    /// Gives its bytes back to the source.
    struct Owner(u64, Arc<AtomicU64>);

    impl Drop for Owner {
        fn drop(&mut self) {
            self.1.fetch_add(self.0, Ordering::Relaxed);
        }
    }

    impl Source {
        fn new(bytes: u64) -> Source {
            Source { next: AtomicU64::new(0), left: Arc::new(AtomicU64::new(bytes)) }
        }

        fn allocate(&self, length: u64) -> Result<DeviceMemory> {
            let fewer = |left: u64| left.checked_sub(length);
            let taken = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fewer);
            taken.map_err(|_| Status::resource_exhausted("nothing is left"))?;
            Ok(DeviceMemory {
                address: self.next.fetch_add(1 << 32, Ordering::Relaxed),
                length,
                owner: Arc::new(Owner(length, self.left.clone())),
            })
        }

        fn acquire(
            &self,
            cache: &Arc<DeviceBlocks<Origin, DeviceMemory>>,
            origin: Origin,
            length: u64,
        ) -> Result<DeviceMemory> {
            cache.acquire(origin, length, (true, Charge::default()), || self.allocate(length))
        }
    }

    #[test]
    fn a_block_is_used_again_once_nobody_holds_it() {
        let (cache, source) = (Arc::new(DeviceBlocks::default()), Source::new(u64::MAX));
        let first = source.acquire(&cache, LOCAL, 1 << 20).expect("there is memory");
        let (address, held) = (first.address, first.owner.clone());
        drop(first);
        let other = source.acquire(&cache, LOCAL, 1 << 20).expect("there is memory");
        assert_ne!(other.address, address, "a submission holds the first one");
        drop(held);
        let again = source.acquire(&cache, LOCAL, (1 << 20) - 4096).expect("there is memory");
        assert_eq!((again.address, cache.hits()), (address, 1));
        drop(again);
        for (origin, length) in [((1, 'l'), 1 << 20), ((0, 'h'), 1 << 20), (LOCAL, 4096)] {
            let fresh = source.acquire(&cache, origin, length).expect("there is memory");
            assert_ne!(fresh.address, address, "{origin:?}, {length}");
        }
    }

    #[test]
    fn what_is_held_stays_near_what_was_ever_in_use() {
        let (cache, source) = (Arc::new(DeviceBlocks::default()), Source::new(u64::MAX));
        for round in 0..64u64 {
            // Sizes that no other block serves.
            drop(source.acquire(&cache, (round as usize, 'l'), 8 << 20).expect("there is memory"));
            let held = u64::MAX - source.left.load(Ordering::Relaxed);
            assert!(held <= (8 << 20) + (1 << 20) + SLACK, "{held} bytes in round {round}");
        }
        assert!(cache.trim() && !cache.trim());
        assert_eq!(source.left.load(Ordering::Relaxed), u64::MAX);
    }

    #[test]
    fn cached_blocks_make_room_for_others() {
        let (cache, source) = (Arc::new(DeviceBlocks::default()), Source::new(10 << 20));
        drop(source.acquire(&cache, LOCAL, 8 << 20).expect("there is memory"));
        let large = source.acquire(&cache, (1, 'l'), 9 << 20).expect("once the cached one is freed");
        let none = source.acquire(&cache, LOCAL, 8 << 20).map(drop).expect_err("it is in use");
        assert_eq!(none.code(), StatusCode::ResourceExhausted);
        let called = Arc::new(AtomicU64::new(0));
        let same = called.clone();
        let releases = cache.releases();
        assert_eq!(cache.notify(releases, move || same.store(1, Ordering::Relaxed)), Notice::Later);
        drop(large);
        assert_eq!(called.load(Ordering::Relaxed), 1);
        // A caller that failed to allocate before that would wait for something that has happened.
        assert_eq!(cache.notify(releases, || unreachable!("it was released before")), Notice::Released);
        assert_eq!(cache.notify(cache.releases(), || unreachable!("nothing is in use")), Notice::Never);
    }

    #[test]
    fn blocks_that_do_not_recycle_are_freed() {
        let (cache, source) = (Arc::new(DeviceBlocks::default()), Source::new(1 << 20));
        for _ in 0..3 {
            let charge = Charge::default();
            drop(cache.acquire(LOCAL, 1 << 20, (false, charge), || source.allocate(1 << 20)).expect("it was freed"));
        }
        assert!(!cache.trim());
    }
}
