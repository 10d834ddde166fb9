//! Tests of PTX programs.

mod basics;
mod census;
mod mutants;
mod support;
