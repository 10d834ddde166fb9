//! Examples of primitives: operands and what comes of them, such as `7, 2 -> 3`. The emitter of tests calls the
//! interpreter's function with them, and the page of primitives shows them.

use std::fmt;

use super::types::{Scalar, Sig, Ty};

/// Operands of a primitive, and what comes of them.
#[derive(Clone, Debug, PartialEq)]
pub struct PrimitiveExample {
    /// As it is written.
    pub text: String,
    /// The operands, the receiver first.
    pub operands: Vec<Value>,
    /// The value, or the name of the status of the trap.
    pub outcome: Result<Value, String>,
}

/// A value of an operand or a result.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// An `i32`.
    I32(i32),
    /// An `i64`.
    I64(i64),
    /// An `f32`; any NaN stands for all.
    F32(f32),
    /// An `f64`, likewise.
    F64(f64),
    /// A truth value.
    Bool(bool),
}

impl PrimitiveExample {
    /// Reads `text` for a primitive with these operands and this result. `N` is `i32` and `F` is `f32`, unless the text
    /// begins with the type: `i64: 1, 2 -> 3`.
    pub(super) fn parse(text: &str, params: &[Sig], result: Sig) -> Result<PrimitiveExample, String> {
        let (of, values) = match text.split_once(':') {
            Some((name, values)) => {
                let of = Scalar::WORDS.into_iter().find(|scalar| scalar.name() == name.trim());
                (Some(of.ok_or_else(|| format!("`{name}` is no type: expected i32, i64, f32 or f64"))?), values)
            }
            None => (None, text),
        };
        let (operands, outcome) =
            values.split_once("->").ok_or("expected operands, `->`, and a value or a status: 7, 2 -> 3")?;
        let operands: Vec<&str> = operands.split(',').map(str::trim).collect();
        if operands.len() != params.len() {
            return Err(format!("it has {} operands, expected {}", operands.len(), params.len()));
        }
        let operands = operands.iter().zip(params).map(|(text, sig)| Value::parse(text, ty(*sig, of)?));
        let (operands, outcome) = (operands.collect::<Result<Vec<_>, String>>()?, outcome.trim());
        let is_status = outcome.contains('_') && outcome.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        let outcome = if is_status { Err(outcome.to_string()) } else { Ok(Value::parse(outcome, ty(result, of)?)?) };
        Ok(PrimitiveExample { text: text.to_string(), operands, outcome })
    }
}

/// The type that a part of a signature has in an example.
fn ty(sig: Sig, of: Option<Scalar>) -> Result<Ty, String> {
    let wrong = |scalar: Scalar| Err(format!("`{sig}` cannot be {}", scalar.name()));
    Ok(match (sig, of) {
        (Sig::Is(ty), _) => ty,
        (Sig::N | Sig::L, Some(scalar @ (Scalar::F32 | Scalar::F64))) => return wrong(scalar),
        (Sig::F | Sig::BitsOfF, Some(scalar @ (Scalar::I32 | Scalar::I64))) => return wrong(scalar),
        (Sig::F, None) => Ty::F32,
        (Sig::BitsOfF, Some(Scalar::F64)) => Ty::I64,
        (Sig::N | Sig::L | Sig::T, None) | (Sig::BitsOfF, _) => Ty::I32,
        (Sig::N | Sig::L | Sig::F | Sig::T, Some(scalar)) => scalar.ty(),
        (Sig::RegsT, _) => return Err(format!("an example has no `{sig}`")),
    })
}

impl Value {
    /// Decimal or hexadecimal integers, floats as Rust writes them, `true` and `false`.
    fn parse(text: &str, ty: Ty) -> Result<Value, String> {
        let wrong = || format!("`{text}` is not a value of type {ty}");
        let bits = |width: u32| {
            let digits = text.strip_prefix("0x")?;
            u64::from_str_radix(digits, 16).ok().filter(|bits| width == 64 || *bits < 1 << width)
        };
        match ty {
            Ty::I32 => bits(32).map(|bits| bits as u32 as i32).or_else(|| text.parse().ok()).map(Value::I32),
            Ty::I64 => bits(64).map(|bits| bits as i64).or_else(|| text.parse().ok()).map(Value::I64),
            Ty::F32 => text.parse().ok().map(Value::F32),
            Ty::F64 => text.parse().ok().map(Value::F64),
            Ty::Bool => text.parse().ok().map(Value::Bool),
            _ => return Err(format!("an example has no {ty}")),
        }
        .ok_or_else(wrong)
    }
}

/// As Rust writes it, with its type.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::I32(value) => write!(f, "{value}i32"),
            Value::I64(value) => write!(f, "{value}i64"),
            Value::F32(value) if value.is_nan() => f.write_str("f32::NAN"),
            Value::F64(value) if value.is_nan() => f.write_str("f64::NAN"),
            Value::F32(value) if value.is_infinite() => write!(f, "{}f32::INFINITY", sign(*value < 0.0)),
            Value::F64(value) if value.is_infinite() => write!(f, "{}f64::INFINITY", sign(*value < 0.0)),
            Value::F32(value) => write!(f, "{value:?}f32"),
            Value::F64(value) => write!(f, "{value:?}f64"),
            Value::Bool(value) => write!(f, "{value}"),
        }
    }
}

fn sign(is_negative: bool) -> &'static str {
    if is_negative { "-" } else { "" }
}
