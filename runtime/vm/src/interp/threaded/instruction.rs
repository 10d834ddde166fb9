//! Instructions, what they hold for handlers, and what handlers hand to each other.

use std::mem::MaybeUninit;
use std::sync::atomic::AtomicPtr;

use crate::bytecode::{RefReg, Reg};
use crate::interp::machine::Machine;
use crate::interp::stack::FrameDescriptor;

/// Runs the op at `ip` in the frame with these slots, and those that follow. Returns when one stops.
///
/// # Safety
/// `ip` must be an instruction of the code of the function whose frame this is, and the frame the one on top. The machine must be that of the
/// running invocation, and nobody else may use it meanwhile.
pub type Handler =
    unsafe extern "C-unwind" fn(ip: Ip, slots: *mut u32, cx: *mut Machine<'_>, carried: CarriedValues) -> usize;

/// What handlers hand to each other in registers of the processor.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CarriedValues {
    /// A value that also is in a register of the frame, mostly the one that was written last: reading back a slot that was just
    /// written takes longer than most ops. Which register that is, the stream knows at every instruction; see [`carry`](super::carry).
    pub carry: u64,
    /// In a block that branches back to itself, its first instruction: no turn of the loop waits for the distance to be loaded.
    pub loop_header: Ip,
}

const _: () = assert!(std::mem::offset_of!(ThreadedInstruction, handler) == 0);

impl Default for CarriedValues {
    fn default() -> CarriedValues {
        CarriedValues { carry: 0, loop_header: std::ptr::null() }
    }
}

/// One handler and its operands. Operands of more than 8 bytes go on in the instructions that follow.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ThreadedInstruction {
    pub(super) handler: MaybeUninit<Handler>,
    operands: MaybeUninit<u64>,
}

/// The address of an instruction.
pub type Ip = *const ThreadedInstruction;

impl ThreadedInstruction {
    /// An instruction that only holds operands.
    pub const EMPTY: ThreadedInstruction =
        ThreadedInstruction { handler: MaybeUninit::uninit(), operands: MaybeUninit::zeroed() };

    /// An instruction with a handler.
    pub const fn of(handler: Handler) -> ThreadedInstruction {
        ThreadedInstruction { handler: MaybeUninit::new(handler), operands: MaybeUninit::zeroed() }
    }

    /// An instruction with a handler and a word for it.
    pub fn with(handler: Handler, operand: u64) -> ThreadedInstruction {
        ThreadedInstruction { handler: MaybeUninit::new(handler), operands: MaybeUninit::new(operand) }
    }

    /// The handler of an instruction that has one.
    ///
    /// # Safety
    /// It must have one.
    pub unsafe fn handler(&self) -> Handler {
        // SAFETY: the caller's promise.
        unsafe { self.handler.assume_init() }
    }
}

/// Instructions that operands of this type take.
pub(super) const fn instructions_of<T>() -> usize {
    assert!(align_of::<T>() <= align_of::<u64>());
    1 + size_of::<T>().saturating_sub(size_of::<u64>()).div_ceil(size_of::<ThreadedInstruction>())
}

/// Where the operands of an instruction are.
#[inline(always)]
pub(super) fn operands_of<T>(ip: Ip) -> *const T {
    ip.cast::<u8>().wrapping_add(std::mem::offset_of!(ThreadedInstruction, operands)).cast()
}

/// The branch of a conditional branch or a fused comparison comes first, so that it can be filled in later.
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

/// What a call inside a module needs.
pub struct ThreadedCallSite {
    /// The first instruction of the callee; null as long as the callee has no code.
    pub(super) entry: AtomicPtr<ThreadedInstruction>,
    /// Where the caller goes on.
    pub(super) resume: Ip,
    pub(in crate::interp) descriptor: FrameDescriptor,
    /// Bytes from the caller's slots to those of the callee.
    pub(super) advance: usize,
    /// Bytes of the callee's slots, and how many of them have to be zeroed.
    pub(super) bytes: usize,
    pub(super) zeroed: usize,
    /// Pairs of the caller's and the callee's slot for each 32 bits of the arguments.
    pub(super) words: Box<[(u16, u16)]>,
    /// The caller's slot of the only argument, if it is one of 32 bits.
    pub(super) only_word: u16,
    pub(super) refs: Box<[(RefReg, u16)]>,
    /// The caller's slot of each 32 bits of the results, and the first of them.
    pub(super) result_words: Box<[u16]>,
    pub(super) first_result: u16,
    pub(super) result_refs: Box<[u16]>,
}

/// What a return needs that returns anything else than one slot of a frame without references.
pub(super) struct ReturnOperands {
    pub words: Box<[u16]>,
    pub refs: Box<[RefReg]>,
}
