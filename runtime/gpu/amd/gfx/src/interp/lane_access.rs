//! Accesses of all lanes to one kind of memory: device memory through its port, buffers with their bounds, the memory
//! of the work-group, and private memory.
//!
//! An access is two steps: [`Places`] says which bytes each lane means, and [`lane_bytes`] finds them, for all lanes at
//! once. Where that cannot be, since lanes access several allocations, or one of them none, each lane looks its bytes
//! up. In between a sanitizer sees the places ([`check`]): here is where all rows of loads and stores come along.

use vireo_simt::row::lanes;
use vireo_simt::{Access, LANES, LaneBytes, Mask, Port, Row};

use super::places::{Places, Refused, trapped};
use super::row_check::check;
use crate::generated::interp::{Part, Space, Value};
use crate::isa::immediates::{BufferBounds, BufferDword1, BufferDword3};
use crate::machine::{BUFFER_INDEX, BUFFER_OFFSET, Group, Inst, NONE, Next, Wave};

#[inline(always)]
pub(super) fn scalar_pair(wave: &Wave, first: u16) -> u64 {
    let first = usize::from(first);
    u64::from(wave.scalars[first]) | u64::from(wave.scalars[first + 1]) << 32
}

/// The lanes' addresses in device memory.
#[inline(always)]
fn global(wave: &Wave, inst: &Inst) -> Places {
    let offset = i64::from(inst.number as i32) as u64;
    let address = usize::from(inst.sources[0]);
    let (offsets, select) = (wave.rows[address], wave.exec_row);
    if inst.sources[1] != NONE {
        let base = scalar_pair(wave, inst.sources[1]).wrapping_add(offset);
        return Places { offsets, base, high: None, select };
    }
    let high = &wave.rows[address + 1];
    let first = high.0[wave.exec().trailing_zeros() as usize % LANES];
    let mut differing = 0;
    for lane in 0..LANES {
        differing |= (high.0[lane] ^ first) & select.0[lane];
    }
    if differing != 0 {
        return Places { offsets, base: offset, high: Some(address + 1), select };
    }
    Places { offsets, base: offset.wrapping_add(u64::from(first) << 32), high: None, select }
}

/// The lanes' bytes of a buffer from byte `skipped` of the value on. The resource is raw: without a stride,
/// `num_records` counts bytes.
#[inline(always)]
fn buffer(wave: &Wave, inst: &Inst, skipped: u32, bytes: u32) -> Result<Places, Refused> {
    let first = usize::from(inst.sources[1]);
    let resource = &wave.scalars[first..first + 4];
    let second = BufferDword1(resource[1]);
    let base = u64::from(resource[0]) | u64::from(second.base_high()) << 32;
    if inst.number & BUFFER_INDEX != 0 || second.swizzle() != 0 || second.stride() != 0 {
        return Err(Refused::Bounds("a buffer with a stride or index"));
    }
    let fourth = BufferDword3(resource[3]);
    if fourth.kind() != 0 {
        return Err(Refused::Bounds("a resource that is no buffer"));
    }
    if fourth.add_lane() {
        return Err(Refused::Bounds("a buffer whose index has the lane's number"));
    }
    let scalar = wave.scalars[usize::from(inst.sources[2])];
    let base = base.wrapping_add(u64::from(scalar));
    // Bytes outside of the bounds read as zero.
    let (limit, offset) = (resource[2], inst.number & !(BUFFER_INDEX | BUFFER_OFFSET));
    let end = skipped + bytes;
    let (some, last) = match fourth.bounds() {
        Some(BufferBounds::Raw) => {
            // The scalar offset is no part of the offset, but makes the buffer smaller.
            let limit = limit.saturating_sub(scalar);
            (limit >= end, limit.wrapping_sub(end))
        }
        Some(BufferBounds::Unchecked) => (limit != 0, u32::MAX),
        _ => return Err(Refused::Bounds("a buffer with bounds of records")),
    };
    let has_offset = inst.number & BUFFER_OFFSET != 0;
    let row = if has_offset { &wave.rows[usize::from(inst.sources[0])] } else { &Row::ZERO };
    Ok(Places::within(wave, base, |lane| {
        // Offsets in buffers have 32 bits: a negative one and what the instruction adds are a small one.
        let place = row.0[lane].wrapping_add(offset);
        (place.wrapping_add(skipped), some & (place <= last))
    }))
}

