//! The bodies of ops, as types that the generic handlers are instantiated with, and visitors of ops. The generated code
//! implements the former and calls the latter.

use super::handler::{BranchHandlers, Handler};
use crate::interp::frame::Frame;
use crate::interp::frame::carried_register::CarriedRegister;
use crate::interp::machine::Machine;
use crate::status::Result;

/// The body of an op that is made of primitives, as a type that the generic handler is instantiated with. Generated for
/// each op.
pub trait OpBody {
    /// The operands of the decoded op; references are [`RefReg::frame_relative`].
    type Operands: Copy;
    /// The handler that reads all operands from slots, then for each value operand the handler that takes that one from
    /// the carry.
    const HANDLERS: &'static [Handler];

    /// Executes the op. Value operand number `CARRIED`, counted from 1, is the carry; 0 is none.
    ///
    /// # Errors
    /// The trap of a primitive. Nothing has been changed then.
    fn run<F: Frame, const CARRIED: usize>(frame: &mut F, operands: &Self::Operands) -> Result<(), F::Error>;
}

/// The body of an op that a method of `Helpers` executes, as a type that the generic handler is instantiated with.
/// Generated for each op.
pub trait HelperBody {
    /// The operands of the decoded op.
    type Operands: Copy;

    /// Executes the op in the running frame. `Machine::pc` is the op.
    ///
    /// # Errors
    /// The trap of the op.
    fn run(cx: &mut Machine<'_>, operands: &Self::Operands) -> Result<()>;
}

/// A comparison that cannot fail, so that it can be fused with a conditional branch on its result.
pub trait TestBody: OpBody {
    /// The handlers of the fused comparison and branch, in the order of [`OpBody::HANDLERS`].
    const BRANCH_HANDLERS: &'static [BranchHandlers];
}

/// Visits the ops of a function that have handlers, each with the value registers that it reads and writes. The code
/// builder and the choice of carried registers are visitors; the generated `visit_op` calls them.
pub trait OpVisitor {
    /// Visits an op that is made of primitives.
    fn op<B: OpBody>(&mut self, operands: B::Operands, reads: &[CarriedRegister], result: Option<CarriedRegister>);

    /// Visits a comparison whose result only the branch after it reads.
    fn test<B: TestBody>(&mut self, operands: B::Operands, reads: &[CarriedRegister]);
}

/// Visits the ops of a function that helpers execute; the generated `visit_helper` calls it.
pub trait HelperVisitor {
    /// Visits an op that a helper executes.
    fn helper<B: HelperBody>(&mut self, operands: B::Operands);
}
