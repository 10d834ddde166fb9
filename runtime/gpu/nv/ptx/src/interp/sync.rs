//! Instructions that lanes of a warp, or warps of a block, execute together.

use vireo_simt::group::{Arrival, BARRIERS};
use vireo_simt::lanes::collect_bits;
use vireo_simt::paths::Path;
use vireo_simt::prim;
use vireo_simt::row::lanes;
use vireo_simt::{LANES, Mask, Row, TrapKind};

use crate::generated::suffixes::{ReductionSuffix, ShuffleSuffix, VoteSuffix};
use crate::isa::Suffixes;
use crate::machine::{Block, Inst, NONE, Next, Votes, Warp};

/// Waits until all lanes of the members of each lane are there; the lanes that go on are then those of the path. None
/// if none of them can.
fn gather(warp: &mut Warp, block: &mut Block<'_>, members: &Row) -> Option<Next> {
    let next = gather_lanes(warp, members)?;
    if block.hook.is_some() {
        show_meeting(warp, block, members);
    }
    Some(next)
}

fn gather_lanes(warp: &mut Warp, members: &Row) -> Option<Next> {
    if warp.mask == warp.paths.live() {
        return Some(Next::Continue);
    }
    let pc = warp.paths.pc - 1;
    let is_ready = warp.paths.gather(pc, |lane| members.0[lane]);
    if !is_ready {
        return None;
    }
    warp.paths.pc = pc + 1;
    let mask = warp.paths.mask;
    warp.set_mask(mask);
    Some(Next::Switch)
}

/// Shows the sanitizer which lanes have waited for each other.
#[cold]
pub(super) fn show_meeting(warp: &Warp, block: &mut Block<'_>, members: &Row) {
    let Block { hook: Some(hook), shared, .. } = block else { return };
    let mut rest = warp.mask;
    while rest != 0 {
        let group = members.0[rest.trailing_zeros() as usize & 31];
        let same = lanes(rest).filter(|lane| members.0[*lane] == group).fold(0, |mask, lane| mask | 1 << lane);
        hook.met(warp.index, group, warp.paths.live(), shared);
        rest &= !same;
    }
}

/// Remembers lanes that are at a barrier that needs all of a warp, while others are elsewhere. Those that are about to
/// end do not count: threads may return before a barrier.
#[cold]
fn remember_divergence(warp: &mut Warp, block: &Block<'_>) {
    let program = block.program;
    let name = |pc: u32| {
        let origin = program.origins.get(pc as usize);
        origin.and_then(|origin| program.names.get(origin.name as usize)).map_or("", String::as_str)
    };
    let at = warp.paths.pc - 1;
    let ends = |pc: u32| matches!(name(pc), "ret" | "exit");
    let is_there = |path: &Path| path.parked.is_some() && path.pc == at + 1;
    let others = warp.paths.others().iter().filter(|path| !is_there(path) && !ends(path.pc));
    let elsewhere = others.fold(0, |lanes, path| lanes | path.mask);
    let needs_all = name(at).starts_with("bar.") || name(at).contains(".aligned");
    if needs_all && elsewhere != 0 && warp.divergence.is_none() {
        warp.divergence = Some((at, elsewhere));
    }
}

impl Warp {
    /// Shows the sanitizer lanes that went on without a barrier that others of the warp are at. All of them are at
    /// barriers now, or have ended.
    #[cold]
    pub(crate) fn show_divergence(&mut self, block: &mut Block<'_>) {
        let (Some((at, elsewhere)), Some(hook)) = (self.divergence.take(), &mut block.hook) else { return };
        let there = self.paths.others().iter().filter(|path| path.pc == at + 1);
        let there = there.fold(0, |lanes, path| lanes | path.mask);
        if elsewhere & !there != 0 && there != 0 {
            hook.diverges(self.index, at.into(), there, elsewhere & !there);
        }
    }
}

/// The number of a choice as one of a class.
fn choice<S: Suffixes>(number: u32) -> Option<S> {
    S::ALL.get(number as usize & 0xFF).copied()
}

