//! The code that the build script generates from `spec/`, included here and only here. Generated code names items of
//! this crate without their paths; each module imports them before its `include!`.

/// The table of functions.
pub(crate) mod functions {
    use crate::abi::*;
    use vireo_cuda::nccl::nccl_symbols::NcclFunctions;

    include!(concat!(env!("OUT_DIR"), "/softnccl/functions.rs"));
}
