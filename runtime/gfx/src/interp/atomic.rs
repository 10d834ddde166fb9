//! Atomic accesses: one lane after the other replaces a value in memory by a function of it and the lane's data, and gets the old one.
//!
//! The memory of a work-group belongs to one thread; device memory is changed by atomic accesses of the host, as other cores may run other
//! work-groups of the dispatch. Generated handlers call the functions that are named as in the spec.

use vireo_simt::row::lanes;
use vireo_simt::{Access, Fault, Port, Refusal, Row};

use super::memory::{data_of, places, trapped};
use super::prim::{self, Int};
use super::row_check::check;
use super::wave::{Group, Wave};
use super::{Next, flat};
use crate::generated::interp::{Space, Value};
use crate::program::{Inst, NONE};

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
    let mut places = match places(wave, group, inst, space, length) {
        Ok(places) => places,
        Err((lane, refused)) => return trapped(wave, refused, Some(lane as u32)),
    };
    check(wave, group, inst, &mut places, (space, length, Access::Atomic));
    let (addresses, mask) = (places.addresses(&wave.rows), places.select.to_mask());
    // In the memory of the work-group what is compared with has a field of its own, else it follows the data.
    let data = data_of(inst);
    let compared = if inst.sources[3] == NONE { inst.sources[2] } else { data + W::WORDS as u16 };
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
    if inst.result != NONE {
        for (index, row) in old.iter().enumerate().take(W::WORDS) {
            wave.rows[usize::from(inst.result) + index].blend(row, &wave.exec_row);
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
    dec, false, |old, data, _compared| if old == 0 || old > data { data } else { old - 1 };
}

macro_rules! float_atomics {
    ($($name:ident, $compares:literal, |$old:ident, $data:ident, $compared:ident| $new:expr;)*) => {$(
        pub(crate) fn $name(wave: &mut Wave, group: &mut Group<'_>, inst: &Inst, space: Space, _: Value) -> Next {
            replace::<u32, $compares>(wave, group, inst, space, |old, data, compared| {
                let ($old, $data, $compared) = (f32::from_bits(old), f32::from_bits(data), f32::from_bits(compared));
                f32::to_bits($new)
            })
        }
    )*};
}

float_atomics! {
    compare_swap_f32, true, |old, data, compared| if old == compared { data } else { old };
    min_f32, false, |old, data, _compared| if data < old { data } else { old };
    max_f32, false, |old, data, _compared| if data > old { data } else { old };
    add_f32, false, |old, data, _compared| old + data;
}