/// Whether the words of values in a buffer are accessed one by one, since some lane's are not all inside: each has
/// bounds of its own.
#[inline(always)]
fn are_apart(wave: &Wave, places: &Places, (space, value): (Space, Value)) -> bool {
    if space != Space::Buffer || value.words() == 1 {
        return false;
    }
    let mut outside = 0;
    for lane in 0..LANES {
        outside |= wave.exec_row.0[lane] ^ places.select.0[lane];
    }
    outside != 0
}

/// The places of each of the words.
fn each_word(wave: &Wave, inst: &Inst, words: usize) -> Result<Vec<Places>, Refused> {
    (0..words as u32).map(|index| buffer(wave, inst, 4 * index, 4)).collect()
}

/// The lanes' bytes of the memory of the work-group. Outside of it everything is zero.
#[inline(always)]
fn local(wave: &Wave, group: &Group<'_>, inst: &Inst, offset: u32, bytes: u32) -> Places {
    let limit = group.local.len() as u32;
    let (some, last) = (limit >= bytes, limit.wrapping_sub(bytes));
    let row = &wave.rows[usize::from(inst.sources[0])];
    Places::within(wave, 0, |lane| {
        // Addresses wrap: compilers subtract from the register and add to the offset.
        let place = row.0[lane].wrapping_add(offset);
        (place, some & (place <= last))
    })
}

/// The lanes' bytes of private memory, which is one lane's after the other.
#[inline(always)]
fn scratch(wave: &Wave, inst: &Inst, bytes: u32) -> Result<Places, (usize, Refused)> {
    let row = if inst.sources[0] == NONE { &Row::ZERO } else { &wave.rows[usize::from(inst.sources[0])] };
    let scalar = if inst.sources[1] == NONE { 0 } else { u64::from(wave.scalars[usize::from(inst.sources[1])]) };
    let base = scalar.wrapping_add(i64::from(inst.number as i32) as u64);
    let stride = wave.scratch_stride;
    let mut refused = 0;
    let places = Places::within(wave, 0, |lane| {
        let place = base.wrapping_add(u64::from(row.0[lane]));
        let inside = place < u64::from(stride) && u64::from(stride) - place >= u64::from(bytes);
        refused |= u32::from(!inside) << lane;
        // All private memory of a wave has less than 2^32 bytes.
        ((lane as u32).wrapping_mul(stride).wrapping_add(place as u32), inside)
    });
    match refused & wave.exec() {
        0 => Ok(places),
        lanes => Err((lanes.trailing_zeros() as usize, Refused::Bounds("an offset outside of private memory"))),
    }
}

/// The lanes' bytes in any memory.
#[inline(always)]
pub(super) fn places(
    wave: &Wave,
    group: &Group<'_>,
    inst: &Inst,
    space: Space,
    bytes: u32,
) -> Result<Places, (usize, Refused)> {
    match space {
        Space::Global | Space::Constant => Ok(global(wave, inst)),
        Space::Buffer => buffer(wave, inst, 0, bytes).map_err(|refused| (0, refused)),
        Space::Group => Ok(local(wave, group, inst, inst.number, bytes)),
        Space::Scratch => scratch(wave, inst, bytes),
        // Each lane's address says which of these it is in, and scalar loads have no lanes.
        Space::Flat | Space::ConstantBuffer => Err((0, Refused::Bounds("an access that has no places of lanes"))),
    }
}

/// Finds the bytes of all lanes; none if no lane has any, or if they are not in one allocation of device memory.
#[inline(always)]
fn lane_bytes<'a>(
    scratch: &'a mut [u8],
    group: &'a mut Group<'_>,
    places: &Places,
    space: Space,
    bytes: u32,
    access: Access,
) -> Option<LaneBytes<'a>> {
    match space {
        Space::Group => LaneBytes::of_slice(&mut group.local, &places.offsets, &places.select, bytes),
        Space::Scratch => LaneBytes::of_slice(scratch, &places.offsets, &places.select, bytes),
        _ if places.high.is_some() => None,
        _ => group.port.lanes(places.base, &places.offsets, &places.select, bytes, access),
    }
}

