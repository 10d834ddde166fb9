//! Properties of the handler of an op: whether it works on any frame, the names of its operands, and how it ends.
//! [`super::interp`], which emits handlers and the loop dispatcher, and [`super::threaded`] use them.

use proc_macro2::Ident;

use crate::emit::operand::operands;
use crate::model::vm::{Body, Op};

/// How a handler ends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// It cannot fail.
    Plain,
    /// It can fail.
    Fallible,
    /// It directs control.
    Flow,
}

/// How the handler of `op` ends.
pub(super) fn ending(op: &Op) -> Ending {
    match &op.body {
        Body::Control(_) if op.result().is_none() => Ending::Flow,
        Body::Control(_) | Body::Helper(_) => Ending::Fallible,
        Body::Semantics(_) if op.properties.can_trap => Ending::Fallible,
        Body::Semantics(_) | Body::Structure(_) => Ending::Plain,
    }
}

/// The names of the operands of an op as it is decoded, in their order.
pub(super) fn names(op: &Op) -> Vec<Ident> {
    operands(op).into_iter().map(|operand| operand.name).collect()
}
