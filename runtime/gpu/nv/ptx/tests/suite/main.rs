//! Tests of PTX programs.

mod basics;
mod census;
mod compiled;
mod forms;
mod mutants;
mod races;
mod reference;
mod soft;
mod support;
mod warps;
