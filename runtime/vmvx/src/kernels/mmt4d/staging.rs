//! Staging of factors: copies ranges of the depth into the order in which the loop nest reads them, converted to the
//! types it computes with.

#[cfg(test)]
use super::super::work::audit;
use super::accumulator::{Accumulator, Columns, LANES, QUAD, QUADS, STEPS, Word};
use super::operands::{Element, Factor};

/// Most depth that is staged at once.
pub(super) const DEPTH: usize = 256;
/// Vectors of columns that are staged at once.
pub(super) const GROUP: usize = 4;
/// Most rows of a block.
pub(super) const ROWS: usize = 8;

/// Memory for staged factors, allocated by the first product and used again.
#[derive(Default)]
pub(crate) struct Scratch(Option<Box<Staged>>);

/// Staged factors.
#[repr(align(64))]
pub(super) struct Staged {
    /// For each vector of columns and each step of the depth, the columns.
    pub columns: [[Columns; DEPTH]; GROUP],
    /// A block of rows.
    pub rows: [Word; ROWS * DEPTH],
}

impl Scratch {
    pub(super) fn staged(&mut self) -> &mut Staged {
        // It is boxed because it is too large for the stacks of small threads.
        // SAFETY: it consists of bytes.
        self.0.get_or_insert_with(|| unsafe { Box::<Staged>::new_zeroed().assume_init() })
    }
}

/// A block of rows for a range of the depth. Distances are in bytes.
#[derive(Clone, Copy)]
pub(super) struct Rows {
    pub data: *const u8,
    /// Between rows.
    pub row: usize,
    /// Between tiles.
    pub tile: usize,
    /// How many tiles.
    pub tiles: usize,
    /// Words of each row of a tile.
    pub steps: usize,
}

/// A range of the depth: whole tiles, or some columns of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DepthRange {
    /// The first tile, and how many.
    pub tile: usize,
    pub tiles: usize,
    /// The first column of each tile, and how many.
    pub column: usize,
    pub columns: usize,
}

impl DepthRange {
    /// The ranges of a depth of `tiles` tiles of `k0` columns, in order.
    pub fn all(tiles: usize, k0: usize) -> impl Iterator<Item = DepthRange> {
        let whole = (DEPTH / k0.max(1)).max(1);
        let columns = k0.min(DEPTH);
        (0..tiles).step_by(whole).flat_map(move |tile| {
            let tiles = whole.min(tiles - tile);
            (0..k0).step_by(columns.max(1)).map(move |column| DepthRange {
                tile,
                tiles,
                column,
                columns: columns.min(k0 - column),
            })
        })
    }

    /// Its depth.
    pub fn depth(&self) -> usize {
        self.tiles * self.columns
    }
}

/// The value of an `f16`, whatever the floating-point mode.
#[inline(always)]
pub(super) fn f16_to_f32(bits: u16) -> f32 {
    const REBIAS: u32 = (127 - 15) << 23;
    let magnitude = u32::from(bits & 0x7FFF);
    let shifted = magnitude << 13;
    let finite = shifted + REBIAS;
    // Infinities and NaNs have the top exponent in both formats.
    let value = if magnitude >= 0x7C00 { finite + REBIAS } else { finite };
    // A subnormal is a multiple of the smallest one, and a normal number as `f32`.
    let subnormal = (magnitude as i32 as f32 * f32::from_bits(0x3380_0000)).to_bits();
    let value = if magnitude < 0x0400 { subnormal } else { value };
    f32::from_bits(value | u32::from(bits & 0x8000) << 16)
}

