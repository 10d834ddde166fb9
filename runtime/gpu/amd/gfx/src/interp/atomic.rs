//! Atomic accesses: one lane after the other replaces a value in memory by a function of it and the lane's data, and
//! gets the old one.
//!
//! The memory of a work-group belongs to one thread; device memory is changed by atomic accesses of the host, as other
//! cores may run other work-groups of the dispatch. Generated handlers call the functions that are named as in the
//! spec.

use vireo_simt::row::lanes;
use vireo_simt::{Access, Fault, Port, Refusal, Row};

use super::flat;
use super::lane_access::{data_of, places, two};
use super::places::{Places, trapped};
use super::prim::{self, Int};
use super::row_check::check;
use crate::generated::interp::{Part, Space, Value};
use crate::machine::{Group, Inst, NONE, Next, Wave};

/// A value in memory.
trait Word: Int + Default {
    const WORDS: usize;
    /// That of a lane in the registers from `first` on.
    fn of_lane(rows: &[Row], first: usize, lane: usize) -> Self;
    /// Makes it that of a lane.
    fn put(self, rows: &mut [Row; 2], lane: usize);
    /// Replaces the one at an address.
    fn replace(port: &mut Port<'_>, address: u64, change: impl Fn(Self) -> Self) -> Result<Self, Fault>;
    /// Replaces the one at an offset, which is in the memory.
    fn replace_local(memory: &mut [u8], offset: usize, change: impl Fn(Self) -> Self) -> Option<Self>;
}

macro_rules! word {
    ($($ty:ty, $words:literal, $replace:ident, |$rows:ident, $first:ident, $lane:ident| $of:expr;)*) => {$(
        impl Word for $ty {
            const WORDS: usize = $words;
            fn of_lane($rows: &[Row], $first: usize, $lane: usize) -> Self { $of }
            fn put(self, rows: &mut [Row; 2], lane: usize) {
                for index in 0..$words {
                    rows[index].0[lane] = (u64::from(self) >> (32 * index)) as u32;
                }
            }
            fn replace(port: &mut Port<'_>, address: u64, change: impl Fn(Self) -> Self) -> Result<Self, Fault> {
                port.$replace(address, change)
            }
            fn replace_local(memory: &mut [u8], offset: usize, change: impl Fn(Self) -> Self) -> Option<Self> {
                let bytes = memory.get_mut(offset..)?.first_chunk_mut()?;
                let old = <$ty>::from_le_bytes(*bytes);
                *bytes = change(old).to_le_bytes();
                Some(old)
            }
        }
    )*};
}

word! {
    u32, 1, atomic_u32, |rows, first, lane| rows[first].0[lane];
    u64, 2, atomic_u64, |rows, first, lane| u64::from(rows[first].0[lane]) | u64::from(rows[first + 1].0[lane]) << 32;
}

/// Replaces the values of all lanes by `change` of them, the data, and what they are compared with if `COMPARES`.
fn replace<W: Word, const COMPARES: bool>(
    wave: &mut Wave,
    group: &mut Group<'_>,
    inst: &Inst,
    space: Space,
    change: impl Fn(W, W, W) -> W,
) -> Next {
    if space == Space::Flat {
        return flat::each(wave, group, inst, |wave, group, inst, space| {
            replace_lanes::<W, COMPARES>(wave, group, inst, space, &change)
        });
    }
    replace_lanes::<W, COMPARES>(wave, group, inst, space, &change)
}

/// The same in one kind of memory.
fn replace_lanes<W: Word, const COMPARES: bool>(
    wave: &mut Wave,
    group: &mut Group<'_>,
    inst: &Inst,
    space: Space,
    change: &impl Fn(W, W, W) -> W,
) -> Next {
    let length = 4 * W::WORDS as u32;
    let places = match places(wave, group, inst, space, length) {
        Ok(places) => places,
        Err((lane, refused)) => return trapped(wave, refused, Some(lane as u32)),
    };
    // In the memory of the work-group what is compared with has a field of its own, else it follows the data.
    let data = data_of(inst);
    let compared = if inst.sources[3] == NONE { inst.sources[2] } else { data + W::WORDS as u16 };
    replace_at::<W, COMPARES>(wave, group, inst, (space, places), (data, compared, inst.result), change)
}

/// The same at these places, with registers of the data, of what is compared with, and of the old value.
fn replace_at<W: Word, const COMPARES: bool>(
    wave: &mut Wave,
    group: &mut Group<'_>,
    inst: &Inst,
    (space, mut places): (Space, Places),
    (data, compared, result): (u16, u16, u16),
    change: &impl Fn(W, W, W) -> W,
) -> Next {
    let length = 4 * W::WORDS as u32;
    check(wave, group, inst, &mut places, (space, length, Access::Atomic));
    let (addresses, mask) = (places.addresses(&wave.rows), places.select.to_mask());
    let mut old = [Row::ZERO; 2];
    for lane in lanes(mask) {
        let address = addresses[lane];
        let data = W::of_lane(&wave.rows, usize::from(data), lane);
        let compared = if COMPARES { W::of_lane(&wave.rows, usize::from(compared), lane) } else { W::default() };
        let refused = |why| Fault { address, length, access: Access::Atomic, why };
        let found = match space {
            _ if !address.is_multiple_of(length.into()) => Err(refused(Refusal::Unaligned)),
            Space::Group => W::replace_local(&mut group.local, address as usize, |value| change(value, data, compared))
                .ok_or(refused(Refusal::Unmapped)),
            Space::Scratch => {
                W::replace_local(&mut wave.scratch, address as usize, |value| change(value, data, compared))
                    .ok_or(refused(Refusal::Unmapped))
            }
            _ => W::replace(&mut group.port, address, |value| change(value, data, compared)),
        };
        match found {
            Ok(value) => value.put(&mut old, lane),
            Err(fault) => return trapped(wave, fault.into(), Some(lane as u32)),
        }
    }
    if result != NONE {
        for (index, row) in old.iter().enumerate().take(W::WORDS) {
            wave.rows[usize::from(result) + index].blend(row, &wave.exec_row);
        }
    }
    Next::Continue
}

macro_rules! atomics {
    ($($name:ident, $compares:literal, |$old:ident, $data:ident, $compared:ident| $new:expr;)*) => {$(
        pub(crate) fn $name(wave: &mut Wave, group: &mut Group<'_>, inst: &Inst, space: Space, value: Value) -> Next {
            match value.words() {
                1 => replace::<u32, $compares>(wave, group, inst, space, |$old, $data, $compared| $new),
                _ => replace::<u64, $compares>(wave, group, inst, space, |$old, $data, $compared| $new),
            }
        }
    )*};
}

atomics! {
    swap, false, |_old, data, _compared| data;
    compare_swap, true, |old, data, compared| if old == compared { data } else { old };
    add, false, |old, data, _compared| old.wrapping_add(data);
    sub, false, |old, data, _compared| old.wrapping_sub(data);
    reverse_sub, false, |old, data, _compared| data.wrapping_sub(old);
    min_s, false, |old, data, _compared| prim::min_s(old, data);
    min_u, false, |old, data, _compared| old.min(data);
    max_s, false, |old, data, _compared| prim::max_s(old, data);
    max_u, false, |old, data, _compared| old.max(data);
    and, false, |old, data, _compared| old & data;
    or, false, |old, data, _compared| old | data;
    xor, false, |old, data, _compared| old ^ data;
    inc, false, |old, data, _compared| if old >= data { 0 } else { old + 1 };
    mask_or, true, |old, cleared, set| old & !cleared | set;
    wrap, true, |old, taken, added| if old >= taken { old - taken } else { old.wrapping_add(added) };
    sub_to_zero, false, |old, data, _compared| old.saturating_sub(data);
    dec, false, |old, data, _compared| if old == 0 || old > data { data } else { old - 1 };
}

macro_rules! float_atomics {
    ($($name:ident, $float:ident $bits:ty, $compares:literal, |$old:ident, $data:ident, $compared:ident| $new:expr;)*) => {$(
        pub(crate) fn $name(wave: &mut Wave, group: &mut Group<'_>, inst: &Inst, space: Space, _: Value) -> Next {
            replace::<$bits, $compares>(wave, group, inst, space, |old, data, compared| {
                let [$old, $data, $compared] = [old, data, compared].map($float::from_bits);
                $float::to_bits($new)
            })
        }
    )*};
}

/// Replaces each word of two by the lowest bits of the data where their highest bit is set.
pub(crate) fn conditional_swap(wave: &mut Wave, group: &mut Group<'_>, inst: &Inst, space: Space, _: Value) -> Next {
    let half = |old: u32, data: u32| if data >> 31 == 1 { data & 0x7FFF_FFFF } else { old };
    replace::<u64, false>(wave, group, inst, space, |old, data, _| {
        u64::from(half(old as u32, data as u32)) | u64::from(half((old >> 32) as u32, (data >> 32) as u32)) << 32
    })
}

/// Replaces two values of the work-group by the data, whose offsets count `STRIDE` values, and returns the old ones.
pub(crate) fn swap2<const STRIDE: u32>(
    wave: &mut Wave,
    group: &mut Group<'_>,
    inst: &Inst,
    space: Space,
    value: Value,
    _: Part,
) -> Next {
    let [first, second] = two::<STRIDE>(wave, group, inst, value.bytes());
    let ([data, data1], result) = ([inst.sources[1], inst.sources[2]], inst.result);
    // The first old value goes to the second spare register, since its own may have the second data.
    let (spare, words) = (group.program.vectors as u16, value.words());
    for (places, data, result) in [(first, data, spare), (second, data1, result + words as u16)] {
        let registers = (data, NONE, result);
        let next = match words {
            1 => replace_at::<u32, false>(wave, group, inst, (space, places), registers, &|_, data, _| data),
            _ => replace_at::<u64, false>(wave, group, inst, (space, places), registers, &|_, data, _| data),
        };
        if next != Next::Continue {
            return next;
        }
    }
    for word in 0..words {
        let row = wave.rows[usize::from(spare) + word];
        wave.rows[usize::from(result) + word].blend(&row, &wave.exec_row);
    }
    Next::Continue
}

float_atomics! {
    compare_swap_f32, f32 u32, true, |old, data, compared| if old == compared { data } else { old };
    min_f32, f32 u32, false, |old, data, _compared| if data < old { data } else { old };
    max_f32, f32 u32, false, |old, data, _compared| if data > old { data } else { old };
    compare_swap_f64, f64 u64, true, |old, data, compared| if old == compared { data } else { old };
    min_f64, f64 u64, false, |old, data, _compared| if data < old { data } else { old };
    max_f64, f64 u64, false, |old, data, _compared| if data > old { data } else { old };
    add_f32, f32 u32, false, |old, data, _compared| old + data;
}
