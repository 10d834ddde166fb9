//! A hash for the small keys of the compiler's tables, several times as fast as that of the standard library.
//!
//! Keys come from programs, which may be hostile: each table has a secret of its own, without which nobody can choose keys that collide.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};

/// A table whose order nobody looks at.
pub(super) type Table<K, V> = HashMap<K, V, Secret>;

/// What the hashes of a table depend on.
#[derive(Clone)]
pub(super) struct Secret([u64; 2]);

impl Default for Secret {
    fn default() -> Secret {
        let random = RandomState::new();
        Secret([random.hash_one(0), random.hash_one(1) | 1])
    }
}

impl BuildHasher for Secret {
    type Hasher = Folded;

    fn build_hasher(&self) -> Folded {
        Folded { state: self.0[0], factor: self.0[1] }
    }
}

/// Multiplies to twice the width, and folds that.
pub(super) struct Folded {
    state: u64,
    factor: u64,
}

impl Hasher for Folded {
    fn write_u64(&mut self, value: u64) {
        let product = u128::from(self.state ^ value) * u128::from(self.factor);
        self.state = (product as u64 ^ (product >> 64) as u64).rotate_left(23).wrapping_add(self.factor);
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u8(&mut self, value: u8) {
        self.write_u64(value.into());
    }

    fn write_u16(&mut self, value: u16) {
        self.write_u64(value.into());
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(value.into());
    }

    fn write_usize(&mut self, value: usize) {
        self.write_u64(value as u64);
    }

    fn write_i32(&mut self, value: i32) {
        self.write_u64(value as u64);
    }

    fn finish(&self) -> u64 {
        self.state
    }
}
