//! The code that the build script generates from `spec/`, included here and only here. Generated code names items of
//! this crate without their paths; each module imports them before its `include!`.

/// Generated from `spec/isa/vm`.
pub mod vm {
    /// The nodes that the JIT makes of a decoded op.
    pub(crate) mod jit {
        use super::primitive::Primitive;
        use crate::build::FunctionBuilder;
        use crate::bytecode::*;
        use crate::ir::types::Scalar;

        include!(concat!(env!("OUT_DIR"), "/vm/jit.rs"));
    }

    /// Facts about decoded ops and primitives, for analyses and passes.
    pub(crate) mod jit_facts {
        use super::primitive::Primitive;
        use crate::bytecode::*;
        use crate::interp::prim::{self, Float, Int};
        use crate::ir::types::Scalar;

        include!(concat!(env!("OUT_DIR"), "/vm/jit_facts.rs"));
    }

    /// The primitives that the JIT has machine code for.
    pub(crate) mod primitive {
        use crate::ir::types::{Effect, Lanes, Linear, Scalar, Ty};
        use crate::math::vector::Function;
        use crate::x64::lower::{Flags, Src};

        include!(concat!(env!("OUT_DIR"), "/vm/primitive.rs"));
    }
}

/// Generated from `spec/jit`.
pub mod jit {
    /// The rewrites of nodes.
    pub(crate) mod rewrites {
        use crate::generated::vm::primitive::Primitive;
        use crate::ir::graph::{Graph, NodeId};
        use crate::ir::rewrite::{Simpler, is_constant, is_same};
        use crate::ir::types::Scalar;

        include!(concat!(env!("OUT_DIR"), "/jit/rewrites.rs"));
    }

    /// A test of each of them.
    #[cfg(test)]
    mod rewrite_tests {
        use crate::interp::prim::{self, Int};
        use crate::tests::rewrites::holds;

        include!(concat!(env!("OUT_DIR"), "/jit/rewrite_tests.rs"));
    }
}
