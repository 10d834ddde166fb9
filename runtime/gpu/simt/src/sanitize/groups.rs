//! The checks of the accesses of a work-group ([`GroupChecker`]): bounds, what was written, and races by the clocks of
//! its waves.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use super::barriers::Progress;
use super::blocks::Found;
use super::known::{Knowledge, MOST_ENTRIES, Reached, Released};
use super::lanes::WaveLanes;
use super::order::DispatchRecord;
use super::races::{Clock, Conflict, Effect, FoundRace, Orderer, other_of};
use super::report::{Finding, OtherAccess, Report, Site};
use super::shadow::{Epoch, Exhausted, Shadow};
use super::sites::Moment;
use super::state::{State, lock};
use super::stored::{Bytes, Pending};
use super::unwritten;
use super::warning::Unchecked;
use crate::memory::{Access, AccessHook, GroupHook, Memory, Port, RowAccess, Space};
use crate::row::{LANES, Mask, lanes};

/// Bytes of shadow memory for the memory of a work-group, of which there are at most 64 KiB.
const GROUP_SHADOW: u64 = 8 << 20;

/// The hook of a dispatch.
pub(super) struct DispatchHook<'a> {
    pub(super) state: &'a Mutex<State>,
    pub(super) record: Arc<DispatchRecord>,
    pub(super) memory: &'a dyn Memory,
}

impl AccessHook for DispatchHook<'_> {
    fn start_group(&self, group: [u32; 3], local_bytes: u32) -> Box<dyn GroupHook + '_> {
        Box::new(self.checker(group, local_bytes))
    }
}

impl DispatchHook<'_> {
    /// The checks of a work-group.
    pub(super) fn checker(&self, group: [u32; 3], local_bytes: u32) -> GroupChecker<'_> {
        let waves = self.record.waves as usize;
        let has_lanes = self.record.code.has_free_lanes() && lock(self.state).checks.race;
        let [x, y, z] = group.map(u64::from);
        let [width, height, _] = self.record.groups.map(u64::from);
        GroupChecker {
            hook: self,
            first_wave: self.record.wave(x + width * (y + height * z), 0),
            group,
            local_bytes,
            local: Shadow::new(GROUP_SHADOW),
            generation: 0,
            local_known: Knowledge::new(MOST_ENTRIES),
            clocks: vec![Clock::default(); waves],
            arrived: Default::default(),
            port: Port::new(self.memory),
            stored: None,
            lanes: (0..if has_lanes { waves } else { 0 }).map(|_| WaveLanes::default()).collect(),
            progress: Progress::default(),
        }
    }
}

/// The checks of one work-group.
pub(super) struct GroupChecker<'a> {
    pub(super) hook: &'a DispatchHook<'a>,
    /// The number of its first wave.
    first_wave: u32,
    pub(super) group: [u32; 3],
    local_bytes: u32,
    local: Shadow,
    /// The generation of the numbers of moments in `local`.
    generation: u64,
    local_known: Knowledge,
    pub(super) clocks: Vec<Clock>,
    /// The knowledge of waves that arrived at the last two barriers.
    arrived: [(u32, Released); 2],
    port: Port<'a>,
    /// The last store to the memory of the work-group, until it is known to have been made.
    stored: Option<Pending>,
    /// The lanes of each wave, if they progress on their own.
    pub(super) lanes: Vec<WaveLanes>,
    pub(super) progress: Progress,
}

