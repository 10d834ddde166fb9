//! Tests of pools: random reservations against a model, order, budgets, and hostile requests.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::hal::{
    Buffer, BufferParams, FrontierEntry, MappingMode, MemoryAccess, Pool, PoolAcquireFlags, PoolAcquireResult,
    PoolAcquisition, PoolCapabilities, PoolMaterializeFlags, PoolReservation, PoolReserveFlags, PoolStats,
    SlabProvider, SlabTrimFlags, WHOLE_BUFFER,
};
use crate::status::{Result, StatusCode};

const NONE: PoolReserveFlags = PoolReserveFlags::empty();
const TRANSFER: PoolMaterializeFlags = PoolMaterializeFlags::TRANSFER_RESERVATION_OWNERSHIP;

fn provider() -> Arc<HostSlabProvider> {
    Arc::default()
}

/// One pool of each kind.
fn pools(options: &PoolOptions) -> Vec<MemoryPool> {
    vec![
        MemoryPool::fixed_block(provider(), 4096, 40, options.clone()).expect("a small pool"),
        MemoryPool::slab(provider(), options.clone()),
        MemoryPool::tlsf(provider(), 1 << 16, options.clone()).expect("a small pool"),
    ]
}

fn at(axis: u64, epoch: u64) -> FrontierEntry {
    FrontierEntry { axis, epoch }
}

/// The same numbers on every machine.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

fn check_stats(stats: PoolStats, live: &BTreeMap<u64, PoolReservation>, reserved: u64, released: u64) {
    assert_eq!(stats.reservation_count as usize, live.len());
    assert_eq!(stats.bytes_reserved, live.values().map(|reservation| reservation.length).sum::<u64>());
    assert_eq!((stats.reserve_count, stats.release_count), (reserved, released));
    assert_eq!(stats.bytes_free + stats.bytes_reserved, stats.bytes_committed.max(stats.bytes_reserved));
    assert_eq!(stats.fresh_count + stats.reuse_count + stats.wait_count, stats.reserve_count);
}

#[test]
fn random_reservations_do_not_overlap_and_are_counted() {
    for seed in 1..=8 {
        for pool in pools(&PoolOptions { budget: 1 << 18, reached: None }) {
            let mut numbers = Numbers(0x9E37_79B9_7F4A_7C15_u64.wrapping_mul(seed));
            let mut live: BTreeMap<u64, PoolReservation> = BTreeMap::new();
            let (mut now, mut reserved, mut released) = (1, 0, 0);
            // When the last user of each 64 bytes of each slab was done with them.
            let mut died: BTreeMap<(u16, u64), u64> = BTreeMap::new();
            for _ in 0..1500 {
                now += 1;
                match numbers.below(10) {
                    0..=4 => {
                        let size = 1 + numbers.below(4096);
                        let alignment = 1 << numbers.below(11);
                        let known = numbers.below(now);
                        let wait = PoolReserveFlags::ALLOW_WAIT_FRONTIER;
                        let flags = if numbers.below(4) == 0 { wait } else { NONE };
                        let answer = pool.acquire_reservation(size, alignment, &[at(7, known)], flags);
                        let answer = answer.expect("sizes and alignments are fine");
                        let known = match answer.result {
                            PoolAcquireResult::EXHAUSTED | PoolAcquireResult::OVER_BUDGET => continue,
                            PoolAcquireResult::OK_NEEDS_WAIT => {
                                assert!(flags == wait && answer.wait_frontier[0].epoch > known);
                                answer.wait_frontier[0].epoch
                            }
                            _ => known,
                        };
                        let range = answer.reservation;
                        reserved += 1;
                        assert!(range.length >= size && range.offset.is_multiple_of(alignment), "{pool:?}: {range:?}");
                        for other in live.values().filter(|other| other.slab_index == range.slab_index) {
                            let apart = range.offset + range.length <= other.offset
                                || other.offset + other.length <= range.offset;
                            assert!(apart, "{pool:?}: {range:?} and {other:?}");
                        }
                        let places = (range.offset..range.offset + range.length).step_by(64);
                        let mut before = places.filter_map(|place| died.get(&(range.slab_index, place)));
                        assert!(before.all(|death_frontier| *death_frontier <= known), "{pool:?}: too early");
                        assert_eq!(live.insert(range.block_handle, range), None);
                    }
                    5..=8 => {
                        let index = numbers.below(live.len().max(1) as u64) as usize;
                        let Some(range) = live.values().nth(index).copied() else { continue };
                        live.remove(&range.block_handle);
                        pool.release_reservation(range, &[at(7, now)]);
                        // A second time, and ranges that are none, change nothing.
                        pool.release_reservation(range, &[]);
                        pool.release_reservation(PoolReservation { offset: range.offset + 64, ..range }, &[]);
                        released += 1;
                        for place in (range.offset..range.offset + range.length).step_by(64) {
                            died.insert((range.slab_index, place), now);
                        }
                    }
                    _ => pool.trim().expect("has nothing to say"),
                }
                check_stats(pool.stats(), &live, reserved, released);
            }
            assert!(reserved > 100, "{pool:?}: {reserved}");
            // All of it is in the past, so it is whole again and goes back.
            live.into_values().for_each(|range| pool.release_reservation(range, &[]));
        }
    }
}

