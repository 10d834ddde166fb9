//! Words with bit fields, such as the immediates of waits and the word of DPP, and choices, which name values of
//! fields. Their types, their reader, and the rules that fields do not overlap and values have one name.

use serde::Deserialize;

use crate::diag::{Diagnostics, Origin};
use crate::entry::Entry;

/// The kinds of entries that this room reads.
pub(super) const KINDS: [&str; 2] = ["word", "choice"];

/// A word of bit fields.
#[derive(Clone, Debug)]
pub struct Word {
    /// `waitcnt`
    pub name: String,
    /// How many bits.
    pub width: u32,
    /// Its documentation.
    pub doc: String,
    /// Its fields in the order of the text form.
    pub fields: Vec<WordField>,
    /// Where it is declared.
    pub origin: Origin,
}

/// A field of a word.
#[derive(Clone, Debug)]
pub struct WordField {
    /// `vmcnt`
    pub name: String,
    /// Its lowest bit.
    pub bit: u32,
    /// How many bits.
    pub width: u32,
    /// How many such fields follow each other, where it is an array.
    pub count: Option<u32>,
    /// The choice that names its values, if there is one.
    pub kind: Option<String>,
    /// Its documentation.
    pub doc: String,
    /// Where it is declared.
    pub origin: Origin,
}

impl WordField {
    /// Its bits in the word.
    pub fn mask(&self) -> u32 {
        let bits = u64::from(self.width) * u64::from(self.count.unwrap_or(1));
        (((1u64 << bits) - 1) << self.bit) as u32
    }
}

/// The names of values.
#[derive(Clone, Debug)]
pub struct Choice {
    /// `dpp_control`
    pub name: String,
    /// How many bits the values have.
    pub width: u32,
    /// Its documentation.
    pub doc: String,
    /// The named values.
    pub cases: Vec<Case>,
    /// Where it is declared.
    pub origin: Origin,
}

/// A value with a name, or a range of them.
#[derive(Clone, Debug)]
pub struct Case {
    /// `row_shl`
    pub name: String,
    /// The first number.
    pub first: u32,
    /// The last number.
    pub last: u32,
    /// How many of the lowest bits are an amount.
    pub amount: u32,
    /// The text that is written.
    pub text: String,
    /// Its documentation.
    pub doc: String,
    /// Where it is declared.
    pub origin: Origin,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawWord {
    word: String,
    width: u32,
    doc: String,
    fields: Vec<RawWordField>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawWordField {
    name: String,
    bit: u32,
    width: u32,
    count: Option<u32>,
    kind: Option<String>,
    doc: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawChoice {
    choice: String,
    width: u32,
    doc: String,
    cases: Vec<RawCase>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCase {
    name: String,
    numbers: [u32; 2],
    #[serde(default)]
    amount: u32,
    text: Option<String>,
    doc: String,
}

fn check_width(entry: &Entry, width: u32, diagnostics: &mut Diagnostics) -> Option<()> {
    if (1..=32).contains(&width) {
        return Some(());
    }
    diagnostics.error(&entry.origin_of("width"), format!("{width} bits: expected 1 to 32"));
    None
}

/// Reads a word; its fields lie in it and do not overlap.
pub(super) fn word(entry: &Entry, diagnostics: &mut Diagnostics) -> Option<Word> {
    let raw: RawWord = entry.parse(diagnostics)?;
    entry.need_doc(&raw.doc, diagnostics);
    check_width(entry, raw.width, diagnostics)?;
    let mut fields: Vec<WordField> = Vec::with_capacity(raw.fields.len());
    for (index, field) in raw.fields.into_iter().enumerate() {
        let origin = entry.item_origin("fields", index);
        let RawWordField { name, bit, width, count, kind, doc } = field;
        let bits = u64::from(width) * u64::from(count.unwrap_or(1));
        if bits == 0 || u64::from(bit) + bits > u64::from(raw.width) {
            let message = format!("`{name}`: {bits} bits from bit {bit} on do not lie in {} bits", raw.width);
            diagnostics.error(&origin, message);
            continue;
        }
        if doc.trim().is_empty() {
            diagnostics.error(&origin, format!("`{name}`: the doc is empty"));
        }
        let field = WordField { name, bit, width, count, kind, doc, origin };
        for other in &fields {
            if other.name == field.name {
                diagnostics.error(&field.origin, format!("two fields are called `{}`", field.name));
            } else if other.mask() & field.mask() != 0 {
                diagnostics.error(&field.origin, format!("`{}` overlaps `{}`", field.name, other.name));
            }
        }
        fields.push(field);
    }
    Some(Word { name: raw.word, width: raw.width, doc: raw.doc, fields, origin: entry.origin.clone() })
}

/// Reads a choice; each number has one name.
pub(super) fn choice(entry: &Entry, diagnostics: &mut Diagnostics) -> Option<Choice> {
    let raw: RawChoice = entry.parse(diagnostics)?;
    entry.need_doc(&raw.doc, diagnostics);
    check_width(entry, raw.width, diagnostics)?;
    let mut cases: Vec<Case> = Vec::with_capacity(raw.cases.len());
    for (index, case) in raw.cases.into_iter().enumerate() {
        let origin = entry.item_origin("cases", index);
        let RawCase { name, numbers: [first, last], amount, text, doc } = case;
        if first > last || u64::from(last) >> raw.width != 0 {
            diagnostics.error(&origin, format!("`{name}`: {first} to {last} is not a range of {} bits", raw.width));
            continue;
        }
        if amount > 31 || first >> amount != last >> amount {
            let message = format!("`{name}`: {first} and {last} differ in more than the {amount} bits of the amount");
            diagnostics.error(&origin, message);
            continue;
        }
        if doc.trim().is_empty() {
            diagnostics.error(&origin, format!("`{name}`: the doc is empty"));
        }
        for other in &cases {
            if other.name == name {
                diagnostics.error(&origin, format!("two cases are called `{name}`"));
            } else if first <= other.last && other.first <= last {
                diagnostics.error(&origin, format!("`{name}` has numbers of `{}`", other.name));
            }
        }
        let text = text.unwrap_or_else(|| name.clone());
        cases.push(Case { name, first, last, amount, text, doc, origin });
    }
    Some(Choice { name: raw.choice, width: raw.width, doc: raw.doc, cases, origin: entry.origin.clone() })
}

/// The kinds of fields are choices of their widths.
pub(super) fn check(words: &[Word], choices: &[Choice], diagnostics: &mut Diagnostics) {
    for field in words.iter().flat_map(|word| &word.fields) {
        let Some(kind) = &field.kind else { continue };
        let Some(choice) = choices.iter().find(|choice| choice.name == *kind) else {
            let known = choices.iter().map(|choice| choice.name.as_str());
            diagnostics.unknown(&field.origin, kind, format!("`{}`: there is no choice `{kind}`", field.name), known);
            continue;
        };
        if choice.width != field.width {
            let message = format!("`{}` has {} bits, and `{kind}` has {}", field.name, field.width, choice.width);
            diagnostics.error(&field.origin, message);
        }
    }
}
