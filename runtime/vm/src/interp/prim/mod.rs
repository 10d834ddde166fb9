//! The primitives: the vocabulary that `semantics` in `spec/isa/vm/ops` is written in, one Rust function for each.
//!
//! Generated handlers call these functions by their names in the spec. Where a primitive has several widths it is a
//! method of [`Int`] or [`Float`]; elsewhere it is a free function. All tiers use them: a primitive for which the JIT
//! has no instructions of its own is a call of the function here. Nothing in this module knows an op, a register or a
//! frame.

mod convert;
mod float;
mod int;
mod math;
mod memory;
mod refs;
#[cfg(test)]
pub mod tests;
mod trap;

pub use convert::{
    fdemote, fpromote, low8_sext, low8_zext, low16_sext, low16_zext, low32, round_u64_f32, sext64, zext64,
};
pub use float::Float;
pub use int::Int;
pub use memory::*;
pub use refs::{ref_eq, ref_ne, ref_nonnull};
pub use trap::Trap;

/// `when_true` if the condition holds, else `when_false`.
#[inline]
pub fn select<T>(condition: bool, when_true: T, when_false: T) -> T {
    if condition { when_true } else { when_false }
}

/// Entry `index` of a table of `count` entries, or `default` if the signed index is outside.
///
/// Entries are read lazily by `entry`; as reading has no effect, this cannot be told from reading all of them.
#[inline]
pub fn table_select<T>(index: i32, default: T, count: usize, entry: impl FnOnce(usize) -> T) -> T {
    match usize::try_from(index) {
        Ok(index) if index < count => entry(index),
        _ => default,
    }
}
