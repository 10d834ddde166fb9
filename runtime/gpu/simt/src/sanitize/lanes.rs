//! Races between the lanes of one wave ([`WaveLanes`]), for instruction sets whose lanes progress on their own: two
//! lanes are ordered where both wait for each other, at a barrier, or by atomic accesses, and not by the order of
//! instructions.
//!
//! The table of a wave has the accesses since all of its lanes met, with the lanes as a mask, so that most of it is
//! gone at the next barrier. Lanes that met in part have clocks. An atomic access makes all that its lane did known to
//! each lane that makes one later, at whatever address: this can hide a race and reports none that is not there.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::races::Effect;
use crate::memory::{Access, RowAccess, Space};
use crate::row::{LANES, Mask, lanes};

/// Words of a wave at most.
pub(super) const MOST_WORDS: usize = 1 << 16;
/// Accesses to a word that are told apart at most.
const MOST_RECORDS: usize = 16;

/// An access of lanes to bytes of a word.
#[derive(Clone, Copy, Debug)]
struct Record {
    instruction: u64,
    /// The time, counted in meetings of lanes.
    tick: u32,
    lanes: Mask,
    /// The bytes of the word, by bits.
    bytes: u8,
    effect: Effect,
    atomic: bool,
}

/// The accesses to a word, of which there is nearly always one.
#[derive(Debug)]
struct Records {
    first: Record,
    more: Vec<Record>,
}

/// A hash of addresses; a kernel whose addresses collide is only slow.
#[derive(Default)]
struct Mix(u64);

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 29
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64((*byte).into()));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15); // fact: of the generator of random numbers
    }
}

/// An access of another lane that nothing orders with the one that is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LaneConflict {
    pub(super) lane: u32,
    pub(super) other_lane: u32,
    pub(super) instruction: u64,
    pub(super) access: Access,
    /// True if either order of the two has the same results.
    pub(super) is_harmless: bool,
}

/// The accesses of the lanes of one wave since all of them met.
#[derive(Debug, Default)]
pub(super) struct WaveLanes {
    words: HashMap<u64, Records, BuildHasherDefault<Mix>>,
    tick: u32,
    /// For each lane, up to which time it knows the accesses of each other one; none while nothing is known.
    known: Option<Box<[[u32; LANES]; LANES]>>,
    /// The same for what atomic accesses have released.
    released: [u32; LANES],
    /// The lanes that have accessed something.
    touched: Mask,
}

/// The number of a word of a space.
fn key(space: Space, word: u64) -> u64 {
    word << 1 | u64::from(space == Space::Group)
}

/// The words of a range, each with the bytes that are in the range, by bits and as their first place in it.
fn words(start: u64, length: u32) -> impl Iterator<Item = (u64, u8, u32)> {
    let end = start.saturating_add(length.into());
    let first = start >> 2;
    (first..end.div_ceil(4)).map(move |word| {
        let (from, to) = ((word << 2).max(start), ((word << 2).saturating_add(4)).min(end));
        let bits = ((1u32 << (to - from)) - 1) << (from & 3);
        (word, bits as u8, (from - start) as u32)
    })
}

impl WaveLanes {
    fn clear(&mut self) {
        self.words.clear();
        (self.tick, self.known, self.released, self.touched) = (0, None, [0; LANES], 0);
    }

    /// Lanes have waited for each other, among `live` ones that have not ended.
    pub(super) fn meet(&mut self, members: Mask, live: Mask) {
        if (self.touched | live) & !members == 0 {
            return self.clear();
        }
        let known = self.known.get_or_insert_default();
        self.tick += 1;
        let mut joined = [0; LANES];
        for lane in lanes(members) {
            for (all, one) in joined.iter_mut().zip(&known[lane]) {
                *all = (*all).max(*one);
            }
        }
        lanes(members).for_each(|lane| joined[lane] = self.tick);
        lanes(members).for_each(|lane| known[lane] = joined);
    }

    /// Lanes read what others release, by atomic accesses or loads that poll.
    pub(super) fn acquire(&mut self, mask: Mask) {
        if self.released == [0; LANES] {
            return;
        }
        let known = self.known.get_or_insert_default();
        for lane in lanes(mask) {
            for (one, all) in known[lane].iter_mut().zip(&self.released) {
                *one = (*one).max(*all);
            }
        }
    }

    /// Lanes release what they did, by atomic accesses or stores.
    fn release(&mut self, mask: Mask) {
        self.tick += 1;
        for lane in lanes(mask) {
            if let Some(known) = &self.known {
                for (all, one) in self.released.iter_mut().zip(&known[lane]) {
                    *all = (*all).max(*one);
                }
            }
            self.released[lane] = self.tick;
        }
    }

