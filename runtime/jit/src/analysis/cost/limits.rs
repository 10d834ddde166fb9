//! The limits of what loops may become: they bound compile time and the size of code, or say where registers end.

use crate::ir::types::Width;

/// Most nodes of a loop that is vectorised, as that multiplies its code.
pub(crate) const VECTORISED_NODES: usize = 400;
/// Most nodes of a loop that is unrolled to several vectors.
pub(crate) const UNROLLED_NODES: usize = 100;
/// Most nodes of a loop that is jammed, as most of them are copied for each row.
pub(crate) const JAMMED_NODES: usize = 100;
/// Most nodes of an inner loop that becomes copies of its body, times the vectors that an iteration computes.
pub(crate) const COPIED_NODES: u64 = 384;
/// Most iterations of such a loop.
pub(crate) const COPIED_ITERATIONS: u64 = 4;
/// Fewest iterations of a loop that becomes a vector.
pub(crate) const FEWEST: u64 = 2;
/// Most vectors of an iteration of a vector loop, if no loop around has made it: four chains of sums keep all units
/// busy.
pub(crate) const CHAINS: usize = 4;

/// From so many iterations on, a loop has vectors enough and is not collapsed.
pub(crate) const COLLAPSED_ITERATIONS: u64 = 64;
/// Most iterations of all collapsed loops together, so that limits of time are checked often enough.
pub(crate) const ITERATIONS_AT_ONCE: u64 = 1 << 14;
/// Most steps that are counted at once.
pub(crate) const STEPS_AT_ONCE: u64 = 1 << 24;
/// Most loops around one that is collapsed.
pub(crate) const LEVELS: usize = 4;

/// Most iterations of a loop that is jammed though its rows share no vectors.
pub(crate) const SHORT: u64 = 32;
/// Most rows, iterations that are computed together, and how many there may be whatever else fits the registers.
pub(crate) const ROWS: u64 = 8;
pub(crate) const FEW_ROWS: u64 = 4;
/// Most vectors of each row.
pub(crate) const VECTORS: u64 = 4;

/// Most vectors that an inner loop carries: it needs some registers for what it loads and computes.
pub(crate) fn carried(width: Width) -> u64 {
    match width {
        Width::Sixteen => 16,
        Width::Four | Width::SixteenBytes | Width::ThirtyTwoBytes | Width::Eight => 8,
    }
}
