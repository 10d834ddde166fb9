//! Handlers that execute several instructions in turn: the sequences of `spec/isa/vm/sequences.yaml`. A jump and the
//! load of the next handler are as long as most ops, and between the ops of a sequence there is none.
//!
//! A sequence that is a whole loop stays in a handler, which keeps the operands of its ops in registers of the
//! processor.
//!
//! Each op of a sequence has its instruction, with its own handler, as if it were no part of one; the first has the
//! handler of the sequence, which reads the operands of those that follow. So code can be entered at any op, and a
//! handler stops at the op that cannot continue.

use std::marker::PhantomData;
use std::mem::MaybeUninit;

use super::body::OpBody;
use super::handler::{ALWAYS, BranchHandlers, Handler, NEVER, TAKEN};
use super::handler_frame::{DiscardedTrap, FusedTestFrame, HandlerFrame};
use super::handlers::{jump, registers, stop, test_and_branch};
use super::operands::FusedBranch;
use crate::bytecode::{Op, RefReg, Reg};
use crate::interp::frame::carried_register::CarriedRegister;
use crate::interp::frame::instruction::{CarriedValues, Ip, instructions_of, operands_of};
use crate::interp::frame::registers::Registers;
use crate::interp::frame::{Frame, Operand};
use crate::interp::machine::Machine;
use crate::interp::prim::Trap;
use crate::{Buffer, Ref};

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
    /// The operands of the ops.
    type Operands: Copy;
    /// For each op the value that it wrote last.
    type Written: Copy;

    /// Copies the operands from the instructions from `ip` on.
    ///
    /// # Safety
    /// As for [`Steps::run`].
    #[doc(hidden)]
    unsafe fn operands(ip: Ip) -> Self::Operands;

    /// The instruction after those from `ip` on.
    #[doc(hidden)]
    fn end(ip: Ip) -> Ip;

    /// The register of the first buffer that they access, if they access one.
    #[doc(hidden)]
    fn buffer(operands: &Self::Operands) -> Option<RefReg>;

    /// How many of the ops write a slot of this register.
    #[doc(hidden)]
    fn writers(operands: &Self::Operands, register: CarriedRegister) -> usize;

    /// Whether the operands of the ops are tied: each op whose first operand may be its result has both in one
    /// register, and no other op writes that. `writers` counts the ops that write a register.
    #[doc(hidden)]
    fn accumulate(operands: &Self::Operands, writers: impl Fn(CarriedRegister) -> usize + Copy) -> bool;

    /// The values in the registers that the ops write.
    #[doc(hidden)]
    fn written(operands: &Self::Operands, registers: Registers) -> Self::Written;

    /// As [`Steps::run`], with a copy of the operands. If they `ACCUMULATE`, the first operand of such an op is what it
    /// wrote last, which takes longer to be loaded from the slot.
    ///
    /// # Errors
    /// The instruction that cannot continue.
    #[doc(hidden)]
    fn repeat<const ACCUMULATE: bool>(
        operands: &Self::Operands,
        written: &mut Self::Written,
        ip: Ip,
        frame: &mut RepeatedFrame<'_, '_>,
    ) -> Result<(), Ip>;

    /// Executes them, from the instruction at `ip` on, and returns the instruction after them, or that which cannot
    /// continue.
    ///
    /// # Safety
    /// As for a [`Handler`]: the instructions must be those of these ops.
    #[doc(hidden)]
    unsafe fn run<F: Frame>(ip: Ip, frame: &mut F) -> Result<Ip, Ip>;
}

/// An op whose value operand number `CARRIED`, counted from 1, is the carry; 0 is none.
pub struct Step<B, const CARRIED: usize>(PhantomData<B>);

impl<B: OpBody, const CARRIED: usize> Steps for Step<B, CARRIED> {
    type Operands = B::Operands;
    type Written = u64;

    #[inline(always)]
    unsafe fn operands(ip: Ip) -> B::Operands {
        // SAFETY: the stream put operands of this type into the instruction.
        unsafe { operands_of::<B::Operands>(ip).read() }
    }

    #[inline(always)]
    fn end(ip: Ip) -> Ip {
        ip.wrapping_add(instructions_of::<B::Operands>())
    }

