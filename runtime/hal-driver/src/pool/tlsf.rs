//! The TLSF strategy (two-level segregated fit): ranges of any size. A free range is found by two levels of size
//! classes, in constant time, and coalesces with its free neighbours when it is released.
//!
//! The first level of a size is its power of two, the second divides the interval to the next power evenly. A bit for
//! each class says whether its free list is nonempty. A range of any higher class than that of a request is large
//! enough for it.
//!
//! TLSF allocators in crates distinguish free and used ranges only. A free range here has a death frontier too, which
//! decides who may reserve it and whether it coalesces with its neighbours.

use super::frontier::{Frontier, join};
use super::strategy::{GRAIN, Request, Strategy, TakenRange};
use crate::hal::FrontierEntry;

/// Logarithm of the number of second-level classes.
const SECOND_LEVEL_BITS: u32 = 4;
const SECOND_LEVELS: usize = 1 << SECOND_LEVEL_BITS;

/// Number of first-level classes: powers of two from [`GRAIN`] on.
const FIRST_LEVELS: usize = 64 - GRAIN.trailing_zeros() as usize;

/// Most ranges of a class that a search visits.
const MAX_SEARCHED: usize = 32;

/// Ranges do not coalesce if their death frontiers have more points than this together.
const MAX_DEATH_POINTS: usize = 8;

/// No range.
const NONE: u32 = u32::MAX;

/// Ranges of slabs of one size.
pub(super) struct Tlsf {
    slab_size: u64,
    ranges: Vec<Range>,
    /// Unused indices of `ranges`.
    free_indices: Vec<u32>,
    /// The head of the free list of each class.
    free_lists: Box<[[u32; SECOND_LEVELS]; FIRST_LEVELS]>,
    nonempty_first_levels: u64,
    nonempty_second_levels: [u16; FIRST_LEVELS],
    /// The first range of each slab.
    slabs: Vec<Option<u32>>,
}

/// A range, free or taken.
#[derive(Clone, Debug)]
struct Range {
    slab: u16,
    offset: u64,
    length: u64,
    taken: bool,
    /// Whether any of it was ever used.
    used: bool,
    death_frontier: Frontier,
    /// Neighbours in the slab.
    before: u32,
    after: u32,
    /// Neighbours in the free list.
    previous: u32,
    next: u32,
}

/// The size class of a range of `length`.
fn class_of(length: u64) -> (usize, usize) {
    let grains = (length / GRAIN).max(1);
    let first_level = grains.ilog2();
    let second_level = if first_level >= SECOND_LEVEL_BITS {
        (grains >> (first_level - SECOND_LEVEL_BITS)) as usize & (SECOND_LEVELS - 1)
    } else {
        (grains << (SECOND_LEVEL_BITS - first_level)) as usize & (SECOND_LEVELS - 1)
    };
    (first_level as usize, second_level)
}

impl Tlsf {
    /// Ranges of slabs of `slab_size`, a multiple of [`GRAIN`].
    pub fn new(slab_size: u64) -> Tlsf {
        Tlsf {
            slab_size,
            ranges: Vec::new(),
            free_indices: Vec::new(),
            free_lists: Box::new([[NONE; SECOND_LEVELS]; FIRST_LEVELS]),
            nonempty_first_levels: 0,
            nonempty_second_levels: [0; FIRST_LEVELS],
            slabs: Vec::new(),
        }
    }

    fn range(&mut self, index: u32) -> &mut Range {
        &mut self.ranges[index as usize]
    }

    fn insert(&mut self, range: Range) -> u32 {
        match self.free_indices.pop() {
            Some(index) => {
                *self.range(index) = range;
                index
            }
            None => {
                self.ranges.push(range);
                (self.ranges.len() - 1) as u32
            }
        }
    }

    /// Adds a free range to the free list of its class.
    fn link(&mut self, index: u32) {
        let (first_level, second_level) = class_of(self.range(index).length);
        let next = std::mem::replace(&mut self.free_lists[first_level][second_level], index);
        let range = self.range(index);
        (range.previous, range.next) = (NONE, next);
        if next != NONE {
            self.range(next).previous = index;
        }
        self.nonempty_first_levels |= 1 << first_level;
        self.nonempty_second_levels[first_level] |= 1 << second_level;
    }

    /// Removes a free range from the free list of its class.
    fn unlink(&mut self, index: u32) {
        let range = self.range(index);
        let (previous, next) = (range.previous, range.next);
        let (first_level, second_level) = class_of(range.length);
        if next != NONE {
            self.range(next).previous = previous;
        }
        if previous != NONE {
            self.range(previous).next = next;
            return;
        }
        self.free_lists[first_level][second_level] = next;
        if next == NONE {
            self.nonempty_second_levels[first_level] &= !(1 << second_level);
            if self.nonempty_second_levels[first_level] == 0 {
                self.nonempty_first_levels &= !(1 << first_level);
            }
        }
    }

    /// A free range of a class that `fits`.
    fn search_class(&self, first_level: usize, second_level: usize, fits: &dyn Fn(&Range) -> bool) -> Option<u32> {
        let mut index = self.free_lists[first_level][second_level];
        for _ in 0..MAX_SEARCHED {
            let range = self.ranges.get(index as usize)?;
            if fits(range) {
                return Some(index);
            }
            index = range.next;
        }
        None
    }

