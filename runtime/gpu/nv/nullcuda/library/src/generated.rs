//! The code that the build script generates from `spec/`, included here and only here. It names the types of the crate
//! `vireo-cuda` as modules beside its own. The exports are those of every library that stands for the CUDA driver
//! library: each calls the entry of its name.

use vireo_cuda::{attributes, result, types};

/// The functions under their C names.
pub mod exports {
    use vireo_nullcuda::entries;

    include!(concat!(env!("OUT_DIR"), "/softcuda/exports.rs"));
}