    #[inline(always)]
    fn buffer(operands: &B::Operands) -> Option<RefReg> {
        B::buffer(operands)
    }

    #[inline(always)]
    fn writers(operands: &B::Operands, register: CarriedRegister) -> usize {
        usize::from(B::written(operands).is_some_and(|written| written.overlaps(register)))
    }

    #[inline(always)]
    fn accumulate(operands: &B::Operands, writers: impl Fn(CarriedRegister) -> usize + Copy) -> bool {
        // A carried operand is in a register of the processor anyway.
        let alone = || B::written(operands).is_some_and(|written| writers(written) == 1);
        !B::MAY_ACCUMULATE || CARRIED == 1 || B::accumulates(operands) && alone()
    }

    #[inline(always)]
    fn written(operands: &B::Operands, registers: Registers) -> u64 {
        B::written(operands).map_or(0, |written| written.value(registers))
    }

    #[inline(always)]
    fn repeat<const ACCUMULATE: bool>(
        operands: &B::Operands,
        written: &mut u64,
        ip: Ip,
        frame: &mut RepeatedFrame<'_, '_>,
    ) -> Result<(), Ip> {
        frame.accumulator = (ACCUMULATE && B::MAY_ACCUMULATE).then_some(*written);
        B::run::<_, CARRIED>(frame, operands).map_err(|_| ip)?;
        if B::MAY_ACCUMULATE {
            *written = frame.frame.carry;
        }
        Ok(())
    }

    #[inline(always)]
    unsafe fn run<F: Frame>(ip: Ip, frame: &mut F) -> Result<Ip, Ip> {
        // SAFETY: the stream put operands of this type into the instruction.
        let operands = unsafe { &*operands_of::<B::Operands>(ip) };
        match B::run::<F, CARRIED>(frame, operands) {
            Ok(()) => Ok(Self::end(ip)),
            Err(_) => Err(ip),
        }
    }
}

impl<A: Steps, B: Steps> Steps for (A, B) {
    type Operands = (A::Operands, B::Operands);
    type Written = (A::Written, B::Written);

    #[inline(always)]
    unsafe fn operands(ip: Ip) -> Self::Operands {
        // SAFETY: the caller guarantees that `ip` is an instruction of these ops, one after the other.
        unsafe { (A::operands(ip), B::operands(A::end(ip))) }
    }

    #[inline(always)]
    fn end(ip: Ip) -> Ip {
        B::end(A::end(ip))
    }

    #[inline(always)]
    fn buffer(operands: &Self::Operands) -> Option<RefReg> {
        A::buffer(&operands.0).or(B::buffer(&operands.1))
    }

    #[inline(always)]
    fn writers(operands: &Self::Operands, register: CarriedRegister) -> usize {
        A::writers(&operands.0, register) + B::writers(&operands.1, register)
    }

    #[inline(always)]
    fn accumulate(operands: &Self::Operands, writers: impl Fn(CarriedRegister) -> usize + Copy) -> bool {
        A::accumulate(&operands.0, writers) && B::accumulate(&operands.1, writers)
    }

    #[inline(always)]
    fn written(operands: &Self::Operands, registers: Registers) -> Self::Written {
        (A::written(&operands.0, registers), B::written(&operands.1, registers))
    }

    #[inline(always)]
    fn repeat<const ACCUMULATE: bool>(
        operands: &Self::Operands,
        written: &mut Self::Written,
        ip: Ip,
        frame: &mut RepeatedFrame<'_, '_>,
    ) -> Result<(), Ip> {
        A::repeat::<ACCUMULATE>(&operands.0, &mut written.0, ip, frame)?;
        B::repeat::<ACCUMULATE>(&operands.1, &mut written.1, A::end(ip), frame)
    }

    #[inline(always)]
    unsafe fn run<F: Frame>(ip: Ip, frame: &mut F) -> Result<Ip, Ip> {
        // SAFETY: the caller guarantees that `ip` is an instruction of these ops, one after the other.
        unsafe { B::run(A::run(ip, frame)?, frame) }
    }
}

