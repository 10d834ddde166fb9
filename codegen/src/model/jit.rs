//! The model of `spec/jit/`: rewrites of nodes of the JIT's graph. A rewrite has a pattern, a primitive on variables
//! and constants, and the variable or constant that a node of this form is equal to.
//!
//! Patterns and replacements are written and typed as the `semantics` of ops are. What a rewrite claims is not checked
//! here: `emit/rewrite_tests` makes a test of it.

use std::collections::BTreeSet;

use serde::Deserialize;

use crate::diag::{Diagnostics, Origin};
use crate::entry::Entry;
use crate::model::vm::LANGUAGE;
use crate::sem::{self, Effect, Expr, ExprKind, Lowering, Primitive, Scalar, Ty, Vocabulary};

/// A rewrite.
#[derive(Clone, Debug)]
pub struct Rewrite {
    /// `add_zero`
    pub name: String,
    /// Its documentation.
    pub doc: String,
    /// The primitive of the pattern.
    pub primitive: Primitive,
    /// Its form for each type, in the order of the entry.
    pub forms: Vec<Form>,
    /// Where it is declared.
    pub origin: Origin,
}

/// A rewrite of one type.
#[derive(Clone, Debug)]
pub struct Form {
    /// The type that the primitive works on.
    pub of: Scalar,
    /// A call of the primitive.
    pub pattern: Expr,
    /// The operands of the pattern.
    pub operands: Vec<Operand>,
    /// An expression without a call.
    pub replacement: Expr,
    /// The operand that the node is equal to.
    pub replaced_by: Operand,
}

/// An operand of a pattern, or a replacement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operand {
    /// Any value; the same one wherever the name is.
    Variable(String),
    /// A constant with these bits.
    Constant(u64),
}

/// The variables of patterns: those of the type of the rewrite.
pub const VALUES: [&str; 3] = ["a", "b", "c"];

/// The variable that is a truth value.
pub const TRUTH: &str = "t";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRewrite {
    rewrite: String,
    types: Vec<String>,
    pattern: String,
    replacement: String,
    doc: String,
}

/// Reads the entries of all files below `spec/jit/`, in the order of their paths.
pub fn load(entries: &[Entry], primitives: &Vocabulary, diagnostics: &mut Diagnostics) -> Vec<Rewrite> {
    let mut all: Vec<Rewrite> = Vec::new();
    for entry in entries {
        if entry.kind != "rewrite" {
            let message = format!("unknown kind of entry `{}`: expected rewrite", entry.kind);
            diagnostics.unknown(&entry.origin, &entry.kind, message, ["rewrite"]);
            continue;
        }
        let Some(raw) = entry.parse::<RawRewrite>(diagnostics) else { continue };
        if let Some(other) = all.iter().find(|other| other.name == raw.rewrite) {
            diagnostics.error(&entry.origin, format!("`{}` is already declared at {}", raw.rewrite, other.origin));
        }
        if syn::parse_str::<syn::Ident>(&raw.rewrite).is_err() {
            diagnostics.error(&entry.origin, format!("`{}` makes no name of a function", raw.rewrite));
        }
        all.extend(Reader { entry, raw: &raw, primitives, diagnostics }.rewrite());
    }
    all
}

struct Reader<'a> {
    entry: &'a Entry,
    raw: &'a RawRewrite,
    primitives: &'a Vocabulary,
    diagnostics: &'a mut Diagnostics,
}

