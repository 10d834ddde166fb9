//! Parses one `semantics` text and gives every part of it a type.
//!
//! Types flow up from the fields; a literal, and a result type that no operand fixes, take theirs from the context.

use std::cell::RefCell;

use super::expr::{Expr, ExprKind};
use super::language::{Language, resolve};
use super::primitive::Primitive;
use super::syntax::{self, Call, Form, Syntax};
use super::types::{Scalar, Sig, Ty};
use super::vocabulary::Vocabulary;
use crate::diag::{Diagnostics, Origin, did_you_mean};

/// A mistake in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The byte of the text where it is.
    pub at: usize,
    /// A sentence without a place.
    pub message: String,
    /// The primitive that is not there, if that is the error.
    pub missing: Option<String>,
}

impl Refusal {
    /// Adds it to `diagnostics`, with the place of the byte.
    pub(crate) fn report(self, place: (Origin, usize), diagnostics: &mut Diagnostics) {
        match self.missing {
            Some(name) => diagnostics.unknown_at(place, &name, self.message),
            None => diagnostics.error_at(place, self.message),
        }
    }
}

/// Parses `text`, which calls primitives of `vocabulary`, types it with `operands` (name and type of each one that can
/// be read) and converts it to `result`.
///
/// # Errors
/// All that is wrong, or the first thing that is no syntax.
pub fn type_semantics(
    text: &str,
    vocabulary: &Vocabulary,
    language: &Language,
    operands: &[(&str, Ty)],
    result: Ty,
) -> Result<Expr, Vec<Refusal>> {
    let parsed = syntax::parse(text)
        .map_err(|mistake| vec![Refusal { at: mistake.at, message: mistake.message, missing: None }])?;
    let typer = Typer { vocabulary, language, operands, refusals: RefCell::default() };
    let typed = typer.expr(&parsed, Some(result));
    let typed = typed.and_then(|expr| typer.convert(expr, result, parsed.at, "the value"));
    match (typed, typer.refusals.into_inner()) {
        (Some(expr), refusals) if refusals.is_empty() => Ok(expr),
        (_, refusals) => Err(refusals),
    }
}

struct Typer<'a> {
    vocabulary: &'a Vocabulary,
    language: &'a Language,
    operands: &'a [(&'a str, Ty)],
    refusals: RefCell<Vec<Refusal>>,
}

