//! Moments of accesses by numbers ([`Sites`]), which fit into the cells of shadows.

use std::collections::HashMap;

use super::shadow::MAX_SITES;

/// An instruction of a wave after a number of barriers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Moment {
    pub(super) instruction: u64,
    /// Barriers that the wave was at before.
    pub(super) phase: u32,
    /// True if the wave as a whole made the access.
    pub(super) scalar: bool,
    /// True for a store that left the bytes as they were.
    pub(super) silent: bool,
    /// True for a load of what its dispatch may not write.
    pub(super) constant: bool,
}

/// Moments by numbers that fit into a cell of the shadow.
#[derive(Default)]
pub(super) struct Sites {
    pub(super) all: Vec<Moment>,
    numbers: HashMap<Moment, u32>,
    /// How often the numbers have started again.
    pub(super) generation: u64,
}

/// Bytes of a moment in both tables, with their unused space.
const SITE_BYTES: u64 = 96;

impl Sites {
    /// The most moments in so many bytes.
    pub(super) fn most(bytes: u64) -> u64 {
        (bytes / SITE_BYTES).clamp(2, MAX_SITES.into())
    }

    /// Whether two more are at most `most`.
    pub(super) fn has_room(&self, most: u64) -> bool {
        self.all.len() as u64 + 2 <= most
    }

    /// The number of a moment.
    pub(super) fn number(&mut self, moment: Moment) -> u32 {
        *self.numbers.entry(moment).or_insert_with(|| {
            self.all.push(moment);
            self.all.len() as u32 - 1
        })
    }

    pub(super) fn clear(&mut self) {
        self.all.clear();
        self.numbers.clear();
        self.generation += 1;
    }

    pub(super) fn get(&self, number: u32) -> Moment {
        self.all.get(number as usize).copied().unwrap_or_default()
    }
}
