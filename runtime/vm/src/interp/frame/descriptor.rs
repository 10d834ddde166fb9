//! [`FrameDescriptor`]: which function runs in a frame, what called it, and how many registers it has. Frame headers
//! and call sites have one.

use crate::bytecode::{CallId, VerifiedFunction};

/// The part of a frame header that depends only on the call: which function runs, what called it, and how many
/// registers it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct FrameDescriptor {
    /// Index of the module in the module list.
    pub module: u32,
    /// Ordinal of the function.
    pub function: u32,
    /// Index of the calling op in the caller.
    pub pc: u32,
    /// The operands and results of that op.
    pub call: CallId,
    /// Number of slots.
    pub slots: u32,
    /// Number of references.
    pub refs: u32,
}

/// A function of a module list: the index of the module and, in the upper half, its ordinal there. One word, since it
/// is compared for each op that handlers leave to the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BoundFunction(u64);

impl BoundFunction {
    /// A function of the module with this index.
    #[inline(always)]
    pub fn new(module: usize, function: &VerifiedFunction) -> BoundFunction {
        // A program has less than 2^32 modules.
        BoundFunction(u64::from(module as u32) | u64::from(function.ordinal()) << 32)
    }
}

impl FrameDescriptor {
    /// A frame of a function of `module`, called by op `pc` of the caller.
    #[inline]
    pub fn new(module: usize, function: &VerifiedFunction, pc: usize, call: CallId) -> FrameDescriptor {
        // A function has less than 2^32 ops, and a program less than 2^32 modules.
        FrameDescriptor {
            module: module as u32,
            function: function.ordinal(),
            pc: pc as u32,
            call,
            slots: function.slots() as u32,
            refs: function.refs() as u32,
        }
    }

    /// The function that runs in the frame.
    #[inline(always)]
    pub fn bound_function(&self) -> BoundFunction {
        BoundFunction(u64::from(self.module) | u64::from(self.function) << 32)
    }
}