/// Loads what each lane has at its address in device memory.
#[inline(never)]
fn load_each<const N: usize>(
    port: &mut Port<'_>,
    addresses: &[u64; LANES],
    mask: Mask,
    value: Value,
    rows: &mut [Row; N],
) -> Result<(), (usize, Refused)> {
    for lane in lanes(mask) {
        let address = addresses[lane];
        let words = match value {
            Value::U8 | Value::I8 => port.load_u8(address).map(|byte| [u32::from(byte); N]),
            Value::U16 | Value::I16 => port.load_u16(address).map(|half| [u32::from(half); N]),
            _ => port.load_words(address),
        };
        for (row, word) in rows.iter_mut().zip(words.map_err(|fault| (lane, fault.into()))?) {
            row.0[lane] = word;
        }
    }
    Ok(())
}

#[inline(never)]
fn store_each<const N: usize>(
    port: &mut Port<'_>,
    addresses: &[u64; LANES],
    mask: Mask,
    value: Value,
    rows: &[Row; N],
) -> Result<(), (usize, Refused)> {
    for lane in lanes(mask) {
        let (address, words) = (addresses[lane], rows.map(|row| row.0[lane]));
        let stored = match value {
            Value::U8 | Value::I8 => port.store_u8(address, words[0] as u8),
            Value::U16 | Value::I16 => port.store_u16(address, words[0] as u16),
            _ => port.store_words(address, words),
        };
        stored.map_err(|fault| (lane, fault.into()))?;
    }
    Ok(())
}

/// Loads `N` rows from `result` on.
#[inline(always)]
pub(super) fn load_rows<const N: usize>(
    wave: &mut Wave,
    group: &mut Group<'_>,
    inst: &Inst,
    mut places: Places,
    (space, value, part): (Space, Value, Part),
    result: usize,
) -> Next {
    check(wave, group, inst, &mut places, (space, value.bytes(), Access::Load));
    let mut rows = [Row::ZERO; N];
    match lane_bytes(&mut wave.scratch, group, &places, space, value.bytes(), Access::Load) {
        Some(bytes) => match value {
            Value::U8 | Value::I8 => rows[0] = bytes.load_u8(),
            Value::U16 | Value::I16 => rows[0] = bytes.load_u16(),
            _ if part == Part::Whole && bytes.is_full() => {
                let target = wave.rows[result..].first_chunk_mut().expect("the decoder has checked the registers");
                bytes.load_words::<N>(target);
                return Next::Continue;
            }
            _ => bytes.load_words(&mut rows),
        },
        None if matches!(space, Space::Global | Space::Buffer) => {
            let (addresses, mask) = (places.addresses(&wave.rows), places.select.to_mask());
            if let Err((lane, refused)) = load_each(&mut group.port, &addresses, mask, value, &mut rows) {
                return trapped(wave, refused, Some(lane as u32));
            }
        }
        None => {}
    }
    for index in 0..N {
        let (row, target) = (&rows[index], &mut wave.rows[result + index]);
        for lane in 0..LANES {
            let (word, old) = (row.0[lane], target.0[lane]);
            let word = match value {
                Value::I8 => word as u8 as i8 as u32,
                Value::I16 => word as u16 as i16 as u32,
                _ => word,
            };
            // Words out of bounds are zero.
            let word = word & places.select.0[lane];
            let word = match part {
                Part::Whole => word,
                Part::Low => (word & 0xFFFF) | (old & 0xFFFF_0000),
                Part::High => (word << 16) | (old & 0xFFFF),
            };
            let exec = wave.exec_row.0[lane];
            target.0[lane] = (word & exec) | (old & !exec);
        }
    }
    Next::Continue
}

/// Stores `N` rows from `data` on.
#[inline(always)]
pub(super) fn store_rows<const N: usize>(
    wave: &mut Wave,
    group: &mut Group<'_>,
    inst: &Inst,
    mut places: Places,
    (space, value, part): (Space, Value, Part),
    data: usize,
) -> Next {
    check(wave, group, inst, &mut places, (space, value.bytes(), Access::Store));
    let mut rows: &[Row; N] = wave.rows[data..].first_chunk().expect("the decoder has checked the registers");
    let mut shifted = [Row::ZERO; N];
    if part == Part::High {
        for lane in 0..LANES {
            shifted[0].0[lane] = rows[0].0[lane] >> 16;
        }
        rows = &shifted;
    }
    match lane_bytes(&mut wave.scratch, group, &places, space, value.bytes(), Access::Store) {
        Some(bytes) => match value {
            Value::U8 | Value::I8 => bytes.store_u8(&rows[0]),
            Value::U16 | Value::I16 => bytes.store_u16(&rows[0]),
            _ => bytes.store_words(rows),
        },
        None if matches!(space, Space::Global | Space::Buffer) => {
            let (addresses, mask) = (places.addresses(&wave.rows), places.select.to_mask());
            if let Err((lane, refused)) = store_each(&mut group.port, &addresses, mask, value, rows) {
                return trapped(wave, refused, Some(lane as u32));
            }
        }
        None => {}
    }
    Next::Continue
}

