//! Tables of the compiler, whose small keys are hashed several times as fast as by the standard library.
//!
//! Keys come from programs, which may be hostile: each table has a random seed.

use std::collections::HashMap;

pub(crate) use foldhash::fast::RandomState;

/// A table that is never iterated in order.
pub(crate) type Table<K, V> = HashMap<K, V, RandomState>;

/// An empty table with room for so many entries.
pub(crate) fn with_room<K, V>(entries: usize) -> Table<K, V> {
    Table::with_capacity_and_hasher(entries, RandomState::default())
}
