//! Compiled models, from their files to their results.

mod calls;
mod fixtures;
mod invocations;
mod null;
pub mod recorded;
mod stress;
