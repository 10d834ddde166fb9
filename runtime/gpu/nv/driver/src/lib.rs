//! The driver of NVIDIA GPUs: the CUDA driver library as a library with streams, whose devices, queues, command buffers
//! and executables are those of `vireo-stream`.
//!
//! `failure` has what the library says of its failures, `library` finds it, and `instance` are its names and the
//! targets of its code. The functions are generated from `spec/api/cuda/stream_api.yaml`.
#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc)]

mod failure;
mod generated;
mod instance;
pub mod library;

pub use generated::calls::{CudaCalls, failure_kind};
pub use instance::{NAMES, target_of, version_of};
