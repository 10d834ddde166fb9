//! Races of an access with those before it ([`Orderer`]), by the clocks of waves.

use std::sync::Arc;

use super::known::Released;
use super::order::{DispatchRecord, Order};
use super::report::OtherAccess;
use super::shadow::{Cell, Epoch};
use super::sites::Sites;
use crate::memory::Access;

/// The clock of a wave.
#[derive(Clone, Default)]
pub(super) struct Clock {
    /// Barriers that it was at.
    pub(super) phase: u32,
    /// For each wave of the work-group, before how many of its barriers accesses are known, where barriers are of some
    /// waves only; empty where all are of all waves.
    pub(super) seen: Vec<u32>,
    /// The progress that it has learnt by atomic accesses.
    pub(super) acquired: Released,
    /// True from a barrier to the next access or barrier.
    pub(super) leaves_barrier: bool,
    /// It has learnt something at a barrier that those who poll what it stores must learn, too.
    pub(super) unpublished: bool,
}

/// The effect of an access on the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// It reads them.
    Load,
    /// It stores the bytes that are there.
    SilentStore,
    /// It stores other bytes, or may do so.
    Change,
}

/// An access that nothing orders with the one that is looked at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Conflict {
    pub(super) other: Epoch,
    pub(super) other_stores: bool,
    /// True if either order of the two has the same results.
    pub(super) is_harmless: bool,
    /// True if they may be ordered, and the load need not see the store all the same.
    pub(super) is_incoherent: bool,
}

impl Conflict {
    /// The worse of two, the later one of equals.
    pub(super) fn worse(first: Option<Conflict>, second: Option<Conflict>) -> Option<Conflict> {
        match (first, second) {
            (Some(first), Some(second)) if second.is_harmless && !first.is_harmless => Some(first),
            (first, second) => second.or(first),
        }
    }
}

/// A race that a lane is part of.
pub(super) struct FoundRace {
    pub(super) lane: usize,
    pub(super) conflict: Conflict,
}

/// Decides whether an access is ordered before those of a wave.
pub(super) struct Orderer<'a> {
    pub(super) record: &'a DispatchRecord,
    pub(super) order: &'a Order,
    pub(super) sites: &'a Sites,
    pub(super) clock: &'a Clock,
    pub(super) wave: u32,
    pub(super) group: u32,
    /// The last other dispatch, and whether it is known.
    pub(super) last: Option<(Arc<DispatchRecord>, bool)>,
}

