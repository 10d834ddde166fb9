//! Products of matrices of 16 by 16, of which a wave holds a row of A and a column of B in each of its first 16 lanes
//! (and again in the others), and of C the elements of row `2 * register + lane / 16` and column `lane % 16`.

use vireo_simt::{Row, TrapKind};

use crate::interp::prim::{self, F16};
use crate::machine::{Group, HalfSums, Inst, MODIFIED, Next, Wave};

/// Side of the matrices.
const SIDE: usize = 16;

/// Among numbers of this size the next one is larger by one.
const EVEN: f32 = 12_582_912.0;

/// A, of which each array is a column, or B, of which each is a row.
type Matrix = [[f32; SIDE]; SIDE];

/// Traps unless all sources are registers and all lanes are active, as compilers guarantee, or if there are other signs
/// than those in `neg`.
fn check(wave: &mut Wave, inst: &Inst, neg: u32) -> Result<(), Next> {
    let modifiers = inst.modifiers();
    if modifiers.neg & !neg | modifiers.neg_high != 0 {
        return Err(wave.trapped(TrapKind::NotImplemented("signs of matrices".into()), None));
    }
    if inst.sources[..3].iter().any(|source| *source >= MODIFIED) {
        return Err(wave.trapped(TrapKind::InvalidOperand("a matrix that is not in registers".into()), None));
    }
    if wave.exec() != u32::MAX {
        return Err(wave.trapped(TrapKind::NotImplemented("a product of matrices in some lanes".into()), None));
    }
    Ok(())
}

/// A or B of 16-bit values, of which each register has two.
#[inline(always)]
fn halves(wave: &Wave, first: u16, convert: impl Fn(u16) -> f32) -> Matrix {
    let mut matrix = [[0.0; SIDE]; SIDE];
    for register in 0..SIDE / 2 {
        let row = &wave.rows[usize::from(first) + register];
        for line in 0..SIDE {
            matrix[2 * register][line] = convert(row.0[line] as u16);
            matrix[2 * register + 1][line] = convert((row.0[line] >> 16) as u16);
        }
    }
    matrix
}

/// A or B of integers of so many bits, of which each register has as many as fit.
#[inline(always)]
fn integers<const BITS: usize>(wave: &Wave, first: u16, signed: bool) -> Matrix {
    let count = 32 / BITS;
    let mut matrix = [[0.0; SIDE]; SIDE];
    for register in 0..SIDE / count {
        let row = &wave.rows[usize::from(first) + register];
        for part in 0..count {
            for line in 0..SIDE {
                let value = row.0[line] << (32 - BITS - BITS * part);
                let value = if signed { value as i32 >> (32 - BITS) } else { (value >> (32 - BITS)) as i32 };
                matrix[count * register + part][line] = value as f32;
            }
        }
    }
    matrix
}

/// Adds the products to what each element of C is at first, in order of k, and writes what each sum and the words of C
/// and of the old result become.
#[inline(always)]
fn multiply(
    wave: &mut Wave,
    inst: &Inst,
    (a, b): (&Matrix, &Matrix),
    first: impl Fn(u32) -> f32,
    last: impl Fn(f32, u32, u32) -> u32,
) -> Next {
    let (c, d) = (usize::from(inst.sources[2]), usize::from(inst.result));
    // The result may be in the registers of the sources, so it is written after all of them were read.
    let mut results = [Row::ZERO; SIDE / 2];
    for register in 0..SIDE / 2 {
        let (old_c, old_d) = (wave.rows[c + register], &wave.rows[d + register]);
        let (mut even, mut odd) = ([0.0; SIDE], [0.0; SIDE]);
        for column in 0..SIDE {
            even[column] = first(old_c.0[column]);
            odd[column] = first(old_c.0[SIDE + column]);
        }
        for k in 0..SIDE {
            let (of_even, of_odd) = (a[k][2 * register], a[k][2 * register + 1]);
            for column in 0..SIDE {
                even[column] += of_even * b[k][column];
                odd[column] += of_odd * b[k][column];
            }
        }
        for column in 0..SIDE {
            let other = SIDE + column;
            results[register].0[column] = last(even[column], old_c.0[column], old_d.0[column]);
            results[register].0[other] = last(odd[column], old_c.0[other], old_d.0[other]);
        }
    }
    for register in 0..SIDE / 2 {
        wave.rows[d + register] = results[register];
    }
    Next::Continue
}

