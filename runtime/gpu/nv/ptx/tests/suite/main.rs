//! Tests of PTX programs.

mod basics;
mod census;
mod compiled;
mod forms;
mod mutants;
mod reference;
mod soft;
mod support;
mod warps;
