//! The `vireo` command.
#![forbid(unsafe_code)]

fn main() {}