impl Typer<'_> {
    /// The typed expression; nothing if a refusal was recorded without which its type is not known.
    fn expr(&self, expr: &Syntax, expected: Option<Ty>) -> Option<Expr> {
        match &expr.form {
            Form::Name(name) => self.operand(name, expr.at),
            Form::Number(negative, literal) => number(literal, *negative, expected, self.language)
                .map_err(|message| self.refuse(expr.at, message))
                .ok(),
            Form::Call(call) => self.call(call, expected),
        }
    }

    fn refuse(&self, at: usize, message: String) {
        self.refusals.borrow_mut().push(Refusal { at, message, missing: None });
    }

    fn operand(&self, name: &str, at: usize) -> Option<Expr> {
        if let Some((_, ty)) = self.operands.iter().find(|(operand, _)| *operand == name) {
            return Some(Expr { ty: *ty, kind: ExprKind::Operand(name.to_string()) });
        }
        let known: Vec<_> = self.operands.iter().map(|(operand, _)| *operand).collect();
        let meant = did_you_mean(name, known.iter().copied());
        self.refuse(at, format!("unknown operand `{name}`: expected one of {}{meant}", known.join(" ")));
        None
    }

    /// The primitive of a call, or a refusal.
    fn primitive(&self, call: &Call) -> Option<&Primitive> {
        let Call { name, name_at, operands, .. } = call;
        match self.vocabulary.written(name).as_slice() {
            [] => {
                let known = self.vocabulary.iter().map(|primitive| primitive.written());
                let message = format!("unknown primitive `{name}`{}", did_you_mean(name, known));
                let missing = Some(name.clone());
                self.refusals.borrow_mut().push(Refusal { at: *name_at, message, missing });
                None
            }
            [only] => Some(*only),
            several => {
                // Only the receiver tells them apart, and it is typed once more as an operand.
                let before = self.refusals.borrow().len();
                let receiver = self.expr(&operands[0], None);
                self.refusals.borrow_mut().truncate(before);
                let receiver = receiver?;
                let fits = several.iter().find(|primitive| primitive.params()[0] == Sig::Is(receiver.ty));
                if fits.is_none() {
                    let message = format!("`{name}` takes a global or i32 as its receiver, not {}", receiver.ty);
                    self.refuse(operands[0].at, message);
                }
                fits.copied()
            }
        }
    }

    fn call(&self, call: &Call, expected: Option<Ty>) -> Option<Expr> {
        let Call { name, name_at, operands, question } = call;
        let Some(primitive) = self.primitive(call) else { return self.operands_of_unknown(operands) };
        match (primitive.effect().traps(), question) {
            (true, None) => self.refuse(*name_at, format!("`{name}` can trap: write `?` after it")),
            (false, Some(at)) => self.refuse(*at, format!("`{name}` cannot trap: remove the `?`")),
            _ => {}
        }
        let (given, taken) = (operands.len(), primitive.params().len());
        if given != taken {
            self.refuse(*name_at, format!("`{name}` takes {taken} operands, {given} are given"));
            return self.operands_of_unknown(operands);
        }

        // Literals wait until the other operands have fixed the type that the signature leaves open.
        let (mut of, mut is_wrong) = (None, false);
        let mut args: Vec<Option<Expr>> = vec![None; operands.len()];
        for literals in [false, true] {
            if literals && of.is_none() {
                of = self.open_type(primitive.result(), expected);
            }
            for (index, (source, sig)) in operands.iter().zip(primitive.params()).enumerate() {
                let wanted = resolve(*sig, of);
                // Another operand would have fixed the type of this literal, and its mistake was told.
                if is_literal(source) != literals || literals && is_wrong && wanted.is_none() {
                    continue;
                }
                args[index] = self.expr(source, wanted).and_then(|arg| {
                    if wanted.is_none() {
                        of = self.language.fix(*sig, arg.ty);
                        if of.is_none() {
                            let (expected, ty) = (self.language.describe(*sig), arg.ty);
                            let message = format!("operand {} of `{name}` is {ty}, expected {expected}", index + 1);
                            self.refuse(source.at, message);
                            return None;
                        }
                    }
                    let wanted = resolve(*sig, of).unwrap_or(arg.ty);
                    self.convert(arg, wanted, source.at, &format!("operand {} of `{name}`", index + 1))
                });
                is_wrong |= args[index].is_none();
            }
        }
        if of.is_none() {
            of = self.open_type(primitive.result(), expected);
        }
        let ty = resolve(primitive.result(), of);
        if ty.is_none() && !is_wrong {
            self.refuse(*name_at, format!("the result type of `{name}` is not fixed by its context"));
        }
        // With a wrong operand the type may be known all the same, so that what is around it is checked.
        let args = args.into_iter().flatten().collect();
        Some(Expr { ty: ty?, kind: ExprKind::Call { primitive: primitive.clone(), of, args } })
    }

    /// Finds the mistakes in operands whose types nothing fixes.
    fn operands_of_unknown(&self, operands: &[Syntax]) -> Option<Expr> {
        operands.iter().filter(|operand| !is_literal(operand)).for_each(|operand| {
            self.expr(operand, None);
        });
        None
    }

    /// The open type that the context of a result fixes.
    fn open_type(&self, result: Sig, expected: Option<Ty>) -> Option<Scalar> {
        match result {
            Sig::Is(_) | Sig::RegsT => None,
            open => self.language.fix(open, expected?),
        }
    }

    /// `expr` as a value of `wanted`: a condition is any `i32`, a truth value is 0 or 1, a buffer or list is a
    /// reference.
    fn convert(&self, expr: Expr, wanted: Ty, at: usize, what: &str) -> Option<Expr> {
        match (expr.ty, wanted, self.vocabulary.truth().filter(|_| self.language.converts_truths)) {
            (have, wanted, _) if have == wanted => Some(expr),
            (Ty::I32, Ty::Bool, Some(truth)) => {
                let kind = ExprKind::Call { primitive: truth.clone(), of: Some(Scalar::I32), args: vec![expr] };
                Some(Expr { ty: Ty::Bool, kind })
            }
            (Ty::Bool, Ty::I32, Some(_)) => Some(Expr { ty: Ty::I32, kind: ExprKind::BoolToI32(Box::new(expr)) }),
            (Ty::Buffer | Ty::List, Ty::Ref, _) => Some(Expr { ty: Ty::Ref, ..expr }),
            (have, wanted, _) => {
                self.refuse(at, format!("{what} is {have}, expected {wanted}"));
                None
            }
        }
    }
}

fn is_literal(expr: &Syntax) -> bool {
    matches!(expr.form, Form::Number(..))
}

fn number(literal: &syn::Lit, negative: bool, expected: Option<Ty>, language: &Language) -> Result<Expr, String> {
    let ty = expected.ok_or("the type of a literal is not fixed by its context")?;
    let sign = if negative { "-" } else { "" };
    let bad = || format!("this literal is not a value of type {ty}");
    let kind = match (literal, ty) {
        (syn::Lit::Int(int), Ty::I16 | Ty::I32 | Ty::I64) if int.suffix().is_empty() => {
            let bits = 8 * ty.scalar().map_or(8, Scalar::size);
            let (least, most) = match language.unsigned {
                true => (0, (1i128 << bits) - 1),
                false => (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1),
            };
            let value: Option<i128> = format!("{sign}{}", int.base10_digits()).parse().ok();
            let value = value.filter(|value| (least..=most).contains(value));
            ExprKind::Int(value.ok_or_else(|| format!("{}: expected {least} to {most}", bad()))? as i64)
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
