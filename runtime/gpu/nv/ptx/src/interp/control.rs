//! Branches, calls and ends.

use vireo_simt::TrapKind;

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

/// A call: notes in a row where each lane goes on.
pub(crate) fn call(warp: &mut Warp, _: &mut Block<'_>, inst: &Inst) -> Next {
    let next = warp.paths.pc;
    warp.put(inst.result, &vireo_simt::Row::splat(next));
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

/// A call of a function of the machine that there is not here.
pub(crate) fn not_implemented(warp: &mut Warp, _: &mut Block<'_>, _: &Inst) -> Next {
    warp.trapped(TrapKind::NotImplemented("a function that writes texts for the host".into()), None)
}

/// Nothing.
pub(crate) fn nothing(_: &mut Warp, _: &mut Block<'_>, _: &Inst) -> Next {
    Next::Continue
}
