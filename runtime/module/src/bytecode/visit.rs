//! [`OperandVisitor`]: a visitor of the operands of an op, in the order in which they are read and written. The
//! verifier, liveness and the JIT's analyses are visitors; the generated `visit_operands`, made from `spec/isa/vm`,
//! calls their methods.

use super::operands::{
    BlockId, CallId, CasesId, EdgeId, GlobalOffset, GlobalRef, ImportId, ListId, RefReg, Reg, RodataId, TypeId,
};
use crate::convention::Kind;

/// How a call is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallForm {
    /// With segment sizes; the callee is an import.
    pub variadic: bool,
    /// The callee may yield; execution goes on at a block.
    pub yieldable: bool,
}

/// Receives the operands of an op. Reads come before writes.
///
/// Most analyses ignore operands that are not in the frame, so those methods have an empty default. A method for a new
/// kind of operand should not have one, because the verifier must not miss it.
///
/// # Errors
/// A method that fails ends the visit with its error.
#[expect(
    clippy::missing_errors_doc,
    reason = "what an error means is the same for all methods, and each visitor has its own"
)]
pub trait OperandVisitor {
    /// The error that stops the visit.
    type Error;

    /// A value register is read.
    fn read(&mut self, reg: Reg, kind: Kind) -> Result<(), Self::Error>;
    /// A value register is written.
    fn write(&mut self, reg: Reg, kind: Kind) -> Result<(), Self::Error>;
    /// A reference register is read.
    fn read_ref(&mut self, reg: RefReg, movable: bool) -> Result<(), Self::Error>;
    /// A reference register is written.
    fn write_ref(&mut self, reg: RefReg) -> Result<(), Self::Error>;
    /// A list of registers of one kind is read.
    fn read_list(&mut self, list: ListId, kind: Kind, movable: bool) -> Result<(), Self::Error>;
    /// A list of registers of any kind is read.
    fn read_any(&mut self, list: ListId) -> Result<(), Self::Error>;
    /// The list of the registers that the function returns.
    fn return_values(&mut self, list: ListId) -> Result<(), Self::Error>;
    /// `width` bytes of value globals are accessed.
    fn global(&mut self, _offset: GlobalOffset, _width: u32) -> Result<(), Self::Error> {
        Ok(())
    }
    /// A ref global is accessed.
    fn global_ref(&mut self, _global: GlobalRef) -> Result<(), Self::Error> {
        Ok(())
    }
    /// A type is named.
    fn type_id(&mut self, _ty: TypeId) -> Result<(), Self::Error> {
        Ok(())
    }
    /// A rodata segment is named.
    fn rodata(&mut self, _rodata: RodataId) -> Result<(), Self::Error> {
        Ok(())
    }
    /// An import is named.
    fn import(&mut self, _import: ImportId) -> Result<(), Self::Error> {
        Ok(())
    }
    /// A branch that may be taken.
    fn edge(&mut self, edge: EdgeId) -> Result<(), Self::Error>;
    /// A branch without remap pairs that may be taken.
    fn target(&mut self, block: BlockId) -> Result<(), Self::Error>;
    /// The branches of a table, each of which may be taken.
    fn cases(&mut self, cases: CasesId) -> Result<(), Self::Error>;
    /// A call.
    fn call(&mut self, call: CallId, form: CallForm) -> Result<(), Self::Error>;
}