#[test]
fn released_ranges_coalesce_and_slabs_are_released() {
    for pool in pools(&PoolOptions::default()) {
        for _ in 0..3 {
            let taken: Vec<_> = (0..10)
                .map(|index| pool.acquire_reservation(100 + index * 300, 256, &[], NONE).expect("is fine"))
                .collect();
            assert!(taken.iter().all(|answer| answer.result.0 <= PoolAcquireResult::OK_FRESH.0));
            for odd in [1, 0] {
                for answer in taken.iter().skip(odd).step_by(2) {
                    pool.release_reservation(answer.reservation, &[]);
                }
            }
        }
        let most = pool.capabilities().max_allocation_size.clamp(4096, 1 << 16);
        let whole = pool.acquire_reservation(most, 64, &[], NONE).expect("is fine");
        assert!(whole.result.0 <= PoolAcquireResult::OK_FRESH.0, "{pool:?}");
        pool.trim().expect("has nothing to say");
        assert_eq!(pool.stats().slab_count, 1, "{pool:?}");
        pool.release_reservation(whole.reservation, &[]);
        pool.trim().expect("has nothing to say");
        let stats = pool.stats();
        assert_eq!((stats.slab_count, stats.bytes_committed, stats.bytes_free), (0, 0, 0), "{pool:?}");
    }
}

#[test]
fn memory_is_used_again_only_after_its_death_frontier() {
    let reached = Arc::new(AtomicU64::new(0));
    let clock = reached.clone();
    let options =
        PoolOptions { budget: 0, reached: Some(Arc::new(move |entry| entry.epoch <= clock.load(Ordering::SeqCst))) };
    let pool = MemoryPool::fixed_block(provider(), 128, 1, options).expect("a small pool");
    let acquire = |known: &[FrontierEntry], flags| pool.acquire_reservation(100, 1, known, flags).expect("is fine");
    let no_growth = acquire(&[], PoolReserveFlags::DISALLOW_GROWTH);
    assert_eq!((no_growth.result, no_growth.flags), (PoolAcquireResult::EXHAUSTED, PoolAcquireFlags::GROWTH_REQUIRED));
    let first = acquire(&[], NONE);
    assert_eq!(first.result, PoolAcquireResult::OK_FRESH);
    pool.release_reservation(first.reservation, &[at(1, 10), at(2, 20)]);
    for early in [&[][..], &[at(1, 10)], &[at(1, 10), at(2, 19)]] {
        assert_eq!(acquire(early, NONE).result, PoolAcquireResult::EXHAUSTED);
    }
    let waits = acquire(&[at(1, 10)], PoolReserveFlags::ALLOW_WAIT_FRONTIER);
    assert_eq!(waits.result, PoolAcquireResult::OK_NEEDS_WAIT);
    assert_eq!(waits.wait_frontier, [at(1, 10), at(2, 20)]);
    pool.release_reservation(waits.reservation, &waits.wait_frontier);
    let later = acquire(&[at(2, 20), at(1, 11)], NONE);
    assert_eq!(later.result, PoolAcquireResult::OK);
    pool.release_reservation(later.reservation, &[at(1, 30)]);
    // Not even idle, as long as the point is to come.
    pool.trim().expect("has nothing to say");
    assert_eq!((acquire(&[], NONE).result, pool.stats().slab_count), (PoolAcquireResult::EXHAUSTED, 1));
    reached.store(30, Ordering::SeqCst);
    assert_eq!(acquire(&[], NONE).result, PoolAcquireResult::OK);
    let stats = pool.stats();
    assert_eq!((stats.wait_count, stats.fresh_count, stats.reuse_count, stats.exhausted_count), (1, 1, 2, 5));
}

