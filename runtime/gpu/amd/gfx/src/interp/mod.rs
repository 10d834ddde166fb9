//! The interpreter: waves of 32 lanes that execute a decoded program.
//!
//! Lowest first: `prim` is the vocabulary of semantics on the values of one lane, `wave` the state of a wave and its
//! work-group, `lanes` and `scalar` fetch operands and write results for generated handlers, `memory`, `by_lane`,
//! `flat` and `atomic` (which show accesses to a sanitizer through `row_check`), `helpers` and `control` are the
//! instructions that are not expressions, `kernel` sets waves up and runs grids.
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
pub(crate) mod lanes;
pub(crate) mod memory;
pub(crate) mod prim;
pub(crate) mod row_check;
pub(crate) mod scalar;
pub(crate) mod wave;

use crate::program::Inst;
use wave::{Group, Wave};

/// The way a wave goes on after an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// The next instruction.
    Continue,
    /// The wave waits at a barrier.
    Barrier,
    /// The wave lets the others of its work-group run.
    Yield,
    /// The wave has ended.
    End,
    /// The wave has trapped, and noted why.
    Trap,
}

/// Executes an instruction of a wave.
///
/// # Safety
/// The processor must have the features that the handler was compiled for; `handlers` returns only such.
pub(crate) type Handler = unsafe fn(&mut Wave, &mut Group<'_>, &Inst) -> Next;
