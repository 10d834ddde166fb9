//! Loads and stores, as handlers call them: of lanes to any kind of memory, of two values of the work-group at once,
//! and of scalar registers.

pub(crate) use super::atomic::swap2;
use super::flat;
use super::lane_access::{for_words, load_lanes, load_rows, scalar_pair, store_lanes, store_rows, two};
use super::places::{Refused, trapped};
use super::row_check::may_load_scalars;
use crate::generated::interp::{Part, Space, Value};
use crate::isa::immediates::BufferDword1;
use crate::machine::{Group, Inst, Next, Wave};

#[inline(always)]
pub(crate) fn load(
    wave: &mut Wave,
    group: &mut Group<'_>,
    inst: &Inst,
    space: Space,
    value: Value,
    part: Part,
) -> Next {
    if space == Space::Constant {
        return match value.words() {
            1 => load_scalars::<1>(wave, group, inst),
            2 => load_scalars::<2>(wave, group, inst),
            4 => load_scalars::<4>(wave, group, inst),
            8 => load_scalars::<8>(wave, group, inst),
            _ => load_scalars::<16>(wave, group, inst),
        };
    }
    if space == Space::ConstantBuffer {
        return load_scalar_buffer(wave, group, inst, value.words());
    }
    if space == Space::Flat {
        return flat::load(wave, group, inst, value, part);
    }
    load_lanes(wave, group, inst, space, value, part)
}

/// A load of `N` scalar registers.
#[inline(always)]
fn load_scalars<const N: usize>(wave: &mut Wave, group: &mut Group<'_>, inst: &Inst) -> Next {
    let offset = i64::from(inst.number as i32) as u64;
    let scalar = u64::from(wave.scalars[usize::from(inst.sources[1])]);
    // The lowest two bits of the address are dropped.
    let address = scalar_pair(wave, inst.sources[0]).wrapping_add(offset).wrapping_add(scalar) & !3;
    if !may_load_scalars(wave, group, inst, 4 * N as u32, address) {
        for index in 0..N as u16 {
            wave.set_scalar(inst.result + index, 0);
        }
        return Next::Continue;
    }
    let Ok(words) = group.port.load_words::<N>(address) else { return load_each_scalar(wave, group, inst, address, N) };
    for index in 0..N {
        wave.set_scalar(inst.result + index as u16, words[index]);
    }
    Next::Continue
}

/// A load of scalar registers from a buffer. Each word has bounds of its own.
#[inline(never)]
fn load_scalar_buffer(wave: &mut Wave, group: &mut Group<'_>, inst: &Inst, words: usize) -> Next {
    let first = usize::from(inst.sources[0]);
    let (second, records) = (BufferDword1(wave.scalars[first + 1]), u64::from(wave.scalars[first + 2]));
    let base = u64::from(wave.scalars[first]) | u64::from(second.base_high()) << 32;
    let size = if second.stride() == 0 { records } else { records * u64::from(second.stride()) };
    let scalar = u64::from(wave.scalars[usize::from(inst.sources[1])]);
    // The lowest two bits of offsets are dropped, and a negative one is out of bounds.
    let offset = scalar.wrapping_add(i64::from(inst.number as i32) as u64) & !3;
    let mut values = [0; 16];
    for (index, value) in values.iter_mut().enumerate().take(words) {
        let place = offset.wrapping_add(4 * index as u64);
        let address = base.wrapping_add(place);
        if place >= size || size - place < 4 || !may_load_scalars(wave, group, inst, 4, address) {
            continue;
        }
        match group.port.load_words::<1>(address) {
            Ok([word]) => *value = word,
            Err(fault) => return trapped(wave, Refused::Fault(fault), None),
        }
    }
    for (index, value) in values.into_iter().enumerate().take(words) {
        wave.set_scalar(inst.result + index as u16, value);
    }
    Next::Continue
}

/// Loads scalar registers that are not all in one allocation.
#[cold]
fn load_each_scalar(wave: &mut Wave, group: &mut Group<'_>, inst: &Inst, address: u64, count: usize) -> Next {
    for index in 0..count as u16 {
        match group.port.load_words::<1>(address.wrapping_add(4 * u64::from(index))) {
            Ok([word]) => wave.set_scalar(inst.result + index, word),
            Err(fault) => return trapped(wave, Refused::Fault(fault), None),
        }
    }
    Next::Continue
}

#[inline(always)]
pub(crate) fn store(
    wave: &mut Wave,
    group: &mut Group<'_>,
    inst: &Inst,
    space: Space,
    value: Value,
    part: Part,
) -> Next {
    if space == Space::Flat {
        return flat::store(wave, group, inst, value, part);
    }
    store_lanes(wave, group, inst, space, value, part)
}

/// Loads two values of the work-group.
#[inline(always)]
pub(crate) fn load2<const STRIDE: u32>(
    wave: &mut Wave,
    group: &mut Group<'_>,
    inst: &Inst,
    space: Space,
    value: Value,
    part: Part,
) -> Next {
    // The first result may be the register of the offsets.
    let [first, second] = two::<STRIDE>(wave, group, inst, value.bytes());
    let result = usize::from(inst.result);
    for_words!(value, load_rows(wave, group, inst, first, (space, value, part), result));
    for_words!(value, load_rows(wave, group, inst, second, (space, value, part), result + value.words()))
}

/// Stores two values of the work-group.
#[inline(always)]
pub(crate) fn store2<const STRIDE: u32>(
    wave: &mut Wave,
    group: &mut Group<'_>,
    inst: &Inst,
    space: Space,
    value: Value,
    part: Part,
) -> Next {
    let [first, second] = two::<STRIDE>(wave, group, inst, value.bytes());
    let data = [usize::from(inst.sources[1]), usize::from(inst.sources[2])];
    for_words!(value, store_rows(wave, group, inst, first, (space, value, part), data[0]));
    for_words!(value, store_rows(wave, group, inst, second, (space, value, part), data[1]))
}
