//! The fence: everything that the build script generates from `spec/` enters the crate here, and only here.

/// Generated from `spec/vm`.
pub mod vm {
    /// The nodes that the JIT makes of a decoded op.
    pub(crate) mod jit {
        include!(concat!(env!("OUT_DIR"), "/vm/jit.rs"));
    }

    /// The primitives that the JIT has machine code for.
    pub(crate) mod primitive {
        include!(concat!(env!("OUT_DIR"), "/vm/primitive.rs"));
    }
}