    /// Records an access of lanes, and calls back with those that it races with: one for each lane. `changed` has the
    /// bytes of each lane that a store changed. Returns false if there was no room, so that earlier ones are forgotten.
    pub(super) fn visit(
        &mut self,
        access: &RowAccess<'_>,
        mask: Mask,
        changed: Option<&[u64; LANES]>,
        mut found: impl FnMut(LaneConflict),
    ) -> bool {
        let orders = access.atomic || access.access == Access::Atomic;
        let effect = |lane: usize, place: u32, bytes: u8| match (access.access, changed) {
            (Access::Load, _) => Effect::Load,
            (_, Some(changed)) if changed[lane] >> place & ((1 << bytes.count_ones()) - 1) == 0 => Effect::SilentStore,
            _ => Effect::Change,
        };
        if access.access == Access::Atomic {
            self.acquire(mask);
        }
        let has_room = self.words.len() < MOST_WORDS;
        if !has_room {
            self.clear();
        }
        // Lanes of one instruction are not compared with each other here, so it is recorded after all are compared.
        for lane in lanes(mask) {
            let mut worst: Option<LaneConflict> = None;
            for (word, bytes, place) in words(access.addresses[lane], access.length) {
                let Some(records) = self.words.get(&key(access.space, word)) else { continue };
                let mine = effect(lane, place, bytes);
                for record in std::iter::once(&records.first).chain(&records.more) {
                    if record.bytes & bytes == 0 || record.atomic && orders {
                        continue;
                    }
                    let conflict = self.conflict(record, lane, mine);
                    if let Some(conflict) = conflict
                        && worst.is_none_or(|worst| worst.is_harmless || !conflict.is_harmless)
                    {
                        worst = Some(conflict);
                    }
                }
            }
            worst.into_iter().for_each(&mut found);
        }
        for lane in lanes(mask) {
            for (word, bytes, place) in words(access.addresses[lane], access.length) {
                let effect = effect(lane, place, bytes);
                let (instruction, tick, lanes) = (access.instruction, self.tick, 1 << lane);
                self.note(key(access.space, word), Record { instruction, tick, lanes, bytes, effect, atomic: orders });
            }
        }
        self.touched |= mask;
        if orders {
            self.release(mask);
        }
        has_room
    }

    /// The lane of a record that a lane races with.
    fn conflict(&self, record: &Record, lane: usize, effect: Effect) -> Option<LaneConflict> {
        use Effect::{Change, Load, SilentStore};
        let is_harmless = match (record.effect, effect) {
            (Load, Load) => return None,
            (Load | SilentStore, Change) | (Change, Load | Change) => false,
            (Load, SilentStore) | (SilentStore, Load | SilentStore) | (Change, SilentStore) => true,
        };
        let open = |other: &usize| self.known.as_ref().is_none_or(|known| known[lane][*other] <= record.tick);
        let other = lanes(record.lanes & !(1 << lane)).find(open)?;
        let access = match (record.atomic, record.effect) {
            (true, _) => Access::Atomic,
            (false, Load) => Access::Load,
            (false, _) => Access::Store,
        };
        let (lane, other_lane, instruction) = (lane as u32, other as u32, record.instruction);
        Some(LaneConflict { lane, other_lane, instruction, access, is_harmless })
    }

    fn note(&mut self, key: u64, record: Record) {
        let same = |other: &Record| {
            (other.instruction, other.tick, other.bytes, other.effect, other.atomic)
                == (record.instruction, record.tick, record.bytes, record.effect, record.atomic)
        };
        match self.words.get_mut(&key) {
            None => {
                self.words.insert(key, Records { first: record, more: Vec::new() });
            }
            Some(records) => {
                let all = std::iter::once(&mut records.first).chain(&mut records.more);
                if let Some(known) = all.into_iter().find(|other| same(other)) {
                    known.lanes |= record.lanes;
                    return;
                }
                if records.more.len() + 1 >= MOST_RECORDS {
                    records.more.remove(0);
                }
                records.more.push(record);
            }
        }
    }
}

