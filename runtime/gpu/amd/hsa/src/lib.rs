//! Data structures of AMD GPUs: signals, queues, packets, PM4 commands, kernel descriptors, arguments, recorded command
//! buffers, and the symbols of the HSA library. The driver of AMD GPUs and the software agent use them.
//!
//! All layouts are generated from `spec/api/amdgpu/`; the crate adds helpers of generated code (`fields`), targets
//! ([`target`]), the reader of code objects ([`object`]), constructors of packets ([`packets`]), the ring of a queue
//! ([`ring`]) and the reader of command-buffer blocks ([`blocks`]). It is not a driver: nothing here opens a device,
//! and it stands on `vireo-core` alone. Users depend on the crate `vireo`.
//!
//! **Who checks**: decoders accept any bytes of the right length, so every number of a decoded value may be anything.
//! [`blocks`] checks the offsets and lengths of a block, and [`object`] those of a code object. Setters of bit fields
//! refuse values that do not fit.

pub mod blocks;
mod fields;
mod generated;
pub mod object;
pub mod packets;
pub mod ring;
pub mod target;

use vireo_core::status::Status;

pub use fields::{BitField, FieldError, ReadError};
pub use generated::{
    code_object, command_buffer, hsa, hsa_symbols, kernarg, kernel_descriptor, packet, pm4, queue, signal, targets,
    topology,
};

/// A function of the HSA library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HsaSymbol {
    /// Its name in the library.
    pub name: &'static str,
    /// False if the driver works without it.
    pub required: bool,
}

#[cfg(test)]
mod tests;
