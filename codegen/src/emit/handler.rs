//! Properties of the handler of an op: whether it works on any frame, the names of its operands, and how it ends. [`super::interp`], which
//! emits handlers and the loop dispatcher, and [`super::threaded`] use them.

use proc_macro2::Ident;

use crate::emit::operand::{is_ref, operands};
use crate::model::vm::{Body, Field, FieldKind, Op, Type};

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

/// Whether the handler works on any `Frame`: register lists belong to the function, which only the machine knows.
pub(super) fn is_portable(op: &Op) -> bool {
    let known = |field: &Field| !matches!(field.kind, FieldKind::Regs) && !matches!(field.ty, Some(Type::List));
    matches!(op.body, Body::Semantics(_)) && op.fields.iter().all(known)
}

/// Whether a field is a register that is read as a value.
pub(super) fn is_value(field: &Field) -> bool {
    field.kind == FieldKind::Reg && !is_ref(field)
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
