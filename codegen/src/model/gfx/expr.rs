//! Lane expressions: `semantics` of instructions, method calls of primitives on operands, as of the VM's ops.

use super::types::{LaneTy, Primitive, Sig};
use crate::diag::did_you_mean;

/// A typed expression.
#[derive(Clone, Debug, PartialEq)]
pub struct LaneExpr {
    /// The type of its value.
    pub ty: LaneTy,
    /// What it is.
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
    ) -> Result<Self, String> {
        let parsed = syn::parse_str(text).map_err(|error| format!("`{text}` does not parse: {error}"))?;
        let expr = Typer { operands, primitives }.expr(&parsed, Some(result))?;
        if expr.ty != result {
            return Err(format!("the value is {}, expected {}", expr.ty.name(), result.name()));
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
    fn expr(&self, expr: &syn::Expr, expected: Option<LaneTy>) -> Result<LaneExpr, String> {
        match expr {
            syn::Expr::Path(path) => {
                let name = path.path.get_ident().map(ToString::to_string).unwrap_or_default();
                let found = self.operands.iter().find(|(operand, _)| *operand == name);
                let (_, ty) = found.ok_or_else(|| {
                    let meant = did_you_mean(&name, self.operands.iter().map(|(operand, _)| *operand));
                    format!("unknown operand `{name}`{meant}")
                })?;
                Ok(LaneExpr { ty: *ty, kind: LaneKind::Operand(name) })
            }
            syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Int(number), .. }) => {
                let value = number.base10_parse().map_err(|error| error.to_string())?;
                let ty = expected.filter(|ty| Sig::N.allows(*ty));
                Ok(LaneExpr { ty: ty.unwrap_or(LaneTy::B32), kind: LaneKind::Number(value) })
            }
            syn::Expr::MethodCall(call) => self.call(call),
            _ => Err("semantics are method calls of primitives only".to_string()),
        }
    }

    fn call(&self, call: &syn::ExprMethodCall) -> Result<LaneExpr, String> {
        let name = call.method.to_string();
        let primitive = self.primitives.iter().find(|primitive| primitive.name == name).ok_or_else(|| {
            let meant = did_you_mean(&name, self.primitives.iter().map(|primitive| primitive.name.as_str()));
            format!("unknown primitive `{name}`{meant}")
        })?;
        let sources: Vec<&syn::Expr> = std::iter::once(&*call.receiver).chain(&call.args).collect();
        if sources.len() != primitive.params.len() {
            let (taken, given) = (primitive.params.len(), sources.len());
            return Err(format!("`{name}` takes {taken} operands, {given} are given"));
        }
        let (mut open, mut args) = (None, Vec::new());
        for (index, (source, sig)) in sources.into_iter().zip(&primitive.params).enumerate() {
            let wanted = match sig {
                Sig::Is(ty) => Some(*ty),
                _ => open,
            };
            let arg = self.expr(source, wanted)?;
            if !sig.allows(arg.ty) || wanted.is_some_and(|wanted| wanted != arg.ty) {
                return Err(format!("operand {} of `{name}` cannot be {}", index + 1, arg.ty.name()));
            }
            if !matches!(sig, Sig::Is(_)) {
                open = Some(arg.ty);
            }
            args.push(arg);
        }
        let ty = match primitive.result {
            Sig::Is(ty) => ty,
            _ => open.ok_or_else(|| format!("the type of `{name}` is not known"))?,
        };
        Ok(LaneExpr { ty, kind: LaneKind::Call(name, args) })
    }
}
