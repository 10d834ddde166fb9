//! Maps by the addresses of objects of this process ([`AddressMap`]).

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A map by addresses. They are chosen inside the process, so they need no hash that withstands choice.
pub type AddressMap<V> = HashMap<usize, V, BuildHasherDefault<AddressHasher>>;

/// The hash of an address.
#[derive(Clone, Copy, Debug, Default)]
pub struct AddressHasher(u64);

impl Hasher for AddressHasher {
    fn finish(&self) -> u64 {
        // Tables look at the high and at the low bits of a hash.
        self.0 ^ self.0 >> 32
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_usize(usize::from(*byte)));
    }

    fn write_usize(&mut self, value: usize) {
        // The low bits of addresses are alike; an odd number without a pattern spreads the others.
        self.0 = (self.0 ^ value as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::hash::{BuildHasher as _, BuildHasherDefault};

    use super::*;

    /// Objects lie at multiples of their alignment, so tables must not put them into few buckets.
    #[test]
    fn aligned_addresses_have_different_low_and_high_bits() {
        for alignment in [8, 64, 4096] {
            let hash = |index: usize| {
                BuildHasherDefault::<AddressHasher>::default().hash_one(0x7f00_0000_0000 + index * alignment)
            };
            let low: HashSet<u64> = (0..1024).map(|index| hash(index) & 1023).collect();
            let high: HashSet<u64> = (0..1024).map(|index| hash(index) >> 57).collect();
            assert!(low.len() > 512 && high.len() == 128, "{alignment}: {} and {}", low.len(), high.len());
        }
    }
}
