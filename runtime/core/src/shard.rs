//! Shards: what threads would share and wait for each other to change, each thread has in one of a few places.
//! Statistics of allocators and free contexts of kernels in bytecode are kept so.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Number of shards. More threads share them.
pub const SHARDS: usize = 16;

/// The shard of the calling thread. Threads get them in turn.
pub fn own_shard() -> usize {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static SHARD: usize = THREADS.fetch_add(1, Ordering::Relaxed) % SHARDS;
    }
    // While a thread ends it may have none any more; all shards are alike.
    SHARD.try_with(|shard| *shard).unwrap_or_default()
}

/// A value for each shard, on cache lines of its own; processors fetch lines in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Padded<T>(pub T);