/// The number rounded to a format of so many bits below the point, whose smallest normal and largest number these are:
/// of two as near, the even one. Without integers, so that it is vector code.
#[inline(always)]
fn rounded<const FRACTION: i32>(value: f64, smallest: f64, largest: f64) -> f32 {
    // The lowest bit of the format counts as the lowest one of this number, to which the value is added.
    let within = value.clamp(-1e100, 1e100);
    let power = f64::from_bits(within.to_bits() & 0x7FF0_0000_0000_0000).max(smallest);
    let grid = power * (1.5 * prim::power_of_two(52 - FRACTION));
    let near = ((within + grid) - grid).copysign(value);
    let limited = if near.abs() > largest { f64::INFINITY.copysign(value) } else { near };
    (if value.is_nan() { value } else { limited }) as f32
}

/// The same where results have 16 bits, and the sum is rounded to them after two products each. `load` makes f32 of the
/// words of C, and `round` the rounded number of a sum, which is exact but for numbers that are too far apart to
/// matter. Columns are lanes of the processor's vectors.
#[inline(always)]
fn multiply_in_pairs(
    wave: &mut Wave,
    inst: &Inst,
    (a, b): (&Matrix, &Matrix),
    load: impl Fn(u32) -> f32,
    round: impl Fn(f64) -> f32,
    store: impl Fn(f32, u32) -> u32,
) -> Next {
    let (c, d) = (usize::from(inst.sources[2]), usize::from(inst.result));
    let mut results = [Row::ZERO; SIDE / 2];
    for register in 0..SIDE / 2 {
        for half in 0..2 {
            let (row, first) = (2 * register + half, SIDE * half);
            let mut sums = [0.0f32; SIDE];
            for column in 0..SIDE {
                sums[column] = load(wave.rows[c + register].0[first + column]);
            }
            for k in (0..SIDE).step_by(2) {
                let (low, high) = (f64::from(a[k][row]), f64::from(a[k + 1][row]));
                for column in 0..SIDE {
                    let products = low * f64::from(b[k][column]) + high * f64::from(b[k + 1][column]);
                    sums[column] = round(products + f64::from(sums[column]));
                }
            }
            for column in 0..SIDE {
                let old = wave.rows[d + register].0[first + column];
                results[register].0[first + column] = store(sums[column], old);
            }
        }
    }
    for register in 0..SIDE / 2 {
        wave.rows[d + register] = results[register];
    }
    Next::Continue
}

/// A product of 16-bit values.
#[inline(always)]
fn floats(
    wave: &mut Wave,
    inst: &Inst,
    convert: impl Fn(u16) -> f32 + Copy,
    load: impl Fn(u32) -> f32,
    store: impl Fn(f32, u32) -> u32,
) -> Next {
    if let Err(next) = check(wave, inst, 0) {
        return next;
    }
    let a = halves(wave, inst.sources[0], convert);
    let b = halves(wave, inst.sources[1], convert);
    multiply(wave, inst, (&a, &b), load, |sum, _, old| store(sum, old))
}

