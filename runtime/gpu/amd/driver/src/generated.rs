//! The code that the build script generates from `spec/`, included here and only here. Generated code names items of
//! this crate without their paths; each module imports them before its `include!`.

/// Executables for AMD GPUs.
pub mod amdgpu_executable {
    include!(concat!(env!("OUT_DIR"), "/schema/amdgpu_executable.rs"));
}
