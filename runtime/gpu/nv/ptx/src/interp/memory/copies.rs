//! Copies: between frames of functions, and from global to shared memory.

use vireo_simt::Access;
use vireo_simt::Refusal;
use vireo_simt::row::lanes;

use super::bytes::misaligned;
use super::{Addresses, Space, fault, list, shown};
use crate::machine::{Block, Inst, NONE, Next, Warp};

/// Bytes from one place in local memory to another: the offset is the first one, the number how many. The list has two
/// words for each place.
pub(crate) fn copy_local(warp: &mut Warp, block: &mut Block<'_>, inst: &Inst) -> Next {
    let words = list(block, inst, 4);
    let place = |index: usize| usize::from(words[index]) | usize::from(words[index + 1]) << 16;
    let (to, from, length, stride) = (place(0), place(2), inst.number as usize, warp.local_stride as usize);
    for lane in lanes(warp.mask) {
        let start = lane * stride;
        warp.local.copy_within(start + from..start + from + length, start + to);
    }
    Next::Continue
}

/// A copy from global to shared memory. Sources are the addresses in shared and in global memory, and the bytes to
/// read, of those that the number says; the others become zero.
pub(crate) fn copy_to_shared(warp: &mut Warp, block: &mut Block<'_>, inst: &Inst) -> Next {
    let length = inst.number & 0xFF;
    let places = list(block, inst, 4);
    let offset = i64::from(u32::from(places[0]) | u32::from(places[1]) << 16);
    let (is_short, limit, ignored) = (inst.number & 0x100 != 0, places[2], places[3]);
    let to = Addresses::at(warp, inst.sources[0], i64::from(offset as i32), is_short);
    let from = Addresses::of_source(warp, inst);
    let mut mask = warp.mask;
    if block.hook.is_some() {
        mask &= shown(warp, block, (Space::Global, &from), length, (Access::Load, false));
        mask &= shown(warp, block, (Space::Shared, &to), length, (Access::Store, false));
    }
    for (addresses, access) in [(&to, Access::Store), (&from, Access::Load)] {
        if let Some(lane) = misaligned(addresses, mask, length) {
            return warp.refused((fault(addresses, lane, length, access, Refusal::Unaligned), lane));
        }
    }
    for lane in lanes(mask) {
        let mut wanted = if limit == NONE { length } else { warp.row(limit).0[lane].min(length) };
        if ignored != NONE && warp.bits(ignored) >> lane & 1 == 1 {
            wanted = 0;
        }
        let mut bytes = [0; 16];
        let loaded = match wanted {
            0 => Ok(()),
            wanted => warp.load_bytes(block, Space::Global, &from, lane, &mut bytes[..wanted as usize]),
        };
        let copied = loaded.and_then(|()| warp.store_bytes(block, Space::Shared, &to, lane, &bytes[..length as usize]));
        if let Err(refused) = copied {
            return warp.refused(refused);
        }
    }
    Next::Continue
}

impl Addresses {
    /// The second source of a copy.
    fn of_source(warp: &Warp, inst: &Inst) -> Self {
        Self::at(warp, inst.sources[1], inst.offset, false)
    }
}