#[test]
fn budgets_hold_and_subscribers_are_notified() {
    for pool in pools(&PoolOptions { budget: 4096, reached: None }) {
        let told = Arc::new(AtomicU64::new(0));
        let tell = || {
            let told = told.clone();
            Box::new(move |outcome: Result<()>| {
                told.fetch_add(1 + 100 * u64::from(outcome.is_err()), Ordering::SeqCst);
            })
        };
        // Nothing is reserved, so there is nothing to wait for.
        pool.notify(tell());
        assert_eq!(told.load(Ordering::SeqCst), 1);
        let first = pool.acquire_reservation(4096, 1, &[], NONE).expect("is fine");
        let second = pool.acquire_reservation(1, 1, &[], NONE).expect("is fine");
        assert_eq!((second.result, pool.stats().over_budget_count), (PoolAcquireResult::OVER_BUDGET, 1));
        pool.notify(tell());
        assert_eq!(told.load(Ordering::SeqCst), 1);
        pool.release_reservation(first.reservation, &[]);
        assert_eq!(told.load(Ordering::SeqCst), 2);
        let again = pool.acquire_reservation(64, 1, &[], NONE).expect("is fine");
        assert!(again.result.0 <= PoolAcquireResult::OK_FRESH.0);
        pool.notify(tell());
        drop(pool);
        assert_eq!(told.load(Ordering::SeqCst), 103);
    }
}

/// A pool of one block, which another thread gets back at the `moment`-th call.
#[derive(Debug)]
struct ReleasedAt {
    pool: MemoryPool,
    moment: AtomicU64,
    held: PoolReservation,
}

impl ReleasedAt {
    fn pool(&self) -> &MemoryPool {
        if self.moment.fetch_sub(1, Ordering::SeqCst) == 0 {
            self.pool.release_reservation(self.held, &[]);
        }
        &self.pool
    }
}

impl Pool for ReleasedAt {
    fn acquire_reservation(
        &self,
        size: u64,
        alignment: u64,
        requester_frontier: &[FrontierEntry],
        flags: PoolReserveFlags,
    ) -> Result<PoolAcquisition> {
        self.pool().acquire_reservation(size, alignment, requester_frontier, flags)
    }

    fn release_reservation(&self, reservation: PoolReservation, death_frontier: &[FrontierEntry]) {
        self.pool().release_reservation(reservation, death_frontier);
    }

    fn materialize_reservation(
        &self,
        params: BufferParams,
        reservation: PoolReservation,
        flags: PoolMaterializeFlags,
    ) -> Result<Arc<dyn Buffer>> {
        self.pool().materialize_reservation(params, reservation, flags)
    }

    fn capabilities(&self) -> PoolCapabilities {
        self.pool().capabilities()
    }

    fn stats(&self) -> PoolStats {
        self.pool().stats()
    }

    fn trim(&self) -> Result<()> {
        self.pool().trim()
    }

    fn notify(&self, callback: Box<dyn FnOnce(Result<()>) + Send>) {
        self.pool().notify(callback);
    }
}

#[test]
fn a_release_at_any_moment_is_noticed() {
    for moment in 0..8 {
        let pool = MemoryPool::fixed_block(provider(), 64, 1, PoolOptions::default()).expect("a pool");
        let held = pool.acquire_reservation(64, 1, &[], NONE).expect("is fine").reservation;
        let pool = ReleasedAt { pool, moment: AtomicU64::new(moment), held };
        let retried = Arc::new(AtomicU64::new(0));
        let mut notices = Vec::new();
        let is_reserved = loop {
            let releases = pool.stats().release_count;
            if pool.acquire_reservation(64, 1, &[], NONE).expect("is fine").result.0 <= PoolAcquireResult::OK_FRESH.0 {
                break true;
            }
            let same = retried.clone();
            notices.push(notify(&pool, releases, move |outcome| {
                same.fetch_add(1 + 100 * u64::from(outcome.is_err()), Ordering::SeqCst);
            }));
            if notices.last() != Some(&Notice::Released) {
                break false;
            }
        };
        if !is_reserved {
            assert_eq!(notices, [Notice::Later], "moment {moment}");
            while pool.pool.stats().release_count == 0 {
                pool.trim().expect("is fine");
            }
        }
        // Either the caller tries again, or the callback does, and never both.
        assert_eq!(retried.load(Ordering::SeqCst), u64::from(!is_reserved), "moment {moment}");
        assert!(notices.len() <= 1, "moment {moment}: {notices:?}");
    }
    let pool = MemoryPool::fixed_block(provider(), 64, 1, PoolOptions::default()).expect("a pool");
    assert_eq!(notify(&pool, 0, |_| unreachable!("nothing is reserved")), Notice::Never);
}

