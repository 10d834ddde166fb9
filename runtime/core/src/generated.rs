//! The code that the build script generates from `spec/`, included here and only here.

/// The codes of errors.
pub mod status {
    include!(concat!(env!("OUT_DIR"), "/abi/status.rs"));
}
