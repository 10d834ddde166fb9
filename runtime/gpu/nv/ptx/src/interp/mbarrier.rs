//! Barriers in shared memory: eight bytes that count arrivals, in phases.
//!
//! The documents leave the bytes open. Here they are a [`Phase`]: how many arrivals are missing, how many each phase
//! expects, the number of the phase, and a mark, by which memory without a barrier is told from one with it. An arrival
//! returns the bytes before it, which a wait compares with those that are there later.
//!
//! A wait never waits by itself: it says whether the phase is complete. Where it is not, other lanes and warps have a
//! turn first, so that loops around it make progress. The sanitizer sees an arrival as an atomic access, and a wait
//! that finds the phase complete as an atomic load, which orders what an arrival and a wait do.

use vireo_simt::row::lanes;
use vireo_simt::{Access, Mask, Refusal, TrapKind};

use super::memory::{Addresses, Space, fault, shown};
use crate::generated::limits::{ARRIVALS, SHARED_WINDOW};
use crate::machine::{Block, Inst, NONE, Next, Warp};

/// Bytes of a barrier.
const BYTES: u32 = 8;

/// Bits of a count.
const COUNT_BITS: u32 = ARRIVALS.count_ones();

/// The highest bits of a barrier.
const MARK: u64 = 0xB;

/// The state of a barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Phase {
    /// Arrivals that are missing.
    pending: u32,
    /// Arrivals that the next phase expects.
    expected: u32,
    /// Bits of the number of the phase.
    number: u32,
}

/// Bits of the number of a phase.
const NUMBER_BITS: u32 = 60 - 2 * COUNT_BITS;

impl Phase {
    fn bits(self) -> u64 {
        let number = u64::from(self.number) & ((1 << NUMBER_BITS) - 1);
        u64::from(self.pending) | u64::from(self.expected) << COUNT_BITS | number << (2 * COUNT_BITS) | MARK << 60
    }

    /// That of the bytes of a barrier; none if there is none.
    fn of(bits: u64) -> Option<Self> {
        let count = |shift: u32| (bits >> shift) as u32 & ARRIVALS;
        let number = (bits >> (2 * COUNT_BITS)) as u32 & ((1 << NUMBER_BITS) - 1);
        (bits >> 60 == MARK).then(|| Phase { pending: count(0), expected: count(COUNT_BITS), number })
    }

    /// After so many arrivals, which are also no longer expected if they are dropped.
    fn after(self, count: u32, drops: bool, completes: bool) -> Result<Self, String> {
        if count == 0 || count > self.pending {
            let pending = self.pending;
            return Err(format!("{count} arrivals at a barrier where {pending} are missing: expected 1 to {pending}"));
        }
        let expected = if drops { self.expected.saturating_sub(count) } else { self.expected };
        let pending = self.pending - count;
        if pending != 0 {
            return Ok(Phase { pending, expected, ..self });
        }
        if !completes {
            return Err("the last arrival of a phase by an instruction that may not complete it".into());
        }
        Ok(Phase { pending: expected, expected, number: self.number.wrapping_add(1) })
    }
}

/// The number of an instruction.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Kind {
    /// Whether addresses are generic.
    pub(crate) is_generic: bool,
    /// Whether addresses have one row.
    pub(crate) is_short: bool,
    /// Whether arrivals are dropped, or a phase is named by its parity.
    pub(crate) is_other: bool,
    /// Whether arrivals may not complete a phase.
    pub(crate) stays: bool,
}

impl Kind {
    pub(crate) fn number(self) -> u32 {
        let flags = [self.is_generic, self.is_short, self.is_other, self.stays];
        flags.iter().rev().fold(0, |number, flag| number << 1 | u32::from(*flag))
    }

    fn of(number: u32) -> Self {
        let flag = |bit: u32| number >> bit & 1 != 0;
        Kind { is_generic: flag(0), is_short: flag(1), is_other: flag(2), stays: flag(3) }
    }

    fn space(self) -> Space {
        if self.is_generic { Space::Generic } else { Space::Shared }
    }
}

