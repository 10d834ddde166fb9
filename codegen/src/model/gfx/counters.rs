//! Counters of waves and of the instructions that they execute: their reader, and the rules that their names are those
//! of entries.

use serde::Deserialize;

use super::types::{Counter, Gfx};
use crate::diag::Diagnostics;
use crate::entry::Entry;

/// The kind of entries that this room reads.
pub(super) const KIND: &str = "counter";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCounter {
    counter: String,
    doc: String,
    #[serde(default)]
    encodings: Vec<String>,
    returns: Option<bool>,
    #[serde(default)]
    without: Vec<String>,
}

pub(super) fn counter(entry: &Entry, diagnostics: &mut Diagnostics) -> Option<Counter> {
    let RawCounter { counter, doc, encodings, returns, without } = entry.parse(diagnostics)?;
    entry.need_doc(&doc, diagnostics);
    Some(Counter { name: counter, doc, encodings, returns, without, origin: entry.origin.clone() })
}

impl Gfx {
    pub(super) fn check_counters(&self, diagnostics: &mut Diagnostics) {
        for counter in &self.counters {
            for name in counter.encodings.iter().filter(|name| self.encoding(name).is_none()) {
                let known = self.encodings.iter().map(|encoding| encoding.name.as_str());
                diagnostics.unknown(&counter.origin, name, format!("there is no encoding `{name}`"), known);
            }
            for name in &counter.without {
                let Some(instruction) = self.instructions.iter().find(|instruction| instruction.name == *name) else {
                    let known = self.instructions.iter().map(|instruction| instruction.name.as_str());
                    diagnostics.unknown(&counter.origin, name, format!("there is no instruction `{name}`"), known);
                    continue;
                };
                if !instruction.forms.iter().any(|form| counter.encodings.contains(&form.encoding)) {
                    diagnostics.error(&counter.origin, format!("`{name}` is in none of the encodings"));
                }
            }
            if counter.encodings.is_empty() && counter.returns.is_some() {
                diagnostics.error(&counter.origin, "`returns` is for counters of instructions");
            }
        }
    }
}
