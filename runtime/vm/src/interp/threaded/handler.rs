//! [`Handler`]: the type of the functions that execute threaded instructions, and how those of branches are told apart.

use crate::interp::frame::instruction::{CarriedValues, HandlerAddress, Ip};
use crate::interp::machine::Machine;

/// Executes the instruction at `ip` in the frame with these slots, and those that follow. Returns when a handler stops.
///
/// # Safety
/// `ip` must be an instruction of the code of the function whose frame this is, and the frame must be on top of the
/// stack. The machine must be that of the running invocation, and no other code may use it during the call.
pub type Handler =
    unsafe extern "C-unwind" fn(ip: Ip, slots: *mut u32, cx: *mut Machine<'_>, carried: CarriedValues) -> usize;

/// The address by which instructions refer to a handler.
#[inline(always)]
pub fn address_of(handler: Handler) -> HandlerAddress {
    handler as HandlerAddress
}

/// The handler of an instruction.
///
/// # Safety
/// The element must have one.
#[inline(always)]
#[cfg(any(sibling_calls, not(all(target_arch = "x86_64", unix))))]
pub(super) unsafe fn handler_at(ip: Ip) -> Handler {
    // SAFETY: the caller guarantees that the element has a handler, and its address is that of a function of this type:
    // `address_of` takes no other, and machine code has the same convention.
    unsafe { std::mem::transmute::<HandlerAddress, Handler>((*ip).handler()) }
}

/// When a fused comparison and branch counts as a backward branch.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum TickWhen {
    /// It is a forward branch, or has been counted.
    Never,
    /// When it is taken, as any backward branch.
    Taken,
    /// Whatever the result is: the test of a rotated loop stands for the backward branch to it.
    Always,
}

pub(super) const NEVER: usize = TickWhen::Never as usize;
pub(super) const TAKEN: usize = TickWhen::Taken as usize;
pub(super) const ALWAYS: usize = TickWhen::Always as usize;

/// The handlers of a fused comparison and branch, in the order of `branch_variant`.
pub type BranchHandlers = [Handler; 6];

/// The index in [`BranchHandlers`] of the handler for a branch that counts so, to the loop header or elsewhere.
pub(super) const fn branch_variant(counts: TickWhen, to_loop_header: bool) -> usize {
    counts as usize * 2 + to_loop_header as usize
}
