//! The reader of words of `spec/api/`. The reader of `spec/hal/` reads the kinds that both have.

use std::collections::BTreeSet;

use serde::Deserialize;

use super::types::{Api, BitField, Word};
use crate::diag::Diagnostics;
use crate::entry::Entry;
use crate::model::hal::read;
use crate::model::int::Int;

/// The kinds of `spec/hal/` that make sense here.
const SHARED: [&str; 5] = ["constant", "code", "handle", "layout", "function"];

/// The kinds of these folders alone; other readers beside this one read all but words.
const OWN: [&str; 12] = [
    "word", "library", "symbol", "refused", "call", "partner", "failures", "null", "family", "table", "headers",
    "c_header",
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawWord {
    word: String,
    #[serde(rename = "type")]
    ty: String,
    doc: String,
    fields: Vec<RawBitField>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawBitField {
    name: String,
    bit: u32,
    #[serde(default = "one")]
    width: u32,
    kind: Option<String>,
    doc: String,
}

fn one() -> u32 {
    1
}

/// Everything but libraries, families and header names.
pub(super) fn files(entries: &[Entry], diagnostics: &mut Diagnostics) -> Api {
    let mut api = Api::default();
    let shared: Vec<Entry> = entries.iter().filter(|entry| SHARED.contains(&entry.kind.as_str())).cloned().collect();
    api.files = read::files(&shared, diagnostics).files;
    for entry in entries {
        match entry.kind.as_str() {
            "word" => api.words.extend(word(entry, diagnostics)),
            kind if SHARED.contains(&kind) || OWN.contains(&kind) => {}
            kind => {
                let known = SHARED.into_iter().chain(OWN);
                diagnostics.unknown(&entry.origin, kind, format!("unknown kind of entry `{kind}`"), known);
            }
        }
    }
    api
}

fn word(entry: &Entry, diagnostics: &mut Diagnostics) -> Option<Word> {
    let raw: RawWord = entry.parse(diagnostics)?;
    if raw.doc.trim().is_empty() {
        diagnostics.error(&entry.origin_of("doc"), "the doc is empty");
    }
    let Some(int) = Int::from_name(&raw.ty).filter(|int| matches!(int, Int::U8 | Int::U16 | Int::U32)) else {
        let message = format!("`{}` cannot hold a word: expected u8, u16 or u32", raw.ty);
        diagnostics.error(&entry.origin_of("type"), message);
        return None;
    };
    let bits = 8 * int.size();
    let (mut names, mut end, mut fields) = (BTreeSet::new(), 0u64, Vec::with_capacity(raw.fields.len()));
    for (index, field) in raw.fields.into_iter().enumerate() {
        let origin = entry.item_origin("fields", index);
        let RawBitField { name, bit, width, kind, doc } = field;
        if !names.insert(name.clone()) {
            diagnostics.error(&origin, format!("two fields are called `{name}`"));
        }
        if doc.trim().is_empty() {
            diagnostics.error(&origin, format!("`{name}`: the doc is empty"));
        }
        let field_end = u64::from(bit) + u64::from(width);
        if width == 0 || field_end > bits {
            let message = format!("`{name}`: bit {bit} and width {width} do not lie in {bits} bits");
            diagnostics.error(&origin, message);
            // Other entries are still checked; references to this one are not reported again.
            continue;
        }
        if u64::from(bit) < end {
            diagnostics
                .error(&origin, format!("`{name}` at bit {bit} overlaps the field before it, which ends at {end}"));
        }
        end = field_end;
        fields.push(BitField { name, bit, width, kind, doc, origin });
    }
    Some(Word { name: raw.word, int, doc: raw.doc, fields, origin: entry.origin.clone() })
}