impl GroupHook for GroupChecker<'_> {
    fn access(&mut self, access: &RowAccess<'_>, local: &[u8]) -> Mask {
        let shared = self.hook.state;
        let mut guard = lock(shared);
        let state = &mut *guard;
        self.settle(state, Some(local));
        self.leave_barrier(access.wave);
        let clock = self.clocks.get_mut(access.wave as usize);
        let learnt = clock.is_some_and(|clock| std::mem::take(&mut clock.unpublished));
        if learnt {
            self.publish(state, access.wave);
        }
        let allowed = match access.space {
            Space::Global => self.check_global(state, access),
            Space::Group => self.check_group(state, access),
        };
        if state.checks.race && self.hook.record.is_counted() {
            if Pending::is_for(access) {
                if allowed != 0 {
                    let phase = self.clocks.get(access.wave as usize).map_or(0, |clock| clock.phase);
                    match access.space {
                        Space::Global => {
                            let bytes = Bytes::Global(&mut self.port);
                            state.pending.insert(self.first_wave, Pending::new(access, (allowed, phase), bytes));
                        }
                        Space::Group => {
                            self.stored = Some(Pending::new(access, (allowed, phase), Bytes::Group(local)));
                        }
                    }
                }
            } else {
                self.check_races(state, access, allowed, None);
            }
        }
        allowed
    }

    fn barrier(&mut self, wave: u32, local: &[u8]) {
        let shared = self.hook.state;
        self.settle(&mut lock(shared), Some(local));
        self.leave_barrier(wave);
        let Some(clock) = self.clocks.get_mut(wave as usize) else { return };
        // Waves that arrive at the next barrier while others have not left this one use the other half.
        let arrived = &mut self.arrived[(clock.phase & 1) as usize];
        if arrived.0 != clock.phase {
            *arrived = (clock.phase, Released::default());
        }
        arrived.1.join(&clock.acquired);
        clock.phase += 1;
        clock.leaves_barrier = true;
    }

    fn end(&mut self, local: &[u8]) {
        let shared = self.hook.state;
        self.settle(&mut lock(shared), Some(local));
    }

    fn met(&mut self, wave: u32, members: Mask, live: Mask, local: &[u8]) {
        self.meet_lanes(wave, members, live, local);
    }

    fn arrived(&mut self, wave: u32, barrier: u8, waits: bool, local: &[u8]) {
        self.arrive(wave, barrier, waits, local);
    }

    fn released(&mut self, barrier: u8, is_of_all: bool) {
        self.release(barrier, is_of_all);
    }

    fn ended(&mut self, wave: u32) {
        self.end_wave(wave);
    }

    fn stores_to_one_address(&mut self, access: &RowAccess<'_>, lanes: [usize; 2], is_same_value: bool) {
        self.report_stores(access, lanes, is_same_value);
    }

    fn diverges(&mut self, wave: u32, instruction: u64, there: Mask, elsewhere: Mask) {
        self.report_divergence(wave, instruction, there, elsewhere);
    }
}

impl Drop for GroupChecker<'_> {
    fn drop(&mut self) {
        // A work-group that was stopped does not show its memory any more.
        let shared = self.hook.state;
        self.settle(&mut lock(shared), None);
    }
}

