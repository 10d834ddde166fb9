//! Tests of PTX programs.

mod basics;
mod census;
mod compiled;
mod mutants;
mod support;
