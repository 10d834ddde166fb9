//! The code that the build script generates from `spec/`, included here and only here. Generated code names items of
//! this crate without their paths; each module imports them before its `include!`.

/// Blocks and records of command buffers.
pub mod command_buffer {
    use crate::fields::{BitField, Dump, FieldError, ReadError, WordDump, check_field, tag};

    include!(concat!(env!("OUT_DIR"), "/amdgpu/command_buffer.rs"));
}

/// Code objects.
pub mod code_object {
    use crate::fields::{BitField, FieldError, WordDump, check_field};

    include!(concat!(env!("OUT_DIR"), "/amdgpu/code_object.rs"));
}

/// The processors of AMD GPUs.
pub mod targets {
    include!(concat!(env!("OUT_DIR"), "/schema/amdgpu_targets.rs"));
}

/// Types of the HSA library.
pub mod hsa {
    use crate::fields::{BitField, Dump, HexRow, WordDump};

    include!(concat!(env!("OUT_DIR"), "/amdgpu/hsa.rs"));
}

/// Functions of the HSA library.
pub mod hsa_symbols {
    use crate::HsaSymbol;

    include!(concat!(env!("OUT_DIR"), "/amdgpu/hsa_symbols.rs"));
}

/// The layouts of ELF files.
pub(crate) mod elf {
    #![expect(dead_code, unreachable_pub, reason = "code objects use a part of the format")]

    /// The operations on sets of bits that are needed here.
    macro_rules! bit_set {
        ($name:ident, $int:ty, $known:expr, $text:expr) => {
            impl $name {
                /// True if all bits of this set are set in `bits`.
                pub const fn are_in(self, bits: $int) -> bool {
                    bits & self.0 == self.0
                }
            }
        };
    }

    include!(concat!(env!("OUT_DIR"), "/hal/elf.rs"));
}

/// Implicit arguments of kernels.
pub mod kernarg {
    use crate::fields::Dump;

    include!(concat!(env!("OUT_DIR"), "/amdgpu/kernarg.rs"));
}

/// The descriptor of a kernel.
pub mod kernel_descriptor {
    use crate::fields::{BitField, Dump, FieldError, WordDump, check_field};

    include!(concat!(env!("OUT_DIR"), "/amdgpu/kernel_descriptor.rs"));
}

/// Packets of queues.
pub mod packet {
    use crate::fields::{BitField, Dump, FieldError, HexRow, ReadError, WordDump, check_field, tag};

    include!(concat!(env!("OUT_DIR"), "/amdgpu/packet.rs"));
}

/// Commands of indirect buffers.
pub mod pm4 {
    use crate::fields::{BitField, Dump, FieldError, ReadError, WordDump, check_field, tag};

    include!(concat!(env!("OUT_DIR"), "/amdgpu/pm4.rs"));
}

/// Queues.
pub mod queue {
    use crate::fields::{BitField, Dump, HexRow, WordDump};

    include!(concat!(env!("OUT_DIR"), "/amdgpu/queue.rs"));
}

/// Signals.
pub mod signal {
    use crate::fields::Dump;

    include!(concat!(env!("OUT_DIR"), "/amdgpu/signal.rs"));
}

/// The words of edges between devices.
pub mod topology {
    use crate::fields::{BitField, Dump, FieldError, WordDump, check_field};

    include!(concat!(env!("OUT_DIR"), "/amdgpu/topology.rs"));
}
