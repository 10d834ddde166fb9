//! The model of `spec/abi/status.yaml`: the codes that errors have. Examples of ops name them, and drivers in other
//! languages use their numbers.

use serde::Deserialize;

use crate::diag::{Diagnostics, Origin};
use crate::entry::Entry;

/// The code of an error.
#[derive(Clone, Debug)]
pub struct StatusCode {
    /// `out_of_range`
    pub name: String,
    /// Its number; zero is success and has no code.
    pub number: u32,
    /// When it is used.
    pub doc: String,
    /// Where it is declared.
    pub origin: Origin,
}

impl StatusCode {
    /// `OUT_OF_RANGE`, as tools print it.
    pub fn upper_name(&self) -> String {
        self.name.to_uppercase()
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawStatus {
    status: String,
    number: u32,
    doc: String,
}

/// Reads an entry after those in `known`, whose names and numbers are taken.
pub(super) fn read(entry: &Entry, known: &[StatusCode], diagnostics: &mut Diagnostics) -> Option<StatusCode> {
    let raw: RawStatus = entry.parse(diagnostics)?;
    if raw.number == 0 {
        diagnostics.error(&entry.origin_of("number"), "0 is success, which is no code: expected 1 or more");
    }
    if let Some(other) = known.iter().find(|other| other.name == raw.status) {
        diagnostics.error(&entry.origin, format!("status `{}` is already described at {}", raw.status, other.origin));
    }
    if let Some(other) = known.iter().find(|other| other.number == raw.number) {
        let message = format!("{} is the number of `{}` at {}", raw.number, other.name, other.origin);
        diagnostics.error(&entry.origin_of("number"), message);
    }
    Some(StatusCode { name: raw.status, number: raw.number, doc: raw.doc, origin: entry.origin.clone() })
}
