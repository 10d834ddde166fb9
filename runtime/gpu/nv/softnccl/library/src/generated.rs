//! The code that the build script generates from `spec/`, included here and only here. It names the types of the crate
//! `vireo-cuda` as modules beside its own.

use vireo_cuda::nccl::{nccl_symbols, result, types};

/// The functions under their C names.
pub mod exports {
    use vireo_cuda::nccl::nccl_symbols::NcclFunctions;

    const FUNCTIONS: NcclFunctions = vireo_softnccl::functions();

    include!(concat!(env!("OUT_DIR"), "/softnccl/exports.rs"));
}
