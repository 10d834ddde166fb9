//! The fence: everything that the build script generates from `spec/` enters the crate here, and only here.

/// The codes of errors.
pub mod status {
    include!(concat!(env!("OUT_DIR"), "/abi/status.rs"));
}
