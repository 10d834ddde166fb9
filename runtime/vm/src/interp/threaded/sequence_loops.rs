//! Loops of two sequences, each of which ends in a branch to the other: the latch, which begins the next iteration, and
//! the head, which leaves the loop early. The latch has the handler of the loop, and each op keeps its own.

use std::mem::MaybeUninit;

use super::body::OpBody;
use super::handler::{ALWAYS, Handler, NEVER, TAKEN};
use super::handler_frame::HandlerFrame;
use super::handlers::{continue_by, jump, registers, stop};
use super::operands::{FusedBranch, at_distance};
use super::sequences::{RepeatedFrame, Steps, after_branch, test};
use crate::interp::frame::instruction::{CarriedValues, Ip, operands_of};
use crate::interp::machine::Machine;

/// The handlers of a loop by the branch of its latch, in the order of [`BranchHandlers`](super::BranchHandlers). None
/// where such a branch ends no loop of two sequences: if it is not counted, or leads to its own block.
pub type LoopHandlers = [Option<Handler>; 6];

/// The handlers of a loop whose latch is the ops `S` and the test `B`, and whose head is the ops `T` and the test `D`.
pub const fn loop_handlers<S: Steps, B: OpBody, const B_CARRIED: usize, T: Steps, D: OpBody, const D_CARRIED: usize>()
-> LoopHandlers {
    [
        None,
        None,
        Some(first_iteration::<S, B, B_CARRIED, T, D, D_CARRIED, TAKEN>),
        None,
        Some(first_iteration::<S, B, B_CARRIED, T, D, D_CARRIED, ALWAYS>),
        None,
    ]
}

/// Executes the latch and the head once. If the loop goes on, it does in [`iterations`], which is worth what it loads
/// before only then.
unsafe extern "C-unwind" fn first_iteration<
    S: Steps,
    B: OpBody,
    const B_CARRIED: usize,
    T: Steps,
    D: OpBody,
    const D_CARRIED: usize,
    const TICK_WHEN: usize,
>(
    ip: Ip,
    slots: *mut u32,
    cx: *mut Machine<'_>,
    carried: CarriedValues,
) -> usize {
    // SAFETY: the promise of handlers; `find` has seen that the instructions are these, and where the branches lead.
    unsafe {
        let mut frame = HandlerFrame { registers: registers(slots), cx, carry: carried.carry };
        let latch = match S::run(ip, &mut frame) {
            Ok(branch) => branch,
            Err(at) => return stop(at, slots, cx, CarriedValues { carry: frame.carry, ..carried }),
        };
        let FusedBranch { delta, operands } = &*operands_of::<FusedBranch<B::Operands>>(latch);
        match test::<B, B_CARRIED, TICK_WHEN>(operands, &frame, &mut (*cx).countdown) {
            Some(true) => {}
            Some(false) => {
                return jump(after_branch::<B>(latch), slots, cx, CarriedValues { carry: frame.carry, ..carried });
            }
            None => return stop(latch, slots, cx, CarriedValues { carry: frame.carry, ..carried }),
        }
        let head = match T::run(at_distance(latch, isize::from(*delta)), &mut frame) {
            Ok(branch) => branch,
            Err(at) => return stop(at, slots, cx, CarriedValues { carry: frame.carry, ..carried }),
        };
        let FusedBranch { operands, .. } = &*operands_of::<FusedBranch<D::Operands>>(head);
        let goes_on = test::<D, D_CARRIED, NEVER>(operands, &frame, &mut (*cx).countdown) != Some(false);
        let carried = CarriedValues { carry: frame.carry, ..carried };
        if goes_on {
            continue_by(iterations::<S, B, B_CARRIED, T, D, D_CARRIED, TICK_WHEN>, ip, slots, cx, carried)
        } else {
            jump(after_branch::<D>(head), slots, cx, carried)
        }
    }
}

/// Executes the latch and the head in turn, with the operands of all ops, the buffer that one of them accesses and the
/// countdown in registers of the processor.
unsafe extern "C-unwind" fn iterations<
    S: Steps,
    B: OpBody,
    const B_CARRIED: usize,
    T: Steps,
    D: OpBody,
    const D_CARRIED: usize,
    const TICK_WHEN: usize,
