//! The code that the build script generates from `spec/`, included here and only here. Generated code names items of
//! this crate without their paths, and types of the crate `vireo-cuda` as modules beside its own; each module imports
//! them before its `include!`.

use vireo_cuda::{attributes, result, types};

/// Every exported function under its name, and the table by which they are found.
pub mod entries {
    #![expect(non_snake_case, reason = "the names are those of the library")]

    use crate::abi;
    use crate::gate::{entry, refused};
    use vireo_cuda::entries::Entry;

    include!(concat!(env!("OUT_DIR"), "/softcuda/entries.rs"));
}

/// The table of functions.
pub(crate) mod functions {
    use super::entries::*;
    use vireo_cuda::cuda_symbols::CudaFunctions;

    include!(concat!(env!("OUT_DIR"), "/softcuda/functions.rs"));
}
