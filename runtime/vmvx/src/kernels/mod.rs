//! Microkernels: loops over checked addresses, which exports of the module call.
//!
//! Every kernel has a portable version; on x86-64 there are versions for higher SIMD levels, which compute the same
//! bits. No kernel fuses a multiplication with an addition, and products are summed in the order of the depth. So
//! results are those of the reference runtime's portable kernels, which its compiler's tile sizes select, bit for bit,
//! whatever the processor. Each loop counts its `work`, so that the limits of a call are looked at in time, whatever
//! the sizes and types.

pub(super) mod elementwise;
pub(super) mod mmt4d;
pub(super) mod pack;
mod simd_level;
mod work;

pub use simd_level::SimdLevel;
