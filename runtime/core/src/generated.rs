//! The generated code of this crate: everything that the build script makes from `spec/` is included here, and only here.

/// The codes of errors.
pub mod status {
    include!(concat!(env!("OUT_DIR"), "/abi/status.rs"));
}