impl GroupChecker<'_> {
    /// Looks at the last stores of the work-group, which have been made by now. Without its memory one to that counts
    /// as one that changes all of its bytes.
    pub(super) fn settle(&mut self, state: &mut State, local: Option<&[u8]>) {
        if let Some(pending) = self.stored.take() {
            let changed = local.map(|local| pending.changed(Bytes::Group(local)));
            let access = pending.access();
            self.check_races(state, &access, access.mask, changed.as_ref());
        }
        let Some(pending) = state.pending.remove(&self.first_wave) else { return };
        let changed = pending.changed(Bytes::Global(&mut self.port));
        let access = pending.access();
        self.check_races(state, &access, access.mask, Some(&changed));
    }

    /// Adds to the knowledge of this wave that of the others, as of when they arrived at the barrier, or ended.
    fn leave_barrier(&mut self, wave: u32) {
        let clock = self.clocks.get_mut(wave as usize).filter(|clock| clock.leaves_barrier);
        let Some(clock) = clock else { return };
        clock.leaves_barrier = false;
        let reached = clock.phase;
        let (phase, released) = &self.arrived[(reached.wrapping_sub(1) & 1) as usize];
        let mut learnt = if phase.wrapping_add(1) == reached { released.clone() } else { Released::default() };
        // All waves that have not ended arrived at the barrier.
        let ended = self.clocks.iter().filter(|clock| clock.phase < reached);
        ended.for_each(|clock| learnt.join(&clock.acquired));
        if !learnt.is_empty() {
            let clock = &mut self.clocks[wave as usize];
            clock.acquired.join(&learnt);
            clock.unpublished = true;
        }
    }

    /// Lets those that poll what a wave stores learn what it knows.
    fn publish(&self, state: &mut State, wave: u32) {
        let Some(clock) = self.clocks.get(wave as usize) else { return };
        if state.known.is_full() {
            state.forget_known(self.kernel());
        }
        state.known.publish(self.first_wave.wrapping_add(wave), &clock.acquired);
    }

    /// The lanes whose accesses to device memory may be made.
    fn check_global(&self, state: &mut State, access: &RowAccess<'_>) -> Mask {
        let (mut first, mut last) = (u64::MAX, 0);
        for lane in lanes(access.mask) {
            first = first.min(access.addresses[lane]);
            last = last.max(access.addresses[lane]);
        }
        let span = (last.wrapping_sub(first)).saturating_add(access.length.into());
        let together = u32::try_from(span).ok().filter(|_| access.mask != 0);
        let inside = together.and_then(|span| match state.blocks.find(first, span) {
            Found::Inside(block) => Some(block.poisoned),
            _ => None,
        });
        let loads = access.access != Access::Store;
        let mut allowed = access.mask;
        match inside {
            Some(poisoned) => {
                if state.checks.init && poisoned && loads && !state.shadow.is_written(first, span) {
                    lanes(access.mask).for_each(|lane| self.check_written(state, access, (lane, access.length)));
                }
            }
            None => {
                for lane in lanes(access.mask) {
                    if !self.check_lane(state, access, lane) {
                        allowed &= !(1 << lane);
                    }
                }
            }
        }
        if state.checks.init && access.access != Access::Load {
            for lane in lanes(allowed) {
                if state.blocks.holds(access.addresses[lane]) {
                    state.set_written(access.addresses[lane], access.length.into(), Some(self.kernel()));
                }
            }
        }
        allowed
    }

    /// Whether a lane's access to device memory is in bounds.
    fn check_lane(&self, state: &mut State, access: &RowAccess<'_>, lane: usize) -> bool {
        let (address, mut length) = (access.addresses[lane], access.length);
        if access.access == Access::Load {
            length = state.blocks.widened(address, length).unwrap_or(length);
        }
        let finding = match state.blocks.find(address, length) {
            Found::Inside(block) => {
                if state.checks.init && block.poisoned && access.access != Access::Store {
                    self.check_written(state, access, (lane, length));
                }
                return true;
            }
            Found::Past => Finding::OutOfBounds,
            Found::Freed => Finding::UseAfterFree,
            Found::Unknown => {
                // Memory that is not from a pool: that of the program, of queues and signals, or of code.
                let region = self.hook.memory.region(address);
                let fits = |start: u64, bytes: u64| {
                    address >= start && address - start < bytes && bytes - (address - start) >= u64::from(length)
                };
                if region.is_some_and(|region| fits(region.start, region.length)) {
                    return true;
                }
                Finding::OutOfBounds
            }
        };
        if !state.checks.memory {
            // Without this check such an access does what it does without a sanitizer.
            return true;
        }
        self.hook.record.refused.fetch_add(1, Ordering::Relaxed);
        self.report(state, access, lane, finding, None);
        false
    }

    /// Reports a lane that loads unwritten bytes, of so many from its address on.
    fn check_written(&self, state: &mut State, access: &RowAccess<'_>, (lane, length): (usize, u32)) {
        let range = (access.addresses[lane], u64::from(length));
        if unwritten::find(state, &mut Port::new(self.hook.memory), range, Some(self.kernel())).is_some() {
            self.report(state, access, lane, Finding::Uninitialized, None);
        }
    }

    /// The lanes whose accesses to the memory of the work-group may be made.
    fn check_group(&mut self, state: &mut State, access: &RowAccess<'_>) -> Mask {
        let mut allowed = access.mask;
        for lane in lanes(access.mask) {
            let (offset, length) = (access.addresses[lane], u64::from(access.length));
            if offset.checked_add(length).is_none_or(|end| end > self.local_bytes.into()) {
                allowed &= !(1 << lane);
                if state.checks.memory {
                    self.hook.record.refused.fetch_add(1, Ordering::Relaxed);
                    self.report(state, access, lane, Finding::GroupOutOfBounds, None);
                }
                continue;
            }
            if !state.checks.init {
                continue;
            }
            if access.access != Access::Store && !self.local.is_written(offset, length) {
                self.report(state, access, lane, Finding::GroupUninitialized, None);
            }
            if access.access != Access::Load && self.local.set_written(offset, length).is_err() {
                state.reports.warn(Unchecked::PartsOfWords, Some(self.hook.record.code.kernel()), GROUP_SHADOW);
            }
        }
        allowed
    }

    /// Compares an access with those before it. `changed` has the bytes of each lane that a store changed, by bits.
    fn check_races(
        &mut self,
        state: &mut State,
        access: &RowAccess<'_>,
        allowed: Mask,
        changed: Option<&[u64; LANES]>,
    ) {
        state.reserve_sites(self.hook.record.code.kernel());
        if self.generation != state.sites.generation {
            self.generation = state.sites.generation;
            self.local.forget_accesses(0, u64::MAX);
        }
        if access.atomic && access.access == Access::Load {
            // A load that polls what others store: it orders, and races with nothing.
            self.acquire_by_load(state, access, allowed);
            self.acquire_in_wave(access, allowed);
            return;
        }
        self.check_lanes(state, access, allowed, changed);
        let mut races = Vec::new();
        let outcome = self.visit_cells(state, access, (allowed, changed), &mut races);
        if access.access == Access::Atomic {
            self.synchronise(state, access, allowed);
        }
        for race in races {
            let finding = match (race.conflict.is_harmless, access.space) {
                _ if race.conflict.is_incoherent => Finding::IncoherentLoad,
                (true, _) if !state.checks.same_value => continue,
                (true, _) => Finding::SameValueRace,
                (false, Space::Group) => Finding::GroupRace,
                (false, Space::Global) => Finding::Race,
            };
            self.report(state, access, race.lane, finding, Some(&race));
        }
        if outcome.is_err() {
            let limit = if access.space == Space::Group { GROUP_SHADOW } else { state.limits.shadow };
            state.reports.warn(Unchecked::Races, Some(self.kernel()), limit);
        }
    }

    /// An access of a copy or a fill.
    pub(super) fn transfers(&mut self, access: &RowAccess<'_>) {
        let shared = self.hook.state;
        self.check_races(&mut lock(shared), access, access.mask, None);
    }

    /// Records an access in the cells of its bytes, and finds those that it races with.
    fn visit_cells(
        &mut self,
        state: &mut State,
        access: &RowAccess<'_>,
        (allowed, changed): (Mask, Option<&[u64; LANES]>),
        races: &mut Vec<FoundRace>,
    ) -> Result<(), Exhausted> {
        let clock = self.clocks.get(access.wave as usize).ok_or(Exhausted)?;
        let (instruction, phase, scalar) = (access.instruction, clock.phase, access.scalar);
        let constant = access.access == Access::Load && self.hook.record.code.loads_constants(instruction);
        let moment = |silent| Moment { instruction, phase, scalar, silent, constant };
        let (group, wave) = (self.first_wave, self.first_wave.wrapping_add(access.wave));
        let silent_site = changed.map(|_| state.sites.number(moment(true)));
        let site = state.sites.number(moment(false));
        let State { shadow, order, sites, .. } = &mut *state;
        let cells = if access.space == Space::Group { &mut self.local } else { shadow };
        let mut orderer = Orderer { record: &self.hook.record, order, sites, clock, wave, group, last: None };
        let atomic = access.access == Access::Atomic;
        // Memory of a work-group has no contents when it starts, so the first store there is none that changes nothing.
        let needs_writer = access.space == Space::Group;
        let mut outcome = Ok(());
        for lane in lanes(allowed) {
            let changes = changed.map_or(u64::MAX, |changed| changed[lane]);
            let (mut found, mut incoherent) = (None, None);
            let visited = cells.cells(access.addresses[lane], access.length.into(), |cell, bytes| {
                let (effect, site) = match (access.access, silent_site) {
                    (Access::Load, _) => (Effect::Load, site),
                    (_, Some(silent))
                        if changes >> bytes.start & ((1 << bytes.len()) - 1) == 0
                            && !(needs_writer && cell.write.is_none()) =>
                    {
                        (Effect::SilentStore, silent)
                    }
                    _ => (Effect::Change, site),
                };
                let mine = Epoch::new(wave, site, lane as u32, atomic);
                incoherent = incoherent.or_else(|| orderer.incoherent(cell, constant, effect));
                found = Conflict::worse(found, orderer.visit(cell, mine, effect));
            });
            races.extend(found.or(incoherent).map(|conflict| FoundRace { lane, conflict }));
            outcome = outcome.and(visited);
        }
        outcome
    }

    /// Learns what the last store to each address was after.
    fn acquire_by_load(&mut self, state: &mut State, access: &RowAccess<'_>, allowed: Mask) {
        let mut learnt = Released::default();
        let known = if access.space == Space::Group { &self.local_known } else { &state.known };
        for lane in lanes(allowed) {
            known.at(access.addresses[lane]).into_iter().for_each(|released| learnt.join(released));
        }
        let State { shadow, order, sites, known, pending, .. } = &mut *state;
        if access.space == Space::Global {
            // Stores of work-groups of other queues that may have been made.
            for (group, pending) in pending.iter() {
                let writer = lanes(allowed).find_map(|lane| pending.writer_of(access.addresses[lane], access.length));
                let Some(writer) = writer else { continue };
                let reached = Reached { phase: pending.phase, by: Some(group.wrapping_add(writer)) };
                learnt.note(*group, reached);
                known.of_wave(group.wrapping_add(writer)).into_iter().for_each(|released| learnt.join(released));
            }
        }
        let cells = if access.space == Space::Group { &mut self.local } else { shadow };
        for lane in lanes(allowed) {
            // Where there is no memory for cells, there are no stores that were seen.
            let _ = cells.cells(access.addresses[lane], access.length.into(), |cell, _| {
                // A wave that stored the bytes that were there already may be the one that is waited for, too.
                let silent = cell.reads.into_iter().filter(|read| !read.is_stale() && sites.get(read.site()).silent);
                for store in std::iter::once(cell.write).chain(silent) {
                    let wave = store.wave();
                    let Some(record) = order.of_wave(wave) else { continue };
                    let phase = sites.get(store.site()).phase;
                    learnt.note(record.group_key(wave), Reached { phase, by: Some(wave) });
                    known.of_wave(wave).into_iter().for_each(|released| learnt.join(released));
                }
            });
        }
        if let Some(clock) = self.clocks.get_mut(access.wave as usize) {
            clock.acquired.join(&learnt);
        }
        self.publish(state, access.wave);
    }

    /// An atomic access orders what is before it with what is after those that see it.
    fn synchronise(&mut self, state: &mut State, access: &RowAccess<'_>, allowed: Mask) {
        let phase = self.phase_of_group(access.wave);
        let Some(clock) = self.clocks.get_mut(access.wave as usize) else { return };
        match access.space {
            Space::Group if self.local_known.is_full() => {
                let kernel = Some(self.hook.record.code.kernel());
                state.reports.warn(Unchecked::EarlierAccesses, kernel, MOST_ENTRIES as u64);
                self.local_known.clear();
                self.local.forget_accesses(0, u64::MAX);
            }
            Space::Global if state.known.is_full() => state.forget_known(self.hook.record.code.kernel()),
            _ => {}
        }
        let known = if access.space == Space::Group { &mut self.local_known } else { &mut state.known };
        let mine = Reached { phase, by: Some(self.first_wave.wrapping_add(access.wave)) };
        // Lanes often access one counter, whose second join would bring nothing.
        let mut last = None;
        for lane in lanes(allowed) {
            let address = access.addresses[lane];
            if last.replace(address) != Some(address) {
                known.synchronise(address, &mut clock.acquired, (self.first_wave, mine));
            }
        }
        self.publish(state, access.wave);
    }

    pub(super) fn kernel(&self) -> &str {
        self.hook.record.code.kernel()
    }

    fn site(&self, access: &RowAccess<'_>, lane: usize) -> Site {
        let lane = (!access.scalar).then_some(lane as u32);
        self.hook.record.site(access.instruction, self.group, access.wave, lane)
    }

    fn report(
        &self,
        state: &mut State,
        access: &RowAccess<'_>,
        lane: usize,
        finding: Finding,
        race: Option<&FoundRace>,
    ) {
        let other = |state: &State| race.and_then(|race| other_of(&state.order, &state.sites, race));
        let other = if state.reports.is_new(finding, self.kernel(), access.instruction) { other(state) } else { None };
        self.report_with(state, access, lane, finding, || other);
    }

    /// Reports an access, with the other one of a race.
    pub(super) fn report_with(
        &self,
        state: &mut State,
        access: &RowAccess<'_>,
        lane: usize,
        finding: Finding,
        other: impl FnOnce() -> Option<OtherAccess>,
    ) {
        let State { blocks, reports, .. } = state;
        let address = access.addresses[lane.min(LANES - 1)];
        let is_group = access.space == Space::Group;
        reports.add(finding, self.kernel(), access.instruction, || Report {
            finding,
            access: access.access,
            length: access.length,
            address,
            site: Some(self.site(access, lane)),
            allocation: if is_group { None } else { blocks.note(address) },
            group_bytes: is_group.then_some(self.local_bytes),
            other: other(),
            note: None,
            exit: None,
            count: 1,
        });
    }
}
