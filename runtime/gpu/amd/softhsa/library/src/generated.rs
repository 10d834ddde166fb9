//! The code that the build script generates from `spec/`, included here and only here. It names the types of the crate
//! `vireo-hsa` as modules beside its own.

use vireo_hsa::{hsa, hsa_symbols, queue, signal};

/// The functions under their C names.
pub mod exports {
    use vireo_hsa::hsa_symbols::HsaFunctions;

    const FUNCTIONS: HsaFunctions = vireo_softhsa::functions();

    include!(concat!(env!("OUT_DIR"), "/softhsa/exports.rs"));
}
