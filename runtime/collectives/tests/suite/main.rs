//! Tests of collective operations: all kinds, types and reductions against a scalar reference that shares no code with
//! the crate, ranks that disagree, and ranks that leave.

mod disagreement;
mod kinds;
mod leaving;
mod options;
mod random;
mod rank;
mod reference;
mod split;
mod tcp;