impl Reader<'_> {
    /// The rewrite, unless something was wrong with it.
    fn rewrite(mut self) -> Option<Rewrite> {
        let types = self.types()?;
        let mut forms = Vec::new();
        for of in types {
            // A mistake is one for each type.
            forms.push(self.form(of)?);
        }
        let ExprKind::Call { primitive, .. } = &forms.first()?.pattern.kind else { return None };
        Some(Rewrite {
            name: self.raw.rewrite.clone(),
            doc: self.raw.doc.clone(),
            primitive: primitive.clone(),
            origin: self.entry.origin.clone(),
            forms,
        })
    }

    fn fail<T>(&mut self, key: &str, message: impl Into<String>) -> Option<T> {
        self.diagnostics.error(&self.entry.origin_of(key), message.into());
        None
    }

    fn types(&mut self) -> Option<Vec<Scalar>> {
        let mut types = Vec::new();
        for name in &self.raw.types {
            match Scalar::WORDS.into_iter().find(|of| of.name() == name) {
                Some(of) if types.contains(&of) => return self.fail("types", format!("`{name}` is listed twice")),
                Some(of) => types.push(of),
                None => return self.fail("types", format!("`{name}` is no type: expected i32, i64, f32 or f64")),
            }
        }
        if types.is_empty() { self.fail("types", "a rewrite is for at least one type") } else { Some(types) }
    }

    fn form(&mut self, of: Scalar) -> Option<Form> {
        let variables = VALUES.map(|name| (name, of.ty()));
        let variables: Vec<(&str, Ty)> = variables.into_iter().chain([(TRUTH, Ty::Bool)]).collect();
        let pattern = self.typed("pattern", &self.raw.pattern, &variables, of)?;
        let ExprKind::Call { primitive, of: used, args } = &pattern.kind else {
            return self.fail("pattern", "a pattern is a primitive on its operands");
        };
        let name = primitive.name();
        if primitive.effect() != Effect::Pure || primitive.lowering() != Lowering::Instructions {
            return self
                .fail("pattern", format!("no node of `{name}` is rewritten: it is not computed by instructions"));
        }
        if *used != Some(of) {
            return self.fail("pattern", format!("`{name}` works on other types than those of the rewrite"));
        }
        let mut operands = Vec::new();
        for arg in args {
            let Some(operand) = operand(arg) else {
                return self.fail("pattern", format!("an operand of `{name}` is neither a variable nor a constant"));
            };
            operands.push(operand);
        }
        let mut bound = BTreeSet::new();
        let is_any = |operand: &Operand| matches!(operand, Operand::Variable(name) if bound.insert(name.clone()));
        if operands.iter().all(is_any) {
            return self.fail("pattern", "the pattern has no constant, and no variable twice: it fits every node");
        }
        let replacement = self.typed("replacement", &self.raw.replacement, &variables, of)?;
        let Some(replaced_by) = operand(&replacement) else {
            return self.fail("replacement", "a replacement is a variable or a constant: a rewrite makes no nodes");
        };
        if let Operand::Variable(name) = &replaced_by
            && !operands.contains(&replaced_by)
        {
            return self.fail("replacement", format!("the pattern has no variable `{name}`"));
        }
        Some(Form { of, operands, replaced_by, pattern: pattern.clone(), replacement })
    }

    fn typed(&mut self, key: &str, text: &str, variables: &[(&str, Ty)], of: Scalar) -> Option<Expr> {
        match sem::type_semantics(text, self.primitives, &LANGUAGE, variables, of.ty()) {
            Ok(expr) => Some(expr),
            Err(refusals) => {
                for sem::Refusal { at, message, missing } in refusals {
                    let place = self.entry.place_in(key, text, at);
                    match missing {
                        Some(name) => self.diagnostics.unknown_at(place, &name, message),
                        None => self.diagnostics.error_at(place, message),
                    }
                }
                None
            }
        }
    }
}

/// An expression without a call.
fn operand(expr: &Expr) -> Option<Operand> {
    match (&expr.kind, expr.ty) {
        (ExprKind::Operand(name), _) => Some(Operand::Variable(name.clone())),
        (ExprKind::Int(value), Ty::I32) => Some(Operand::Constant(u64::from(*value as u32))),
        (ExprKind::Int(value), _) => Some(Operand::Constant(*value as u64)),
        (ExprKind::Float(bits), Ty::F32) => Some(Operand::Constant(bits & u64::from(u32::MAX))),
        (ExprKind::Float(bits), _) => Some(Operand::Constant(*bits)),
        (ExprKind::Call { .. } | ExprKind::BoolToI32(_), _) => None,
    }
}
