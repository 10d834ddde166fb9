//! The state of a wave that sources are found in ([`Parts`]).

use vireo_simt::Row;

use crate::machine::Inst;

/// The state of a wave that a source is found in.
#[derive(Clone, Copy)]
pub(crate) struct Parts<'a> {
    pub(super) rows: &'a [Row],
    pub(super) scalars: &'a [u32],
    pub(super) inst: &'a Inst,
    /// Subnormal sources of f32, and of f16 and f64, are zero.
    pub(super) flush: [bool; 2],
    /// The first source of an instruction with DPP.
    pub(super) dpp_source: &'a Row,
}
