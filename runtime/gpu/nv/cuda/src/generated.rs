//! The code that the build script generates from `spec/`, included here and only here. Generated code names items of
//! this crate without their paths; each module imports them before its `include!`.

/// The statuses of functions.
pub mod result {
    include!(concat!(env!("OUT_DIR"), "/cuda/result.rs"));
}

/// Attributes and options.
pub mod attributes {
    include!(concat!(env!("OUT_DIR"), "/cuda/attributes.rs"));
}

/// Handles, structures and other codes.
pub mod types {
    include!(concat!(env!("OUT_DIR"), "/cuda/types.rs"));
}

/// The attributes of models of devices.
pub mod devices {
    include!(concat!(env!("OUT_DIR"), "/cuda/devices.rs"));
}

/// The functions of the library.
pub mod cuda_symbols {
    #![expect(non_snake_case, reason = "the names are those of the library")]

    use crate::CudaSymbol;

    include!(concat!(env!("OUT_DIR"), "/cuda/cuda_symbols.rs"));
}

/// NCCL.
pub mod nccl {
    /// The statuses of functions.
    pub mod result {
        include!(concat!(env!("OUT_DIR"), "/nccl/result.rs"));
    }

    /// Handles, structures and other codes.
    pub mod types {
        include!(concat!(env!("OUT_DIR"), "/nccl/types.rs"));
    }

    /// The functions of the library.
    pub mod nccl_symbols {
        #![expect(non_snake_case, reason = "the names are those of the library")]

        use crate::NcclSymbol;

        include!(concat!(env!("OUT_DIR"), "/nccl/nccl_symbols.rs"));
    }
}
