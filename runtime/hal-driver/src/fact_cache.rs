//! A small table of what is known of objects ([`FactCache`]): a look-up is one comparison, and what has no place any
//! more is asked for again.

/// Entries at most, a power of two that is less than 256.
const MAX_KNOWN: usize = 64;

/// A small cache of facts about objects, by a number of each.
#[derive(Debug)]
pub struct FactCache<T> {
    /// One more than the place among the entries, by a part of the number.
    table: [u8; MAX_KNOWN],
    entries: Vec<T>,
}

impl<T> Default for FactCache<T> {
    fn default() -> FactCache<T> {
        FactCache { table: [0; MAX_KNOWN], entries: Vec::new() }
    }
}

impl<T> FactCache<T> {
    #[inline]
    fn index(number: u64) -> usize {
        // The high bits of a product depend on all bits of the number; those of addresses have low bits that are zero.
        (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - MAX_KNOWN.trailing_zeros())) as usize
    }

    /// The fact about the object with a number, which `is_it` tells from others with that.
    #[inline]
    pub fn get(&self, number: u64, is_it: impl FnOnce(&T) -> bool) -> Option<&T> {
        let place = usize::from(self.table[FactCache::<T>::index(number)]);
        self.entries.get(place.wrapping_sub(1)).filter(|entry| is_it(entry))
    }

    /// Adds an object.
    pub fn add(&mut self, number: u64, entry: T) -> &T {
        if self.entries.len() == MAX_KNOWN {
            self.clear();
        }
        self.entries.push(entry);
        let place = self.entries.len();
        // At most `MAX_KNOWN`.
        self.table[FactCache::<T>::index(number)] = place as u8;
        &self.entries[place - 1]
    }

    /// Forgets all, and keeps the memory.
    pub fn clear(&mut self) {
        self.table = [0; MAX_KNOWN];
        self.entries.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_is_found_or_forgotten_but_never_mistaken() {
        let mut known = FactCache::default();
        let of = |known: &FactCache<u64>, number: u64| known.get(number, |entry| *entry == number).copied();
        assert_eq!(of(&known, 0), None);
        for number in 0..1000 {
            assert_eq!(*known.add(number * 64, number * 64), number * 64);
            assert_eq!(of(&known, number * 64), Some(number * 64));
        }
        let found: Vec<u64> = (0..1000).filter_map(|number| of(&known, number * 64)).collect();
        // 1000 is 15 times 64 and 40, and some of these share a place.
        assert!((20..=40).contains(&found.len()), "{found:?}");
        known.clear();
        assert_eq!(of(&known, 999 * 64), None);
    }
}
