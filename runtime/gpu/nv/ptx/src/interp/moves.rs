//! Moves: rows, predicates, parts of values, and special registers.

use vireo_simt::permute::Pattern;
use vireo_simt::{LANES, Row};

use super::memory::list;
use crate::generated::limits::{CLOCK_HERTZ, LOCAL_WINDOW, SHARED_WINDOW};
use crate::generated::registers::SpecialRegister;
use crate::machine::{Block, Inst, NONE, Next, Warp};

/// A row.
#[inline(always)]
pub(crate) fn copy(warp: &mut Warp, _: &mut Block<'_>, inst: &Inst) -> Next {
    let row = *warp.row(inst.sources[0]);
    warp.put(inst.result, &row);
    Next::Continue
}

/// Two rows.
#[inline(always)]
pub(crate) fn copy_pair(warp: &mut Warp, _: &mut Block<'_>, inst: &Inst) -> Next {
    let rows = [*warp.row(inst.sources[0]), *warp.row(inst.sources[0] + 1)];
    warp.put(inst.result, &rows[0]);
    warp.put(inst.result + 1, &rows[1]);
    Next::Continue
}

/// A predicate, or the opposite if the number is 1.
pub(crate) fn copy_bits(warp: &mut Warp, _: &mut Block<'_>, inst: &Inst) -> Next {
    let bits = warp.bits(inst.sources[0]);
    warp.put_bits(inst.result, if inst.number == 1 { !bits } else { bits });
    Next::Continue
}

/// A predicate, or the opposite if the number has 16, joined with another one as its lowest bits say: not at all, by
/// and, or, or exclusive or.
pub(crate) fn join_bits(warp: &mut Warp, _: &mut Block<'_>, inst: &Inst) -> Next {
    let bits = warp.bits(inst.sources[0]);
    let bits = if inst.number & 16 != 0 { !bits } else { bits };
    let joined = match inst.number & 15 {
        0 => bits,
        1 => bits & warp.bits(inst.sources[1]),
        2 => bits | warp.bits(inst.sources[1]),
        _ => bits ^ warp.bits(inst.sources[1]),
    };
    warp.put_bits(inst.result, joined);
    Next::Continue
}

/// Four rows.
pub(crate) fn copy_quad(warp: &mut Warp, _: &mut Block<'_>, inst: &Inst) -> Next {
    let rows = [0, 1, 2, 3].map(|index| *warp.row(inst.sources[0] + index));
    for (index, row) in rows.iter().enumerate() {
        warp.put(inst.result + index as u16, row);
    }
    Next::Continue
}

/// Parts of this many bits as rows, each of several of them.
#[inline(always)]
fn pack_parts(warp: &mut Warp, block: &Block<'_>, inst: &Inst, count: usize, bits: u32) {
    let per_row = (32 / bits) as usize;
    let parts = list(block, inst, count);
    let mut rows = [Row::ZERO; 4];
    for (index, part) in parts.iter().enumerate() {
        let (from, shift) = (warp.row(*part), index as u32 % per_row as u32 * bits);
        let row = &mut rows[index / per_row];
        for lane in 0..LANES {
            row.0[lane] |= (from.0[lane] & (u32::MAX >> (32 - bits))) << shift;
        }
    }
    for (index, row) in rows.iter().enumerate().take(count.div_ceil(per_row)) {
        warp.put(inst.result + index as u16, row);
    }
}

/// Halves as one value. The offset says how many.
#[inline(always)]
pub(crate) fn pack(warp: &mut Warp, block: &mut Block<'_>, inst: &Inst) -> Next {
    pack_parts(warp, block, inst, inst.offset as usize, 16);
    Next::Continue
}

/// Two halves as one value.
#[inline(always)]
pub(crate) fn pack_halves(warp: &mut Warp, _: &mut Block<'_>, inst: &Inst) -> Next {
    let (low, high) = (warp.row(inst.sources[0]), warp.row(inst.sources[1]));
    let row = Row::from_fn(|lane| (low.0[lane] & 0xFFFF) | high.0[lane] << 16);
    warp.put(inst.result, &row);
    Next::Continue
}

/// Bytes as one value.
pub(crate) fn pack_bytes(warp: &mut Warp, block: &mut Block<'_>, inst: &Inst) -> Next {
    pack_parts(warp, block, inst, inst.offset as usize, 8);
    Next::Continue
}

