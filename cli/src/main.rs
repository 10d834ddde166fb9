//! The `vireo` command.
#![forbid(unsafe_code)]
mod values;
fn main() {}
