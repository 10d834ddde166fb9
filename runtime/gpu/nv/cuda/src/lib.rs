//! The interface of the CUDA driver library, `libcuda.so`, as data: handles, structures and codes ([`types`],
//! [`attributes`], [`result`]), the symbols with their signatures ([`cuda_symbols`]), and the attributes of models of
//! devices ([`devices`]); and in [`nccl`] that of the library of collective operations, `libnccl.so`. Libraries that
//! stand for the CUDA driver library find their functions by [`entries`].
//!
//! All of it is generated from `spec/api/cuda/` and `spec/api/nccl/`. It is not a driver: nothing here loads a library.
//! The software libraries `vireo-softcuda` and `vireo-softnccl` implement these functions, and a driver looks them up.
//!
//! **Who checks**: users of the types. Every number of a code may be anything, and pointers are as their source says.

pub mod entries;
mod generated;

pub use generated::{attributes, cuda_symbols, devices, nccl, result, types};

/// A function of the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CudaSymbol {
    /// Its symbol in the library.
    pub name: &'static str,
    /// False if a driver works without it.
    pub required: bool,
    /// The version that the finder of the library is asked for.
    pub version: u32,
}

/// A function of NCCL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NcclSymbol {
    /// Its symbol in the library.
    pub name: &'static str,
    /// False if a driver works without it.
    pub required: bool,
}
