//! Parses one `semantics` text and gives every part of it a type.
//!
//! Types flow up from the fields; a literal, and a result type that no operand fixes, take theirs from the context.

use std::cell::RefCell;

use quote::ToTokens;

use super::expr::{Expr, ExprKind};
use super::types::{Scalar, Sig, Ty};
use super::vocabulary::Vocabulary;
use crate::diag::did_you_mean;

/// A mistake in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// A sentence without a place.
    pub message: String,
    /// The primitive that is not there, if that is the error.
    pub missing: Option<String>,
}

/// Parses `text`, which calls primitives of `vocabulary`, types it with `fields` (name and type of each readable field) and converts it to
/// `result`.
///
/// # Errors
/// The first thing that is wrong.
pub fn type_semantics(text: &str, vocabulary: &Vocabulary, fields: &[(&str, Ty)], result: Ty) -> Result<Expr, Refusal> {
    let typer = Typer { vocabulary, fields, missing: RefCell::default() };
    let typed = syn::parse_str(text)
        .map_err(|error| format!("`{text}` does not parse: {error}"))
        .and_then(|parsed| typer.expr(&parsed, Some(result)))
        .and_then(|expr| typer.convert(expr, result, "the value"));
    typed.map_err(|message| Refusal { message, missing: typer.missing.take() })
}

struct Typer<'a> {
    vocabulary: &'a Vocabulary,
    fields: &'a [(&'a str, Ty)],
    missing: RefCell<Option<String>>,
}

