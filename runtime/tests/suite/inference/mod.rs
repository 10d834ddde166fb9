//! Sessions: models whose functions are called with values of the host.

mod allocators;
mod bound;
mod inputs;
mod requirements;
mod sessions;
mod tasks;

use std::path::PathBuf;

use vireo::Session;

/// A compiled model of the fixtures.
fn fixture(name: &str) -> PathBuf {
    crate::machine::model(name)
}

/// A session of a model on the synchronous device.
fn session(name: &str) -> Session {
    Session::builder().device("local-sync").load(fixture(name)).expect("loads")
}