impl Block<'_> {
    /// The bytes of the barrier of a lane.
    fn barrier_at(
        &mut self,
        addresses: &Addresses,
        lane: usize,
        kind: Kind,
        access: Access,
    ) -> Result<&mut [u8; BYTES as usize], (vireo_simt::Fault, usize)> {
        let refuse = |why: Refusal| (fault(addresses, lane, BYTES, access, why), lane);
        let mut address = addresses.lane(lane);
        if kind.is_generic {
            if address >> 24 != SHARED_WINDOW >> 24 {
                return Err(refuse(Refusal::OtherSpace));
            }
            address &= 0xFF_FFFF;
        }
        if !address.is_multiple_of(BYTES.into()) {
            return Err(refuse(Refusal::Unaligned));
        }
        let bytes = usize::try_from(address).ok().and_then(|start| self.shared.get_mut(start..)?.first_chunk_mut());
        bytes.ok_or(refuse(Refusal::Unmapped))
    }
}

impl Warp {
    fn misused(&mut self, why: impl Into<std::borrow::Cow<'static, str>>, lane: usize) -> Next {
        self.trapped(TrapKind::InvalidOperand(why.into()), Some(lane as u32))
    }

    /// Lets the sanitizer see accesses to barriers, and returns the lanes that may make them.
    fn show_barriers(&self, block: &mut Block<'_>, kind: Kind, addresses: &Addresses, access: (Access, bool)) -> Mask {
        if block.hook.is_none() {
            return self.mask;
        }
        shown(self, block, (kind.space(), addresses), BYTES, access)
    }
}

const NO_BARRIER: &str = "no barrier was initialised at this address";

/// A new barrier, or the end of one if the second source is missing.
pub(crate) fn set(warp: &mut Warp, block: &mut Block<'_>, inst: &Inst) -> Next {
    let kind = Kind::of(inst.number);
    let addresses = Addresses::of(warp, inst, kind.is_short);
    let allowed = warp.show_barriers(block, kind, &addresses, (Access::Store, false));
    for lane in lanes(allowed) {
        let count = (inst.sources[1] != NONE).then(|| warp.row(inst.sources[1]).0[lane]);
        if let Some(count) = count.filter(|count| !(1..=ARRIVALS).contains(count)) {
            return warp.misused(format!("a barrier of {count} arrivals: expected 1 to {ARRIVALS}"), lane);
        }
        let bytes = match block.barrier_at(&addresses, lane, kind, Access::Store) {
            Ok(bytes) => bytes,
            Err(refused) => return warp.refused(refused),
        };
        match count {
            Some(count) => *bytes = Phase { pending: count, expected: count, number: 0 }.bits().to_le_bytes(),
            None if Phase::of(u64::from_le_bytes(*bytes)).is_none() => return warp.misused(NO_BARRIER, lane),
            None => *bytes = [0; BYTES as usize],
        }
    }
    Next::Continue
}

/// Arrivals at a barrier, with its bytes before them as the result. The second source is how many, one if it is
/// missing.
pub(crate) fn arrive(warp: &mut Warp, block: &mut Block<'_>, inst: &Inst) -> Next {
    let kind = Kind::of(inst.number);
    let addresses = Addresses::of(warp, inst, kind.is_short);
    let allowed = warp.show_barriers(block, kind, &addresses, (Access::Atomic, true));
    for lane in lanes(allowed) {
        let count = if inst.sources[1] == NONE { 1 } else { warp.row(inst.sources[1]).0[lane] };
        let bytes = match block.barrier_at(&addresses, lane, kind, Access::Atomic) {
            Ok(bytes) => bytes,
            Err(refused) => return warp.refused(refused),
        };
        let old = u64::from_le_bytes(*bytes);
        let Some(phase) = Phase::of(old) else { return warp.misused(NO_BARRIER, lane) };
        match phase.after(count, kind.is_other, !kind.stays) {
            Ok(next) => *bytes = next.bits().to_le_bytes(),
            Err(why) => return warp.misused(why, lane),
        }
        if inst.result != NONE {
            let result = usize::from(inst.result);
            (warp.rows[result].0[lane], warp.rows[result + 1].0[lane]) = (old as u32, (old >> 32) as u32);
        }
    }
    Next::Continue
}