/// The lane from which each lane takes a value, and the mask of those that find one. `from` gets the lane, the amount,
/// the bits of a segment and the last lane in it.
#[inline(always)]
fn sources(amounts: &Row, limits: &Row, from: impl Fn(u32, u32, u32, u32) -> (u32, bool)) -> (Row, Mask) {
    let of = |lane: usize| {
        let (lane, amount, limit) = (lane as u32, amounts.0[lane] & 31, limits.0[lane]);
        let (segment, clamp) = (limit >> 8 & 31, limit & 31);
        let last = (lane & segment) | (clamp & !segment);
        let (source, is_inside) = from(lane, amount, segment, last);
        (if is_inside { source & 31 } else { lane }, is_inside)
    };
    (Row::from_fn(|lane| of(lane).0), collect_bits(|lane| of(lane).1))
}

/// The value of another lane. Sources are the value, the lane, limits and members.
#[inline(always)]
pub(crate) fn shuffle(warp: &mut Warp, block: &mut Block<'_>, inst: &Inst) -> Next {
    let members = *warp.row(inst.sources[3]);
    let Some(next) = gather(warp, block, &members) else { return Next::Switch };
    let (values, amounts, limits) =
        (*warp.row(inst.sources[0]), *warp.row(inst.sources[1]), *warp.row(inst.sources[2]));
    let Some(mode) = choice::<ShuffleSuffix>(inst.number) else { return Next::Trap };
    let (sources, inside) = match mode {
        ShuffleSuffix::Up => sources(&amounts, &limits, |lane, amount, _, last| {
            let source = lane as i32 - amount as i32;
            (source as u32, source >= last as i32)
        }),
        ShuffleSuffix::Down => {
            sources(&amounts, &limits, |lane, amount, _, last| (lane + amount, lane + amount <= last))
        }
        ShuffleSuffix::Bfly => {
            sources(&amounts, &limits, |lane, amount, _, last| (lane ^ amount, lane ^ amount <= last))
        }
        ShuffleSuffix::Idx => sources(&amounts, &limits, |lane, amount, segment, last| {
            let source = (lane & segment) | (amount & !segment);
            (source, source <= last)
        }),
    };
    let row = Row::from_fn(|lane| values.0[sources.0[lane] as usize & 31]);
    if inst.result != NONE {
        warp.put(inst.result, &row);
    }
    warp.put_bits(inst.result2, inside);
    next
}

/// The values of a predicate in the lanes of a mask, joined. Sources are the predicate and the members.
pub(crate) fn vote(warp: &mut Warp, block: &mut Block<'_>, inst: &Inst) -> Next {
    let members = *warp.row(inst.sources[1]);
    let Some(next) = gather(warp, block, &members) else { return Next::Switch };
    let bits = warp.bits(inst.sources[0]);
    let bits = if inst.number & 0x100 != 0 { !bits } else { bits };
    let Some(mode) = choice::<VoteSuffix>(inst.number) else { return Next::Trap };
    let mask = warp.mask;
    let group = |lane: usize| members.0[lane] & mask;
    if mode == VoteSuffix::Ballot {
        let row = Row::from_fn(|lane| bits & group(lane));
        warp.put(inst.result, &row);
        return next;
    }
    let result = (0..LANES).fold(0, |result, lane| {
        let (group, set) = (group(lane), bits & group(lane));
        let is_set = match mode {
            VoteSuffix::All => set == group,
            VoteSuffix::Any => set != 0,
            _ => set == 0 || set == group,
        };
        result | u32::from(is_set) << lane
    });
    warp.put_bits(inst.result, result);
    next
}

