//! Tests of PTX programs.

mod basics;
mod census;
mod compiled;
mod forms;
mod mutants;
mod reference;
mod resident;
mod soft;
mod support;
mod warps;
