//! A slab for each reservation.

use super::frontier::Frontier;
use super::strategy::{Request, Strategy, Taken};
use crate::FrontierEntry;

/// Slabs that are reserved as a whole. One that nobody uses any more goes back to its provider at once; others wait for their points.
#[derive(Default)]
pub(super) struct OneEach {
    slabs: Vec<Option<Whole>>,
}

struct Whole {
    length: u64,
    used: bool,
    taken: bool,
    death: Frontier,
}

impl Strategy for OneEach {
    fn name(&self) -> &'static str {
        "slab"
    }

    fn max_size(&self) -> u64 {
        u64::MAX
    }

    fn take(&mut self, request: Request, usable: &dyn Fn(&[FrontierEntry]) -> bool) -> Option<Taken> {
        let fits = |slab: &Whole| {
            // Not one that is much too large.
            !slab.taken && slab.length >= request.size && slab.length / 2 <= request.size && usable(&slab.death)
        };
        let index = self.slabs.iter().position(|slab| slab.as_ref().is_some_and(fits))?;
        let slab = self.slabs[index].as_mut()?;
        slab.taken = true;
        let fresh = !std::mem::replace(&mut slab.used, true);
        let death = std::mem::take(&mut slab.death);
        // There are never more than fit the index of a slab.
        Some(Taken { slab: index as u16, offset: 0, length: slab.length, handle: index as u64, fresh, death })
    }

    fn give(&mut self, handle: u64, death: &[FrontierEntry]) {
        let slab = usize::try_from(handle).ok().and_then(|index| self.slabs.get_mut(index)?.as_mut());
        if let Some(slab) = slab.filter(|slab| slab.taken) {
            slab.taken = false;
            slab.death = death.into();
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
        self.slabs[index] = Some(Whole { length, used: false, taken: false, death: Frontier::new() });
    }

    fn remove_idle(&mut self, usable: &dyn Fn(&[FrontierEntry]) -> bool) -> Option<u16> {
        let idle = |slab: &Whole| !slab.taken && usable(&slab.death);
        let index = self.slabs.iter().position(|slab| slab.as_ref().is_some_and(idle))?;
        self.slabs[index] = None;
        u16::try_from(index).ok()
    }

    fn is_eager(&self) -> bool {
        true
    }
}
