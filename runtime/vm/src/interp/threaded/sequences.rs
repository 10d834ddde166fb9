//! Handlers that execute several instructions in turn: the sequences of `spec/isa/vm/sequences.yaml`. A jump and the
//! load of the next handler are as long as most ops, and between the ops of a sequence there is none.
//!
//! Each op of a sequence has its instruction, with its own handler, as if it were no part of one; the first has the
//! handler of the sequence, which reads the operands of those that follow. So code can be entered at any op, and a
//! handler stops at the op that cannot continue.

use std::marker::PhantomData;

use super::body::OpBody;
use super::handler::{ALWAYS, BranchHandlers, NEVER, TAKEN};
use super::handler_frame::HandlerFrame;
use super::handlers::{jump, registers, stop, test_and_branch};
use crate::bytecode::Op;
use crate::interp::frame::Frame;
use crate::interp::frame::instruction::{CarriedValues, Ip, instructions_of, operands_of};
use crate::interp::machine::Machine;

/// An instruction of an op that is made of primitives, when it was emitted.
#[derive(Clone, Copy)]
pub struct EmittedOp {
    /// The op, of a fused branch the comparison.
    pub op: Op,
    /// Number of the operand that is carried, counted from 1; 0 if none.
    pub carried: usize,
    /// Of a fused branch, the index in its [`BranchHandlers`].
    pub branch: Option<usize>,
    /// Index of the instruction in the stream.
    pub(super) position: usize,
    /// Index of what follows it.
    pub(super) end: usize,
}

/// Ops that are executed in turn: a [`Step`], or a pair of the first and the others.
pub trait Steps {
    /// Executes them, from the instruction at `ip` on, and returns the instruction after them, or that which cannot
    /// continue.
    ///
    /// # Safety
    /// As for a [`Handler`](super::handler::Handler): the instructions must be those of these ops.
    #[doc(hidden)]
    unsafe fn run<F: Frame>(ip: Ip, frame: &mut F) -> Result<Ip, Ip>;
}

/// An op whose value operand number `CARRIED`, counted from 1, is the carry; 0 is none.
pub struct Step<B, const CARRIED: usize>(PhantomData<B>);

impl<B: OpBody, const CARRIED: usize> Steps for Step<B, CARRIED> {
    #[inline(always)]
    unsafe fn run<F: Frame>(ip: Ip, frame: &mut F) -> Result<Ip, Ip> {
        // SAFETY: the stream put operands of this type into the instruction.
        let operands = unsafe { &*operands_of::<B::Operands>(ip) };
        match B::run::<F, CARRIED>(frame, operands) {
            Ok(()) => Ok(ip.wrapping_add(instructions_of::<B::Operands>())),
            Err(_) => Err(ip),
        }
    }
}

impl<A: Steps, B: Steps> Steps for (A, B) {
    #[inline(always)]
    unsafe fn run<F: Frame>(ip: Ip, frame: &mut F) -> Result<Ip, Ip> {
        // SAFETY: the caller guarantees that `ip` is an instruction of these ops, one after the other.
        unsafe { B::run(A::run(ip, frame)?, frame) }
    }
}

/// The handler of a sequence without a branch.
///
/// # Safety
/// As for a [`Handler`](super::handler::Handler).
pub unsafe extern "C-unwind" fn steps<S: Steps>(
    ip: Ip,
    slots: *mut u32,
    cx: *mut Machine<'_>,
    carried: CarriedValues,
) -> usize {
    // SAFETY: the promise of handlers; `find` has seen that the instructions are these.
    unsafe {
        let mut frame = HandlerFrame { registers: registers(slots), cx, carry: carried.carry };
        match S::run(ip, &mut frame) {
            Ok(next) => jump(next, slots, cx, CarriedValues { carry: frame.carry, ..carried }),
            Err(at) => stop(at, slots, cx, CarriedValues { carry: frame.carry, ..carried }),
        }
    }
}

/// The handlers of a sequence that ends in a fused comparison and branch, whose operand number `CARRIED` is carried.
pub const fn steps_and_branch_handlers<S: Steps, B: OpBody, const CARRIED: usize>() -> BranchHandlers {
    [
        steps_and_branch::<S, B, CARRIED, NEVER, false>,
        steps_and_branch::<S, B, CARRIED, NEVER, true>,
        steps_and_branch::<S, B, CARRIED, TAKEN, false>,
        steps_and_branch::<S, B, CARRIED, TAKEN, true>,
        steps_and_branch::<S, B, CARRIED, ALWAYS, false>,
        steps_and_branch::<S, B, CARRIED, ALWAYS, true>,
    ]
}

/// The handler of a sequence that ends in a fused comparison and branch. The branch is counted after the ops before it.
unsafe extern "C-unwind" fn steps_and_branch<
    S: Steps,
    B: OpBody,
    const CARRIED: usize,
    const TICK_WHEN: usize,
    const TO_LOOP_HEADER: bool,
>(
    ip: Ip,
    slots: *mut u32,
    cx: *mut Machine<'_>,
    carried: CarriedValues,
) -> usize {
    // SAFETY: `find` has seen that the instructions are these; frame and machine are those that a [`Handler`] gets.
    unsafe {
        let mut frame = HandlerFrame { registers: registers(slots), cx, carry: carried.carry };
        let result = S::run(ip, &mut frame);
        let carried = CarriedValues { carry: frame.carry, ..carried };
        match result {
            Ok(branch) => test_and_branch::<B, CARRIED, TICK_WHEN, TO_LOOP_HEADER>(branch, slots, cx, carried),
            Err(at) => stop(at, slots, cx, carried),
        }
    }
}
