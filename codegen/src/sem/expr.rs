//! Typed expressions: the tree that `infer` makes of a `semantics` text and emitters walk, and the properties that
//! follow from it.

use super::primitive::{Effect, Lowering, Primitive};
use super::types::{Scalar, Ty};

/// A typed expression.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    /// The type of its value.
    pub ty: Ty,
    /// The kind of expression.
    pub kind: ExprKind,
}

/// The forms of an expression.
#[derive(Clone, Debug, PartialEq)]
pub enum ExprKind {
    /// The operand of this name.
    Operand(String),
    /// The bits of an integer literal, extended with their sign if it has one.
    Int(i64),
    /// The bits of a float literal; for an `f32` the low 32 of them.
    Float(u64),
    /// A primitive on its operands, receiver first.
    Call {
        /// Which one.
        primitive: Primitive,
        /// The type of `N`, `L`, `F` or `T` of its signature in this use.
        of: Option<Scalar>,
        /// The operands, already of the types of the signature.
        args: Vec<Expr>,
    },
    /// A truth value as 0 or 1; `ty` is `i32`.
    BoolToI32(Box<Expr>),
}

impl Expr {
    /// Calls `visit` for every primitive in the order of evaluation.
    pub fn for_each_primitive(&self, visit: &mut impl FnMut(&Primitive)) {
        match &self.kind {
            ExprKind::Operand(_) | ExprKind::Int(_) | ExprKind::Float(_) => {}
            ExprKind::BoolToI32(inner) => inner.for_each_primitive(visit),
            ExprKind::Call { primitive, args, .. } => {
                for arg in args {
                    arg.for_each_primitive(visit);
                }
                visit(primitive);
            }
        }
    }

    /// Calls `visit` for every operand that is read.
    pub fn for_each_operand(&self, visit: &mut impl FnMut(&str)) {
        match &self.kind {
            ExprKind::Operand(name) => visit(name),
            ExprKind::Int(_) | ExprKind::Float(_) => {}
            ExprKind::BoolToI32(inner) => inner.for_each_operand(visit),
            ExprKind::Call { args, .. } => args.iter().for_each(|arg| arg.for_each_operand(visit)),
        }
    }

    /// True if it reads the operand `name`.
    pub fn reads(&self, name: &str) -> bool {
        let mut found = false;
        self.for_each_operand(&mut |operand| found |= operand == name);
        found
    }
}

/// The effects of an op besides writing its result, inferred from its body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Properties {
    /// It may stop the invocation with an error.
    pub can_trap: bool,
    /// It reads buffers, lists or globals.
    pub reads_memory: bool,
    /// It writes buffers, lists or globals.
    pub writes_memory: bool,
    /// It looks at, copies or releases references.
    pub touches_refs: bool,
    /// It runs code that is not inline: a helper, a library function or another VM function.
    pub calls: bool,
    /// The invocation may be suspended in it.
    pub yields: bool,
}

impl Properties {
    /// The properties of an expression.
    pub fn of_expr(expr: &Expr) -> Self {
        let mut properties = Self::default();
        expr.for_each_primitive(&mut |primitive| {
            let effect = primitive.effect();
            properties.can_trap |= effect.traps();
            properties.calls |= primitive.lowering() == Lowering::Call;
            properties.touches_refs |= matches!(effect, Effect::Refs | Effect::Load | Effect::Store);
            properties.reads_memory |= effect.reads();
            properties.writes_memory |= effect.writes();
        });
        properties
    }
}
