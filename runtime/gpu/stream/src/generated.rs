//! The code that the build script generates from `spec/`, included here and only here. Generated code names items of
//! this crate without their paths, and types of the crate `vireo-cuda` as modules beside its own; each module imports
//! them before its `include!`.

use vireo_cuda::{attributes, result, types};

/// The functions of a library.
pub mod api {
    #![expect(clippy::too_many_arguments, reason = "functions of the library have as many")]

    use crate::api::{ApiError, Traced};

    include!(concat!(env!("OUT_DIR"), "/stream/api.rs"));
}

/// Executables.
pub mod stream_executable {
    include!(concat!(env!("OUT_DIR"), "/schema/stream_executable.rs"));
}

/// NCCL, and the libraries that have its functions.
pub mod nccl {
    use vireo_cuda::nccl::{result, types};

    /// The functions of the library.
    pub mod api {
        #![expect(clippy::too_many_arguments, reason = "functions of the library have as many")]

        use crate::api::{ApiError, Traced};

        include!(concat!(env!("OUT_DIR"), "/stream/nccl_api.rs"));
    }

    /// The functions of a library that was loaded.
    pub mod calls {
        use vireo_cuda::nccl::nccl_symbols;

        use super::api::NcclApi;
        use crate::api::{ApiError, FailureKind};
        use crate::collectives::failed;
        use crate::status::StatusCode;

        include!(concat!(env!("OUT_DIR"), "/stream/nccl.rs"));
    }
}