#[test]
fn hostile_sizes_and_alignments_are_refused() {
    for pool in pools(&PoolOptions::default()) {
        for (size, alignment) in
            [(0, 1), (1, 0), (1, 3), (1, 2 * MAX_ALIGNMENT), (1, 1 << 63), (u64::MAX, 1), (u64::MAX - 63, 1)]
        {
            let answer = pool.acquire_reservation(size, alignment, &[], NONE);
            let refused = answer.map_or_else(
                |error| matches!(error.code(), StatusCode::InvalidArgument | StatusCode::ResourceExhausted),
                |answer| answer.result == PoolAcquireResult::EXHAUSTED,
            );
            assert!(refused, "{pool:?}: {size} bytes aligned to {alignment}");
        }
        let forged = PoolReservation { offset: 0, length: 64, block_handle: 1 << 32, slab_index: 0 };
        assert!(pool.materialize_reservation(BufferParams::default(), forged, TRANSFER).is_err());
        pool.release_reservation(forged, &[]);
        assert_eq!(pool.stats().reserve_count, 0);
    }
    for (size, count) in [(0, 1), (64, 0), (u64::MAX, 2), (1 << 46, 2)] {
        assert!(MemoryPool::fixed_block(provider(), size, count, PoolOptions::default()).is_err());
    }
    for size in [0, u64::MAX, 1 << 47] {
        assert!(MemoryPool::tlsf(provider(), size, PoolOptions::default()).is_err());
    }
}

fn address(buffer: &Arc<dyn Buffer>) -> usize {
    let mapping = buffer.map_range(MappingMode::SCOPED, MemoryAccess::READ, 0, WHOLE_BUFFER).expect("can be mapped");
    mapping.data.as_ptr().addr()
}

#[test]
fn buffers_return_their_reservations_and_outlive_the_pool() {
    for pool in pools(&PoolOptions::default()) {
        let kind = format!("{pool:?}");
        let answer = pool.acquire_reservation(1000, 512, &[], NONE).expect("is fine");
        let params = BufferParams::default();
        let borrowed = pool
            .materialize_reservation(params, answer.reservation, PoolMaterializeFlags::empty())
            .expect("the host reaches it");
        let owning = pool.materialize_reservation(params, answer.reservation, TRANSFER).expect("the host reaches it");
        assert!(address(&owning).is_multiple_of(512) && address(&owning) == address(&borrowed), "{kind}");
        drop(owning);
        assert_eq!(pool.stats().reservation_count, 0, "{kind}");
        let answer = pool.acquire_reservation(64, 64, &[], NONE).expect("is fine");
        let owning = pool.materialize_reservation(params, answer.reservation, TRANSFER).expect("the host reaches it");
        drop(pool);
        crate::hal::buffer_fill(&*borrowed, 0, 64, &[1]).expect("the slab is still there");
        crate::hal::buffer_fill(&*owning, 0, 64, &[1]).expect("the slab is still there");
    }
}

#[test]
fn slabs_that_come_back_are_kept_until_they_are_trimmed() {
    let provider = provider();
    let slab = provider.acquire_slab(10_000).expect("a little memory");
    provider.prefault(&slab);
    assert!(slab.length >= 10_000 && slab.base.expect("the host reaches it").as_ptr().addr().is_multiple_of(4096));
    // SAFETY: nothing uses it.
    unsafe { provider.release_slab(&slab) };
    let again = provider.acquire_slab(9_000).expect("a little memory");
    assert_eq!((again.base, again.provider_handle != slab.provider_handle), (slab.base, true));
    // SAFETY: nothing uses it; the first slab was released already, and the provider ignores its handle.
    unsafe {
        provider.release_slab(&again);
        provider.release_slab(&slab);
    }
    let stats = provider.stats();
    assert_eq!((stats.total_acquired, stats.total_released, stats.cache_count), (2, 2, 1));
    assert_eq!((stats.cache_hit_count, stats.cache_miss_count), (1, 1));
    provider.trim(SlabTrimFlags::ALL);
    assert_eq!(provider.stats().cache_count, 0);
}
