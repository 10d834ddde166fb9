//! [`InstructionStream`]: the instructions of a function that have been emitted, and the visitor that emits ops.

use std::mem::MaybeUninit;

use super::fusion::find_sequences;
use crate::bytecode::Op;
use crate::interp::frame::carried_register::CarriedRegister;
use crate::interp::frame::instruction::{ThreadedInstruction, instructions_of, operands_of};
use crate::interp::threaded::body::{HelperBody, HelperVisitor, OpBody, OpVisitor, TestBody};
use crate::interp::threaded::copies::{Copies, CopiesVisitor};
use crate::interp::threaded::handler::{Handler, address_of};
use crate::interp::threaded::handlers;
use crate::interp::threaded::operands::{FusedBranch, HelperOp};
use crate::interp::threaded::sequences::EmittedOp;

/// The instructions of a function that have been emitted.
#[derive(Default)]
pub(super) struct InstructionStream {
    pub instructions: Vec<ThreadedInstruction>,
    pub pcs: Vec<u32>,
    /// The op that the next instructions belong to.
    pub pc: u32,
    /// The carried register after the last instruction.
    pub carry: Option<CarriedRegister>,
    /// Index of the handler of the next fused branch in its `BranchHandlers`.
    pub branch_variant: usize,
    /// The op that is visited next.
    pub op: Option<Op>,
    /// The ops that handlers made of primitives execute.
    pub emitted: Vec<EmittedOp>,
    /// How many of them are of blocks before this one.
    earlier: usize,
}

impl OpVisitor for InstructionStream {
    fn op<B: OpBody>(&mut self, operands: B::Operands, reads: &[CarriedRegister], result: Option<CarriedRegister>) {
        let carried = self.carried(reads);
        self.push_op(B::HANDLERS[carried], operands, carried, None);
        self.carry = result.or(self.carry);
    }

    fn test<B: TestBody>(&mut self, operands: B::Operands, reads: &[CarriedRegister]) {
        let (carried, variant) = (self.carried(reads), self.branch_variant);
        let handler = B::BRANCH_HANDLERS[carried][variant];
        self.push_op(handler, FusedBranch { delta: 0, operands }, carried, Some(variant));
    }
}

impl HelperVisitor for InstructionStream {
    fn helper<B: HelperBody>(&mut self, operands: B::Operands) {
        self.push(handlers::helper::<B>, HelperOp { pc: self.pc, operands });
        self.carry = None;
    }
}

impl CopiesVisitor for InstructionStream {
    fn copies<const N: usize>(&mut self, handler: Handler, operands: Copies<N>) {
        self.push(handler, operands);
    }
}

impl InstructionStream {
    /// Number of the operand that the carried register provides, counted from 1; 0 if none. Hundreds of types of ops
    /// share one copy.
    #[inline(never)]
    pub fn carried(&self, reads: &[CarriedRegister]) -> usize {
        let Some(carry) = self.carry else { return 0 };
        reads.iter().position(|read| carry.provides(*read)).map_or(0, |index| index + 1)
    }

    /// An instruction of the op that is visited.
    fn push_op<T: Copy>(&mut self, handler: Handler, operands: T, carried: usize, branch: Option<usize>) {
        let position = self.instructions.len();
        self.push(handler, operands);
        let end = self.instructions.len();
        self.emitted.extend(self.op.map(|op| EmittedOp { op, carried, branch, position, end }));
    }

    /// Gives the sequences among the ops of the block their handlers.
    pub fn fuse_sequences(&mut self) {
        for (position, handler) in find_sequences(&self.emitted[self.earlier..]) {
            self.instructions[position].handler = MaybeUninit::new(address_of(handler));
        }
        self.earlier = self.emitted.len();
    }

    pub fn push<T: Copy>(&mut self, handler: Handler, operands: T) {
        let position = self.extend(handler, instructions_of::<T>());
        self.write(position, operands);
    }

    /// Appends an instruction whose operands take it to `count` elements, and returns its position. Hundreds of types
    /// of operands share one copy.
    #[inline(never)]
    fn extend(&mut self, handler: Handler, count: usize) -> usize {
        let position = self.instructions.len();
        self.instructions.push(ThreadedInstruction::of(address_of(handler)));
        self.instructions.resize(position + count, ThreadedInstruction::EMPTY);
        self.pcs.resize(self.instructions.len(), self.pc);
        position
    }

    pub fn write<T: Copy>(&mut self, position: usize, operands: T) {
        debug_assert!(position + instructions_of::<T>() <= self.instructions.len());
        let instruction = self.instructions.as_mut_ptr().wrapping_add(position);
        // SAFETY: the elements that operands of this type take exist, and are aligned for them.
        unsafe { operands_of::<T>(instruction).cast_mut().write(operands) };
    }
}
