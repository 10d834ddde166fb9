//! Slabs that are divided into ranges of any size: free ranges are found by two levels of size classes, in a time that does not depend on
//! how many there are, and join their neighbours when they are returned.
//!
//! The first level is the power of two that a size is at least, the second divides the way to the next one evenly. A bit for each
//! class tells whether it has free ranges. A range in any higher class than that of a request is large enough for it.
//!
//! Allocators of this kind in crates know free and taken ranges. A free range here has points that have to be reached before it is used
//! again, which decide who may have it, and whether it joins its neighbours.

use super::frontier::{Frontier, join};
use super::strategy::{GRAIN, Request, Strategy, Taken};
use crate::FrontierEntry;

/// Classes of the second level, as a power of two.
const DIVISION_BITS: u32 = 4;
const DIVISIONS: usize = 1 << DIVISION_BITS;

/// Powers of two that sizes are at least, from [`GRAIN`] on.
const LEVELS: usize = 64 - GRAIN.trailing_zeros() as usize;

/// Ranges of a class that are looked at for one that may be used.
const MAX_LOOKED_AT: usize = 32;

/// A range does not join its neighbour if it then had to wait for more points than these.
const MAX_POINTS: usize = 8;

/// No range.
const NONE: u32 = u32::MAX;

/// Ranges of slabs of one size.
pub(super) struct TwoLevel {
    slab_size: u64,
    ranges: Vec<Range>,
    /// Places in `ranges` that are not in use.
    spare: Vec<u32>,
    /// The first free range of each class.
    first: Box<[[u32; DIVISIONS]; LEVELS]>,
    levels: u64,
    divisions: [u16; LEVELS],
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
    /// Whether anybody used any of it.
    used: bool,
    death: Frontier,
    /// Neighbours in the slab.
    before: u32,
    after: u32,
    /// Neighbours in the list of free ranges.
    previous: u32,
    next: u32,
}

/// The class of sizes that a range of `length` is in.
fn class_of(length: u64) -> (usize, usize) {
    let grains = (length / GRAIN).max(1);
    let level = grains.ilog2();
    let division = if level >= DIVISION_BITS {
        (grains >> (level - DIVISION_BITS)) as usize & (DIVISIONS - 1)
    } else {
        (grains << (DIVISION_BITS - level)) as usize & (DIVISIONS - 1)
    };
    (level as usize, division)
}

impl TwoLevel {
    /// Ranges of slabs of `slab_size`, a multiple of [`GRAIN`].
    pub fn new(slab_size: u64) -> TwoLevel {
        TwoLevel {
            slab_size,
            ranges: Vec::new(),
            spare: Vec::new(),
            first: Box::new([[NONE; DIVISIONS]; LEVELS]),
            levels: 0,
            divisions: [0; LEVELS],
            slabs: Vec::new(),
        }
    }

    fn range(&mut self, index: u32) -> &mut Range {
        &mut self.ranges[index as usize]
    }

