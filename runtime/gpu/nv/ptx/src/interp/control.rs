//! Branches, calls and ends.

use vireo_simt::row::lanes;
use vireo_simt::{Row, TrapKind};

use super::memory::list;
use crate::machine::{Block, Inst, Next, Warp};

/// The step after a jump, which may be back. The offset of the instruction is by how much more than one that counts.
#[inline(always)]
fn jumped(warp: &mut Warp, from: u32, inst: &Inst) -> Next {
    if inst.number <= from && warp.paths.jumps_back(1 + inst.offset as u32) { Next::Yield } else { Next::Continue }
}

/// A jump of the lanes in which a predicate is true, or false if `result` is 1.
pub(crate) fn branch(warp: &mut Warp, _: &mut Block<'_>, inst: &Inst) -> Next {
    let bits = warp.bits(inst.sources[0]);
    let taken = warp.mask & if inst.result == 1 { !bits } else { bits };
    if taken == 0 {
        return Next::Continue;
    }
    let next = warp.paths.pc;
    let diverges = warp.paths.branch(taken, inst.number, next);
    match jumped(warp, next, inst) {
        Next::Continue if diverges => Next::Switch,
        next => next,
    }
}

/// A jump of all lanes.
pub(crate) fn jump(warp: &mut Warp, _: &mut Block<'_>, inst: &Inst) -> Next {
    let next = warp.paths.pc;
    warp.paths.pc = inst.number;
    jumped(warp, next, inst)
}

/// A jump of each lane to the entry of a list that a row says. The number is how many entries there are.
pub(crate) fn branch_indexed(warp: &mut Warp, block: &mut Block<'_>, inst: &Inst) -> Next {
    let words = list(block, inst, 2 * inst.number as usize);
    let indices = *warp.row(inst.sources[0]);
    if let Some(lane) = lanes(warp.mask).find(|lane| indices.0[*lane] >= inst.number) {
        let message = format!("a jump to entry {} of a list of {}", indices.0[lane], inst.number);
        return warp.trapped(TrapKind::InvalidOperand(message.into()), Some(lane as u32));
    }
    let entry = |lane: usize| {
        let at = 2 * indices.0[lane].min(inst.number - 1) as usize;
        u32::from(words[at]) | u32::from(words[at + 1]) << 16
    };
    let targets = Row::from_fn(entry);
    let from = warp.paths.pc;
    let is_back = lanes(warp.mask).any(|lane| targets.0[lane] <= from);
    let diverges = warp.paths.scatter(&targets);
    match is_back && warp.paths.jumps_back(1) {
        true => Next::Yield,
        false if diverges => Next::Switch,
        false => Next::Continue,
    }
}

/// A call through a register of an address at which there is no function.
pub(crate) fn no_function(warp: &mut Warp, _: &mut Block<'_>, _: &Inst) -> Next {
    let message = "a call of an address where there is no function of this prototype or list";
    warp.trapped(TrapKind::InvalidOperand(message.into()), None)
}

/// A call: notes in a row where each lane goes on.
pub(crate) fn call(warp: &mut Warp, _: &mut Block<'_>, inst: &Inst) -> Next {
    let next = warp.paths.pc;
    warp.put(inst.result, &Row::splat(next));
    warp.paths.pc = inst.number;
    Next::Continue
}

/// The end of a function: each lane goes on where it was called.
pub(crate) fn return_from(warp: &mut Warp, _: &mut Block<'_>, inst: &Inst) -> Next {
    let targets = *warp.row(inst.sources[0]);
    if warp.paths.scatter(&targets) { Next::Switch } else { Next::Continue }
}

/// The end of threads.
pub(crate) fn exit(warp: &mut Warp, _: &mut Block<'_>, _: &Inst) -> Next {
    let mask = warp.mask;
    warp.paths.end(mask);
    Next::Switch
}

/// The kernel stops itself.
pub(crate) fn trap(warp: &mut Warp, _: &mut Block<'_>, inst: &Inst) -> Next {
    warp.trapped(TrapKind::Raised(inst.number), None)
}

/// Nothing.
pub(crate) fn nothing(_: &mut Warp, _: &mut Block<'_>, _: &Inst) -> Next {
    Next::Continue
}
