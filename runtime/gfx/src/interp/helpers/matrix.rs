//! Products of matrices of 16 by 16, of which a wave holds a row of A and a column of B in each of its first 16 lanes (and again in the others),
//! and of C the elements of row `2 * register + lane / 16` and column `lane % 16`.

use vireo_simt::TrapKind;

use super::packed::byte;
use crate::interp::Next;
use crate::interp::lanes::modifiers_of;
use crate::interp::prim::F16;
use crate::interp::wave::{Group, Wave};
use crate::program::{Inst, MODIFIED};

/// Side of the matrices.
const SIDE: usize = 16;

type Matrix<T> = [[T; SIDE]; SIDE];

/// Traps unless all sources are registers and all lanes are active, as compilers guarantee.
fn check(wave: &mut Wave, inst: &Inst) -> Result<(), Next> {
    if inst.sources[..3].iter().any(|source| *source >= MODIFIED) {
        return Err(wave.trapped(TrapKind::InvalidOperand("a matrix that is not in registers".into()), None));
    }
    if wave.exec() != u32::MAX {
        return Err(wave.trapped(TrapKind::NotImplemented("a product of matrices in some lanes".into()), None));
    }
    Ok(())
}

/// The rows of A, or the columns of B, of 16-bit values.
#[inline(always)]
fn halves(wave: &Wave, first: u16, convert: impl Fn(u16) -> f32) -> Matrix<f32> {
    let mut matrix = [[0.0; SIDE]; SIDE];
    for (line, values) in matrix.iter_mut().enumerate() {
        for (index, value) in values.iter_mut().enumerate() {
            let word = wave.rows[usize::from(first) + index / 2].0[line];
            *value = convert((word >> (16 * (index % 2))) as u16);
        }
    }
    matrix
}

fn transposed<T: Copy + Default>(matrix: &Matrix<T>) -> Matrix<T> {
    let mut result = [[T::default(); SIDE]; SIDE];
    for (row, values) in matrix.iter().enumerate() {
        for (column, value) in values.iter().enumerate() {
            result[column][row] = *value;
        }
    }
    result
}

/// The register and lane of an element of C.
#[inline(always)]
fn place(row: usize, column: usize) -> (usize, usize) {
    (row / 2, column + 16 * (row % 2))
}

#[inline(always)]
fn floats(
    wave: &mut Wave,
    inst: &Inst,
    convert: impl Fn(u16) -> f32,
    load: impl Fn(u32) -> f32,
    store: impl Fn(f32, u32) -> u32,
) -> Next {
    if let Err(next) = check(wave, inst) {
        return next;
    }
    let a = halves(wave, inst.sources[0], &convert);
    let b = transposed(&halves(wave, inst.sources[1], &convert));
    let c = usize::from(inst.sources[2]);
    let mut sums = [[0.0f32; SIDE]; SIDE];
    for row in 0..SIDE {
        let mut sum = [0.0f32; SIDE];
        for (column, value) in sum.iter_mut().enumerate() {
            let (register, lane) = place(row, column);
            *value = load(wave.rows[c + register].0[lane]);
        }
        for k in 0..SIDE {
            for column in 0..SIDE {
                // The product of two such values is exact, so it does not matter whether the sum is fused.
                sum[column] += a[row][k] * b[k][column];
            }
        }
        sums[row] = sum;
    }
    for (row, sum) in sums.iter().enumerate() {
        for (column, value) in sum.iter().enumerate() {
            let (register, lane) = place(row, column);
            let target = &mut wave.rows[usize::from(inst.result) + register].0[lane];
            *target = store(*value, *target);
        }
    }
    Next::Continue
}

fn bf16(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// The nearest bf16, of two the even one.
fn to_bf16(value: f32) -> u16 {
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
fn half_of(high: bool, bits: u16, old: u32) -> u32 {
    if high { u32::from(bits) << 16 | (old & 0xFFFF) } else { u32::from(bits) | (old & 0xFFFF_0000) }
}

#[inline(always)]
pub(crate) fn wmma_f16_f16(wave: &mut Wave, _: &mut Group<'_>, inst: &Inst) -> Next {
    let high = modifiers_of(inst).high >> 2 & 1 == 1;
    let load = |word: u32| F16((word >> if high { 16 } else { 0 }) as u16).to_f32();
    floats(wave, inst, |bits| F16(bits).to_f32(), load, |value, old| half_of(high, F16::of_f32(value).0, old))
}

#[inline(always)]
pub(crate) fn wmma_bf16_bf16(wave: &mut Wave, _: &mut Group<'_>, inst: &Inst) -> Next {
    let high = modifiers_of(inst).high >> 2 & 1 == 1;
    let load = |word: u32| bf16((word >> if high { 16 } else { 0 }) as u16);
    floats(wave, inst, bf16, load, |value, old| half_of(high, to_bf16(value), old))
}

#[inline(always)]
pub(crate) fn wmma_i32_iu8(wave: &mut Wave, _: &mut Group<'_>, inst: &Inst) -> Next {
    if let Err(next) = check(wave, inst) {
        return next;
    }
    let modifiers = modifiers_of(inst);
    let bytes = |wave: &Wave, source: usize| -> Matrix<i32> {
        let signed = modifiers.neg >> source & 1 == 1;
        let first = usize::from(inst.sources[source]);
        std::array::from_fn(|line| {
            std::array::from_fn(|index| byte(wave.rows[first + index / 4].0[line], (index % 4) as u32, signed))
        })
    };
    let (a, b) = (bytes(wave, 0), transposed(&bytes(wave, 1)));
    let c = usize::from(inst.sources[2]);
    let mut sums = [[0i64; SIDE]; SIDE];
    for (row, sums) in sums.iter_mut().enumerate() {
        let mut products = [0i32; SIDE];
        for k in 0..SIDE {
            for column in 0..SIDE {
                products[column] += a[row][k] * b[k][column];
            }
        }
        for (column, sum) in sums.iter_mut().enumerate() {
            let (register, lane) = place(row, column);
            *sum = i64::from(products[column]) + i64::from(wave.rows[c + register].0[lane] as i32);
        }
    }
    for (row, sums) in sums.iter().enumerate() {
        for (column, sum) in sums.iter().enumerate() {
            let (register, lane) = place(row, column);
            let limited = (*sum).clamp(i64::from(i32::MIN), i64::from(i32::MAX));
            let value = if modifiers.clamp { limited } else { *sum };
            wave.rows[usize::from(inst.result) + register].0[lane] = value as u32;
        }
    }
    Next::Continue
}