/// An arrival that the barrier expects besides all others: nothing changes where there is a barrier.
pub(crate) fn look(warp: &mut Warp, block: &mut Block<'_>, inst: &Inst) -> Next {
    let kind = Kind::of(inst.number);
    let addresses = Addresses::of(warp, inst, kind.is_short);
    let allowed = warp.show_barriers(block, kind, &addresses, (Access::Atomic, true));
    for lane in lanes(allowed) {
        match block.barrier_at(&addresses, lane, kind, Access::Atomic) {
            Ok(bytes) if Phase::of(u64::from_le_bytes(*bytes)).is_none() => return warp.misused(NO_BARRIER, lane),
            Ok(_) => {}
            Err(refused) => return warp.refused(refused),
        }
    }
    Next::Continue
}

/// Whether the phase that the second source names, by the bytes that an arrival returned or by its parity, is complete.
pub(crate) fn test(warp: &mut Warp, block: &mut Block<'_>, inst: &Inst) -> Next {
    let kind = Kind::of(inst.number);
    let addresses = Addresses::of(warp, inst, kind.is_short);
    let (mut complete, all) = (0, warp.mask);
    for lane in lanes(all) {
        let bytes = match block.barrier_at(&addresses, lane, kind, Access::Load) {
            Ok(bytes) => bytes,
            Err(refused) => return warp.refused(refused),
        };
        let Some(phase) = Phase::of(u64::from_le_bytes(*bytes)) else { return warp.misused(NO_BARRIER, lane) };
        let first = usize::from(inst.sources[1]);
        let is_complete = if kind.is_other {
            phase.number & 1 != warp.rows[first].0[lane] & 1
        } else {
            let state = u64::from(warp.rows[first].0[lane]) | u64::from(warp.rows[first + 1].0[lane]) << 32;
            let Some(named) = Phase::of(state) else {
                return warp.misused("a wait for a phase that no arrival returned", lane);
            };
            named.number != phase.number
        };
        complete |= u32::from(is_complete) << lane;
    }
    if complete != 0 && block.hook.is_some() {
        // Where the phase is not complete nothing is ordered.
        warp.set_mask(complete);
        warp.show_barriers(block, kind, &addresses, (Access::Load, true));
        warp.set_mask(all);
    }
    warp.put_bits(inst.result, complete);
    if complete == all { Next::Continue } else { Next::Yield }
}

/// The arrivals that were missing before the one that returned the source.
pub(crate) fn pending_count(warp: &mut Warp, _: &mut Block<'_>, inst: &Inst) -> Next {
    let state = *warp.row(inst.sources[0]);
    warp.put(inst.result, &vireo_simt::Row::from_fn(|lane| state.0[lane] & ARRIVALS));
    Next::Continue
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_become_bytes_and_return() {
        for phase in [
            Phase { pending: 1, expected: ARRIVALS, number: 0 },
            Phase { pending: ARRIVALS, expected: 0, number: (1 << NUMBER_BITS) - 1 },
            Phase { pending: 0x5_5555, expected: 0xA_AAAA, number: 77 },
        ] {
            assert_eq!(Phase::of(phase.bits()), Some(phase));
        }
        assert_eq!((Phase::of(0), Phase::of(u64::MAX)), (None, None));
    }

    #[test]
    fn a_phase_is_complete_when_all_have_arrived() {
        let first = Phase { pending: 2, expected: 2, number: 5 };
        let second = first.after(1, false, true).unwrap();
        assert_eq!(second, Phase { pending: 1, ..first });
        assert_eq!(second.after(1, false, true), Ok(Phase { pending: 2, expected: 2, number: 6 }));
        assert_eq!(second.after(1, true, true), Ok(Phase { pending: 1, expected: 1, number: 6 }));
        for (count, completes) in [(0, true), (2, true), (1, false)] {
            assert!(second.after(count, false, completes).is_err());
        }
    }
}
