//! Accesses that a sanitizer is shown before they happen.

use vireo_simt::row::lanes;
use vireo_simt::sanitize::stores_to_one_address;
use vireo_simt::{Access, GroupHook, LANES, Mask, Row, RowAccess};

use super::bytes::{is_in_window, split};
use super::{Addresses, Shape, Space, list, values};
use crate::machine::{Block, Inst, NONE, Next, Warp};

/// In the place of a second result: other blocks may rely on the access.
pub(crate) const VOLATILE: u16 = 1;

/// Shows the accesses of an instruction to the sanitizer, and returns the lanes that may make them. Local memory and
/// parameters are of one thread, and not shown.
#[cold]
pub(crate) fn shown(
    warp: &Warp,
    block: &mut Block<'_>,
    (space, addresses): (Space, &Addresses),
    length: u32,
    (access, atomic): (Access, bool),
) -> Mask {
    let mut allowed = warp.mask;
    each_part(warp, block, (space, addresses), length, (access, atomic), |hook, row, shared| {
        allowed &= !row.mask | hook.access(row, shared);
    });
    allowed
}

/// Calls back with the lanes of an instruction that access global memory, and those that access shared memory.
fn each_part(
    warp: &Warp,
    block: &mut Block<'_>,
    (space, addresses): (Space, &Addresses),
    length: u32,
    (access, atomic): (Access, bool),
    mut show: impl FnMut(&mut dyn GroupHook, &RowAccess<'_>, &[u8]),
) {
    let parts = match space {
        Space::Generic => split(addresses, warp.mask),
        space => [(space, warp.mask), (Space::Local, 0), (Space::Local, 0), (Space::Local, 0)],
    };
    let all: [u64; LANES] = std::array::from_fn(|lane| addresses.lane(lane));
    for (part, mask) in parts {
        let mut mask = mask;
        let (shown_space, addresses) = match part {
            Space::Global => {
                // Those in other spaces are traps.
                mask &= lanes(mask).filter(|lane| !is_in_window(all[*lane])).fold(0, |mask, lane| mask | 1 << lane);
                (vireo_simt::Space::Global, all)
            }
            Space::Shared if space == Space::Generic => {
                (vireo_simt::Space::Group, all.map(|address| address & 0xFF_FFFF))
            }
            Space::Shared => (vireo_simt::Space::Group, all),
            _ => continue,
        };
        let Some(hook) = block.hook.as_mut().filter(|_| mask != 0) else { continue };
        let row = RowAccess {
            instruction: u64::from(warp.paths.pc - 1),
            wave: warp.index,
            mask,
            scalar: false,
            addresses: &addresses,
            length,
            access,
            atomic,
            space: shown_space,
        };
        show(&mut **hook, &row, &block.shared);
    }
}

/// Shows lanes of a store that have the same address.
fn show_stores_to_one_address(warp: &Warp, block: &mut Block<'_>, inst: &Inst, shape: Shape, addresses: &Addresses) {
    let words = values(warp, block, inst, shape);
    let length = shape.bytes * shape.count;
    let bytes: [[u8; 32]; LANES] = std::array::from_fn(|lane| {
        let mut bytes = [0; 32];
        bytes.chunks_mut(4).zip(&words).for_each(|(four, row)| four.copy_from_slice(&row.0[lane].to_le_bytes()));
        bytes
    });
    each_part(warp, block, (shape.space, addresses), length, (Access::Store, false), |hook, row, _| {
        let found = stores_to_one_address(row.addresses, row.mask, |lane| &bytes[lane][..length as usize]);
        if let Some((pair, is_same_value)) = found {
            hook.stores_to_one_address(row, pair, is_same_value);
        }
    });
}

/// Runs an access in the lanes that the sanitizer allows.
#[cold]
pub(super) fn watched(
    warp: &mut Warp,
    block: &mut Block<'_>,
    inst: &Inst,
    access: Access,
    run: fn(&mut Warp, &mut Block<'_>, &Inst) -> Next,
) -> Next {
    let shape = Shape::of(inst.number);
    let addresses = Addresses::of(warp, inst, shape.is_short);
    let all = warp.mask;
    let length = shape.bytes * shape.count;
    let allowed = shown(warp, block, (shape.space, &addresses), length, (access, inst.result2 == VOLATILE));
    if allowed != all && access == Access::Load {
        // Lanes that load nothing get zero.
        for register in list(block, inst, shape.count as usize).iter().filter(|register| **register != NONE) {
            for word in 0..(shape.bytes / 4).max(shape.rows) {
                warp.put(register + word as u16, &Row::ZERO);
            }
        }
    }
    warp.set_mask(allowed);
    if access == Access::Store && inst.result2 != VOLATILE {
        show_stores_to_one_address(warp, block, inst, shape, &addresses);
    }
    let next = if allowed == 0 { Next::Continue } else { run(warp, block, inst) };
    warp.set_mask(all);
    next
}
