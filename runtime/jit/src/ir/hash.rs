//! Tables of the compiler, whose small keys are hashed several times as fast as by the standard library.
//!
//! Keys come from programs, which may be hostile: each table has a random seed.

use std::collections::HashMap;

/// A table whose order nobody looks at.
pub(crate) type Table<K, V> = HashMap<K, V, foldhash::fast::RandomState>;
