//! Accesses by copies and fills that an owner orders with its dispatches, and what such an owner asks after one.

use std::sync::atomic::Ordering;

use super::groups::DispatchHook;
use super::order::Known;
use super::races::{Clock, Effect, FoundRace, Orderer, other_of};
use super::report::{Finding, Report};
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

    /// Such a one frees a range: accesses that are not ordered before it may come after it.
    pub fn frees(&self, dispatch: &RunningDispatch, start: u64, length: u64) {
        if !self.checks().race || !dispatch.0.is_counted() {
            return;
        }
        let mut state = self.state();
        let State { shadow, order, sites, .. } = &mut *state;
        let (record, clock, wave) = (&dispatch.0, Clock::default(), dispatch.0.wave(0, 0));
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
        let Some((address, race)) = found else { return };
        let other = other_of(&state.order, &state.sites, &race);
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
