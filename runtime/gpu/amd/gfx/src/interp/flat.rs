//! Flat accesses: the address of each lane says whether it means device memory, the memory of the work-group or private
//! memory. The lanes of each kind make the access on their own, with the others off.

use vireo_simt::Mask;
use vireo_simt::memory::{Window, lanes_in};

use super::lane_access::{load_lanes, store_lanes};
use crate::generated::interp::{Part, Space, Value};
use crate::isa::limits::{PRIVATE_BASE, SHARED_BASE};
use crate::machine::{Group, Inst, Next, Wave};

/// The addresses that mean the memory of the work-group, and those that mean private memory.
const WINDOWS: [Window<32>; 2] = [Window::at(SHARED_BASE), Window::at(PRIVATE_BASE)];

/// The active lanes whose addresses are in each of these.
fn segments(wave: &Wave, inst: &Inst) -> [Mask; 2] {
    let first = usize::from(inst.sources[0]);
    let addresses = [&wave.rows[first], &wave.rows[first + 1]];
    lanes_in(WINDOWS, addresses, u64::from(inst.number), wave.exec())
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
