//! Parameters of programs: archives, providers, and the module that programs import from. `fixtures/parameters` has the
//! archives.

mod archives;
mod damaged;
mod providers;

use std::path::PathBuf;

/// A file of `fixtures/parameters`.
fn fixture(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/parameters")).join(name)
}

/// The little-endian bytes of floats.
fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}