impl Typer<'_> {
    fn expr(&self, expr: &syn::Expr, expected: Option<Ty>) -> Result<Expr, String> {
        match expr {
            syn::Expr::Path(path) => self.field(path),
            syn::Expr::Lit(literal) => number(&literal.lit, false, expected),
            syn::Expr::Unary(unary) if matches!(unary.op, syn::UnOp::Neg(_)) => match &*unary.expr {
                syn::Expr::Lit(literal) => number(&literal.lit, true, expected),
                _ => Err(refused("the operator `-`")),
            },
            syn::Expr::MethodCall(call) => self.call(call, false, expected),
            syn::Expr::Try(question) => match &*question.expr {
                syn::Expr::MethodCall(call) => self.call(call, true, expected),
                _ => Err("`?` stands after something that is not a primitive".to_string()),
            },
            syn::Expr::Paren(inner) => self.expr(&inner.expr, expected),
            other => Err(refused(form_of(other))),
        }
    }

    fn field(&self, path: &syn::ExprPath) -> Result<Expr, String> {
        let name = path.path.get_ident().map(ToString::to_string).ok_or_else(|| refused("a path"))?;
        match self.fields.iter().find(|(field, _)| *field == name) {
            Some((_, ty)) => Ok(Expr { ty: *ty, kind: ExprKind::Field(name) }),
            None => {
                let known: Vec<_> = self.fields.iter().map(|(field, _)| *field).collect();
                let meant = did_you_mean(&name, known.iter().copied());
                Err(format!("unknown field `{name}`: the encoding has {}{meant}", known.join(" ")))
            }
        }
    }

    fn call(&self, call: &syn::ExprMethodCall, question: bool, expected: Option<Ty>) -> Result<Expr, String> {
        let name = call.method.to_string();
        if call.turbofish.is_some() {
            return Err(refused("a turbofish"));
        }
        let primitive = match self.vocabulary.written(&name).as_slice() {
            [] => {
                *self.missing.borrow_mut() = Some(name.clone());
                let known = self.vocabulary.iter().map(|primitive| primitive.written());
                return Err(format!("unknown primitive `{name}`{}", did_you_mean(&name, known)));
            }
            [only] => *only,
            several => {
                let receiver = self.expr(&call.receiver, None)?;
                let fits = several.iter().find(|primitive| primitive.params()[0] == Sig::Is(receiver.ty));
                *fits.ok_or_else(|| format!("`{name}` takes a global or i32 as its receiver, not {}", receiver.ty))?
            }
        };
        let (given, taken) = (1 + call.args.len(), primitive.params().len());
        if given != taken {
            return Err(format!("`{name}` takes {taken} operands, {given} are given"));
        }
        match (primitive.effect().traps(), question) {
            (true, false) => return Err(format!("`{name}` can trap: write `?` after it")),
            (false, true) => return Err(format!("`{name}` cannot trap: remove the `?`")),
            _ => {}
        }

        // Literals wait until the other operands have fixed the type that the signature leaves open.
        let sources: Vec<&syn::Expr> = std::iter::once(&*call.receiver).chain(&call.args).collect();
        let mut of = None;
        let mut args: Vec<Option<Expr>> = vec![None; sources.len()];
        for literals in [false, true] {
            if literals && of.is_none() {
                of = open_type(primitive.result(), expected);
            }
            for (index, (source, sig)) in sources.iter().zip(primitive.params()).enumerate() {
                if is_literal(source) != literals {
                    continue;
                }
                let wanted = resolve(*sig, of);
                let arg = self.expr(source, wanted)?;
                if wanted.is_none() {
                    of = Some(fix(*sig, arg.ty).ok_or_else(|| {
                        format!("operand {} of `{name}` is {}, expected {}", index + 1, arg.ty, describe(*sig))
                    })?);
                }
                let wanted = resolve(*sig, of).unwrap_or(arg.ty);
                args[index] = Some(self.convert(arg, wanted, &format!("operand {} of `{name}`", index + 1))?);
            }
        }
        if of.is_none() {
            of = open_type(primitive.result(), expected);
        }
        let ty = resolve(primitive.result(), of)
            .ok_or_else(|| format!("the result type of `{name}` is not fixed by its context"))?;
        let args = args.into_iter().flatten().collect();
        Ok(Expr { ty, kind: ExprKind::Call { primitive: primitive.clone(), of, args } })
    }

    /// `expr` as a value of `wanted`: a condition is any `i32`, a truth value is 0 or 1, a buffer or list is a reference.
    fn convert(&self, expr: Expr, wanted: Ty, what: &str) -> Result<Expr, String> {
        match (expr.ty, wanted, self.vocabulary.truth()) {
            (have, wanted, _) if have == wanted => Ok(expr),
            (Ty::I32, Ty::Bool, Some(truth)) => {
                let kind = ExprKind::Call { primitive: truth.clone(), of: Some(Scalar::I32), args: vec![expr] };
                Ok(Expr { ty: Ty::Bool, kind })
            }
            (Ty::Bool, Ty::I32, _) => Ok(Expr { ty: Ty::I32, kind: ExprKind::BoolToI32(Box::new(expr)) }),
            (Ty::Buffer | Ty::List, Ty::Ref, _) => Ok(Expr { ty: Ty::Ref, ..expr }),
            (have, wanted, _) => Err(format!("{what} is {have}, expected {wanted}")),
        }
    }
}

/// The type that a signature's parameter has, once the open type is known.
fn resolve(sig: Sig, of: Option<Scalar>) -> Option<Ty> {
    match sig {
        Sig::Is(ty) => Some(ty),
        Sig::N | Sig::F | Sig::T => of.map(Scalar::ty),
        Sig::RegsT => of.map(Ty::Regs),
        Sig::BitsOfF => match of? {
            Scalar::F32 => Some(Ty::I32),
            Scalar::F64 => Some(Ty::I64),
            Scalar::I32 | Scalar::I64 => None,
        },
    }
}

/// The open type that an operand of type `ty` at `sig` fixes.
fn fix(sig: Sig, ty: Ty) -> Option<Scalar> {
    match (sig, ty) {
        (Sig::N, Ty::I32) | (Sig::T, Ty::I32) => Some(Scalar::I32),
        (Sig::N, Ty::I64) | (Sig::T, Ty::I64) => Some(Scalar::I64),
        (Sig::F, Ty::F32) | (Sig::T, Ty::F32) | (Sig::BitsOfF, Ty::I32) => Some(Scalar::F32),
        (Sig::F, Ty::F64) | (Sig::T, Ty::F64) | (Sig::BitsOfF, Ty::I64) => Some(Scalar::F64),
        (Sig::RegsT, Ty::Regs(scalar)) => Some(scalar),
        _ => None,
    }
}

