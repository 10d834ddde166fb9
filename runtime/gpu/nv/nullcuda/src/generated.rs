//! The code that the build script generates from `spec/`, included here and only here. Generated code names items of
//! this crate without their paths, and types of the crate `vireo-cuda` as modules beside its own; each module imports
//! them before its `include!`.

use vireo_cuda::{attributes, result, types};

/// Every exported function under its name, and the table by which they are found.
pub mod entries {
    #![expect(non_snake_case, reason = "the names are those of the library")]
    #![expect(unused_variables, reason = "most functions do nothing with their arguments")]

    use crate::by_hand;
    use crate::results::{next, put, refused, success};
    use vireo_cuda::entries::Entry;

    include!(concat!(env!("OUT_DIR"), "/nullcuda/entries.rs"));
}