    fn insert(&mut self, range: Range) -> u32 {
        match self.spare.pop() {
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

    /// Puts a free range into the list of its class.
    fn link(&mut self, index: u32) {
        let (level, division) = class_of(self.range(index).length);
        let next = std::mem::replace(&mut self.first[level][division], index);
        let range = self.range(index);
        (range.previous, range.next) = (NONE, next);
        if next != NONE {
            self.range(next).previous = index;
        }
        self.levels |= 1 << level;
        self.divisions[level] |= 1 << division;
    }

    /// Takes a free range out of the list of its class.
    fn unlink(&mut self, index: u32) {
        let range = self.range(index);
        let (previous, next) = (range.previous, range.next);
        let (level, division) = class_of(range.length);
        if next != NONE {
            self.range(next).previous = previous;
        }
        if previous != NONE {
            self.range(previous).next = next;
            return;
        }
        self.first[level][division] = next;
        if next == NONE {
            self.divisions[level] &= !(1 << division);
            if self.divisions[level] == 0 {
                self.levels &= !(1 << level);
            }
        }
    }

    /// A range of a class in which `fits` holds.
    fn look(&self, level: usize, division: usize, fits: &dyn Fn(&Range) -> bool) -> Option<u32> {
        let mut index = self.first[level][division];
        for _ in 0..MAX_LOOKED_AT {
            let range = self.ranges.get(index as usize)?;
            if fits(range) {
                return Some(index);
            }
            index = range.next;
        }
        None
    }

    /// A free range for the request, the smallest class first.
    fn find(&self, request: Request, usable: &dyn Fn(&[FrontierEntry]) -> bool) -> Option<u32> {
        let fits = |range: &Range| {
            let lead = range.offset.next_multiple_of(request.alignment) - range.offset;
            range.length.checked_sub(lead).is_some_and(|rest| rest >= request.size) && usable(&range.death)
        };
        let (mut level, mut division) = class_of(request.size);
        loop {
            let divisions = u32::from(self.divisions[level]) >> division << division;
            if divisions == 0 {
                // `level` is less than 64, and so is the next.
                let levels = self.levels & !(u64::MAX >> (63 - level));
                if levels == 0 {
                    return None;
                }
                (level, division) = (levels.trailing_zeros() as usize, 0);
                continue;
            }
            let found = divisions.trailing_zeros() as usize;
            if let Some(index) = self.look(level, found, &fits) {
                return Some(index);
            }
            // Past the last one there is nothing: the shift leaves no bit.
            division = found + 1;
        }
    }

    /// Cuts a range in two and returns the second part. Both are as free and as used as the whole.
    fn cut(&mut self, index: u32, length: u64) -> u32 {
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

    /// Joins two free neighbours, neither of which is in a list.
    fn join(&mut self, index: u32, other: u32) {
        let Range { length, after, used, .. } = *self.range(other);
        let death = std::mem::take(&mut self.range(other).death);
        let range = self.range(index);
        range.length += length;
        range.after = after;
        range.used |= used;
        join(&mut range.death, &death);
        if after != NONE {
            self.range(after).before = index;
        }
        self.spare.push(other);
    }

    /// Whether two neighbours can be one range.
    fn can_join(&self, one: u32, other: u32) -> bool {
        let (Some(one), Some(other)) = (self.ranges.get(one as usize), self.ranges.get(other as usize)) else {
            return false;
        };
        !one.taken && !other.taken && one.death.len() + other.death.len() <= MAX_POINTS
    }
}

impl Strategy for TwoLevel {
    fn name(&self) -> &'static str {
        "two-level"
    }

    fn max_size(&self) -> u64 {
        self.slab_size
    }

    fn take(&mut self, request: Request, usable: &dyn Fn(&[FrontierEntry]) -> bool) -> Option<Taken> {
        let mut index = self.find(request, usable)?;
        self.unlink(index);
        let offset = self.range(index).offset;
        let lead = offset.next_multiple_of(request.alignment) - offset;
        if lead > 0 {
            let rest = self.cut(index, lead);
            self.link(index);
            index = rest;
        }
        if self.range(index).length > request.size {
            let rest = self.cut(index, request.size);
            self.link(rest);
        }
        let range = self.range(index);
        range.taken = true;
        let fresh = !std::mem::replace(&mut range.used, true);
        let death = std::mem::take(&mut range.death);
        Some(Taken { slab: range.slab, offset: range.offset, length: range.length, handle: index.into(), fresh, death })
    }

    fn give(&mut self, handle: u64, death: &[FrontierEntry]) {
        let Ok(mut index) = u32::try_from(handle) else { return };
        let Some(range) = self.ranges.get_mut(index as usize).filter(|range| range.taken) else { return };
        range.taken = false;
        range.death = death.into();
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
            death: Frontier::new(),
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
        let idle = |first: u32| ranges(first).all(|range| !range.taken && usable(&range.death));
        let slab = self.slabs.iter().position(|first| first.is_some_and(idle))?;
        let mut index = self.slabs[slab].take()?;
        while index != NONE {
            self.unlink(index);
            self.spare.push(index);
            index = self.range(index).after;
        }
        u16::try_from(slab).ok()
    }
}