/// Two lanes that store to the same bytes in one instruction, and whether they store the same: the worst pair. `bytes`
/// are those that a lane stores.
pub fn stores_to_one_address<'v>(
    addresses: &[u64; LANES],
    mask: Mask,
    bytes: impl Fn(usize) -> &'v [u8],
) -> Option<([usize; 2], bool)> {
    let mut same = None;
    for lane in lanes(mask) {
        for other in lanes(mask & ((1 << lane) - 1)) {
            if addresses[lane] == addresses[other] {
                if bytes(lane) != bytes(other) {
                    return Some(([other, lane], false));
                }
                same = same.or(Some(([other, lane], true)));
            }
        }
    }
    same
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An access of four bytes by lanes, all at one address. Returns the conflicts as lanes and whether they are
    /// harmless.
    fn access(
        wave: &mut WaveLanes,
        kind: Access,
        mask: Mask,
        address: u64,
        changed: Option<u64>,
    ) -> Vec<(u32, u32, bool)> {
        let addresses = [address; LANES];
        let atomic = kind == Access::Atomic;
        let (instruction, length, space) = (1, 4, Space::Group);
        let access = RowAccess {
            instruction,
            wave: 0,
            mask,
            scalar: false,
            addresses: &addresses,
            length,
            access: kind,
            atomic,
            space,
        };
        let mut found = Vec::new();
        let changed = changed.map(|bytes| [bytes; LANES]);
        assert!(wave.visit(&access, mask, changed.as_ref(), |conflict| {
            found.push((conflict.lane, conflict.other_lane, conflict.is_harmless));
        }));
        found
    }

    #[test]
    fn lanes_race_until_they_meet() {
        let mut wave = WaveLanes::default();
        assert_eq!(access(&mut wave, Access::Store, 1, 0, None), []);
        assert_eq!(access(&mut wave, Access::Load, 1, 0, None), []);
        assert_eq!(access(&mut wave, Access::Load, 0b110, 0, None), [(1, 0, false), (2, 0, false)]);
        // Lanes 0 and 1 meet; lane 2 is still on its own, and its load races with the next store.
        wave.meet(0b11, u32::MAX);
        assert_eq!(access(&mut wave, Access::Store, 1, 0, None), [(0, 2, false)]);
        // Lane 1 passes on its knowledge.
        wave.meet(0b111, u32::MAX);
        wave.meet(0b1100, u32::MAX);
        assert_eq!(access(&mut wave, Access::Load, 0b1000, 0, None), []);
        assert_eq!(access(&mut wave, Access::Load, 0b1_0000, 0, None), [(4, 0, false)]);
        wave.meet(u32::MAX, u32::MAX);
        assert!(wave.words.is_empty());
        assert_eq!(access(&mut wave, Access::Store, 1 << 31, 0, None), []);
    }

    #[test]
    fn bytes_next_to_each_other_do_not_race_and_equal_values_are_harmless() {
        let mut wave = WaveLanes::default();
        access(&mut wave, Access::Store, 1, 2, Some(0b1111));
        assert_eq!(access(&mut wave, Access::Store, 2, 6, None), []);
        assert_eq!(access(&mut wave, Access::Store, 4, 5, None), [(2, 1, false)]);
        let mut wave = WaveLanes::default();
        access(&mut wave, Access::Store, 1, 0, Some(0b1111));
        assert_eq!(access(&mut wave, Access::Store, 2, 0, Some(0)), [(1, 0, true)]);
        assert_eq!(access(&mut wave, Access::Load, 4, 0, None), [(2, 0, false)]);
        assert_eq!(access(&mut wave, Access::Store, 1, 0, Some(1)).len(), 1);
    }

    #[test]
    fn atomic_accesses_order_lanes() {
        let mut wave = WaveLanes::default();
        access(&mut wave, Access::Store, 1, 0, None);
        assert_eq!(access(&mut wave, Access::Atomic, 0b11, 8, None), []);
        assert_eq!(access(&mut wave, Access::Atomic, 0b10, 8, None), []);
        assert_eq!(access(&mut wave, Access::Load, 0b10, 0, None), []);
        assert_eq!(access(&mut wave, Access::Load, 0b100, 0, None), [(2, 0, false)]);
        wave.acquire(0b1000);
        assert_eq!(access(&mut wave, Access::Load, 0b1000, 0, None), []);
        // A load that is not atomic races with an atomic access.
        assert_eq!(access(&mut wave, Access::Load, 0b1_0000, 8, None).len(), 1);
    }

    #[test]
    fn the_table_is_bounded() {
        let mut wave = WaveLanes::default();
        for word in 0..MOST_WORDS as u64 {
            access(&mut wave, Access::Load, 1, 4 * word, None);
        }
        let addresses = [0; LANES];
        let (access, space) = (Access::Load, Space::Group);
        let row = RowAccess {
            instruction: 1,
            wave: 0,
            mask: 1,
            scalar: false,
            addresses: &addresses,
            length: 4,
            access,
            atomic: false,
            space,
        };
        assert!(!wave.visit(&row, 1, None, |_| {}));
        assert_eq!(wave.words.len(), 1);
    }

    #[test]
    fn different_values_are_worse_than_equal_ones() {
        let mut addresses = [0; LANES];
        addresses[3] = 4;
        let bytes: [[u8; 1]; LANES] = std::array::from_fn(|lane| [u8::from(lane == 5)]);
        let find = |mask: Mask| stores_to_one_address(&addresses, mask, |lane| &bytes[lane]);
        assert_eq!(find(0b1001), None);
        assert_eq!(find(0b11), Some(([0, 1], true)));
        assert_eq!(find(0b10_0011), Some(([0, 5], false)));
    }
}
