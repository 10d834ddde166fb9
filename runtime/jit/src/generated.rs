//! The code that the build script generates from `spec/`, included here and only here. Generated code names items of
//! this crate without their paths; each module imports them before its `include!`.

/// Generated from `spec/isa/vm`.
pub mod vm {
    /// The nodes that the JIT makes of a decoded op.
    pub(crate) mod jit {
        use super::primitive::Primitive;
        use crate::build::FunctionBuilder;
        use crate::bytecode::*;
        use crate::interp::prim::{self, Float, Int};
        use crate::ir::types::Scalar;

        include!(concat!(env!("OUT_DIR"), "/vm/jit.rs"));
    }

    /// The primitives that the JIT has machine code for.
    pub(crate) mod primitive {
        use crate::ir::types::{Effect, Lanes, Linear, Scalar, Ty};
        use crate::math::vector::Function;
        use crate::x64::lower::{Flags, Src};

        include!(concat!(env!("OUT_DIR"), "/vm/primitive.rs"));
    }
}
