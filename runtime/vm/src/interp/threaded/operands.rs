//! The operands of threaded instructions, but for those of calls and returns, which code owns.

use crate::bytecode::{ListId, Reg};
use crate::interp::frame::instruction::{Ip, ThreadedInstruction};

/// The operands of a comparison that is fused with a conditional branch. The distance comes first, so that it can be
/// written once it is known, whatever the type of the operands is.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct FusedBranch<T> {
    pub delta: i16,
    pub operands: T,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct ConditionalBranch {
    pub delta: i32,
    pub condition: Reg,
}

/// The operands of [`helper`](super::handlers::helper): the index of the op, and its operands.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct HelperOp<T> {
    pub pc: u32,
    pub operands: T,
}

/// The operands of [`return_word`](super::handlers::return_word): the slot of the result, or the first one of it, if
/// there is a result, and the list of results.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct WordReturn {
    pub reg: Reg,
    pub list: ListId,
}

/// The distance of a branch in units of which the processor adds eight to an address in one step; a multiplication by
/// the size of an element would take another one, and each branch waits for that before it.
pub(super) const DISTANCE_UNITS: isize = (size_of::<ThreadedInstruction>() / 8) as isize;

/// The instruction at a distance from `ip`, in those units.
#[inline(always)]
pub(super) fn at_distance(ip: Ip, distance: isize) -> Ip {
    ip.wrapping_byte_offset(distance * 8)
}
