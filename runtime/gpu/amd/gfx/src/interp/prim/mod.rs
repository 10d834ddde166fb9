//! The vocabulary of semantics on the values of one lane. Each function is what `spec/isa/gfx11/primitives.yaml` says
//! of its name.

mod angles;
mod convert;
mod division;
mod float;
mod half;
mod integer;

pub(crate) use angles::*;
pub(crate) use convert::*;
pub(crate) use division::*;
pub(crate) use float::*;
pub(crate) use half::{F16, to_odd_f32};
pub(crate) use integer::*;

/// The first value if the bit is set, else the second.
#[inline(always)]
pub(crate) fn select<T>(bit: bool, yes: T, no: T) -> T {
    if bit { yes } else { no }
}
