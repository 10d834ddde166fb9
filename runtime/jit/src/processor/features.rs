//! Features of the processor: the extensions of x86-64 that code may use.

use crate::ir::types::Width;

/// The instructions beyond plain x86-64 that code may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Features {
    /// Three operands for floats.
    pub avx: bool,
    /// Shifts by any register.
    pub bmi2: bool,
    /// The count of leading zeros, defined for zero.
    pub lzcnt: bool,
    /// Vectors of eight lanes.
    pub avx2: bool,
    /// Vectors of sixteen lanes.
    pub avx512: bool,
}

impl Features {
    /// Those of this processor.
    pub(crate) fn detect() -> Features {
        Features {
            avx: std::is_x86_feature_detected!("avx"),
            bmi2: std::is_x86_feature_detected!("bmi2"),
            lzcnt: std::is_x86_feature_detected!("lzcnt"),
            avx2: std::is_x86_feature_detected!("avx2"),
            avx512: std::is_x86_feature_detected!("avx512f") && std::is_x86_feature_detected!("avx512dq"),
        }
    }

    /// The same without vectors of more than so many lanes of 32 bits.
    pub(crate) fn with_lanes(self, most: u8) -> Features {
        let allows = |width: Width| u64::from(most) >= width.lanes();
        Features { avx2: self.avx2 && allows(Width::Eight), avx512: self.avx512 && allows(Width::Sixteen), ..self }
    }

    /// The widths of vectors with lanes of 32 bits that there are, the largest first. Where there is one, there are all
    /// of AVX2.
    pub(crate) fn widths(self) -> &'static [Width] {
        match (self.avx2, self.avx512) {
            (true, true) => &[Width::Sixteen, Width::Eight],
            (true, false) => &[Width::Eight],
            (false, _) => &[],
        }
    }
}
