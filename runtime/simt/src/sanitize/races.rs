//! Races of an access with those before it ([`Orderer`]), by the clocks of waves.

use std::sync::Arc;

use super::Sites;
use super::known::Released;
use super::order::{DispatchRecord, Order};
use super::report::{OtherAccess, Site};
use super::shadow::{Cell, Epoch};
use crate::memory::Access;

/// The clock of a wave.
#[derive(Clone, Default)]
pub(super) struct Clock {
    /// Barriers that it was at.
    pub(super) phase: u32,
    /// The progress that it has learnt by atomic accesses.
    pub(super) acquired: Released,
    /// True from a barrier to the next access or barrier.
    pub(super) leaves_barrier: bool,
    /// It has learnt something at a barrier that those who poll what it stores must learn, too.
    pub(super) unpublished: bool,
}

/// A race that a lane is part of.
pub(super) struct FoundRace {
    pub(super) lane: usize,
    pub(super) other: Epoch,
    pub(super) other_stores: bool,
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
            return same && phase < self.clock.phase || self.clock.acquired.covers(key, wave, phase, same);
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

    /// Records an access in a cell. Returns the one that it races with, and whether that stores.
    pub(super) fn visit(&mut self, cell: &mut Cell, mine: Epoch, access: Access) -> Option<(Epoch, bool)> {
        let mut race = None;
        let both_atomic = |other: Epoch| mine.atomic() && other.atomic();
        if !both_atomic(cell.write) && !self.is_before(cell.write) {
            race = Some((cell.write, true));
        }
        if access == Access::Load {
            let [last, older] = cell.reads;
            if last.wave() != self.wave {
                let candidates = [last, older].map(|read| if self.is_before(read) { Epoch::NONE } else { read });
                let elsewhere = |read: &&Epoch| !read.is_none() && !self.is_of_group(**read);
                let kept = candidates.iter().find(elsewhere).or(candidates.iter().find(|read| !read.is_none()));
                cell.reads[1] = kept.copied().unwrap_or(Epoch::NONE);
            }
            cell.reads[0] = mine;
            return race;
        }
        for read in cell.reads {
            if race.is_none() && !both_atomic(read) && !self.is_before(read) {
                race = Some((read, false));
            }
        }
        *cell = Cell { write: mine, reads: Default::default() };
        race
    }
}

/// The other access of a race.
pub(super) fn other_of(order: &Order, sites: &Sites, race: &FoundRace) -> Option<OtherAccess> {
    let record = order.of_wave(race.other.wave())?;
    let moment = sites.get(race.other.site());
    let (group, wave) = record.place_of(race.other.wave());
    let access = match (race.other.atomic(), race.other_stores) {
        (true, _) => Access::Atomic,
        (false, true) => Access::Store,
        (false, false) => Access::Load,
    };
    let site = Site {
        kernel: record.code.kernel().to_string(),
        place: record.code.place(moment.instruction),
        group,
        wave,
        lane: (!moment.scalar).then_some(race.other.lane()),
        queue: record.queue,
        packet: record.packet,
    };
    Some(OtherAccess { access, site })
}