/// The handler of a sequence without a branch.
///
/// # Safety
/// As for a [`Handler`].
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
            Ok(branch) => {
                let again = repeated::<S, B, CARRIED, TICK_WHEN>();
                let again = again.map(|handler| (ip, handler));
                test_and_branch::<B, CARRIED, TICK_WHEN, TO_LOOP_HEADER>(branch, slots, cx, carried, again)
            }
            Err(at) => stop(at, slots, cx, carried),
        }
    }
}

/// The handler of a sequence that branches back to its first op. None if that is not counted, which such a branch
/// always is.
fn repeated<S: Steps, B: OpBody, const CARRIED: usize, const TICK_WHEN: usize>() -> Option<Handler> {
    (TICK_WHEN != NEVER).then_some(repeated_steps::<S, B, CARRIED, TICK_WHEN> as Handler)
}

/// Executes a sequence again and again as long as the branch at its end leads to its first op, with the operands of all
/// ops, the buffer that they access and the countdown in registers of the processor. The handler of the sequence jumps
/// here after the first time, so that others need not save registers.
unsafe extern "C-unwind" fn repeated_steps<S: Steps, B: OpBody, const CARRIED: usize, const TICK_WHEN: usize>(
    ip: Ip,
    slots: *mut u32,
    cx: *mut Machine<'_>,
    carried: CarriedValues,
) -> usize {
    // SAFETY: `find` has seen that the instructions are these; frame and machine are those that a [`Handler`] gets; the
    // instruction after the sequence is the fused branch.
    unsafe {
        let (operands, branch) = (S::operands(ip), S::end(ip));
        let tested = (*operands_of::<FusedBranch<B::Operands>>(branch)).operands;
        let frame = HandlerFrame { registers: registers(slots), cx, carry: carried.carry };
        let mut copy = MaybeUninit::uninit();
        let Some(mut frame) = RepeatedFrame::new(frame, S::buffer(&operands), &mut copy) else {
            return stop(ip, slots, cx, carried);
        };
        let mut countdown = (*cx).countdown;
        let (at, goes_on) = if S::accumulate(&operands, |register| S::writers(&operands, register)) {
            iterate::<S, B, CARRIED, TICK_WHEN, true>(ip, &operands, &tested, &mut frame, &mut countdown)
        } else {
            iterate::<S, B, CARRIED, TICK_WHEN, false>(ip, &operands, &tested, &mut frame, &mut countdown)
        };
        (*cx).countdown = countdown;
        let carried = CarriedValues { carry: frame.frame.carry, ..carried };
        if goes_on { jump(at, slots, cx, carried) } else { stop(at, slots, cx, carried) }
    }
}

/// The loop of [`repeated_steps`]: where it ends, and whether it goes on there.
///
/// # Safety
/// As for a [`Handler`] in this frame.
#[inline(always)]
unsafe fn iterate<S: Steps, B: OpBody, const CARRIED: usize, const TICK_WHEN: usize, const ACCUMULATE: bool>(
    ip: Ip,
    operands: &S::Operands,
    tested: &B::Operands,
    frame: &mut RepeatedFrame<'_, '_>,
    countdown: &mut u32,
) -> (Ip, bool) {
    let branch = S::end(ip);
    let mut written = S::written(operands, frame.frame.registers);
    loop {
        if let Err(at) = S::repeat::<ACCUMULATE>(operands, &mut written, ip, frame) {
            return (at, false);
        }
        // SAFETY: the caller guarantees that `ip` is an instruction of these ops, one after the other.
        match unsafe { test::<B, CARRIED, TICK_WHEN>(tested, &frame.frame, countdown) } {
            Some(true) => {}
            Some(false) => return (after_branch::<B>(branch), true),
            None => return (branch, false),
        }
    }
}

/// Executes a comparison and counts the branch on it: whether the branch is taken. None if the limits have to be
/// checked, which is before the branch.
///
/// # Safety
/// As for a [`Handler`] in this frame.
#[inline(always)]
pub(super) unsafe fn test<B: OpBody, const CARRIED: usize, const TICK_WHEN: usize>(
    operands: &B::Operands,
    frame: &HandlerFrame<'_>,
    countdown: &mut u32,
) -> Option<bool> {
    if TICK_WHEN == ALWAYS && !take(countdown) {
        return None;
    }
    let frame = HandlerFrame { registers: frame.registers, cx: frame.cx, carry: frame.carry };
    let mut frame = FusedTestFrame { frame, result: 0 };
    let result = B::run::<_, CARRIED>(&mut frame, operands);
    if result.is_ok() && frame.result == 0 {
        return Some(false);
    }
    (TICK_WHEN != TAKEN || take(countdown)).then_some(true)
}

