//! Generates nothing yet.
fn main() {}
