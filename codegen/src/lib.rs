//! x
pub mod diag;
pub mod entry;
