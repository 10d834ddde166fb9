//! Vector instructions: fetches the sources of a handler, computes its expression in all lanes, and writes the results
//! under EXEC.
//!
//! The loops go over all 32 lanes of local arrays without branches, so that the compiler makes vector instructions of
//! them. Sources with modifiers, scalars, and results that are limited or scaled take a detour through temporary rows.

use vireo_simt::lanes::{Format, Lane, collect, collect_bits};
use vireo_simt::prim::F16;
use vireo_simt::{LANES, Row};

mod modified;
mod parts;

pub(crate) use modified::with_dpp;
use parts::Parts;

use crate::machine::{Inst, MODIFIED, Next, SCALAR, Wave};

/// A source of a handler: a value of each lane, or a bit of a mask.
pub(crate) trait Source: Copy {
    /// The values of all lanes.
    type Values<'a>: Copy;
    /// Finds them; `temp` is for those that are not rows.
    fn fetch<'a>(parts: &Parts<'a>, index: usize, temp: &'a mut [Row; 2]) -> Self::Values<'a>;
    /// The value of a lane.
    fn get(values: Self::Values<'_>, lane: usize) -> Self;
}

/// Finds the values of a source of a type.
#[inline(always)]
fn fetch_rows<'a, T: Lane>(parts: &Parts<'a>, index: usize, temp: &'a mut [Row; 2]) -> [&'a Row; 2] {
    let source = parts.inst.sources[index];
    let two = T::FORMAT.is_wide();
    let flush = match T::FORMAT {
        Format::Single => parts.flush[0],
        Format::Half | Format::Double => parts.flush[1],
        _ => false,
    };
    if source < MODIFIED && !flush {
        let first = usize::from(source);
        let row = &parts.rows[first];
        return [row, if two { &parts.rows[first + 1] } else { row }];
    }
    if source & SCALAR != 0 && !flush {
        let first = usize::from(source & !SCALAR);
        temp[0] = Row::splat(parts.scalars[first]);
        if two {
            temp[1] = Row::splat(parts.scalars[first + 1]);
        }
    } else {
        // A copy, so that the parts need not be in memory for the other sources.
        let parts = *parts;
        modified::fetch(&parts, source, index, T::FORMAT, flush, temp);
    }
    let [low, high] = temp;
    [low, high]
}

/// Writes results of a type in active lanes.
#[inline(always)]
fn store_rows<T: Lane>(wave: &mut Wave, inst: &Inst, rows: [Row; 2]) {
    let flush = match T::FORMAT {
        Format::Single => wave.denormals_32.flush_results,
        Format::Half | Format::Double => wave.denormals_16_64.flush_results,
        _ => false,
    };
    if inst.modifiers.is_some() || flush {
        // A copy, so that the rows of other instructions stay in registers.
        let mut finished = if T::FORMAT.is_wide() { rows } else { [rows[0], Row::ZERO] };
        let modes = modified::ResultModes { flush, clamp_nan: wave.clamp_nan, ieee: wave.ieee };
        let high_half = modified::finish(inst.modifiers(), T::FORMAT, modes, &mut finished);
        put(wave, inst, T::FORMAT, high_half, &finished);
    } else {
        put(wave, inst, T::FORMAT, false, &rows);
    }
}

/// Types of lanes as sources and results. A list, since the trait is another crate's, which might implement it for
/// more.
macro_rules! lane {
    ($($ty:ty)*) => {$(
        impl Source for $ty {
            type Values<'a> = [&'a Row; 2];

            #[inline(always)]
            fn fetch<'a>(parts: &Parts<'a>, index: usize, temp: &'a mut [Row; 2]) -> [&'a Row; 2] {
                fetch_rows::<$ty>(parts, index, temp)
            }

            #[inline(always)]
            fn get([low, high]: [&Row; 2], lane: usize) -> Self {
                Self::of_words(low.0[lane], high.0[lane])
            }
        }

        impl Outcome for $ty {
            type Rows = [Row; 2];

            #[inline(always)]
            fn collect(value: impl Fn(usize) -> Self) -> [Row; 2] {
                collect(value)
            }

            #[inline(always)]
            fn store(wave: &mut Wave, inst: &Inst, rows: [Row; 2]) {
                store_rows::<$ty>(wave, inst, rows);
            }
        }
    )*};
}

impl Source for bool {
    type Values<'a> = u32;

    #[inline(always)]
    fn fetch<'a>(parts: &Parts<'a>, index: usize, _: &'a mut [Row; 2]) -> u32 {
        parts.scalars[usize::from(parts.inst.sources[index])]
    }

    #[inline(always)]
    fn get(mask: u32, lane: usize) -> Self {
        (mask >> lane) & 1 != 0
    }
}