/// The instruction after a fused comparison and branch.
#[inline(always)]
pub(super) fn after_branch<B: OpBody>(branch: Ip) -> Ip {
    branch.wrapping_add(instructions_of::<FusedBranch<B::Operands>>())
}

/// The frame of a sequence that is executed again and again. Ops of sequences write no references, so the first buffer
/// that they access stays in its register, and what a buffer says of its memory does not change while a register holds
/// it.
pub struct RepeatedFrame<'m, 'b> {
    pub(super) frame: HandlerFrame<'m>,
    /// The value of the first operand of the op that is executed, if it is known.
    accumulator: Option<u64>,
    /// The register of that buffer, and a copy of the object. The copy is no part of the frame, so that the fields of
    /// both can be in registers of the processor.
    buffer: Option<(RefReg, &'b Buffer)>,
}

impl<'m, 'b> RepeatedFrame<'m, 'b> {
    /// A frame that copies the buffer in this register to `copy`, which is never dropped. None if the register holds no
    /// buffer.
    #[inline(always)]
    pub(super) fn new(
        frame: HandlerFrame<'m>,
        register: Option<RefReg>,
        copy: &'b mut MaybeUninit<Buffer>,
    ) -> Option<RepeatedFrame<'m, 'b>> {
        let Some(register) = register else { return Some(RepeatedFrame { frame, accumulator: None, buffer: None }) };
        let buffer = frame.buffer(register).ok()?;
        // SAFETY: the register keeps the object, and the copy is not dropped.
        let copy = copy.write(unsafe { std::ptr::read(buffer) });
        Some(RepeatedFrame { frame, accumulator: None, buffer: Some((register, copy)) })
    }
}

impl Frame for RepeatedFrame<'_, '_> {
    type Error = DiscardedTrap;

    #[inline(always)]
    fn registers(&self) -> &Registers {
        self.frame.registers()
    }

    #[inline(always)]
    fn registers_mut(&mut self) -> &mut Registers {
        self.frame.registers_mut()
    }

    #[inline(always)]
    fn globals(&self) -> &[u8] {
        self.frame.globals()
    }

    #[inline(always)]
    fn globals_mut(&mut self) -> &mut [u8] {
        self.frame.globals_mut()
    }

    #[inline(always)]
    fn carry(&self) -> u64 {
        self.frame.carry()
    }

    #[inline(always)]
    fn word(&self, operand: Operand) -> u32 {
        match self.accumulator {
            Some(value) if operand.is_first_uncarried() => value as u32,
            _ => self.frame.word(operand),
        }
    }

    #[inline(always)]
    fn wide(&self, operand: Operand) -> u64 {
        match self.accumulator {
            Some(value) if operand.is_first_uncarried() => value,
            _ => self.frame.wide(operand),
        }
    }

    #[inline(always)]
    fn set_word(&mut self, reg: Reg, value: u32) {
        self.frame.set_word(reg, value);
    }

    #[inline(always)]
    fn set_wide(&mut self, reg: Reg, value: u64) {
        self.frame.set_wide(reg, value);
    }

    #[inline(always)]
    fn reference(&self, reg: RefReg) -> Option<&Ref> {
        self.frame.reference(reg)
    }

    #[inline(always)]
    fn buffer(&self, reg: RefReg) -> Result<&Buffer, Trap> {
        match self.buffer {
            Some((known, buffer)) if known == reg => Ok(buffer),
            _ => self.frame.buffer(reg),
        }
    }
}

/// Counts a backward branch. False if the limits have to be checked.
#[inline(always)]
fn take(countdown: &mut u32) -> bool {
    let left = countdown.checked_sub(1);
    *countdown = left.unwrap_or(0);
    left.is_some()
}
