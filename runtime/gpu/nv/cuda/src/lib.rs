//! The interface of the CUDA driver library, `libcuda.so`, as data: handles, structures and codes ([`types`],
//! [`attributes`], [`result`]), the symbols with their signatures ([`cuda_symbols`]), and the attributes of models of
//! devices ([`devices`]). Libraries that stand for it find their functions by [`entries`].
//!
//! All of it is generated from `spec/api/cuda/`. It is not a driver: nothing here loads a library. The software library
//! `vireo-softcuda` implements these functions, and a driver looks them up.
//!
//! **Who checks**: users of the types. Every number of a code may be anything, and pointers are as their source says.

pub mod entries;
mod generated;

pub use generated::{attributes, cuda_symbols, devices, result, types};

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
