//! Accesses whose place is by M0, the offset and the number of the lane, without an address of each lane.

use vireo_simt::{Access, Fault, Refusal, Row};

use super::lane_access::{load_rows, scalar_pair, store_rows};
use super::places::{Places, trapped};
use super::prim;
use super::row_check::check;
use crate::generated::interp::{Part, Space, Value};
use crate::isa::operands::M0;
use crate::machine::{Group, Inst, NONE, Next, Wave};

/// The place in the memory of the work-group that M0 and the offset name.
fn base(wave: &Wave, inst: &Inst) -> u32 {
    (wave.scalars[M0 as usize] & 0xFFFF) + inst.number
}

/// Changes a word of the work-group by the number of active lanes, which all get the old value. Outside of the memory
/// it is zero.
fn count(wave: &mut Wave, group: &mut Group<'_>, inst: &Inst, change: impl Fn(u32, u32) -> u32) -> Next {
    let (place, lanes, exec) = (base(wave, inst), wave.exec().count_ones(), wave.exec());
    if !place.is_multiple_of(4) {
        let fault = Fault { address: place.into(), length: 4, access: Access::Atomic, why: Refusal::Unaligned };
        return trapped(wave, fault.into(), None);
    }
    // It is one access, that of the first active lane.
    wave.set_exec(exec & exec.wrapping_neg());
    let inside = u64::from(place) + 4 <= group.local.len() as u64;
    let mut places = Places::within(wave, 0, |_| (place, inside));
    check(wave, group, inst, &mut places, (Space::Group, 4, Access::Atomic));
    wave.set_exec(exec);
    let bytes = group.local.get_mut(place as usize..).and_then(<[u8]>::first_chunk_mut);
    let old = match bytes {
        Some(bytes) if places.select.to_mask() != 0 => {
            let old = u32::from_le_bytes(*bytes);
            *bytes = change(old, lanes).to_le_bytes();
            old
        }
        _ => 0,
    };
    let exec = wave.exec_row;
    wave.rows[usize::from(inst.result)].blend(&Row::splat(old), &exec);
    Next::Continue
}

pub(crate) fn append(wave: &mut Wave, group: &mut Group<'_>, inst: &Inst) -> Next {
    count(wave, group, inst, prim::wrapping_add)
}

pub(crate) fn consume(wave: &mut Wave, group: &mut Group<'_>, inst: &Inst) -> Next {
    count(wave, group, inst, prim::wrapping_sub)
}

/// The words of the lanes in the memory of the work-group.
fn local(wave: &Wave, group: &Group<'_>, inst: &Inst) -> Places {
    let (base, limit) = (base(wave, inst), group.local.len() as u64);
    Places::within(wave, 0, |lane| {
        let place = base + 4 * lane as u32;
        (place, u64::from(place) + 4 <= limit)
    })
}

/// Those in device memory.
fn device(wave: &Wave, inst: &Inst) -> Places {
    let scalar = if inst.sources[1] == NONE { 0 } else { scalar_pair(wave, inst.sources[1]) };
    let base = scalar.wrapping_add(i64::from(inst.number as i32) as u64);
    Places::within(wave, base, |lane| (4 * lane as u32, true))
}

const WORD: (Value, Part) = (Value::B32, Part::Whole);

pub(crate) fn load_by_lane(wave: &mut Wave, group: &mut Group<'_>, inst: &Inst) -> Next {
    let places = local(wave, group, inst);
    load_rows::<1>(wave, group, inst, places, (Space::Group, WORD.0, WORD.1), usize::from(inst.result))
}

pub(crate) fn store_by_lane(wave: &mut Wave, group: &mut Group<'_>, inst: &Inst) -> Next {
    let places = local(wave, group, inst);
    store_rows::<1>(wave, group, inst, places, (Space::Group, WORD.0, WORD.1), usize::from(inst.sources[1]))
}

pub(crate) fn load_device_by_lane(wave: &mut Wave, group: &mut Group<'_>, inst: &Inst) -> Next {
    let places = device(wave, inst);
    load_rows::<1>(wave, group, inst, places, (Space::Global, WORD.0, WORD.1), usize::from(inst.result))
}

pub(crate) fn store_device_by_lane(wave: &mut Wave, group: &mut Group<'_>, inst: &Inst) -> Next {
    let places = device(wave, inst);
    store_rows::<1>(wave, group, inst, places, (Space::Global, WORD.0, WORD.1), usize::from(inst.sources[3]))
}
