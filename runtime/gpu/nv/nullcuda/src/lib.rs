//! A null CUDA driver: the functions of the CUDA driver library, `libcuda.so`, that return at once ([`entries`]).
//! Handles are numbers, memory is memory of the host, nothing is copied or computed, and all work has ended when it is
//! asked about. A program over it takes the time of the host alone, and its results mean nothing.
//!
//! It is for measurements: the crate `vireo-nullcuda-library` exports the functions under their C names, for this
//! driver and for those of others. `spec/api/cuda/null_library.yaml` lists the functions that succeed; others are
//! refused.
//!
//! **Who checks**: nothing here does. Pointers are the caller's to vouch for, as in any C library, and handles mean
//! nothing.

mod by_hand;
mod generated;
mod memory;
mod results;

pub use generated::entries;
