//! Elementwise kernels: each element of a matrix is computed from the elements at the same position, in pieces of a row
//! that are copied out, computed in vector registers, and copied back. Only the elements are accessed.

use super::simd_level::SimdLevel;
use super::work::KernelWork;
#[cfg(test)]
use super::work::audit;
use crate::interp::prim::Trap;
use crate::matrix_view::CheckedMatrix;
use crate::{Result, math};

/// Elements of a piece.
const PIECE: usize = 128;
/// Bytes that are copied at once.
const COPIED: usize = 1 << 16;

type Piece = [u32; PIECE];

/// A function of one 32-bit element.
pub(crate) trait Unary {
    fn apply(x: u32) -> u32;
}

/// A function of two 32-bit elements.
pub(crate) trait Binary {
    /// Fails for operands for which `apply` must not be called.
    #[inline(always)]
    fn check(_lhs: &[u32], _rhs: &[u32]) -> Result<(), Trap> {
        Ok(())
    }

    fn apply(lhs: u32, rhs: u32) -> u32;
}

macro_rules! unary {
    ($($(#[$doc:meta])* $name:ident: $x:ident => $result:expr;)*) => {$(
        $(#[$doc])*
        pub(crate) struct $name;

        impl Unary for $name {
            #[inline(always)]
            fn apply($x: u32) -> u32 {
                $result
            }
        }
    )*};
}

macro_rules! binary {
    ($($(#[$doc:meta])* $name:ident: $lhs:ident, $rhs:ident => $result:expr $(, unless $check:expr)?;)*) => {$(
        $(#[$doc])*
        pub(crate) struct $name;

        impl Binary for $name {
            $(
                #[inline(always)]
                fn check(lhs: &[u32], rhs: &[u32]) -> Result<(), Trap> {
                    $check(lhs, rhs)
                }
            )?

            #[inline(always)]
            fn apply($lhs: u32, $rhs: u32) -> u32 {
                $result
            }
        }
    )*};
}

const SIGN: u32 = 1 << 31;

#[inline(always)]
fn float(bits: u32) -> f32 {
    f32::from_bits(bits)
}

unary! {
    AbsF32: x => x & !SIGN;
    NegF32: x => x ^ SIGN;
    CeilF32: x => float(x).ceil().to_bits();
    FloorF32: x => float(x).floor().to_bits();
    ExpF32: x => math::exp(float(x)).to_bits();
    LogF32: x => math::log(float(x)).to_bits();
    RsqrtF32: x => (1.0 / float(x).sqrt()).to_bits();
    CtlzI32: x => x.leading_zeros();
}

binary! {
    AddF32: a, b => (float(a) + float(b)).to_bits();
    SubF32: a, b => (float(a) - float(b)).to_bits();
    MulF32: a, b => (float(a) * float(b)).to_bits();
    DivF32: a, b => (float(a) / float(b)).to_bits();
    AddI32: a, b => a.wrapping_add(b);
    SubI32: a, b => a.wrapping_sub(b);
    MulI32: a, b => a.wrapping_mul(b);
    AndI32: a, b => a & b;
    OrI32: a, b => a | b;
    XorI32: a, b => a ^ b;
    ShlI32: a, b => a.wrapping_shl(b);
    ShrsI32: a, b => (a as i32).wrapping_shr(b) as u32;
    ShruI32: a, b => a.wrapping_shr(b);
    DivsI32: a, b => (a as i32).checked_div(b as i32).unwrap_or(0) as u32, unless signed_quotients;
    DivuI32: a, b => a.checked_div(b).unwrap_or(0), unless unsigned_quotients;
}

fn signed_quotients(lhs: &[u32], rhs: &[u32]) -> Result<(), Trap> {
    unsigned_quotients(lhs, rhs)?;
    let overflows = lhs.iter().zip(rhs).any(|(a, b)| *a == SIGN && *b == u32::MAX);
    if overflows { Err(Trap::DivisionOverflow) } else { Ok(()) }
}

fn unsigned_quotients(_lhs: &[u32], rhs: &[u32]) -> Result<(), Trap> {
    if rhs.contains(&0) { Err(Trap::DivisionByZero) } else { Ok(()) }
}

/// Sets the elements of `output` to `O` of those of `input`.
///
/// # Safety
/// `sizes` elements of 4 bytes of `input` must be readable and of `output` writable, and no Rust reference to them may
/// exist. The processor must have `level`.
pub(crate) unsafe fn unary<O: Unary>(
    level: SimdLevel,
    input: CheckedMatrix,
    output: CheckedMatrix,
    sizes: [usize; 2],
) -> Result<()> {
    let ([input, output], sizes) = simplify([input, output], sizes);
    // SAFETY: the caller guarantees that the elements are there, without Rust references, and that the processor has
    // `level`; simplified views have the same elements.
    unsafe {
        match level {
            #[cfg(target_arch = "x86_64")]
            SimdLevel::Avx2 | SimdLevel::Avx512 | SimdLevel::Avx512Vnni => unary_avx2::<O>(input, output, sizes),
            _ => unary_rows::<O>(input, output, sizes),
        }
    }
}

/// Sets the elements of `output` to `O` of those of `lhs` and `rhs`. A trap leaves the elements of earlier pieces
/// written.
///
/// # Safety
/// As for [`unary`].
pub(crate) unsafe fn binary<O: Binary>(
    level: SimdLevel,
    lhs: CheckedMatrix,
    rhs: CheckedMatrix,
    output: CheckedMatrix,
    sizes: [usize; 2],
) -> Result<()> {
    let ([lhs, rhs, output], sizes) = simplify([lhs, rhs, output], sizes);
    // SAFETY: the caller guarantees that the elements are there, without Rust references, and that the processor has
    // `level`; simplified views have the same elements.
    unsafe {
        match level {
            #[cfg(target_arch = "x86_64")]
            SimdLevel::Avx2 | SimdLevel::Avx512 | SimdLevel::Avx512Vnni => binary_avx2::<O>(lhs, rhs, output, sizes),
            _ => binary_rows::<O>(lhs, rhs, output, sizes),
        }
    }
}

/// # Safety
/// As for [`unary`], for AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn unary_avx2<O: Unary>(input: CheckedMatrix, output: CheckedMatrix, sizes: [usize; 2]) -> Result<()> {
    // SAFETY: the caller guarantees that the elements are there, without Rust references, and that the processor has
    // AVX2.
    unsafe { unary_rows::<O>(input, output, sizes) }
}

/// # Safety
/// As for [`binary`], for AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn binary_avx2<O: Binary>(
    lhs: CheckedMatrix,
    rhs: CheckedMatrix,
    output: CheckedMatrix,
    sizes: [usize; 2],
) -> Result<()> {
    // SAFETY: the caller guarantees that the elements are there, without Rust references, and that the processor has
    // AVX2.
    unsafe { binary_rows::<O>(lhs, rhs, output, sizes) }
}

/// # Safety
/// As for [`unary`].
#[inline(always)]
unsafe fn unary_rows<O: Unary>(input: CheckedMatrix, output: CheckedMatrix, sizes: [usize; 2]) -> Result<()> {
    let (mut piece, mut work): (Piece, _) = ([0; PIECE], KernelWork::default());
    let distances = [input, output].map(CheckedMatrix::distance::<4>);
    for row in 0..sizes[0] {
        for column in (0..sizes[1]).step_by(PIECE) {
            let count = PIECE.min(sizes[1] - column);
            work.row(count, distances)?;
            // SAFETY: the elements are some of those that the caller vouches for.
            unsafe { load(input, row, column, &mut piece[..count]) };
            // Full pieces have a length that the compiler knows.
            if count == PIECE {
                piece.iter_mut().for_each(|x| *x = O::apply(*x));
            } else {
                piece[..count].iter_mut().for_each(|x| *x = O::apply(*x));
            }
            // SAFETY: the elements are some of those that the caller vouches for.
            unsafe { store(output, row, column, &piece[..count]) };
        }
    }
    Ok(())
}

/// # Safety
/// As for [`binary`].
#[inline(always)]
unsafe fn binary_rows<O: Binary>(
    lhs: CheckedMatrix,
    rhs: CheckedMatrix,
    output: CheckedMatrix,
    sizes: [usize; 2],
) -> Result<()> {
    let (mut a, mut b): (Piece, Piece) = ([0; PIECE], [0; PIECE]);
    let mut work = KernelWork::default();
    let distances = [lhs, rhs, output].map(CheckedMatrix::distance::<4>);
    for row in 0..sizes[0] {
        for column in (0..sizes[1]).step_by(PIECE) {
            let count = PIECE.min(sizes[1] - column);
            work.row(count, distances)?;
            // SAFETY: the elements are some of those that the caller vouches for.
            unsafe {
                load(lhs, row, column, &mut a[..count]);
                load(rhs, row, column, &mut b[..count]);
            }
            O::check(&a[..count], &b[..count])?;
            if count == PIECE {
                a.iter_mut().zip(&b).for_each(|(x, y)| *x = O::apply(*x, *y));
            } else {
                a[..count].iter_mut().zip(&b).for_each(|(x, y)| *x = O::apply(*x, *y));
            }
            // SAFETY: the elements are some of those that the caller vouches for.
            unsafe { store(output, row, column, &a[..count]) };
        }
    }
    Ok(())
}

/// The address of an element of `WIDTH` bytes.
///
/// # Safety
/// The element must be one of the matrix.
#[inline(always)]
unsafe fn address<const WIDTH: usize>(matrix: CheckedMatrix, row: usize, column: usize) -> *mut [u8; WIDTH] {
    let element = row * matrix.strides[0] + column * matrix.strides[1];
    // SAFETY: the matrix lies inside of one buffer, and so does the element.
    unsafe { matrix.data.cast::<[u8; WIDTH]>().add(element) }
}

/// Copies elements of a row from `column` on.
///
/// # Safety
/// They must be readable.
#[inline(always)]
unsafe fn load(matrix: CheckedMatrix, row: usize, column: usize, into: &mut [u32]) {
    // SAFETY: the caller vouches for every element; elements one apart are one range.
    unsafe {
        match matrix.strides[1] {
            1 => {
                let source = address::<4>(matrix, row, column);
                source.cast::<u8>().copy_to_nonoverlapping(into.as_mut_ptr().cast(), size_of_val(into));
            }
            0 => into.fill(u32::from_ne_bytes(address::<4>(matrix, row, column).read())),
            _ => {
                for (index, element) in into.iter_mut().enumerate() {
                    *element = u32::from_ne_bytes(address::<4>(matrix, row, column + index).read());
                }
            }
        }
    }
}

/// Copies `from` to the elements of a row from `column` on.
///
/// # Safety
/// They must be writable.
#[inline(always)]
unsafe fn store(matrix: CheckedMatrix, row: usize, column: usize, from: &[u32]) {
    #[cfg(test)]
    audit::done(from.len());
    // SAFETY: the caller vouches for every element; elements one apart are one range.
    unsafe {
        if matrix.strides[1] == 1 {
            let target = address::<4>(matrix, row, column);
            target.cast::<u8>().copy_from_nonoverlapping(from.as_ptr().cast(), size_of_val(from));
        } else {
            for (index, element) in from.iter().enumerate() {
                address::<4>(matrix, row, column + index).write(element.to_ne_bytes());
            }
        }
    }
}

/// Views of the same elements in the same order, with as few and as long rows as possible.
fn simplify<const N: usize>(mut matrices: [CheckedMatrix; N], sizes: [usize; 2]) -> ([CheckedMatrix; N], [usize; 2]) {
    let [rows, columns] = sizes;
    if columns == 1 {
        // A single column becomes a single row.
        matrices.iter_mut().for_each(|matrix| matrix.strides = [0, matrix.strides[0]]);
        return (matrices, [1, rows]);
    }
    let continuous = |matrix: &CheckedMatrix| matrix.strides[1].checked_mul(columns) == Some(matrix.strides[0]);
    match rows.checked_mul(columns) {
        Some(elements) if matrices.iter().all(continuous) => (matrices, [1, elements]),
        _ => (matrices, sizes),
    }
}

/// Copies elements of `WIDTH` bytes.
///
/// # Safety
/// As for [`unary`], for elements of `WIDTH` bytes.
pub(crate) unsafe fn copy<const WIDTH: usize>(
    input: CheckedMatrix,
    output: CheckedMatrix,
    sizes: [usize; 2],
) -> Result<()> {
    let ([input, output], sizes) = simplify([input, output], sizes);
    let adjacent = input.strides[1] == 1 && output.strides[1] == 1;
    let mut work = KernelWork::default();
    let distances = [input, output].map(CheckedMatrix::distance::<WIDTH>);
    for row in 0..sizes[0] {
        if adjacent {
            work.row(1, distances)?;
            #[cfg(test)]
            audit::done(1);
            // SAFETY: the caller vouches for every element; elements one apart are one range. Ranges may overlap.
            unsafe {
                let (from, to) = (address::<WIDTH>(input, row, 0), address::<WIDTH>(output, row, 0));
                copy_bytes(from.cast(), to.cast(), sizes[1] * WIDTH, &mut work)?;
            }
            continue;
        }
        for first in (0..sizes[1]).step_by(PIECE) {
            let last = sizes[1].min(first + PIECE);
            work.row(last - first, distances)?;
            #[cfg(test)]
            audit::done(last - first);
            for column in first..last {
                // SAFETY: the caller vouches for every element; elements one apart are one range. Ranges may overlap.
                unsafe { address::<WIDTH>(output, row, column).write(address::<WIDTH>(input, row, column).read()) };
            }
        }
    }
    Ok(())
}

/// Copies adjacent bytes as if through a temporary buffer, in parts.
///
/// # Safety
/// They must be readable and writable.
unsafe fn copy_bytes(from: *const u8, to: *mut u8, length: usize, work: &mut KernelWork) -> Result<()> {
    // A target that begins inside of the source is written from its end on, so that no part overwrites what later ones
    // read.
    let is_backward = to.addr().wrapping_sub(from.addr()) < length;
    for done in (0..length).step_by(COPIED) {
        let part = COPIED.min(length - done);
        let start = if is_backward { length - done - part } else { done };
        work.elements(part / 16)?;
        #[cfg(test)]
        audit::done(part / 16);
        // SAFETY: the part is inside of both ranges, and `copy_to` allows overlap.
        unsafe { from.add(start).copy_to(to.add(start), part) };
    }
    Ok(())
}

/// Sets elements of 4 bytes.
///
/// # Safety
/// As for [`unary`].
pub(crate) unsafe fn fill(value: u32, output: CheckedMatrix, sizes: [usize; 2]) -> Result<()> {
    let ([output], sizes) = simplify([output], sizes);
    let (piece, mut work): (Piece, _) = ([value; PIECE], KernelWork::default());
    let distances = [output.distance::<4>()];
    for row in 0..sizes[0] {
        for column in (0..sizes[1]).step_by(PIECE) {
            let count = PIECE.min(sizes[1] - column);
            work.row(count, distances)?;
            // SAFETY: the elements are some of those that the caller vouches for.
            unsafe { store(output, row, column, &piece[..count]) };
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Status;

    const SHAPES: [([usize; 2], [usize; 2]); 8] = [
        ([1, 1], [1, 1]),
        ([3, 300], [300, 1]),
        ([5, 129], [140, 1]),
        ([4, 7], [1, 4]),
        ([200, 1], [3, 1]),
        ([2, 130], [0, 1]),
        ([3, 140], [1, 0]),
        ([6, 6], [13, 2]),
    ];

    fn matrix(words: &mut [u32], strides: [usize; 2]) -> CheckedMatrix {
        CheckedMatrix { data: words.as_mut_ptr().cast(), strides }
    }

    fn words(seed: u32) -> Vec<u32> {
        (0..2000u32).map(|index| (index.wrapping_mul(2_654_435_761) ^ seed).wrapping_mul(97_531)).collect()
    }

    fn same_float(a: u32, b: u32) -> bool {
        a == b || f32::from_bits(a).is_nan() && f32::from_bits(b).is_nan()
    }

    fn check_unary<O: Unary>() {
        for (level, (sizes, strides)) in SimdLevel::ALL.into_iter().flat_map(|level| SHAPES.map(|shape| (level, shape)))
        {
            let (mut input, mut output) = (words(1), words(2));
            let before = output.clone();
            let (from, to) = (matrix(&mut input, strides), matrix(&mut output, [sizes[1] + 2, 1]));
            // SAFETY: both have room for all shapes, and the level is there.
            unsafe { unary::<O>(level.min(SimdLevel::detect()), from, to, sizes) }.expect("nothing is limited");
            for (index, (before, after)) in before.into_iter().zip(output).enumerate() {
                let [row, column] = [index / (sizes[1] + 2), index % (sizes[1] + 2)];
                let inside = row < sizes[0] && column < sizes[1];
                let expected = if inside { O::apply(input[row * strides[0] + column * strides[1]]) } else { before };
                assert!(same_float(after, expected), "{level:?} {sizes:?} {strides:?} {index}");
            }
        }
    }

    #[test]
    fn functions_of_one_element_are_applied_to_each() {
        check_unary::<AbsF32>();
        check_unary::<NegF32>();
        check_unary::<CeilF32>();
        check_unary::<FloorF32>();
        check_unary::<ExpF32>();
        check_unary::<LogF32>();
        check_unary::<RsqrtF32>();
        check_unary::<CtlzI32>();
    }

    fn check_binary<O: Binary>() {
        for (level, (sizes, strides)) in SimdLevel::ALL.into_iter().flat_map(|level| SHAPES.map(|shape| (level, shape)))
        {
            let (mut lhs, mut rhs, mut output) = (words(1), words(3), words(2));
            let before = output.clone();
            let (a, b) = (matrix(&mut lhs, strides), matrix(&mut rhs, [0, 1]));
            let to = matrix(&mut output, [1, sizes[0] + 1]);
            // SAFETY: all have room for all shapes, and the level is there.
            unsafe { binary::<O>(level.min(SimdLevel::detect()), a, b, to, sizes) }.expect("nothing is zero");
            for (index, (before, after)) in before.into_iter().zip(output).enumerate() {
                let [row, column] = [index % (sizes[0] + 1), index / (sizes[0] + 1)];
                let inside = row < sizes[0] && column < sizes[1];
                let expected =
                    if inside { O::apply(lhs[row * strides[0] + column * strides[1]], rhs[column]) } else { before };
                assert!(same_float(after, expected), "{level:?} {sizes:?} {strides:?} {index}");
            }
        }
    }

    #[test]
    fn functions_of_two_elements_are_applied_to_each_pair() {
        check_binary::<AddF32>();
        check_binary::<DivF32>();
        check_binary::<MulF32>();
        check_binary::<SubF32>();
        check_binary::<AddI32>();
        check_binary::<MulI32>();
        check_binary::<ShlI32>();
        check_binary::<ShrsI32>();
        check_binary::<ShruI32>();
        check_binary::<DivsI32>();
        check_binary::<DivuI32>();
    }

    #[test]
    fn integers_wrap_and_shift_by_the_low_bits() {
        assert_eq!(
            (AddI32::apply(u32::MAX, 2), SubI32::apply(0, 1), MulI32::apply(1 << 31, 3)),
            (1, u32::MAX, 1 << 31)
        );
        assert_eq!((ShlI32::apply(1, 33), ShruI32::apply(1 << 31, 63), ShrsI32::apply(1 << 31, 63)), (2, 1, u32::MAX));
        assert_eq!((AndI32::apply(6, 3), OrI32::apply(6, 3), XorI32::apply(6, 3)), (2, 7, 5));
        assert_eq!((DivsI32::apply(-7i32 as u32, 2), DivuI32::apply(u32::MAX, 2)), (-3i32 as u32, u32::MAX >> 1));
        assert_eq!((CtlzI32::apply(0), CtlzI32::apply(1)), (32, 31));
        let error = binary_of_one::<DivsI32>(1 << 31, u32::MAX).expect_err("overflows");
        assert_eq!(error.message(), Status::from(Trap::DivisionOverflow).message());
        let error = binary_of_one::<DivuI32>(5, 0).expect_err("divides by zero");
        assert_eq!(error.message(), Status::from(Trap::DivisionByZero).message());
    }

    fn binary_of_one<O: Binary>(a: u32, b: u32) -> Result<u32> {
        let (mut a, mut b, mut result) = ([a], [b], [0]);
        let one = |words: &mut [u32]| matrix(words, [1, 1]);
        let operands = (one(&mut a), one(&mut b), one(&mut result));
        // SAFETY: there is one element of each.
        unsafe { binary::<O>(SimdLevel::Portable, operands.0, operands.1, operands.2, [1, 1]) }?;
        Ok(result[0])
    }

    #[test]
    fn copies_and_fills_touch_their_elements_only() {
        let (mut input, mut output) = (words(1), words(2));
        let before = output.clone();
        let (from, to) = (matrix(&mut input, [7, 1]), matrix(&mut output, [9, 2]));
        // SAFETY: both have room for three rows of four elements of 8 bytes.
        unsafe { copy::<8>(from, to, [3, 4]) }.expect("nothing is limited");
        for (index, (before, after)) in before.chunks_exact(2).zip(output.chunks_exact(2)).enumerate() {
            let [row, column] = [index / 9, index % 9];
            let inside = row < 3 && column < 8 && column % 2 == 0;
            let source = (row * 7 + column / 2) * 2;
            assert_eq!(after, if inside { &input[source..source + 2] } else { before }, "{index}");
        }
        let target = matrix(&mut output, [200, 1]);
        // SAFETY: there is room for two rows of 199 elements.
        unsafe { fill(0xABCD_0123, target, [2, 199]) }.expect("nothing is limited");
        let filled = output.iter().take(400).filter(|word| **word == 0xABCD_0123).count();
        assert!(filled == 398 && output[199] != 0xABCD_0123 && output[398] == 0xABCD_0123);
    }
}
