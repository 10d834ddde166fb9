//! Tests of PTX programs.

mod basics;
mod census;
mod compiled;
mod form_kernels;
mod forms;
mod indirect;
mod limits;
mod mbarriers;
mod print;
mod races;
mod reference;
mod resident;
mod soft;
mod support;
mod tiles;
mod warps;
