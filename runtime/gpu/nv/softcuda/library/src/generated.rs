//! The code that the build script generates from `spec/`, included here and only here. It names the types of the crate
//! `vireo-cuda` as modules beside its own.

use vireo_cuda::{attributes, result, types};

/// The functions under their C names.
pub mod exports {
    use vireo_softcuda::entries;

    include!(concat!(env!("OUT_DIR"), "/softcuda/exports.rs"));
}
