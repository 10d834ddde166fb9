//! SIMD levels: the instruction set extensions that kernels use. The module detects or limits the level and passes it
//! to kernels.

use std::sync::OnceLock;

/// The instruction set extensions that kernels may use. Results do not depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SimdLevel {
    /// Those that every processor of the architecture has.
    Portable,
    /// AVX2.
    Avx2,
    /// AVX-512 with bytes and words.
    Avx512,
    /// AVX-512 with sums of products of 16-bit integers.
    Avx512Vnni,
}

impl SimdLevel {
    /// Every level, the lowest first.
    pub const ALL: [SimdLevel; 4] = [SimdLevel::Portable, SimdLevel::Avx2, SimdLevel::Avx512, SimdLevel::Avx512Vnni];

    /// The highest level.
    pub const MAX: SimdLevel = SimdLevel::Avx512Vnni;

    /// The highest level of this processor.
    pub fn detect() -> SimdLevel {
        static DETECTED: OnceLock<SimdLevel> = OnceLock::new();
        *DETECTED.get_or_init(detect)
    }
}

#[cfg(target_arch = "x86_64")]
fn detect() -> SimdLevel {
    if !is_x86_feature_detected!("avx2") {
        return SimdLevel::Portable;
    }
    if !(is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw")) {
        return SimdLevel::Avx2;
    }
    if is_x86_feature_detected!("avx512vnni") { SimdLevel::Avx512Vnni } else { SimdLevel::Avx512 }
}

#[cfg(not(target_arch = "x86_64"))]
fn detect() -> SimdLevel {
    SimdLevel::Portable
}