/// The lanes of a mask that have the same value. Sources are the value and the members.
pub(crate) fn match_lanes(warp: &mut Warp, block: &mut Block<'_>, inst: &Inst) -> Next {
    let members = *warp.row(inst.sources[1]);
    let Some(next) = gather(warp, block, &members) else { return Next::Switch };
    let first = usize::from(inst.sources[0]);
    let (is_wide, is_all) = (inst.number & 1 != 0, inst.number & 2 != 0);
    let value = |lane: usize| {
        let high = if is_wide { warp.rows[first + 1].0[lane] } else { 0 };
        u64::from(warp.rows[first].0[lane]) | u64::from(high) << 32
    };
    let mask = warp.mask;
    let mut all_same: Mask = 0;
    let row = Row::from_fn(|lane| {
        let group = members.0[lane] & mask;
        let same = lanes(group).filter(|other| value(*other) == value(lane)).fold(0, |same, other| same | 1 << other);
        all_same |= u32::from(same == group) << lane;
        if is_all && same != group { 0 } else { same }
    });
    warp.put(inst.result, &row);
    warp.put_bits(inst.result2, all_same);
    next
}

/// A value of all lanes of a mask. Sources are the value and the members.
pub(crate) fn redux(warp: &mut Warp, block: &mut Block<'_>, inst: &Inst) -> Next {
    let members = *warp.row(inst.sources[1]);
    let Some(next) = gather(warp, block, &members) else { return Next::Switch };
    let values = *warp.row(inst.sources[0]);
    let is_signed = inst.number & 0x100 != 0;
    let (is_float, is_magnitude, has_nan) =
        (inst.number & 0x200 != 0, inst.number & 0x400 != 0, inst.number & 0x800 != 0);
    let Some(operation) = choice::<ReductionSuffix>(inst.number) else { return Next::Trap };
    if is_float {
        let value = |lane: usize| {
            let value = f32::from_bits(values.0[lane]);
            if is_magnitude { value.abs() } else { value }
        };
        let join: fn(f32, f32) -> f32 = match (operation, has_nan) {
            (ReductionSuffix::Min, false) => prim::fmin_number,
            (ReductionSuffix::Min, true) => prim::fmin_nan,
            (_, false) => prim::fmax_number,
            (_, true) => prim::fmax_nan,
        };
        let mask = warp.mask;
        let of = |lane: usize| lanes(members.0[lane] & mask).map(value).reduce(join).map_or(0, f32::to_bits);
        warp.put(inst.result, &Row::from_fn(of));
        return next;
    }
    let join = |a: u32, b: u32| match operation {
        ReductionSuffix::Add => a.wrapping_add(b),
        ReductionSuffix::Min if is_signed => (a as i32).min(b as i32) as u32,
        ReductionSuffix::Max if is_signed => (a as i32).max(b as i32) as u32,
        ReductionSuffix::Min => a.min(b),
        ReductionSuffix::Max => a.max(b),
        ReductionSuffix::And => a & b,
        ReductionSuffix::Or | ReductionSuffix::Popc => a | b,
        ReductionSuffix::Xor => a ^ b,
    };
    let mask = warp.mask;
    let row =
        Row::from_fn(|lane| lanes(members.0[lane] & mask).map(|lane| values.0[lane]).reduce(join).unwrap_or_default());
    warp.put(inst.result, &row);
    next
}

/// The lanes that run this together.
pub(crate) fn active_mask(warp: &mut Warp, _: &mut Block<'_>, inst: &Inst) -> Next {
    let row = Row::splat(warp.mask);
    warp.put(inst.result, &row);
    Next::Continue
}

/// Lanes of a mask wait for each other.
pub(crate) fn warp_barrier(warp: &mut Warp, block: &mut Block<'_>, inst: &Inst) -> Next {
    let members = *warp.row(inst.sources[0]);
    gather(warp, block, &members).unwrap_or(Next::Switch)
}

/// A source that is the same in all lanes, as that of the first of them.
fn uniform(warp: &Warp, source: u16) -> u32 {
    warp.row(source).0[warp.mask.trailing_zeros() as usize & 31]
}