    /// A free range for the request, from the smallest class that has one.
    fn find(&self, request: Request, usable: &dyn Fn(&[FrontierEntry]) -> bool) -> Option<u32> {
        let fits = |range: &Range| {
            let padding = range.offset.next_multiple_of(request.alignment) - range.offset;
            range.length.checked_sub(padding).is_some_and(|rest| rest >= request.size) && usable(&range.death_frontier)
        };
        let (mut first_level, mut second_level) = class_of(request.size);
        loop {
            let candidates = u32::from(self.nonempty_second_levels[first_level]) >> second_level << second_level;
            if candidates == 0 {
                // `first_level` is less than 64, and so is the next.
                let higher = self.nonempty_first_levels & !(u64::MAX >> (63 - first_level));
                if higher == 0 {
                    return None;
                }
                (first_level, second_level) = (higher.trailing_zeros() as usize, 0);
                continue;
            }
            let found = candidates.trailing_zeros() as usize;
            if let Some(index) = self.search_class(first_level, found, &fits) {
                return Some(index);
            }
            // After the last class the shift leaves no bit.
            second_level = found + 1;
        }
    }

    /// Splits a range and returns the second part. Both have the flags and the frontier of the whole.
    fn split(&mut self, index: u32, length: u64) -> u32 {
        let whole = self.range(index);
        let rest =
            Range { offset: whole.offset + length, length: whole.length - length, before: index, ..whole.clone() };
        let after = rest.after;
        whole.length = length;
        let rest = self.insert(rest);
        self.range(index).after = rest;
        if after != NONE {
            self.range(after).before = rest;
        }
        rest
    }

    /// Coalesces two free neighbours, neither of which is in a free list.
    fn join(&mut self, index: u32, other: u32) {
        let Range { length, after, used, .. } = *self.range(other);
        let death_frontier = std::mem::take(&mut self.range(other).death_frontier);
        let range = self.range(index);
        range.length += length;
        range.after = after;
        range.used |= used;
        join(&mut range.death_frontier, &death_frontier);
        if after != NONE {
            self.range(after).before = index;
        }
        self.free_indices.push(other);
    }

    /// Whether two neighbours can coalesce.
    fn can_join(&self, one: u32, other: u32) -> bool {
        let (Some(one), Some(other)) = (self.ranges.get(one as usize), self.ranges.get(other as usize)) else {
            return false;
        };
        !one.taken && !other.taken && one.death_frontier.len() + other.death_frontier.len() <= MAX_DEATH_POINTS
    }
}

impl Strategy for Tlsf {
    fn name(&self) -> &'static str {
        "tlsf"
    }

    fn max_size(&self) -> u64 {
        self.slab_size
    }

    fn reserve(&mut self, request: Request, usable: &dyn Fn(&[FrontierEntry]) -> bool) -> Option<TakenRange> {
        let mut index = self.find(request, usable)?;
        self.unlink(index);
        let offset = self.range(index).offset;
        let padding = offset.next_multiple_of(request.alignment) - offset;
        if padding > 0 {
            let rest = self.split(index, padding);
            self.link(index);
            index = rest;
        }
        if self.range(index).length > request.size {
            let rest = self.split(index, request.size);
            self.link(rest);
        }
        let range = self.range(index);
        range.taken = true;
        let fresh = !std::mem::replace(&mut range.used, true);
        let death_frontier = std::mem::take(&mut range.death_frontier);
        Some(TakenRange {
            slab: range.slab,
            offset: range.offset,
            length: range.length,
            handle: index.into(),
            fresh,
            death_frontier,
        })
    }

    fn release(&mut self, handle: u64, death_frontier: &[FrontierEntry]) {
        let Ok(mut index) = u32::try_from(handle) else { return };
        let Some(range) = self.ranges.get_mut(index as usize).filter(|range| range.taken) else { return };
        range.taken = false;
        range.death_frontier = death_frontier.into();
        let (before, after) = (range.before, range.after);
        if self.can_join(index, after) {
            self.unlink(after);
            self.join(index, after);
        }
        if self.can_join(before, index) {
            self.unlink(before);
            self.join(before, index);
            index = before;
        }
        self.link(index);
    }

    fn growth(&self, request: Request) -> Option<u64> {
        (request.size <= self.slab_size).then_some(self.slab_size)
    }

    fn add_slab(&mut self, slab: u16, _length: u64) {
        let index = self.insert(Range {
            slab,
            offset: 0,
            length: self.slab_size,
            taken: false,
            used: false,
            death_frontier: Frontier::new(),
            before: NONE,
            after: NONE,
            previous: NONE,
            next: NONE,
        });
        self.link(index);
        let place = usize::from(slab);
        if self.slabs.len() <= place {
            self.slabs.resize(place + 1, None);
        }
        self.slabs[place] = Some(index);
    }

    fn remove_idle(&mut self, usable: &dyn Fn(&[FrontierEntry]) -> bool) -> Option<u16> {
        let ranges = |first: u32| {
            std::iter::successors(self.ranges.get(first as usize), |range| self.ranges.get(range.after as usize))
        };
        let idle = |first: u32| ranges(first).all(|range| !range.taken && usable(&range.death_frontier));
        let slab = self.slabs.iter().position(|first| first.is_some_and(idle))?;
        let mut index = self.slabs[slab].take()?;
        while index != NONE {
            self.unlink(index);
            self.free_indices.push(index);
            index = self.range(index).after;
        }
        u16::try_from(slab).ok()
    }
}