/// Calls a function for the number of words of a value.
macro_rules! for_words {
    ($value:expr, $function:ident($($arg:expr),*)) => {
        match $value.words() {
            1 => $function::<1>($($arg),*),
            2 => $function::<2>($($arg),*),
            3 => $function::<3>($($arg),*),
            _ => $function::<4>($($arg),*),
        }
    };
}
pub(super) use for_words;

/// A load of all lanes from one kind of memory.
#[inline(always)]
pub(super) fn load_lanes(
    wave: &mut Wave,
    group: &mut Group<'_>,
    inst: &Inst,
    space: Space,
    value: Value,
    part: Part,
) -> Next {
    match places(wave, group, inst, space, value.bytes()) {
        Ok(places) => {
            let result = usize::from(inst.result);
            if are_apart(wave, &places, (space, value)) {
                return load_apart(wave, group, inst, value.words(), result);
            }
            for_words!(value, load_rows(wave, group, inst, places, (space, value, part), result))
        }
        Err((lane, refused)) => trapped(wave, refused, Some(lane as u32)),
    }
}

/// Loads each word of a value on its own. All places are known before, since the first result may be the register of
/// the offsets.
#[cold]
#[inline(never)]
fn load_apart(wave: &mut Wave, group: &mut Group<'_>, inst: &Inst, words: usize, result: usize) -> Next {
    let apart = match each_word(wave, inst, words) {
        Ok(apart) => apart,
        Err(refused) => return trapped(wave, refused, None),
    };
    for (index, places) in apart.into_iter().enumerate() {
        let what = (Space::Buffer, Value::B32, Part::Whole);
        let next = load_rows::<1>(wave, group, inst, places, what, result + index);
        if next != Next::Continue {
            return next;
        }
    }
    Next::Continue
}

/// Stores each word of a value on its own.
#[cold]
#[inline(never)]
fn store_apart(wave: &mut Wave, group: &mut Group<'_>, inst: &Inst, words: usize, data: usize) -> Next {
    let apart = match each_word(wave, inst, words) {
        Ok(apart) => apart,
        Err(refused) => return trapped(wave, refused, None),
    };
    for (index, places) in apart.into_iter().enumerate() {
        let what = (Space::Buffer, Value::B32, Part::Whole);
        let next = store_rows::<1>(wave, group, inst, places, what, data + index);
        if next != Next::Continue {
            return next;
        }
    }
    Next::Continue
}

/// A store of all lanes to one kind of memory.
#[inline(always)]
pub(super) fn store_lanes(
    wave: &mut Wave,
    group: &mut Group<'_>,
    inst: &Inst,
    space: Space,
    value: Value,
    part: Part,
) -> Next {
    let data = usize::from(data_of(inst));
    match places(wave, group, inst, space, value.bytes()) {
        Ok(places) => {
            if are_apart(wave, &places, (space, value)) {
                return store_apart(wave, group, inst, value.words(), data);
            }
            for_words!(value, store_rows(wave, group, inst, places, (space, value, part), data))
        }
        Err((lane, refused)) => trapped(wave, refused, Some(lane as u32)),
    }
}

/// The data of a store or atomic access. Those of instructions for the memory of the work-group alone follow the
/// address.
#[inline(always)]
pub(super) fn data_of(inst: &Inst) -> u16 {
    if inst.sources[3] == NONE { inst.sources[1] } else { inst.sources[3] }
}

/// The lanes' bytes of the two values of an instruction, whose offsets count `STRIDE` values.
#[inline(always)]
pub(super) fn two<const STRIDE: u32>(wave: &Wave, group: &Group<'_>, inst: &Inst, bytes: u32) -> [Places; 2] {
    let offset = |count: u32| count * STRIDE * bytes;
    [
        local(wave, group, inst, offset(inst.number & 0xFF), bytes),
        local(wave, group, inst, offset(inst.number >> 8), bytes),
    ]
}
