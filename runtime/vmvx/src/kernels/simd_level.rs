//! How much of the processor kernels use.

use std::sync::OnceLock;

/// What kernels may use of the processor. Results do not depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// What every processor of the architecture has.
    Portable,
    /// AVX2.
    Avx2,
    /// AVX-512 with bytes and words.
    Avx512,
    /// AVX-512 with sums of products of 16-bit integers.
    Avx512Vnni,
}

impl Level {
    /// Every level, the lowest first.
    pub const ALL: [Level; 4] = [Level::Portable, Level::Avx2, Level::Avx512, Level::Avx512Vnni];

    /// The highest level of this processor.
    pub fn detect() -> Level {
        static DETECTED: OnceLock<Level> = OnceLock::new();
        *DETECTED.get_or_init(detect)
    }
}

#[cfg(target_arch = "x86_64")]
fn detect() -> Level {
    if !is_x86_feature_detected!("avx2") {
        return Level::Portable;
    }
    if !(is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw")) {
        return Level::Avx2;
    }
    if is_x86_feature_detected!("avx512vnni") { Level::Avx512Vnni } else { Level::Avx512 }
}

#[cfg(not(target_arch = "x86_64"))]
fn detect() -> Level {
    Level::Portable
}
