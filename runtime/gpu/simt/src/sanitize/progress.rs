//! Barriers of some waves, and lanes that progress on their own, in the checks of a work-group.

use super::barriers::{Meeting, join};
use super::groups::GroupChecker;
use super::lanes::{LaneConflict, MOST_WORDS};
use super::report::{Finding, OtherAccess, Report};
use super::state::{State, lock};
use super::warning::Unchecked;
use crate::memory::{RowAccess, Space};
use crate::row::{LANES, Mask, lanes};

impl GroupChecker<'_> {
    pub(super) fn arrive(&mut self, wave: u32, barrier: u8, waits: bool, local: &[u8]) {
        let shared = self.hook.state;
        self.settle(&mut lock(shared), Some(local));
        let count = self.clocks.len();
        let Some(clock) = self.clocks.get_mut(wave as usize) else { return };
        clock.phase += 1;
        clock.seen.resize(count, 0);
        let barriers = &mut self.progress.barriers;
        barriers.resize(barriers.len().max(usize::from(barrier) + 1), Meeting::default());
        let meeting = &mut barriers[usize::from(barrier)];
        join(&mut meeting.seen, &clock.seen);
        meeting.seen[wave as usize] = clock.phase;
        meeting.acquired.join(&clock.acquired);
        if waits {
            meeting.waiting.push(wave);
            if let Some(lanes) = self.lanes.get_mut(wave as usize) {
                lanes.meet(Mask::MAX, 0);
            }
        }
    }

    pub(super) fn release(&mut self, barrier: u8, is_of_all: bool) {
        let Some(meeting) = self.progress.barriers.get_mut(usize::from(barrier)) else { return };
        let mut meeting = std::mem::take(meeting);
        for wave in self.progress.ended.iter().filter(|_| is_of_all) {
            let Some(clock) = self.clocks.get(*wave as usize) else { continue };
            join(&mut meeting.seen, &clock.seen);
            if let Some(seen) = meeting.seen.get_mut(*wave as usize) {
                *seen = clock.phase + 1;
            }
            meeting.acquired.join(&clock.acquired);
        }
        for wave in meeting.waiting {
            let clock = &mut self.clocks[wave as usize];
            join(&mut clock.seen, &meeting.seen);
            if !meeting.acquired.is_empty() {
                clock.acquired.join(&meeting.acquired);
                clock.unpublished = true;
            }
        }
    }

    pub(super) fn end_wave(&mut self, wave: u32) {
        self.progress.ended.push(wave);
    }

    pub(super) fn meet_lanes(&mut self, wave: u32, members: Mask, live: Mask, local: &[u8]) {
        let shared = self.hook.state;
        self.settle(&mut lock(shared), Some(local));
        if let Some(lanes) = self.lanes.get_mut(wave as usize) {
            lanes.meet(members, live);
        }
    }

    /// The barriers that a wave counts as having passed when it releases what its work-group did.
    pub(super) fn phase_of_group(&self, wave: u32) -> u32 {
        match self.lanes.is_empty() {
            true => self.clocks.get(wave as usize).map_or(0, |clock| clock.phase),
            // Waves that pass barriers of their own count differently.
            false => self.clocks.iter().map(|clock| clock.phase).max().unwrap_or(0),
        }
    }

    /// Lanes poll what others release.
    pub(super) fn acquire_in_wave(&mut self, access: &RowAccess<'_>, allowed: Mask) {
        if let Some(lanes) = self.lanes.get_mut(access.wave as usize) {
            lanes.acquire(allowed);
        }
    }

    /// Compares an access with those of other lanes of its wave.
    pub(super) fn check_lanes(
        &mut self,
        state: &mut State,
        access: &RowAccess<'_>,
        allowed: Mask,
        changed: Option<&[u64; LANES]>,
    ) {
        let Some(lanes) = self.lanes.get_mut(access.wave as usize) else { return };
        let mut conflicts: Vec<LaneConflict> = Vec::new();
        if !lanes.visit(access, allowed, changed, |conflict| conflicts.push(conflict)) {
            state.reports.warn(Unchecked::EarlierAccesses, Some(self.kernel()), MOST_WORDS as u64);
        }
        for conflict in conflicts {
            let finding = match (conflict.is_harmless, access.space) {
                (true, _) if !state.checks.same_value => continue,
                (true, _) => Finding::SameValueRace,
                (false, Space::Group) => Finding::GroupRace,
                (false, Space::Global) => Finding::Race,
            };
            let LaneConflict { other_lane, instruction, access: kind, .. } = conflict;
            let other = || {
                let site = self.hook.record.site(instruction, self.group, access.wave, Some(other_lane));
                Some(OtherAccess { access: kind, site })
            };
            self.report_with(state, access, conflict.lane as usize, finding, other);
        }
    }

    pub(super) fn report_stores(&mut self, access: &RowAccess<'_>, lanes: [usize; 2], is_same_value: bool) {
        let shared = self.hook.state;
        let mut guard = lock(shared);
        let finding = match is_same_value {
            false => Finding::ConflictingStores,
            true if guard.checks.same_value => Finding::SameValueRace,
            true => return,
        };
        if !guard.checks.race {
            return;
        }
        let other = || {
            let site = self.hook.record.site(access.instruction, self.group, access.wave, Some(lanes[0] as u32));
            Some(OtherAccess { access: access.access, site })
        };
        self.report_with(&mut guard, access, lanes[1], finding, other);
    }

    pub(super) fn report_divergence(&mut self, wave: u32, instruction: u64, there: Mask, elsewhere: Mask) {
        let shared = self.hook.state;
        let mut guard = lock(shared);
        let site = self.hook.record.site(instruction, self.group, wave, Some(there.trailing_zeros() & 31));
        let others: Vec<String> = lanes(elsewhere).map(|lane| lane.to_string()).collect();
        let note = format!("{} lanes of the warp are there; elsewhere: {}", there.count_ones(), others.join(", "));
        guard.reports.add(Finding::DivergentBarrier, self.kernel(), instruction, || Report {
            finding: Finding::DivergentBarrier,
            access: crate::memory::Access::Load,
            length: 0,
            address: 0,
            site: Some(site),
            allocation: None,
            group_bytes: None,
            other: None,
            exit: None,
            note: Some(note),
            count: 1,
        });
    }
}