/// The value of a `bf16`.
#[inline(always)]
pub(super) fn bf16_to_f32(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// # Safety
/// The element must be readable.
#[inline(always)]
unsafe fn half(data: *const u8, index: usize) -> u16 {
    // SAFETY: the caller guarantees that the elements are in the factor.
    u16::from_ne_bytes(unsafe { data.cast::<[u8; 2]>().add(index).read() })
}

/// Element `index` of a factor of floats.
///
/// # Safety
/// It must be readable, and `data` must hold elements of this type.
#[inline(always)]
pub(super) unsafe fn float(data: *const u8, element: Element, index: usize) -> f32 {
    // SAFETY: the caller guarantees that the elements are in the factor.
    unsafe {
        match element {
            Element::F16 => f16_to_f32(half(data, index)),
            Element::Bf16 => bf16_to_f32(half(data, index)),
            _ => f32::from_bits(u32::from_ne_bytes(data.cast::<[u8; 4]>().add(index).read())),
        }
    }
}

/// Element `index` of a factor of integers.
///
/// # Safety
/// As for [`float`].
#[inline(always)]
pub(super) unsafe fn integer(data: *const u8, element: Element, index: usize) -> i16 {
    // SAFETY: the caller guarantees that the elements are in the factor.
    unsafe {
        match element {
            Element::S16 => half(data, index) as i16,
            Element::S8 => i16::from(data.add(index).read() as i8),
            _ => {
                let nibble = data.add(index / 2).read() >> (index % 2 * 4) & 0xF;
                // Signed elements have their sign in bit 3.
                if element == Element::S4 { i16::from((nibble << 4) as i8 >> 4) } else { i16::from(nibble) }
            }
        }
    }
}

/// Two elements of integers.
#[inline(always)]
fn word(first: i16, second: i16) -> Word {
    let ([a, b], [c, d]) = (first.to_ne_bytes(), second.to_ne_bytes());
    [a, b, c, d]
}

/// Two bytes as two elements.
#[inline(always)]
fn widen([first, second]: [i8; 2]) -> Word {
    word(first.into(), second.into())
}

/// Stages a range of the depth of the columns from `first` on.
///
/// # Safety
/// The columns must be in the factor, whose tiles have `n0` rows and `k0` columns, and the range in its depth.
#[inline(always)]
pub(super) unsafe fn columns<S: Accumulator>(
    factor: Factor,
    tile: [usize; 2],
    depth_range: DepthRange,
    first: usize,
    count: usize,
    into: &mut [Columns; DEPTH],
) {
    #[cfg(test)]
    audit::done(count * depth_range.depth());
    // SAFETY: the caller guarantees that the elements are in the factor.
    unsafe {
        if factor.element.is_float() {
            float_columns::<S>(factor, tile, depth_range, first, count, into);
        } else {
            integer_columns(factor, tile, depth_range, first, count, into);
        }
    }
}

/// A range of the depth of `count` rows of one tile, from `row` on: in place if their elements are words, otherwise
/// staged.
///
/// # Safety
/// The rows must be in the factor, whose tiles have `m0` rows and `k0` columns, and the range in its depth.
#[inline(always)]
pub(super) unsafe fn rows(
    factor: Factor,
    [m0, k0]: [usize; 2],
    depth_range: DepthRange,
    [tile_row, row]: [usize; 2],
    count: usize,
    into: &mut [Word; ROWS * DEPTH],
) -> Rows {
    let start = tile_row * factor.stride + depth_range.tile * m0 * k0 + row * k0 + depth_range.column;
    let DepthRange { tiles, columns, .. } = depth_range;
    let pairs = columns % 2 == 0;
    #[cfg(test)]
    audit::done(count * depth_range.depth());
    match factor.element {
        Element::F32 => {
            // SAFETY: the caller guarantees that the elements are in the factor.
            let data = unsafe { factor.data.add(start * 4) };
            return Rows { data, row: k0 * 4, tile: m0 * k0 * 4, tiles, steps: columns };
        }
        Element::S16 if pairs => {
            // SAFETY: the caller guarantees that the elements are in the factor.
            let data = unsafe { factor.data.add(start * 2) };
            return Rows { data, row: k0 * 2, tile: m0 * k0 * 2, tiles, steps: columns / 2 };
        }
        _ => {}
    }
    let data = into.as_ptr().cast();
    if factor.element.is_float() {
        for tile in 0..tiles {
            for offset in 0..count {
                let target = &mut into[(tile * count + offset) * columns..][..columns];
                for (column, word) in target.iter_mut().enumerate() {
                    // SAFETY: the element is one of those that the caller vouches for.
                    let value =
                        unsafe { float(factor.data, factor.element, start + tile * m0 * k0 + offset * k0 + column) };
                    *word = value.to_ne_bytes();
                }
            }
        }
        return Rows { data, row: columns * 4, tile: count * columns * 4, tiles, steps: columns };
    }
    if factor.element == Element::S8 && pairs && columns == k0 {
        // Rows of a tile are adjacent in the factor and when staged.
        let words = count * columns / 2;
        for tile in 0..tiles {
            for (index, target) in into[tile * words..][..words].iter_mut().enumerate() {
                // SAFETY: the elements are some of those that the caller vouches for.
                *target = widen(unsafe { factor.data.add(start + tile * m0 * k0).cast::<[i8; 2]>().add(index).read() });
            }
        }
        return Rows { data, row: columns * 2, tile: count * columns * 2, tiles, steps: columns / 2 };
    }
    if pairs {
        for tile in 0..tiles {
            for offset in 0..count {
                let target = &mut into[(tile * count + offset) * (columns / 2)..][..columns / 2];
                let row = start + tile * m0 * k0 + offset * k0;
                for (pair, target) in target.iter_mut().enumerate() {
                    // SAFETY: the elements are some of those that the caller vouches for.
                    *target = unsafe {
                        let first = integer(factor.data, factor.element, row + pair * 2);
                        word(first, integer(factor.data, factor.element, row + pair * 2 + 1))
                    };
                }
            }
        }
        return Rows { data, row: columns * 2, tile: count * columns * 2, tiles, steps: columns / 2 };
    }
    // Pairs are of different tiles, so the whole depth is one.
    let steps = depth_range.depth().div_ceil(2);
    for offset in 0..count {
        let target = &mut into[offset * steps..][..steps];
        target[steps - 1] = [0; 4];
        for tile in 0..tiles {
            for column in 0..columns {
                let index = start + tile * m0 * k0 + offset * k0 + column;
                let depth = tile * columns + column;
                // SAFETY: the element is one of those that the caller vouches for.
                let value = unsafe { integer(factor.data, factor.element, index) };
                target[depth / 2][depth % 2 * 2..][..2].copy_from_slice(&value.to_ne_bytes());
            }
        }
    }
    Rows { data, row: steps * 4, tile: 0, tiles: 1, steps }
}

/// As [`columns`], for floats.
///
/// # Safety
/// As for [`columns`].
#[inline(always)]
unsafe fn float_columns<S: Accumulator>(
    factor: Factor,
    [n0, k0]: [usize; 2],
    depth_range: DepthRange,
    first: usize,
    count: usize,
    into: &mut [Columns; DEPTH],
) {
    let whole_quads = n0.is_multiple_of(QUAD) && first.is_multiple_of(QUAD) && count == LANES;
    if factor.element == Element::F32 && depth_range.columns == STEPS && k0 == STEPS && whole_quads {
        let quads: [usize; QUADS] = std::array::from_fn(|quad| {
            let column = first + quad * QUAD;
            column / n0 * factor.stride + (depth_range.tile * n0 + column % n0) * k0
        });
        for (tile, steps) in into.chunks_exact_mut(STEPS).take(depth_range.tiles).enumerate() {
            // SAFETY: the elements are some of those that the caller vouches for.
            unsafe {
                let from = quads.map(|start| factor.data.cast::<Word>().add(start + tile * n0 * k0));
                S::transpose(from, steps.as_mut_ptr());
            }
        }
        return;
    }
    for_each_run(n0, first, count, |lane, tile_row, row, run| {
        let start = tile_row * factor.stride + depth_range.tile * n0 * k0 + row * k0 + depth_range.column;
        for tile in 0..depth_range.tiles {
            let start = start + tile * n0 * k0;
            let depths = &mut into[tile * depth_range.columns..][..depth_range.columns];
            // SAFETY: the elements are some of those that the caller vouches for.
            unsafe {
                match (factor.element, depth_range.columns, k0) {
                    (Element::F32, 1, 1) => {
                        let source = factor.data.cast::<Word>().add(start);
                        source.copy_to_nonoverlapping(depths[0][lane..][..run].as_mut_ptr(), run);
                    }
                    _ => {
                        for offset in 0..run {
                            for (column, depth) in depths.iter_mut().enumerate() {
                                let value = float(factor.data, factor.element, start + offset * k0 + column);
                                depth[lane + offset] = value.to_ne_bytes();
                            }
                        }
                    }
                }
            }
        }
    });
}

/// As [`columns`], for integers.
///
/// # Safety
/// As for [`columns`].
#[inline(always)]
unsafe fn integer_columns(
    factor: Factor,
    [n0, k0]: [usize; 2],
    depth_range: DepthRange,
    first: usize,
    count: usize,
    into: &mut [Columns; DEPTH],
) {
    if depth_range.depth() % 2 == 1 {
        into[depth_range.depth() / 2] = [[0; 4]; LANES];
    }
    for_each_run(n0, first, count, |lane, tile_row, row, run| {
        let start = tile_row * factor.stride + depth_range.tile * n0 * k0 + row * k0 + depth_range.column;
        for tile in 0..depth_range.tiles {
            let start = start + tile * n0 * k0;
            let depth = tile * depth_range.columns;
            // SAFETY: the elements are some of those that the caller vouches for.
            unsafe {
                if factor.element == Element::S8 && depth_range.columns == k0 && k0 % 2 == 0 {
                    let pairs = &mut into[depth / 2..][..k0 / 2];
                    let rows = factor.data.add(start).cast::<[i8; 2]>();
                    match pairs {
                        // Words that are next to each other, or every second one, compilers make vectors of.
                        [step] => {
                            for (offset, column) in step[lane..][..run].iter_mut().enumerate() {
                                *column = widen(rows.add(offset).read());
                            }
                        }
                        [first, second] => {
                            let columns = first[lane..][..run].iter_mut().zip(&mut second[lane..][..run]);
                            for (offset, (first, second)) in columns.enumerate() {
                                let [a, b] = rows.add(offset * 2).cast::<[[i8; 2]; 2]>().read();
                                (*first, *second) = (widen(a), widen(b));
                            }
                        }
                        pairs => {
                            for (pair, step) in pairs.iter_mut().enumerate() {
                                for (offset, column) in step[lane..][..run].iter_mut().enumerate() {
                                    *column = widen(rows.add(offset * (k0 / 2) + pair).read());
                                }
                            }
                        }
                    }
                } else {
                    for offset in 0..run {
                        for column in 0..depth_range.columns {
                            let value = integer(factor.data, factor.element, start + offset * k0 + column);
                            let (step, odd) = ((depth + column) / 2, (depth + column) % 2);
                            into[step][lane + offset][odd * 2..][..2].copy_from_slice(&value.to_ne_bytes());
                        }
                    }
                }
            }
        }
    });
}

/// Cuts columns into runs of one tile: the first lane of a run, its tile, the row of that tile, and how many.
#[inline(always)]
pub(super) fn for_each_run(n0: usize, first: usize, count: usize, mut run: impl FnMut(usize, usize, usize, usize)) {
    let (mut lane, mut tile_row, mut row) = (0, first / n0, first % n0);
    while lane < count {
        let length = (n0 - row).min(count - lane);
        run(lane, tile_row, row, length);
        lane += length;
        tile_row += 1;
        row = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hal::narrow_float;

    #[test]
    fn parts_cover_the_depth_in_order() {
        for (tiles, k0) in [(1, 1), (7, 4), (100, 8), (513, 1), (3, 256), (2, 257), (3, 700), (1, 0), (0, 4), (90, 3)] {
            let mut expected = (0..tiles).flat_map(|tile| (0..k0).map(move |column| (tile, column)));
            for depth_range in DepthRange::all(tiles, k0) {
                assert!(depth_range.depth() <= DEPTH && depth_range.depth() > 0, "{depth_range:?}");
                for tile in 0..depth_range.tiles {
                    for column in 0..depth_range.columns {
                        assert_eq!(expected.next(), Some((depth_range.tile + tile, depth_range.column + column)));
                    }
                }
            }
            assert_eq!(expected.next(), None, "{tiles} tiles of {k0}");
        }
    }

    #[test]
    fn halves_have_their_values() {
        for bits in 0..=u16::MAX {
            for (ours, format) in [(f16_to_f32(bits), narrow_float::F16), (bf16_to_f32(bits), narrow_float::BF16)] {
                let expected = format.widen(bits.into());
                let same = ours.to_bits() == expected.to_bits() || ours.is_nan() && expected.is_nan();
                assert!(same, "{bits:#x}: {ours} and {expected}");
            }
        }
    }

    #[test]
    fn nibbles_are_low_half_first() {
        let bytes = [0x8F, 0x71];
        let values = |element| {
            // SAFETY: four nibbles are two bytes.
            [0, 1, 2, 3].map(|index| unsafe { integer(bytes.as_ptr(), element, index) })
        };
        assert_eq!(values(Element::U4), [15, 8, 1, 7]);
        assert_eq!(values(Element::S4), [-1, -8, 1, 7]);
    }
}