impl Orderer<'_> {
    fn is_before(&mut self, epoch: Epoch) -> bool {
        let wave = epoch.wave();
        if epoch.is_none() || wave == self.wave {
            return true;
        }
        let phase = || self.sites.get(epoch.site()).phase;
        if self.record.has(wave) {
            let (phase, key) = (phase(), self.record.group_key(wave));
            let same = key == self.group;
            let reached = self.clock.seen.get(wave.wrapping_sub(self.group) as usize).unwrap_or(&self.clock.phase);
            return same && phase < *reached || self.clock.acquired.covers(key, wave, phase, same);
        }
        if self.last.as_ref().is_none_or(|(last, _)| !last.has(wave)) {
            // A wave that is not remembered has long completed.
            let Some(record) = self.order.of_wave(wave) else { return true };
            let knows = self.record.knows(record.id);
            self.last = Some((record, knows));
        }
        let Some((record, knows)) = &self.last else { return true };
        *knows || self.clock.acquired.covers(record.group_key(wave), wave, phase(), false)
    }

    fn is_of_group(&self, epoch: Epoch) -> bool {
        self.record.has(epoch.wave()) && self.record.group_key(epoch.wave()) == self.group
    }

    /// The access of the same dispatch that makes a load incoherent: a store before a load of constants, or such a load
    /// before a store.
    pub(super) fn incoherent(&self, cell: &Cell, is_constant: bool, effect: Effect) -> Option<Conflict> {
        let is_own = |epoch: Epoch| !epoch.is_none() && self.record.has(epoch.wave());
        let conflict = |other, other_stores| Conflict { other, other_stores, is_harmless: false, is_incoherent: true };
        if effect == Effect::Load {
            return (is_constant && is_own(cell.write)).then(|| conflict(cell.write, true));
        }
        let loaded = cell.reads.into_iter().find(|read| is_own(*read) && self.sites.get(read.site()).constant);
        loaded.map(|read| conflict(read, false))
    }

    /// Records an access in a cell. Returns the one that it races with.
    pub(super) fn visit(&mut self, cell: &mut Cell, mine: Epoch, effect: Effect) -> Option<Conflict> {
        let conflict = self.conflict(cell, mine, effect);
        if effect == Effect::Change {
            // Those who read the old bytes race with who stores the new ones as well, even if that changes nothing by
            // now.
            let reads = cell.reads.map(|read| if self.is_over(read) { Epoch::NONE } else { read.made_stale() });
            *cell = Cell { write: mine, reads };
        } else {
            self.note_read(cell, mine);
        }
        conflict
    }

    /// The access of a cell that an access races with.
    pub(super) fn conflict(&mut self, cell: &Cell, mine: Epoch, effect: Effect) -> Option<Conflict> {
        let is_silent = effect == Effect::SilentStore;
        let mut worst = None;
        let both_atomic = |other: Epoch| mine.atomic() && other.atomic();
        if !both_atomic(cell.write) && !self.is_before(cell.write) {
            // The bytes are those of the last write. Those that an atomic access leaves depend on the ones before it.
            let is_harmless = is_silent && !cell.write.atomic();
            let (other, is_incoherent) = (cell.write, false);
            worst = Some(Conflict { other, other_stores: true, is_harmless, is_incoherent });
        }
        for read in cell.reads {
            if read.is_none() || read.is_stale() && !is_silent || worst.is_some_and(|worst| !worst.is_harmless) {
                continue;
            }
            let other_stores = self.sites.get(read.site()).silent;
            if (effect != Effect::Load || other_stores) && !both_atomic(read) && !self.is_before(read) {
                let is_harmless = effect != Effect::Change && !read.is_stale();
                let conflict = Conflict { other: read, other_stores, is_harmless, is_incoherent: false };
                worst = Conflict::worse(Some(conflict), worst);
            }
        }
        worst
    }

    /// Keeps an access that left the bytes as they were, and one of those before it.
    fn note_read(&mut self, cell: &mut Cell, mine: Epoch) {
        let [last, older] = cell.reads;
        if last.wave() == self.wave && !last.is_stale() {
            cell.reads[0] = mine;
            return;
        }
        let open = [last, older].map(|read| if !read.is_stale() && self.is_before(read) { Epoch::NONE } else { read });
        let fresh = |read: &&Epoch| !read.is_none() && !read.is_stale();
        let elsewhere = |read: &&Epoch| fresh(read) && !self.is_of_group(**read);
        let kept = open.iter().find(elsewhere).or_else(|| open.iter().find(fresh));
        let kept = kept.or_else(|| open.iter().find(|read| !read.is_none()));
        cell.reads = [mine, kept.copied().unwrap_or(Epoch::NONE)];
    }

    /// Whether an access is of another dispatch, which was complete when this one began.
    fn is_over(&mut self, read: Epoch) -> bool {
        read.is_none() || !self.record.has(read.wave()) && self.is_before(read)
    }
}

/// The other access of a race.
pub(super) fn other_of(order: &Order, sites: &Sites, race: &FoundRace) -> Option<OtherAccess> {
    let Conflict { other, other_stores, .. } = race.conflict;
    let record = order.of_wave(other.wave())?;
    let moment = sites.get(other.site());
    let (group, wave) = record.place_of(other.wave());
    let access = match (other.atomic(), other_stores) {
        (true, _) => Access::Atomic,
        (false, true) => Access::Store,
        (false, false) => Access::Load,
    };
    let site = record.site(moment.instruction, group, wave, (!moment.scalar).then_some(other.lane()));
    Some(OtherAccess { access, site })
}
