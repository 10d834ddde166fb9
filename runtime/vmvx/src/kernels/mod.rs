//! Microkernels: loops over addresses that were checked.
//!
//! Every kernel has a portable form; on x86-64 there are forms for more of the processor, which compute the same bits. No kernel fuses
//! a multiplication with an addition, and sums are taken in the order of the depth: the products of the reference's portable
//! kernels, which are the ones that its compiler's tile sizes select, are ours bit for bit, whatever the processor.

pub(super) mod elementwise;
pub(super) mod mmt4d;
pub(super) mod pack;
mod simd_level;

pub use simd_level::SimdLevel;