#[inline(always)]
pub(super) fn bf16(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// The nearest bf16, of two the even one.
#[inline(always)]
pub(super) fn to_bf16(value: f32) -> u16 {
    let bits = value.to_bits();
    if value.is_nan() {
        return (bits >> 16) as u16 | 0x40;
    }
    (bits.wrapping_add(0x7FFF + (bits >> 16 & 1)) >> 16) as u16
}

#[inline(always)]
pub(crate) fn wmma_f32_f16(wave: &mut Wave, _: &mut Group<'_>, inst: &Inst) -> Next {
    floats(wave, inst, |bits| F16(bits).to_f32(), f32::from_bits, |value, _| value.to_bits())
}

#[inline(always)]
pub(crate) fn wmma_f32_bf16(wave: &mut Wave, _: &mut Group<'_>, inst: &Inst) -> Next {
    floats(wave, inst, bf16, f32::from_bits, |value, _| value.to_bits())
}

/// Puts 16 bits into one half of a register.
#[inline(always)]
pub(super) fn half_of(high: bool, bits: u16, old: u32) -> u32 {
    if high { u32::from(bits) << 16 | (old & 0xFFFF) } else { u32::from(bits) | (old & 0xFFFF_0000) }
}

#[inline(always)]
pub(crate) fn wmma_f16_f16(wave: &mut Wave, group: &mut Group<'_>, inst: &Inst) -> Next {
    let high = inst.modifiers().high >> 2 & 1 == 1;
    let load = |word: u32| F16((word >> if high { 16 } else { 0 }) as u16).to_f32();
    if group.half_sums == HalfSums::Pairs {
        if let Err(next) = check(wave, inst, 0) {
            return next;
        }
        let widen = |bits| F16(bits).to_f32();
        let (a, b) = (halves(wave, inst.sources[0], widen), halves(wave, inst.sources[1], widen));
        let round = |sum: f64| rounded::<10>(sum, 1.0 / 16_384.0, 65_504.0);
        return multiply_in_pairs(wave, inst, (&a, &b), load, round, |sum, old| half_of(high, F16::of_f32(sum).0, old));
    }
    floats(wave, inst, |bits| F16(bits).to_f32(), load, |value, old| half_of(high, F16::of_f32(value).0, old))
}

#[inline(always)]
pub(crate) fn wmma_bf16_bf16(wave: &mut Wave, group: &mut Group<'_>, inst: &Inst) -> Next {
    let high = inst.modifiers().high >> 2 & 1 == 1;
    let load = |word: u32| bf16((word >> if high { 16 } else { 0 }) as u16);
    if group.half_sums == HalfSums::Pairs {
        if let Err(next) = check(wave, inst, 0) {
            return next;
        }
        let (a, b) = (halves(wave, inst.sources[0], bf16), halves(wave, inst.sources[1], bf16));
        let round = |sum: f64| rounded::<7>(sum, f32::MIN_POSITIVE.into(), bf16(0x7F7F).into());
        return multiply_in_pairs(wave, inst, (&a, &b), load, round, |sum, old| half_of(high, to_bf16(sum), old));
    }
    floats(wave, inst, bf16, load, |value, old| half_of(high, to_bf16(value), old))
}

#[inline(always)]
pub(crate) fn wmma_i32_iu8(wave: &mut Wave, _: &mut Group<'_>, inst: &Inst) -> Next {
    product_of_integers::<8>(wave, inst)
}

#[inline(always)]
pub(crate) fn wmma_i32_iu4(wave: &mut Wave, _: &mut Group<'_>, inst: &Inst) -> Next {
    product_of_integers::<4>(wave, inst)
}

#[inline(always)]
fn product_of_integers<const BITS: usize>(wave: &mut Wave, inst: &Inst) -> Next {
    if let Err(next) = check(wave, inst, 3) {
        return next;
    }
    let modifiers = inst.modifiers();
    let a = integers::<BITS>(wave, inst.sources[0], modifiers.neg & 1 == 1);
    let b = integers::<BITS>(wave, inst.sources[1], modifiers.neg >> 1 & 1 == 1);
    let clamp = modifiers.clamp;
    // Sums of 16 products of bytes are below 2^22, and so are exact as f32, and in the low bits of it where a bit
    // counts one.
    let last = |sum: f32, c: u32, _| {
        let (sum, c) = ((sum + EVEN).to_bits().wrapping_sub(EVEN.to_bits()) as i32, c as i32);
        (if clamp { sum.saturating_add(c) } else { sum.wrapping_add(c) }) as u32
    };
    multiply(wave, inst, (&a, &b), |_| 0.0, last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_rounded_as_conversions_round() {
        let mut state = 1u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state ^ state >> 33
        };
        for step in 0..400_000 {
            // Any f64, numbers of the formats, those in the middle between two of them, and their neighbours.
            let half = F16(next() as u16).to_f32();
            let brain = bf16(next() as u16);
            let value = match step % 4 {
                0 => f64::from_bits(next()),
                1 => f64::from(f32::from_bits(next() as u32)),
                2 => f64::from_bits(
                    (f64::from(half) * (1.0 + f64::from(next() as u8 & 3) / 2048.0)).to_bits() ^ next() >> 63,
                ),
                _ => f64::from_bits(
                    (f64::from(brain) * (1.0 + f64::from(next() as u8 & 3) / 256.0)).to_bits() ^ next() >> 63,
                ),
            };
            let same = |found: f32, expected: f32| {
                found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan()
            };
            let found = rounded::<10>(value, 1.0 / 16_384.0, 65_504.0);
            let expected = F16::of_f64(value).to_f32();
            assert!(same(found, expected), "{value:e} is {found:e}, not {expected:e}");
            let found = rounded::<7>(value, f32::MIN_POSITIVE.into(), bf16(0x7F7F).into());
            let expected = bf16(to_bf16(prim::to_odd_f32(value)));
            assert!(same(found, expected), "{value:e} is {found:e}, not {expected:e}");
        }
    }
}
