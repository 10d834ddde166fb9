//! Calls of imports in the code of functions.

use crate::bytecode::{CallId, Marshal, RodataId};
use crate::interp::frame::descriptor::BoundFunction;

/// The function an import is bound to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImportTarget {
    /// Index of the module in the module list.
    pub module: usize,
    /// Ordinal of the function: in the function table of a bytecode module, in the exports of a native one.
    pub function: usize,
}

/// A call of an import that is bound, computed when the code is built.
pub(in crate::interp) struct ImportSite {
    /// The function that makes the call.
    pub caller: BoundFunction,
    /// The op.
    pub pc: u32,
    /// Its operands and results.
    pub call: CallId,
    /// The function that it calls.
    pub target: ImportTarget,
    /// How the arguments and results of a native function are passed.
    pub marshal: Marshal,
    /// Which references among the arguments were loaded by `const.ref.rodata` for this call alone, by position.
    pub rodata: Box<[(u16, RodataId)]>,
}
