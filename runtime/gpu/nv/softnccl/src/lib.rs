//! NCCL in software: the functions of `libnccl.so.2`, over the streams of a CUDA driver library whose memory the host
//! reaches at the same addresses, as that of `vireo-softcuda` is. Programs call it in process ([`functions`]), or
//! through the library of the crate `vireo-softnccl-library`.
//!
//! Operations are in the order of streams, and no thread of a stream waits for other ranks: a function of the host says
//! that a rank has arrived, the last rank to arrive moves the data, and the streams go on once a word in pinned memory
//! has the number of the round. Groups, their agreement and transports are those of `vireo-collectives`: in process
//! between ranks of one process, and over TCP otherwise, where the identity of a group has the address.
//!
//! `cuda` finds the driver library and `words` are the words that streams wait for. `identity` and `options` say where
//! ranks meet, `form` brings them together. `comm` is a rank, `operations` is what functions ask of it, and `group`
//! puts calls of a thread together. `status` keeps what failed, and `abi` has the functions.
//!
//! **Who checks**: this crate. Handles are looked up, and ranges are within allocations when an operation is called.
//! As with the library of the vendor, memory must stay until the operation has run.
#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc)]

mod abi;
mod comm;
mod cuda;
mod form;
mod generated;
mod group;
mod identity;
mod operations;
mod options;
mod status;
mod words;

use vireo_cuda::nccl::nccl_symbols::NcclFunctions;

pub use cuda::use_driver;
pub use options::VARIABLE;

/// All functions of the library.
pub const fn functions() -> NcclFunctions {
    generated::functions::FUNCTIONS
}