>(
    ip: Ip,
    slots: *mut u32,
    cx: *mut Machine<'_>,
    carried: CarriedValues,
) -> usize {
    // SAFETY: `find` has seen that the instructions are these, and where the branches lead; frame and machine are those
    // that a [`Handler`] gets.
    unsafe {
        let latch = S::operands(ip);
        let FusedBranch { delta, operands: latch_test } = *operands_of::<FusedBranch<B::Operands>>(S::end(ip));
        let head_ip = at_distance(S::end(ip), isize::from(delta));
        let head = T::operands(head_ip);
        let head_test = (*operands_of::<FusedBranch<D::Operands>>(T::end(head_ip))).operands;
        let frame = HandlerFrame { registers: registers(slots), cx, carry: carried.carry };
        let mut copy = MaybeUninit::uninit();
        let Some(mut frame) = RepeatedFrame::new(frame, S::buffer(&latch).or(T::buffer(&head)), &mut copy) else {
            return stop(ip, slots, cx, carried);
        };
        let mut countdown = (*cx).countdown;
        let code = Loop::<S, B, T, D> { latch_ip: ip, latch, latch_test, head_ip, head, head_test };
        let writers = |register| S::writers(&latch, register) + T::writers(&head, register);
        let (at, goes_on) = if S::accumulate(&latch, writers) && T::accumulate(&head, writers) {
            code.iterate::<B_CARRIED, D_CARRIED, TICK_WHEN, true>(&mut frame, &mut countdown)
        } else {
            code.iterate::<B_CARRIED, D_CARRIED, TICK_WHEN, false>(&mut frame, &mut countdown)
        };
        (*cx).countdown = countdown;
        let carried = CarriedValues { carry: frame.frame.carry, ..carried };
        if goes_on { jump(at, slots, cx, carried) } else { stop(at, slots, cx, carried) }
    }
}

/// The instructions of a loop, and copies of their operands.
struct Loop<S: Steps, B: OpBody, T: Steps, D: OpBody> {
    latch_ip: Ip,
    latch: S::Operands,
    latch_test: B::Operands,
    head_ip: Ip,
    head: T::Operands,
    head_test: D::Operands,
}

impl<S: Steps, B: OpBody, T: Steps, D: OpBody> Loop<S, B, T, D> {
    /// Where the loop ends, and whether it goes on there.
    ///
    /// # Safety
    /// As for a [`Handler`] in this frame.
    #[inline(always)]
    unsafe fn iterate<
        const B_CARRIED: usize,
        const D_CARRIED: usize,
        const TICK_WHEN: usize,
        const ACCUMULATE: bool,
    >(
        &self,
        frame: &mut RepeatedFrame<'_, '_>,
        countdown: &mut u32,
    ) -> (Ip, bool) {
        let registers = frame.frame.registers;
        let mut written = (S::written(&self.latch, registers), T::written(&self.head, registers));
        loop {
            if let Err(at) = S::repeat::<ACCUMULATE>(&self.latch, &mut written.0, self.latch_ip, frame) {
                return (at, false);
            }
            let branch = S::end(self.latch_ip);
            // SAFETY: instruction, frame and machine are those that a [`Handler`] gets.
            match unsafe { test::<B, B_CARRIED, TICK_WHEN>(&self.latch_test, &frame.frame, countdown) } {
                Some(true) => {}
                Some(false) => return (after_branch::<B>(branch), true),
                None => return (branch, false),
            }
            if let Err(at) = T::repeat::<ACCUMULATE>(&self.head, &mut written.1, self.head_ip, frame) {
                return (at, false);
            }
            // SAFETY: instruction, frame and machine are those that a [`Handler`] gets.
            if unsafe { test::<D, D_CARRIED, NEVER>(&self.head_test, &frame.frame, countdown) } == Some(false) {
                return (after_branch::<D>(T::end(self.head_ip)), true);
            }
        }
    }
}
