//! The code that the build script generates from `spec/`, included here and only here. Generated code names items of
//! this crate without their paths; each module imports them before its `include!`.

/// Encodings.
pub mod encodings {
    use crate::isa::{EncodingInfo, FieldInfo};

    include!(concat!(env!("OUT_DIR"), "/gfx/encodings.rs"));
}

/// Instructions.
pub mod instructions {
    use super::encodings::{Encoding, Slot};
    use super::operands::OperandType;
    use crate::isa::{InstructionInfo, joined};

    include!(concat!(env!("OUT_DIR"), "/gfx/instructions.rs"));
}

/// Types of operands, and what source fields stand for.
pub mod operands {
    use crate::isa::{FloatConstant, Integers, Registers};

    include!(concat!(env!("OUT_DIR"), "/gfx/operands.rs"));
}

/// Limits of kernels.
pub mod limits {
    include!(concat!(env!("OUT_DIR"), "/gfx/limits.rs"));
}

/// Counters.
pub mod counters {
    use super::encodings::Encoding;
    use super::instructions::Opcode;
    use crate::isa::CounterInfo;

    include!(concat!(env!("OUT_DIR"), "/gfx/counters.rs"));
}

/// Words with bit fields, and the names of values.
pub mod immediates {
    use crate::isa::BitField;

    include!(concat!(env!("OUT_DIR"), "/gfx/immediates.rs"));
}

/// Handlers.
pub mod interp {
    use crate::interp::lanes::{self, Exec};
    use crate::interp::prim::{self, F16};
    use crate::interp::{atomic, control, helpers, memory, scalar};
    use crate::isa::Opcode;
    use crate::machine::{Group, Handler, Inst, Next, Wave};

    include!(concat!(env!("OUT_DIR"), "/gfx/interp.rs"));
}

/// The examples of primitives.
#[cfg(test)]
#[expect(clippy::approx_constant, reason = "the result of an example may be a mathematical constant")]
mod primitive_tests {
    use crate::interp::prim::{self, tests::is};

    include!(concat!(env!("OUT_DIR"), "/gfx/tests/primitives.rs"));
}
