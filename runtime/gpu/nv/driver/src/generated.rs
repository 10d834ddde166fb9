//! The code that the build script generates from `spec/`, included here and only here. Generated code names items of
//! this crate without their paths, and types of the crate `vireo-cuda` as modules beside its own; each module imports
//! them before its `include!`.

use vireo_cuda::{attributes, result, types};

/// The functions of the library that the driver calls.
pub mod calls {
    use vireo_core::status::StatusCode;
    use vireo_cuda::cuda_symbols;
    use vireo_stream::api::{ApiError, FailureKind};
    use vireo_stream::{CallGroup, StreamApi};

    use crate::failure::failed;

    include!(concat!(env!("OUT_DIR"), "/stream/cuda.rs"));
}