/// The arrival that sources ask for: a number, and how many threads are expected.
fn arrival(warp: &mut Warp, inst: &Inst, waits: bool) -> Result<Arrival, Next> {
    let number = uniform(warp, inst.sources[0]);
    if number as usize >= BARRIERS {
        let message = format!("barrier {number}: expected one below {BARRIERS}");
        return Err(warp.trapped(TrapKind::InvalidOperand(message.into()), None));
    }
    let expects = match inst.sources[1] {
        NONE => None,
        source => {
            let threads = uniform(warp, source);
            if threads == 0 || !(threads as usize).is_multiple_of(LANES) {
                let message = format!("a barrier of {threads} threads: expected a multiple of {LANES}");
                return Err(warp.trapped(TrapKind::InvalidOperand(message.into()), None));
            }
            Some(threads / LANES as u32)
        }
    };
    Ok(Arrival { barrier: number as u8, expects, waits })
}

/// An arrival at a barrier, with a wait if the number is 1.
pub(crate) fn barrier(warp: &mut Warp, block: &mut Block<'_>, inst: &Inst) -> Next {
    if block.hook.is_some() && warp.mask != warp.paths.live() {
        remember_divergence(warp, block);
    }
    let arrival = match arrival(warp, inst, inst.number == 1) {
        Ok(arrival) => arrival,
        Err(next) => return next,
    };
    let next = warp.paths.pc;
    warp.paths.arrive(arrival, next);
    Next::Switch
}

/// An arrival at a barrier with a predicate, which is the third source; negated if the number is 1.
pub(crate) fn barrier_with_vote(warp: &mut Warp, block: &mut Block<'_>, inst: &Inst) -> Next {
    if block.hook.is_some() && warp.mask != warp.paths.live() {
        remember_divergence(warp, block);
    }
    let arrival = match arrival(warp, inst, true) {
        Ok(arrival) => arrival,
        Err(next) => return next,
    };
    let bits = warp.bits(inst.sources[2]);
    let set = warp.mask & if inst.number == 1 { !bits } else { bits };
    let number = usize::from(arrival.barrier);
    let phase = block.generations[number];
    let slot = &mut block.votes[number][phase as usize & 1];
    if slot.phase != phase + 1 {
        *slot = Votes { phase: phase + 1, count: 0, all: true };
    }
    slot.count += set.count_ones();
    slot.all &= set == warp.mask;
    warp.phases[number] = phase;
    let next = warp.paths.pc;
    warp.paths.arrive(arrival, next);
    Next::Switch
}

/// The joined values of all threads at the barrier of the instruction before: the number is an operation.
pub(crate) fn barrier_result(warp: &mut Warp, block: &mut Block<'_>, inst: &Inst) -> Next {
    let number = uniform(warp, inst.sources[0]) as usize % BARRIERS;
    let votes = block.votes[number][warp.phases[number] as usize & 1];
    match choice::<ReductionSuffix>(inst.number) {
        Some(ReductionSuffix::Popc) => warp.put(inst.result, &Row::splat(votes.count)),
        Some(ReductionSuffix::And) => warp.put_bits(inst.result, if votes.all { u32::MAX } else { 0 }),
        _ => warp.put_bits(inst.result, if votes.count > 0 { u32::MAX } else { 0 }),
    }
    Next::Continue
}

impl Block<'_> {
    /// A warp has arrived at a barrier.
    pub(crate) fn note_arrival(&mut self, warp: u32, arrival: Arrival) {
        if let Some(hook) = &mut self.hook {
            hook.arrived(warp, arrival.barrier, arrival.waits, &self.shared);
        }
        let number = usize::from(arrival.barrier);
        self.arrived[number] += 1;
        self.of_all[number] = arrival.expects.is_none();
        if self.arrived[number] >= arrival.expects.unwrap_or(self.live) {
            self.complete(number);
        }
    }

    /// A warp has ended.
    pub(crate) fn note_end(&mut self, warp: u32) {
        if let Some(hook) = &mut self.hook {
            hook.ended(warp);
        }
        self.live -= 1;
        for number in 0..BARRIERS {
            if self.of_all[number] && self.arrived[number] > 0 && self.arrived[number] >= self.live {
                self.complete(number);
            }
        }
    }

    fn complete(&mut self, number: usize) {
        if let Some(hook) = &mut self.hook {
            hook.released(number as u8, self.of_all[number]);
        }
        self.arrived[number] = 0;
        self.generations[number] = self.generations[number].wrapping_add(1);
    }
}
