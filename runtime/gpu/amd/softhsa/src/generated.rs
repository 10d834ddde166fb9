//! The code that the build script generates from `spec/`, included here and only here. Generated code names items of
//! this crate without their paths; each module imports them before its `include!`.

/// The layouts of ELF files.
pub(crate) mod elf {
    #![expect(dead_code, unreachable_pub, reason = "code objects use a part of the format")]

    /// The operations on sets of bits that are needed here.
    macro_rules! bit_set {
        ($name:ident, $int:ty, $known:expr, $text:expr) => {
            impl $name {
                /// True if all bits of `other` are set in these.
                pub const fn are_in(self, bits: $int) -> bool {
                    bits & self.0 == self.0
                }
            }
        };
    }

    include!(concat!(env!("OUT_DIR"), "/hal/elf.rs"));
}

/// The table of functions.
pub(crate) mod functions {
    use crate::abi::*;
    use vireo_hsa::hsa_symbols::HsaFunctions;

    include!(concat!(env!("OUT_DIR"), "/softhsa/functions.rs"));
}
