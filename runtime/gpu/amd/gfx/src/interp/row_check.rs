//! Shows the accesses of loads and stores to a sanitizer before they are made, a row at once.

use vireo_simt::row::lanes;
use vireo_simt::{Access, LANES, Mask, RowAccess};

use super::places::Places;
use crate::generated::interp::Space;
use crate::isa::{Encoding, Field};
use crate::machine::{Group, Inst, Wave};

/// Takes the lanes that a sanitizer refuses out of an access to `length` bytes each. They read zero and write nothing.
#[inline(always)]
pub(crate) fn check(
    wave: &Wave,
    group: &mut Group<'_>,
    inst: &Inst,
    places: &mut Places,
    (space, length, access): (Space, u32, Access),
) {
    if group.hook.is_some() {
        refuse(wave, group, inst, places, (space, length, access));
    }
}

#[cold]
#[inline(never)]
fn refuse(
    wave: &Wave,
    group: &mut Group<'_>,
    inst: &Inst,
    places: &mut Places,
    (space, length, access): (Space, u32, Access),
) {
    let mask = match space {
        // Private memory is seen by its lane alone, and the access has checked its bounds.
        Space::Scratch => return,
        // Lanes outside of the memory of the work-group access nothing, but are wrong.
        Space::Group => wave.exec(),
        // Lanes outside of a buffer read zero, by its definition.
        _ => places.select.to_mask(),
    };
    let addresses = places.addresses(&wave.rows);
    for lane in lanes(mask & !allowed(wave, group, inst, (space, length, access), mask, &addresses)) {
        places.select.0[lane] = 0;
    }
}

/// Whether a scalar load of `length` bytes may be made.
#[inline(always)]
pub(crate) fn may_load_scalars(wave: &Wave, group: &mut Group<'_>, inst: &Inst, length: u32, address: u64) -> bool {
    group.hook.is_none() || allowed_scalars(wave, group, inst, length, address)
}

#[cold]
#[inline(never)]
fn allowed_scalars(wave: &Wave, group: &mut Group<'_>, inst: &Inst, length: u32, address: u64) -> bool {
    allowed(wave, group, inst, (Space::Constant, length, Access::Load), 1, &[address; LANES]) == 1
}

/// The lanes of `mask` that may make an access.
fn allowed(
    wave: &Wave,
    group: &mut Group<'_>,
    inst: &Inst,
    (space, length, access): (Space, u32, Access),
    mask: Mask,
    addresses: &[u64; LANES],
) -> Mask {
    // A load that goes past the nearest cache is how this architecture loads what other work-groups store meanwhile.
    let has_bit = |encoding| matches!(encoding, Encoding::Global | Encoding::Flat | Encoding::Mubuf);
    let past_cache = group
        .program
        .instruction(inst)
        .is_some_and(|instruction| has_bit(instruction.encoding) && instruction.field(Field::Glc) == 1);
    let row = RowAccess {
        instruction: group.program.address_of(inst),
        wave: wave.index,
        mask,
        scalar: matches!(space, Space::Constant | Space::ConstantBuffer),
        addresses,
        length,
        access,
        atomic: past_cache || access == Access::Atomic,
        space: if space == Space::Group { vireo_simt::Space::Group } else { vireo_simt::Space::Global },
    };
    match &mut group.hook {
        Some(hook) if mask != 0 => hook.access(&row, &group.local),
        _ => mask,
    }
}
