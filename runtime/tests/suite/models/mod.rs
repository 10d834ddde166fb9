//! Compiled models, from their files to their results.

pub mod calls;
pub mod fixtures;
mod invocations;
mod null;
pub mod recorded;
mod stress;
