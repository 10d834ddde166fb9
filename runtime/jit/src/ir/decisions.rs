//! The decisions of passes about the loops of a graph, noted for people if somebody asked for them. Nothing depends on
//! them.

use crate::interp::code::loops::{LoopDecision, LoopEstimate, Outcome, Refusal, Transformation};

/// The decisions, in the order in which they were made.
#[derive(Clone, Debug, Default)]
pub(crate) struct Decisions {
    /// Whether somebody asked for them.
    pub are_wanted: bool,
    pub all: Vec<LoopDecision>,
}

impl Decisions {
    /// Notes what becomes of the loop that begins at `op`, if somebody asked.
    pub fn note(
        &mut self,
        op: u32,
        transformation: Transformation,
        estimate: Option<LoopEstimate>,
        outcome: impl FnOnce() -> Outcome,
    ) {
        if self.are_wanted {
            self.all.push(LoopDecision { op, transformation, outcome: outcome(), estimate });
        }
    }

    /// Notes that the loop that begins at `op` is not transformed.
    pub fn refuse(
        &mut self,
        op: u32,
        transformation: Transformation,
        estimate: Option<LoopEstimate>,
        refusal: Refusal,
    ) {
        self.note(op, transformation, estimate, || Outcome::Refused(refusal));
    }
}