/// The sum of two pairs of rows. The carry of words is computed as such, as joining the words of a lane takes longer.
#[inline(always)]
pub(crate) fn add_pairs(warp: &mut Warp, _: &mut Block<'_>, inst: &Inst) -> Next {
    let (a, a_high) = (warp.row(inst.sources[0]), warp.row(inst.sources[0] + 1));
    let (b, b_high) = (warp.row(inst.sources[1]), warp.row(inst.sources[1] + 1));
    let (mut low, mut high) = (Row::ZERO, Row::ZERO);
    for lane in 0..LANES {
        low.0[lane] = a.0[lane].wrapping_add(b.0[lane]);
        let carry = u32::from(low.0[lane] < b.0[lane]);
        high.0[lane] = a_high.0[lane].wrapping_add(b_high.0[lane]).wrapping_add(carry);
    }
    warp.put(inst.result, &low);
    warp.put(inst.result + 1, &high);
    Next::Continue
}

/// The product of a word and a byte of another one, and a sum. The number is by how much the byte is shifted to the
/// left, and has 32 if it has a sign.
#[inline(always)]
pub(crate) fn multiply_byte(warp: &mut Warp, _: &mut Block<'_>, inst: &Inst) -> Next {
    let (a, b, c) = (warp.row(inst.sources[0]), warp.row(inst.sources[1]), warp.row(inst.sources[2]));
    let shift = inst.number & 31;
    // Each loop has one kind of shift, so that it is vector code.
    let row = if inst.number & 32 != 0 {
        let byte = |lane: usize| ((b.0[lane] << shift) as i32 >> 24) as u32;
        Row::from_fn(|lane| a.0[lane].wrapping_mul(byte(lane)).wrapping_add(c.0[lane]))
    } else {
        Row::from_fn(|lane| a.0[lane].wrapping_mul(b.0[lane] << shift >> 24).wrapping_add(c.0[lane]))
    };
    warp.put(inst.result, &row);
    Next::Continue
}

/// Bytes of two values by a selector that is a constant: the number and the offset are a pattern.
#[inline(always)]
pub(crate) fn pick_bytes(warp: &mut Warp, _: &mut Block<'_>, inst: &Inst) -> Next {
    let pattern = Pattern { first: inst.number, second: inst.offset as u32, signs: (inst.offset >> 32) as u32 };
    let row = pattern.pick(warp.row(inst.sources[0]), warp.row(inst.sources[1]));
    warp.put(inst.result, &row);
    Next::Continue
}

/// Rows, or pairs of rows if the number is 64, as one value.
pub(crate) fn gather_rows(warp: &mut Warp, block: &mut Block<'_>, inst: &Inst) -> Next {
    let parts = list(block, inst, inst.offset as usize);
    let size = inst.number / 32;
    let mut rows = [Row::ZERO; 4];
    for (index, row) in rows.iter_mut().enumerate().take(parts.len() * size as usize) {
        *row = *warp.row(parts[index / size as usize] + (index as u32 % size) as u16);
    }
    for (index, row) in rows.iter().enumerate().take(parts.len() * size as usize) {
        warp.put(inst.result + index as u16, row);
    }
    Next::Continue
}

/// The parts of a value, each of as many bits as the number says.
#[inline(always)]
#[expect(clippy::needless_range_loop, reason = "functions of iterators are not inlined into code for newer processors")]
pub(crate) fn scatter_parts(warp: &mut Warp, block: &mut Block<'_>, inst: &Inst) -> Next {
    let (results, bits) = (list(block, inst, inst.offset as usize), inst.number);
    let count = results.len() as u32 * bits / 32;
    let mut rows = [Row::ZERO; 4];
    for index in 0..count.clamp(1, 4) {
        rows[index as usize] = *warp.row(inst.sources[0] + index as u16);
    }
    for index in 0..results.len() {
        let result = &results[index];
        if *result == NONE {
            continue;
        }
        let first = index as u32 * bits;
        if bits >= 32 {
            for word in 0..bits / 32 {
                warp.put(result + word as u16, &rows[(first / 32 + word) as usize]);
            }
        } else {
            let (from, shift) = (&rows[(first / 32) as usize], first % 32);
            let row = Row::from_fn(|lane| (from.0[lane] >> shift) & (u32::MAX >> (32 - bits)));
            warp.put(*result, &row);
        }
    }
    Next::Continue
}

/// A row with the sign or zeros above its lowest bits, as many as the offset says. The number has 1 for signs, and 2 if
/// the result has two rows.
pub(crate) fn extend(warp: &mut Warp, _: &mut Block<'_>, inst: &Inst) -> Next {
    let shift = 32 - inst.offset as u32;
    let from = *warp.row(inst.sources[0]);
    let is_signed = inst.number & 1 != 0;
    let low = Row::from_fn(|lane| {
        let value = from.0[lane] << shift;
        if is_signed { ((value as i32) >> shift) as u32 } else { value >> shift }
    });
    warp.put(inst.result, &low);
    if inst.number & 2 != 0 {
        let high = Row::from_fn(|lane| if is_signed { ((low.0[lane] as i32) >> 31) as u32 } else { 0 });
        warp.put(inst.result + 1, &high);
    }
    Next::Continue
}

