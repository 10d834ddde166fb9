//! The code that the build script generates from `spec/`, included here and only here. Generated code names items of
//! this crate without their paths; each module imports them before its `include!`.

/// Types, and classes of suffixes.
pub mod suffixes {
    use crate::isa::Suffixes;

    include!(concat!(env!("OUT_DIR"), "/ptx/suffixes.rs"));
}

/// Instructions.
pub mod instructions {
    use super::suffixes::{Class, Type};
    use crate::isa::{BodyInfo, InstructionInfo, OperandInfo, OperandType, PositionInfo, VariantInfo};

    include!(concat!(env!("OUT_DIR"), "/ptx/instructions.rs"));
}

/// Special registers.
pub mod registers {
    include!(concat!(env!("OUT_DIR"), "/ptx/registers.rs"));
}

/// Layouts of matrices.
pub mod fragments {
    use std::sync::OnceLock;

    use super::suffixes::{MatrixSuffix, ShapeSuffix, Type};
    use crate::isa::{Bit, Fragment, Tile};

    include!(concat!(env!("OUT_DIR"), "/ptx/fragments.rs"));
}

/// Limits of programs.
pub mod limits {
    include!(concat!(env!("OUT_DIR"), "/ptx/limits.rs"));
}

/// Handlers.
pub mod interp {
    use vireo_simt::prim::{self, F16};

    use crate::interp::{lanes, matrix, memory, moves, packed, sync};
    use crate::machine::{Block, Handler, Inst, Next, Warp};

    include!(concat!(env!("OUT_DIR"), "/ptx/interp.rs"));
}

/// The examples of primitives.
#[cfg(test)]
#[expect(clippy::approx_constant, reason = "the result of an example may be a mathematical constant")]
mod primitive_tests {
    use crate::interp::examples::is;
    use vireo_simt::prim;

    include!(concat!(env!("OUT_DIR"), "/ptx/tests/primitives.rs"));
}
