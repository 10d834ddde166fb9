//! The whole-slab strategy: a slab for each reservation.

use super::frontier::Frontier;
use super::strategy::{Request, Strategy, TakenRange};
use crate::hal::FrontierEntry;

/// Slabs that are reserved as a whole. A released slab goes back to its provider as soon as its death frontier is
/// reached.
#[derive(Default)]
pub(super) struct WholeSlabs {
    slabs: Vec<Option<SlabEntry>>,
}

struct SlabEntry {
    length: u64,
    used: bool,
    taken: bool,
    death_frontier: Frontier,
}

impl Strategy for WholeSlabs {
    fn name(&self) -> &'static str {
        "slab"
    }

    fn max_size(&self) -> u64 {
        u64::MAX
    }

    fn reserve(&mut self, request: Request, usable: &dyn Fn(&[FrontierEntry]) -> bool) -> Option<TakenRange> {
        let fits = |slab: &SlabEntry| {
            // A slab of more than twice the size would waste memory.
            !slab.taken
                && slab.length >= request.size
                && slab.length / 2 <= request.size
                && usable(&slab.death_frontier)
        };
        let index = self.slabs.iter().position(|slab| slab.as_ref().is_some_and(fits))?;
        let slab = self.slabs[index].as_mut()?;
        slab.taken = true;
        let fresh = !std::mem::replace(&mut slab.used, true);
        let death_frontier = std::mem::take(&mut slab.death_frontier);
        // There are never more than fit the index of a slab.
        Some(TakenRange {
            slab: index as u16,
            offset: 0,
            length: slab.length,
            handle: index as u64,
            fresh,
            death_frontier,
        })
    }

    fn release(&mut self, handle: u64, death_frontier: &[FrontierEntry]) {
        let slab = usize::try_from(handle).ok().and_then(|index| self.slabs.get_mut(index)?.as_mut());
        if let Some(slab) = slab.filter(|slab| slab.taken) {
            slab.taken = false;
            slab.death_frontier = death_frontier.into();
        }
    }

    fn growth(&self, request: Request) -> Option<u64> {
        Some(request.size)
    }

    fn add_slab(&mut self, slab: u16, length: u64) {
        let index = usize::from(slab);
        if self.slabs.len() <= index {
            self.slabs.resize_with(index + 1, || None);
        }
        self.slabs[index] = Some(SlabEntry { length, used: false, taken: false, death_frontier: Frontier::new() });
    }

    fn remove_idle(&mut self, usable: &dyn Fn(&[FrontierEntry]) -> bool) -> Option<u16> {
        let idle = |slab: &SlabEntry| !slab.taken && usable(&slab.death_frontier);
        let index = self.slabs.iter().position(|slab| slab.as_ref().is_some_and(idle))?;
        self.slabs[index] = None;
        u16::try_from(index).ok()
    }

    fn trims_on_release(&self) -> bool {
        true
    }
}
