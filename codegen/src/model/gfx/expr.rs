//! Lane expressions: `semantics` of instructions, method calls of primitives on operands, as of the VM's ops.

use super::types::{LaneTy, Primitive, Sig};
use crate::diag::did_you_mean;
use crate::sem::syntax::{self, Call, Form, Mistake, Syntax};

/// A typed expression.
#[derive(Clone, Debug, PartialEq)]
pub struct LaneExpr {
    /// The type of its value.
    pub ty: LaneTy,
    /// The kind of the expression.
    pub kind: LaneKind,
}

/// The forms of an expression.
#[derive(Clone, Debug, PartialEq)]
pub enum LaneKind {
    /// An operand.
    Operand(String),
    /// An integer.
    Number(u64),
    /// A primitive on its operands, receiver first.
    Call(String, Vec<LaneExpr>),
}

impl LaneExpr {
    /// Parses and types `text`, whose value has the type `result`.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn parse(
        text: &str,
        operands: &[(&str, LaneTy)],
        primitives: &[Primitive],
        result: LaneTy,
    ) -> Result<Self, Mistake> {
        let parsed = syntax::parse(text)?;
        let expr = Typer { operands, primitives }.expr(&parsed, Some(result))?;
        if expr.ty != result {
            let message = format!("the value is {}, expected {}", expr.ty.name(), result.name());
            return Err(Mistake { at: parsed.at, message });
        }
        Ok(expr)
    }

    /// True if it reads the operand `name`.
    pub fn reads(&self, name: &str) -> bool {
        match &self.kind {
            LaneKind::Operand(operand) => operand == name,
            LaneKind::Number(_) => false,
            LaneKind::Call(_, args) => args.iter().any(|arg| arg.reads(name)),
        }
    }
}

struct Typer<'a> {
    operands: &'a [(&'a str, LaneTy)],
    primitives: &'a [Primitive],
}

impl Typer<'_> {
    fn expr(&self, expr: &Syntax, expected: Option<LaneTy>) -> Result<LaneExpr, Mistake> {
        let fail = |message: String| Mistake { at: expr.at, message };
        match &expr.form {
            Form::Name(name) => {
                let found = self.operands.iter().find(|(operand, _)| operand == name);
                let (_, ty) = found.ok_or_else(|| {
                    let meant = did_you_mean(name, self.operands.iter().map(|(operand, _)| *operand));
                    fail(format!("unknown operand `{name}`{meant}"))
                })?;
                Ok(LaneExpr { ty: *ty, kind: LaneKind::Operand(name.clone()) })
            }
            Form::Number(false, syn::Lit::Int(number)) => {
                let value = number.base10_parse().map_err(|_| fail("the number does not fit 64 bits".to_string()))?;
                let ty = expected.filter(|ty| Sig::N.allows(*ty));
                Ok(LaneExpr { ty: ty.unwrap_or(LaneTy::B32), kind: LaneKind::Number(value) })
            }
            Form::Number(..) => Err(fail("expected an integer without a sign".to_string())),
            Form::Call(call) => self.call(call),
        }
    }

    fn call(&self, call: &Call) -> Result<LaneExpr, Mistake> {
        let Call { name, name_at, operands, question } = call;
        let fail = |message: String| Mistake { at: *name_at, message };
        let primitive = self.primitives.iter().find(|primitive| primitive.name == *name).ok_or_else(|| {
            let meant = did_you_mean(name, self.primitives.iter().map(|primitive| primitive.name.as_str()));
            fail(format!("unknown primitive `{name}`{meant}"))
        })?;
        if let Some(at) = question {
            return Err(Mistake { at: *at, message: "nothing traps here: remove the `?`".to_string() });
        }
        if operands.len() != primitive.params.len() {
            let (taken, given) = (primitive.params.len(), operands.len());
            return Err(fail(format!("`{name}` takes {taken} operands, {given} are given")));
        }
        let (mut open, mut args) = (None, Vec::new());
        for (index, (source, sig)) in operands.iter().zip(&primitive.params).enumerate() {
            let wanted = match sig {
                Sig::Is(ty) => Some(*ty),
                _ => open,
            };
            let arg = self.expr(source, wanted)?;
            if !sig.allows(arg.ty) || wanted.is_some_and(|wanted| wanted != arg.ty) {
                let message = format!("operand {} of `{name}` cannot be {}", index + 1, arg.ty.name());
                return Err(Mistake { at: source.at, message });
            }
            if !matches!(sig, Sig::Is(_)) {
                open = Some(arg.ty);
            }
            args.push(arg);
        }
        let ty = match primitive.result {
            Sig::Is(ty) => ty,
            _ => open.ok_or_else(|| fail(format!("the type of `{name}` is not known")))?,
        };
        Ok(LaneExpr { ty, kind: LaneKind::Call(name.clone(), args) })
    }
}