/// An address of two rows plus the offset.
pub(crate) fn add_offset(warp: &mut Warp, _: &mut Block<'_>, inst: &Inst) -> Next {
    let first = usize::from(inst.sources[0]);
    // An address of one row is one in a space of less than 2^32 bytes.
    let is_short = inst.number & 1 != 0;
    let mut rows = [Row::ZERO; 2];
    for lane in 0..LANES {
        let high = if is_short { 0 } else { warp.rows[first + 1].0[lane] };
        let value = (u64::from(warp.rows[first].0[lane]) | u64::from(high) << 32).wrapping_add(inst.offset as u64);
        rows[0].0[lane] = value as u32;
        rows[1].0[lane] = (value >> 32) as u32;
    }
    warp.put(inst.result, &rows[0]);
    if inst.number & 2 == 0 {
        warp.put(inst.result + 1, &rows[1]);
    }
    Next::Continue
}

/// Whether an address is in a window, or in none of them if there is no offset.
pub(crate) fn is_space(warp: &mut Warp, _: &mut Block<'_>, inst: &Inst) -> Next {
    let first = usize::from(inst.sources[0]);
    // Parameters of kernels are in the window of global memory, too.
    let windows = [SHARED_WINDOW >> 24, LOCAL_WINDOW >> 24];
    let bits = vireo_simt::lanes::collect_bits(|lane| {
        let address = u64::from(warp.rows[first].0[lane]) | u64::from(warp.rows[first + 1].0[lane]) << 32;
        match inst.offset {
            0 => !windows.contains(&(address >> 24)),
            window => address >> 24 == window as u64 >> 24,
        }
    });
    warp.put_bits(inst.result, bits);
    Next::Continue
}

/// A special register, by its number. The sources say how many rows the result has.
pub(crate) fn special(warp: &mut Warp, block: &mut Block<'_>, inst: &Inst) -> Next {
    use SpecialRegister as S;
    let Some(register) = S::ALL.get(inst.number as usize) else { return Next::Trap };
    let index = warp.index;
    let clock = || (block.started.elapsed().as_nanos() as u64) * (CLOCK_HERTZ / 1_000_000_000);
    let uniform = |value: u64| [Row::splat(value as u32), Row::splat((value >> 32) as u32)];
    let by_lane = |value: fn(u32) -> u32| [Row::from_fn(|lane| value(lane as u32)), Row::ZERO];
    let rows = match register {
        S::TidX => [warp.threads[0], Row::ZERO],
        S::TidY => [warp.threads[1], Row::ZERO],
        S::TidZ => [warp.threads[2], Row::ZERO],
        S::NtidX => uniform(block.size[0].into()),
        S::NtidY => uniform(block.size[1].into()),
        S::NtidZ => uniform(block.size[2].into()),
        S::CtaidX => uniform(block.number[0].into()),
        S::CtaidY => uniform(block.number[1].into()),
        S::CtaidZ => uniform(block.number[2].into()),
        S::NctaidX => uniform(block.grid[0].into()),
        S::NctaidY => uniform(block.grid[1].into()),
        S::NctaidZ => uniform(block.grid[2].into()),
        S::Laneid => by_lane(|lane| lane),
        S::Warpid => uniform(index.into()),
        S::Nwarpid => uniform(u64::from(crate::generated::limits::BLOCK_THREADS) / LANES as u64),
        S::Smid => uniform(0),
        S::Nsmid => uniform(1),
        S::Gridid => uniform(block.grid_id),
        S::Envreg1 => uniform(block.workspace >> 32),
        S::Envreg2 => uniform(block.workspace),
        S::LanemaskEq => by_lane(|lane| 1 << lane),
        S::LanemaskLe => by_lane(|lane| u32::MAX >> (31 - lane)),
        S::LanemaskLt => by_lane(|lane| (1 << lane) - 1),
        S::LanemaskGe => by_lane(|lane| u32::MAX << lane),
        S::LanemaskGt => by_lane(|lane| !(u32::MAX >> (31 - lane))),
        S::Clock | S::Clock64 => uniform(clock()),
        S::ClockHi => uniform(clock() >> 32),
        S::Globaltimer | S::GlobaltimerLo => uniform(now()),
        S::GlobaltimerHi => uniform(now() >> 32),
        S::DynamicSmemSize => uniform(block.dynamic_bytes.into()),
        S::TotalSmemSize => uniform(block.shared.len() as u64),
        S::IsExplicitCluster => {
            warp.put_bits(inst.result, 0);
            return Next::Continue;
        }
    };
    warp.put(inst.result, &rows[0]);
    if inst.sources[0] == 2 {
        warp.put(inst.result + 1, &rows[1]);
    }
    Next::Continue
}

/// Nanoseconds since a time in the past.
fn now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos() as u64)
}
