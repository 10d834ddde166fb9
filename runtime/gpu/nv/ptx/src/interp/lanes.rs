//! Expressions on lanes: a handler's sources are rows or predicates, its closure is computed in all lanes, and results
//! are written in those of the path.
//!
//! The loops go over all 32 lanes of local arrays without branches, so that the compiler makes vector instructions of
//! them.

use vireo_simt::lanes::{Lane, collect, collect_bits};
use vireo_simt::prim::F16;
use vireo_simt::{Mask, Row};

use crate::machine::{Block, Inst, Next, Warp};

/// A source of a handler.
pub(crate) trait Source: Copy {
    /// The values of all lanes.
    type Values<'a>: Copy;
    /// Finds them.
    fn fetch<'a>(warp: &'a Warp, source: u16) -> Self::Values<'a>;
    /// The value of a lane.
    fn get(values: Self::Values<'_>, lane: usize) -> Self;
}

/// A result of a handler.
pub(crate) trait Outcome: Sized {
    /// The results of all lanes.
    type Rows;
    /// Computes them.
    fn collect(value: impl Fn(usize) -> Self) -> Self::Rows;
    /// Writes those of the path.
    fn store(warp: &mut Warp, result: u16, rows: Self::Rows);
}

macro_rules! lane {
    ($($ty:ty)*) => {$(
        impl Source for $ty {
            type Values<'a> = [&'a Row; 2];

            #[inline(always)]
            fn fetch(warp: &Warp, source: u16) -> [&Row; 2] {
                let first = usize::from(source);
                let row = &warp.rows[first];
                [row, if <$ty as Lane>::FORMAT.is_wide() { &warp.rows[first + 1] } else { row }]
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
            fn store(warp: &mut Warp, result: u16, rows: [Row; 2]) {
                let Warp { rows: targets, select, mask, .. } = warp;
                let first = usize::from(result);
                if *mask == Mask::MAX {
                    targets[first] = rows[0];
                    if <$ty as Lane>::FORMAT.is_wide() {
                        targets[first + 1] = rows[1];
                    }
                    return;
                }
                targets[first].blend(&rows[0], select);
                if <$ty as Lane>::FORMAT.is_wide() {
                    targets[first + 1].blend(&rows[1], select);
                }
            }
        }
    )*};
}

lane! { u16 u32 u64 F16 f32 f64 }

impl Source for bool {
    type Values<'a> = Mask;

    #[inline(always)]
    fn fetch(warp: &Warp, source: u16) -> Mask {
        warp.bits(source)
    }

    #[inline(always)]
    fn get(mask: Mask, lane: usize) -> Self {
        (mask >> lane) & 1 != 0
    }
}

impl Outcome for bool {
    type Rows = Mask;

    #[inline(always)]
    fn collect(value: impl Fn(usize) -> Self) -> Mask {
        collect_bits(value)
    }

    #[inline(always)]
    fn store(warp: &mut Warp, result: u16, mask: Mask) {
        warp.put_bits(result, mask);
    }
}

/// One or two results of a handler.
pub(crate) trait Outcomes: Sized {
    /// The results of all lanes.
    type Rows;
    /// Computes them.
    fn collect(value: impl Fn(usize) -> Self) -> Self::Rows;
    /// Writes those of the path.
    fn store(warp: &mut Warp, inst: &Inst, rows: Self::Rows);
}

macro_rules! single {
    ($($ty:ty)*) => {$(
        impl Outcomes for $ty {
            type Rows = <$ty as Outcome>::Rows;

            #[inline(always)]
            fn collect(value: impl Fn(usize) -> Self) -> Self::Rows {
                <$ty as Outcome>::collect(value)
            }

            #[inline(always)]
            fn store(warp: &mut Warp, inst: &Inst, rows: Self::Rows) {
                <$ty as Outcome>::store(warp, inst.result, rows);
            }
        }
    )*};
}

single! { u16 u32 u64 F16 f32 f64 bool }

impl<T: Outcome> Outcomes for (T, bool) {
    type Rows = (T::Rows, Mask);

    #[inline(always)]
    fn collect(value: impl Fn(usize) -> Self) -> Self::Rows {
        (T::collect(|lane| value(lane).0), collect_bits(|lane| value(lane).1))
    }

    #[inline(always)]
    fn store(warp: &mut Warp, inst: &Inst, (rows, mask): Self::Rows) {
        T::store(warp, inst.result, rows);
        warp.put_bits(inst.result2, mask);
    }
}

macro_rules! runs {
    ($($run:ident: $($source:ident $index:literal),*;)*) => {$(
        /// Runs a handler with this many sources.
        #[inline(always)]
        pub(crate) fn $run<$($source: Source,)* D: Outcomes>(
            warp: &mut Warp,
            inst: &Inst,
            value: impl Fn($($source),*) -> D,
        ) -> Next {
            let rows = {
                #[expect(non_snake_case, reason = "each source is named as its type")]
                let ($($source,)*) = ($($source::fetch(warp, inst.sources[$index]),)*);
                D::collect(|lane| value($($source::get($source, lane)),*))
            };
            D::store(warp, inst, rows);
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

/// Runs the instruction after it in the lanes in which a predicate is true, or false if the number is 1.
pub(crate) fn guard(warp: &mut Warp, block: &mut Block<'_>, inst: &Inst) -> Next {
    let bits = warp.bits(inst.sources[0]);
    let bits = if inst.number == 1 { !bits } else { bits };
    let all = warp.mask;
    let program = block.program;
    let at = warp.paths.pc as usize;
    warp.paths.pc += 1;
    if all & bits == 0 {
        return Next::Continue;
    }
    let inst = &program.insts[at];
    if all & bits == all {
        // SAFETY: Programs are made with handlers that suit this processor.
        return unsafe { (inst.handler)(warp, block, inst) };
    }
    warp.set_mask(all & bits);
    // SAFETY: Programs are made with handlers that suit this processor.
    let next = unsafe { (inst.handler)(warp, block, inst) };
    warp.set_mask(all);
    next
}