/// A result of a handler.
pub(crate) trait Outcome: Sized {
    /// The results of all lanes.
    type Rows;
    /// Computes them.
    fn collect(value: impl Fn(usize) -> Self) -> Self::Rows;
    /// Writes those of active lanes.
    fn store(wave: &mut Wave, inst: &Inst, rows: Self::Rows);
}

lane! { u16 u32 u64 F16 f32 f64 }

/// Writes results in active lanes.
#[inline(always)]
fn put(wave: &mut Wave, inst: &Inst, format: Format, high_half: bool, rows: &[Row; 2]) {
    let result = usize::from(inst.result);
    let exec = &wave.exec_row;
    let target = &mut wave.rows[result];
    match format {
        Format::Bits16 | Format::Half => {
            let (shift, kept) = if high_half { (16, 0xFFFF) } else { (0, 0xFFFF_0000) };
            for lane in 0..LANES {
                let value = (rows[0].0[lane] << shift) | (target.0[lane] & kept);
                target.0[lane] = (value & exec.0[lane]) | (target.0[lane] & !exec.0[lane]);
            }
        }
        Format::Bits64 | Format::Double => {
            target.blend(&rows[0], exec);
            wave.rows[result + 1].blend(&rows[1], exec);
        }
        _ => target.blend(&rows[0], exec),
    }
}

impl Outcome for bool {
    type Rows = u32;

    #[inline(always)]
    fn collect(value: impl Fn(usize) -> Self) -> u32 {
        collect_bits(value)
    }

    #[inline(always)]
    fn store(wave: &mut Wave, inst: &Inst, mask: u32) {
        let mask = mask & wave.exec();
        wave.set_scalar(inst.result, mask);
    }
}

/// A bit of EXEC as the result.
pub(crate) struct Exec(pub(crate) bool);

impl Outcome for Exec {
    type Rows = u32;

    #[inline(always)]
    fn collect(value: impl Fn(usize) -> Self) -> u32 {
        collect_bits(|lane| value(lane).0)
    }

    #[inline(always)]
    fn store(wave: &mut Wave, _: &Inst, mask: u32) {
        let mask = mask & wave.exec();
        wave.set_exec(mask);
    }
}

/// A value and a carry.
impl<T: Outcome> Outcome for (T, bool) {
    type Rows = (T::Rows, u32);

    #[inline(always)]
    fn collect(value: impl Fn(usize) -> Self) -> Self::Rows {
        (T::collect(|lane| value(lane).0), collect_bits(|lane| value(lane).1))
    }

    #[inline(always)]
    fn store(wave: &mut Wave, inst: &Inst, (rows, mask): Self::Rows) {
        T::store(wave, inst, rows);
        let mask = mask & wave.exec();
        wave.set_scalar(inst.result2, mask);
    }
}

#[inline(always)]
fn split<'a>(wave: &'a mut Wave, inst: &'a Inst) -> (Parts<'a>, &'a mut [[Row; 2]; 4]) {
    let flush = [wave.denormals_32.flush_sources, wave.denormals_16_64.flush_sources];
    (Parts { rows: &wave.rows, scalars: &wave.scalars, inst, flush, dpp_source: &wave.dpp_source }, &mut wave.temps)
}

macro_rules! runs {
    ($($run:ident: $($source:ident $index:literal),*;)*) => {$(
        /// Runs a handler with this many sources.
        #[inline(always)]
        pub(crate) fn $run<$($source: Source,)* D: Outcome>(
            wave: &mut Wave,
            inst: &Inst,
            value: impl Fn($($source),*) -> D,
        ) -> Next {
            let rows = {
                let (parts, temps) = split(wave, inst);
                let mut temps = temps.iter_mut();
                #[expect(non_snake_case, reason = "each source is named as its type")]
                let ($($source,)*) = ($({
                    let Some(temp) = temps.next() else { return Next::Trap };
                    $source::fetch(&parts, $index, temp)
                },)*);
                D::collect(|lane| value($($source::get($source, lane)),*))
            };
            D::store(wave, inst, rows);
            Next::Continue
        }
    )*};
}

runs! {
    run1: A 0;
    run2: A 0, B 1;
    run3: A 0, B 1, C 2;
    run4: A 0, B 1, C 2, E 3;
}

/// A source of a helper as a row of bits, with its modifiers as integers.
#[inline(always)]
pub(crate) fn source_row(wave: &mut Wave, inst: &Inst, index: usize) -> Row {
    if index == 0 && inst.modifiers().dpp.is_some() {
        return wave.dpp_source;
    }
    let (parts, temps) = split(wave, inst);
    *<u32 as Source>::fetch(&parts, index, &mut temps[0])[0]
}

/// A source of 64 bits of a helper.
#[inline(always)]
pub(crate) fn source_rows(wave: &mut Wave, inst: &Inst, index: usize) -> [Row; 2] {
    let (parts, temps) = split(wave, inst);
    let [low, high] = <u64 as Source>::fetch(&parts, index, &mut temps[0]);
    [*low, *high]
}
