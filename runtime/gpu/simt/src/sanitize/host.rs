//! Accesses by copies and fills that an owner orders with its dispatches, and what such an owner asks after one.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::groups::DispatchHook;
use super::order::{DispatchRecord, Known};
use super::races::{Clock, Effect, FoundRace, Orderer, other_of};
use super::report::{Finding, OtherAccess, Report};
use super::shadow::Epoch;
use super::state::State;
use super::unwritten;
use super::{RunningDispatch, Sanitizer};
use crate::memory::{Access, Memory, Port, RowAccess, Space};
use crate::row::LANES;

/// Bytes of an access at most.
const STEP: u64 = 1 << 30;
/// Bytes that are looked at together where some of them are unwritten.
const PIECE: u64 = 256;

impl Sanitizer {
    /// A copy or fill, which began as a dispatch of one wave, accesses a range. It is compared with other accesses; its
    /// bounds are the owner's to check.
    pub fn transfers(&self, dispatch: &RunningDispatch, start: u64, length: u64, access: Access, memory: &dyn Memory) {
        if !self.checks().race || !dispatch.0.is_counted() {
            return;
        }
        let hook = DispatchHook { state: &self.state, record: dispatch.0.clone(), memory };
        let mut checker = hook.checker([0; 3], 0);
        let mut done = 0;
        while done < length {
            let step = (length - done).min(STEP);
            let addresses = [start + done; LANES];
            checker.transfers(&RowAccess {
                instruction: 0,
                wave: 0,
                mask: 1,
                scalar: true,
                addresses: &addresses,
                length: step as u32,
                access,
                atomic: false,
                space: Space::Global,
            });
            done += step;
        }
    }

    /// Such a one frees an allocation: accesses that are not ordered before it may come after it. It is told before the
    /// memory goes, so that an access is either known already, or finds that the allocation was freed. Otherwise as
    /// [`Sanitizer::freed`].
    pub fn frees(
        &self,
        dispatch: &RunningDispatch,
        start: u64,
        length: u64,
        by: String,
        keep: Arc<dyn Any + Send + Sync>,
    ) {
        let mut state = self.state();
        if self.checks.race && dispatch.0.is_counted() {
            find_use(&mut state, &dispatch.0, (start, length));
        }
        state.free(start, by, keep);
    }

    /// Somebody whose accesses are compared with others, by [`Sanitizer::transfers`], wrote a range.
    pub fn filled(&self, start: u64, length: u64) {
        let mut state = self.state();
        if state.checks.init && state.blocks.holds(start) {
            state.set_written(start, length, None);
        }
    }

    /// Such a one copies bytes inside the device: unwritten ones stay so. It is told before the copy is made, and
    /// returns the ranges that are to have [`poison`](super::poison) again after it.
    pub fn copies(&self, to: u64, from: u64, length: u64, memory: &dyn Memory) -> Vec<(u64, u64)> {
        let mut state = self.state();
        let mut open = Vec::new();
        if !state.checks.init || !state.blocks.holds(to) {
            return open;
        }
        state.set_written(to, length, None);
        if !state.blocks.is_poisoned(from, length) {
            return open;
        }
        let mut port = Port::new(memory);
        let mut at = 0;
        while at < length {
            let piece = (length - at).min(PIECE);
            let Some(found) = unwritten::find(&mut state, &mut port, (from + at, piece), None) else {
                at += piece;
                continue;
            };
            let first = found.first - from;
            let is_open = |byte: &u64| unwritten::find(&mut state, &mut port, (from + byte, 1), None).is_some();
            let count = (first..at + piece).take_while(is_open).count() as u64;
            state.shadow.unwrite(to + first, count);
            open.push((to + first, count));
            at = first + count;
        }
        open
    }

    /// A dispatch has ended. Returns what those know that come after it.
    pub fn finish(&self, dispatch: &RunningDispatch) -> Known {
        Known::after(&dispatch.0)
    }
}

impl RunningDispatch {
    /// How many accesses of its lanes were refused.
    pub fn refused(&self) -> u64 {
        self.0.refused.load(Ordering::Relaxed)
    }
}

/// Reports the first use of a range that is not ordered before somebody who frees it.
fn find_use(state: &mut State, record: &Arc<DispatchRecord>, (start, length): (u64, u64)) {
    let State { shadow, order, sites, pending, .. } = &mut *state;
    let (clock, wave) = (Clock::default(), record.wave(0, 0));
    let mut orderer = Orderer { record, order, sites, clock: &clock, wave, group: wave, last: None };
    let mut found: Option<(u64, FoundRace)> = None;
    shadow.known_cells(start, length, |cell, address| {
        let mine = Epoch::new(wave, 0, 0, false);
        if found.as_ref().is_none_or(|(first, _)| address < *first)
            && let Some(conflict) = orderer.conflict(cell, mine, Effect::Change)
        {
            found = Some((address, FoundRace { lane: 0, conflict }));
        }
    });
    let found = match found {
        Some((address, race)) => Some((address, other_of(order, sites, &race))),
        // The last store of a work-group is in no cell before the next thing that the work-group does.
        None => pending
            .iter()
            .filter_map(|(first, store)| {
                let of = order.of_wave(*first).filter(|of| !record.knows(of.id))?;
                let lane = store.first_of(start, length)?;
                let access = store.access();
                let (group, _) = of.place_of(*first);
                let lane_number = (!access.scalar).then_some(lane as u32);
                let site = of.site(access.instruction, group, access.wave, lane_number);
                Some((access.addresses[lane], Some(OtherAccess { access: access.access, site })))
            })
            .min_by_key(|(address, _)| *address),
    };
    let Some((address, other)) = found else { return };
    let State { blocks, reports, .. } = &mut *state;
    reports.add(Finding::UseAfterFree, record.code.kernel(), 0, || Report {
        finding: Finding::UseAfterFree,
        access: other.as_ref().map_or(Access::Load, |other| other.access),
        length: 4,
        address,
        site: other.map(|other| other.site),
        allocation: blocks.note(address),
        group_bytes: None,
        other: None,
        exit: None,
        note: Some(format!("nothing orders it before {}", record.site(0, [0; 3], 0, None))),
        count: 1,
    });
}