/// The open type that the context of a result fixes.
fn open_type(result: Sig, expected: Option<Ty>) -> Option<Scalar> {
    match result {
        Sig::N | Sig::F | Sig::T | Sig::BitsOfF => fix(result, expected?),
        Sig::Is(_) | Sig::RegsT => None,
    }
}

fn is_literal(expr: &syn::Expr) -> bool {
    match expr {
        syn::Expr::Lit(_) => true,
        syn::Expr::Unary(unary) => is_literal(&unary.expr),
        syn::Expr::Paren(inner) => is_literal(&inner.expr),
        _ => false,
    }
}

fn number(literal: &syn::Lit, negative: bool, expected: Option<Ty>) -> Result<Expr, String> {
    let ty = expected.ok_or("the type of a literal is not fixed by its context")?;
    let sign = if negative { "-" } else { "" };
    let bad = || format!("this literal is not a value of type {ty}");
    let kind = match (literal, ty) {
        (syn::Lit::Int(int), Ty::I32 | Ty::I64) if int.suffix().is_empty() => {
            let value: i128 = format!("{sign}{}", int.base10_digits()).parse().map_err(|_| bad())?;
            let value = match ty {
                Ty::I32 => i32::try_from(value).map(i64::from).map_err(|_| bad())?,
                _ => i64::try_from(value).map_err(|_| bad())?,
            };
            ExprKind::Int(value)
        }
        (syn::Lit::Int(_) | syn::Lit::Float(_), Ty::F32 | Ty::F64) => {
            let digits = match literal {
                syn::Lit::Int(int) if int.suffix().is_empty() => int.base10_digits(),
                syn::Lit::Float(float) if float.suffix().is_empty() => float.base10_digits(),
                _ => return Err(bad()),
            };
            let text = format!("{sign}{digits}");
            ExprKind::Float(match ty {
                Ty::F32 => u64::from(text.parse::<f32>().map_err(|_| bad())?.to_bits()),
                _ => text.parse::<f64>().map_err(|_| bad())?.to_bits(),
            })
        }
        _ => return Err(bad()),
    };
    Ok(Expr { ty, kind })
}

fn describe(sig: Sig) -> String {
    match sig {
        Sig::Is(ty) => ty.to_string(),
        Sig::N => "i32 or i64".to_string(),
        Sig::F => "f32 or f64".to_string(),
        Sig::T => "i32, i64, f32 or f64".to_string(),
        Sig::RegsT => "a register list".to_string(),
        Sig::BitsOfF => "i32 or i64".to_string(),
    }
}

fn refused(what: impl std::fmt::Display) -> String {
    format!("{what} is not allowed: semantics are method calls of primitives only")
}

fn form_of(expr: &syn::Expr) -> String {
    let name = match expr {
        syn::Expr::Binary(binary) => return format!("the operator `{}`", binary.op.to_token_stream()),
        syn::Expr::Unary(_) => "a unary operator",
        syn::Expr::If(_) => "`if`",
        syn::Expr::Match(_) => "`match`",
        syn::Expr::Cast(_) => "`as`",
        syn::Expr::Closure(_) => "a closure",
        syn::Expr::Let(_) => "`let`",
        syn::Expr::Block(_) => "a block",
        syn::Expr::Call(_) => "a function call",
        syn::Expr::Macro(_) => "a macro",
        syn::Expr::Index(_) => "indexing",
        syn::Expr::Field(_) => "field access",
        syn::Expr::Reference(_) => "`&`",
        syn::Expr::Tuple(_) => "a tuple",
        _ => "this expression",
    };
    name.to_string()
}
