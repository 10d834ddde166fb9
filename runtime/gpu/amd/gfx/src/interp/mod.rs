//! The interpreter: waves of 32 lanes that execute a decoded program.
//!
//! Its types are those of `machine`. Lowest first: `prim` is the vocabulary of semantics on the values of one lane,
//! `lanes` and `scalar` fetch operands and write results for generated handlers; `places` are the bytes that lanes
//! mean, which `row_check` shows to a sanitizer, `lane_access` accesses one kind of memory, and `flat`, `atomic`,
//! `by_lane` and `memory` are the instructions that do; `helpers` and `control` are those that are not expressions,
//! `kernel` sets waves up and runs grids.
//!
//! A handler has a variant for newer processors, into which everything that it calls must be inlined: what is not is
//! compiled for any processor. So functions are `inline(always)`, and where it matters loops count lanes: iterators,
//! `array::from_fn` and `array::map` are not inlined there.

#![expect(clippy::needless_range_loop, reason = "iterators are not inlined into code for newer processors")]

pub(crate) mod atomic;
pub(crate) mod by_lane;
pub(crate) mod control;
pub(crate) mod flat;
pub(crate) mod helpers;
pub mod kernel;
pub(crate) mod lane_access;
pub(crate) mod lanes;
pub(crate) mod memory;
pub(crate) mod places;
pub(crate) mod prim;
pub(crate) mod row_check;
pub(crate) mod scalar;
