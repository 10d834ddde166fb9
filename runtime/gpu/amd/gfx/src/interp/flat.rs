//! Flat accesses: the address of each lane says whether it means device memory, the memory of the work-group or private
//! memory. The lanes of each kind make the access on their own, with the others off.

use vireo_simt::{LANES, Mask};

use super::lane_access::{load_lanes, store_lanes};
use crate::generated::interp::{Part, Space, Value};
use crate::isa::limits::{PRIVATE_BASE, SHARED_BASE};
use crate::machine::{Group, Inst, Next, Wave};

/// The active lanes whose addresses are in the memory of the work-group, and in private memory.
fn segments(wave: &Wave, inst: &Inst) -> [Mask; 2] {
    let first = usize::from(inst.sources[0]);
    let (low, high) = (&wave.rows[first], &wave.rows[first + 1]);
    let mut masks = [0; 2];
    for lane in 0..LANES {
        let carry = u32::from(low.0[lane].checked_add(inst.number).is_none());
        let high = u64::from(high.0[lane].wrapping_add(carry));
        masks[0] |= u32::from(high == SHARED_BASE >> 32) << lane;
        masks[1] |= u32::from(high == PRIVATE_BASE >> 32) << lane;
    }
    masks.map(|mask| mask & wave.exec())
}

/// Makes an access in each kind of memory that active lanes mean.
pub(super) fn each<'a>(
    wave: &mut Wave,
    group: &mut Group<'a>,
    inst: &Inst,
    access: impl Fn(&mut Wave, &mut Group<'a>, &Inst, Space) -> Next,
) -> Next {
    let exec = wave.exec();
    let [shared, private] = segments(wave, inst);
    if shared | private == 0 {
        return access(wave, group, inst, Space::Global);
    }
    let kinds = [(Space::Group, shared), (Space::Scratch, private), (Space::Global, exec & !(shared | private))];
    for (space, mask) in kinds.into_iter().filter(|(_, mask)| *mask != 0) {
        wave.set_exec(mask);
        let next = access(wave, group, inst, space);
        wave.set_exec(exec);
        if next != Next::Continue {
            return next;
        }
    }
    Next::Continue
}

#[inline(never)]
pub(super) fn load(wave: &mut Wave, group: &mut Group<'_>, inst: &Inst, value: Value, part: Part) -> Next {
    each(wave, group, inst, |wave, group, inst, space| load_lanes(wave, group, inst, space, value, part))
}

#[inline(never)]
pub(super) fn store(wave: &mut Wave, group: &mut Group<'_>, inst: &Inst, value: Value, part: Part) -> Next {
    each(wave, group, inst, |wave, group, inst, space| store_lanes(wave, group, inst, space, value, part))
}
