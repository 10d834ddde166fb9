//! The order that atomic accesses establish ([`Knowledge`]): how far work-groups had come when they released an
//! address, and what waves have learnt so.

use std::collections::{BTreeMap, HashMap};

/// Addresses, and waves, that are remembered.
const MOST: usize = 1 << 16;
/// Entries of all of them together, some tens of megabytes.
pub(super) const MOST_ENTRIES: usize = 1 << 20;

/// The progress of a work-group that is known: its accesses before a number of barriers, those of a single wave if one
/// wave released them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reached {
    pub(super) phase: u32,
    pub(super) by: Option<u32>,
}

/// The progress that an atomic access has released: how far work-groups have come, by the numbers of their first waves.
#[derive(Clone, Debug, Default)]
pub(super) struct Released(BTreeMap<u32, Reached>);

impl Released {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn note(&mut self, group: u32, reached: Reached) {
        let known = self.0.entry(group).or_insert(reached);
        known.by = known.by.filter(|by| Some(*by) == reached.by);
        known.phase = known.phase.max(reached.phase);
    }

    pub(super) fn join(&mut self, other: &Released) {
        other.0.iter().for_each(|(group, reached)| self.note(*group, *reached));
    }

    /// Whether an access of a wave before this number of barriers is known, to waves other than those that said so.
    pub(super) fn covers(&self, group: u32, wave: u32, phase: u32, same_group: bool) -> bool {
        let reached = self.0.get(&group).filter(|reached| reached.phase >= phase);
        reached.is_some_and(|reached| !same_group || reached.by.is_none_or(|by| by == wave))
    }
}

/// The knowledge by addresses of atomic accesses, and by waves.
pub(super) struct Knowledge {
    /// The progress that atomic accesses to an address have released.
    by_address: HashMap<u64, Released>,
    /// The progress that waves have learnt by atomic accesses, for those that poll what they store.
    by_wave: HashMap<u32, Released>,
    /// Entries of all of them, and how many there may be.
    entries: usize,
    most: usize,
}

impl Knowledge {
    /// Knows nothing yet, and of no more than so many entries by much.
    pub(super) fn new(most: usize) -> Self {
        Knowledge { by_address: HashMap::new(), by_wave: HashMap::new(), entries: 0, most }
    }

    /// True if it must be cleared before more is added, and the accesses before forgotten: without its history an
    /// address orders nothing.
    pub(super) fn is_full(&self) -> bool {
        self.entries >= self.most || self.by_address.len() >= MOST || self.by_wave.len() >= MOST
    }

    pub(super) fn clear(&mut self) {
        *self = Knowledge::new(self.most);
    }

    /// The progress that atomic accesses to an address have released.
    pub(super) fn at(&self, address: u64) -> Option<&Released> {
        self.by_address.get(&address)
    }

    /// The progress that a wave has released.
    pub(super) fn of_wave(&self, wave: u32) -> Option<&Released> {
        self.by_wave.get(&wave)
    }

    /// An atomic access: learns what was released at the address, and releases what is known then, with what the group
    /// has reached.
    pub(super) fn synchronise(&mut self, address: u64, acquired: &mut Released, (group, reached): (u32, Reached)) {
        let released = self.by_address.entry(address).or_default();
        self.entries -= released.0.len();
        acquired.join(released);
        released.join(acquired);
        released.note(group, reached);
        self.entries += released.0.len();
    }

    /// Makes known what a wave has learnt.
    pub(super) fn publish(&mut self, wave: u32, acquired: &Released) {
        let before = self.by_wave.insert(wave, acquired.clone());
        self.entries -= before.map_or(0, |released| released.0.len());
        self.entries += acquired.0.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_counted_and_bounded() {
        let (mut known, mut groups) = (Knowledge::new(1 << 14), 0);
        while !known.is_full() {
            // Each work-group learns of all before it, and all of them poll.
            let mut acquired = Released::default();
            known.synchronise(8, &mut acquired, (groups, Reached { phase: 0, by: Some(groups) }));
            known.publish(groups, &acquired);
            known.publish(groups, &acquired);
            assert!(groups == 0 || acquired.covers(groups - 1, groups - 1, 0, false));
            groups += 1;
        }
        let entries: usize =
            known.by_address.values().chain(known.by_wave.values()).map(|released| released.0.len()).sum();
        assert_eq!(entries, known.entries);
        assert!(groups < 200, "{groups}");
    }
}
