//! Tests of PTX programs.

mod basics;
mod support;
