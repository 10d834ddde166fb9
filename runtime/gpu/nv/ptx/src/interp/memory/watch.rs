//! Accesses that a sanitizer is shown before they happen.

use vireo_simt::{Access, LANES, Mask, Row, RowAccess};

use super::bytes::split;
use super::{Addresses, Shape, Space, list};
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
    let parts = match space {
        Space::Generic => split(addresses, warp.mask),
        space => [(space, warp.mask), (Space::Local, 0), (Space::Local, 0), (Space::Local, 0)],
    };
    let all: [u64; LANES] = std::array::from_fn(|lane| addresses.lane(lane));
    for (part, mask) in parts {
        let (shown_space, addresses) = match part {
            Space::Global => (vireo_simt::Space::Global, all),
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
        allowed &= !mask | hook.access(&row, &block.shared);
    }
    allowed
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
    let next = if allowed == 0 { Next::Continue } else { run(warp, block, inst) };
    warp.set_mask(all);
    next
}
