//! Entries of the kind `constant`: a named number or text. `spec/isa`, `spec/hal` and `spec/api` have them.

use serde::Deserialize;

use super::int::Int;
use crate::diag::{Diagnostics, Origin};
use crate::entry::Entry;

/// A named number or text.
#[derive(Clone, Debug)]
pub struct Constant {
    /// `whole_buffer`
    pub name: String,
    /// Its value, with the type of a number.
    pub value: ConstantValue,
    /// Its documentation.
    pub doc: String,
    /// Where it is declared.
    pub origin: Origin,
}

/// The value of a constant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConstantValue {
    /// A number.
    Int(Int, u64),
    /// A name.
    Text(String),
}

impl ConstantValue {
    /// The number; none if it is a text.
    pub fn number(&self) -> Option<u64> {
        match self {
            ConstantValue::Int(_, value) => Some(*value),
            ConstantValue::Text(_) => None,
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawConstant {
    constant: String,
    #[serde(rename = "type")]
    ty: String,
    value: serde_yaml::Value,
    doc: String,
}

/// Reads an entry.
pub(super) fn read(entry: &Entry, diagnostics: &mut Diagnostics) -> Option<Constant> {
    let raw: RawConstant = entry.parse(diagnostics)?;
    if raw.doc.trim().is_empty() {
        diagnostics.error(&entry.origin_of("doc"), "the doc is empty");
    }
    let value = match (raw.ty.as_str(), &raw.value) {
        ("string", serde_yaml::Value::String(text)) => ConstantValue::Text(text.clone()),
        ("string", _) => {
            diagnostics.error(&entry.origin_of("value"), "expected a string");
            return None;
        }
        (ty, value) => {
            let Some(int) = Int::from_name(ty) else {
                diagnostics.error(&entry.origin_of("type"), Int::unknown(ty));
                return None;
            };
            match value.as_u64().filter(|value| int.holds(*value)) {
                Some(value) => ConstantValue::Int(int, value),
                None => {
                    diagnostics.error(&entry.origin_of("value"), format!("expected a number that fits {ty}"));
                    return None;
                }
            }
        }
    };
    Some(Constant { name: raw.constant, value, doc: raw.doc, origin: entry.origin.clone() })
}
