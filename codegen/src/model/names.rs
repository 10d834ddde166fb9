//! The model of `spec/names/`: closed sets of words that programs, hosts or files write.

use serde::Deserialize;

use crate::camel_case::camel_case;
use crate::diag::{Diagnostics, Origin};
use crate::entry::Entry;

/// A set of words.
#[derive(Clone, Debug)]
pub struct Names {
    /// `query_category`
    pub name: String,
    /// The file, without folder and ending: `queries`.
    pub file: String,
    /// Its documentation.
    pub doc: String,
    /// The words, in the order of the entry.
    pub values: Vec<Name>,
    /// Where it is declared.
    pub origin: Origin,
}

/// One word.
#[derive(Clone, Debug)]
pub struct Name {
    /// `device_id`
    pub name: String,
    /// How it is written, `hal.device.id`.
    pub text: String,
    /// How else it may be written.
    pub also: Vec<String>,
    /// Its documentation.
    pub doc: String,
    /// How statements that begin with it are written, for the guide.
    pub forms: Vec<NameForm>,
}

/// How a statement is written.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NameForm {
    /// An example of one.
    pub text: String,
    /// Whether IREE's assembler does not read it.
    #[serde(default)]
    pub own: bool,
    /// Its documentation.
    pub doc: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawNames {
    names: String,
    doc: String,
    values: Vec<RawName>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawName {
    name: String,
    text: Option<String>,
    #[serde(default)]
    also: Vec<String>,
    doc: String,
    #[serde(default)]
    forms: Vec<NameForm>,
}

/// Reads the entries of all files below `spec/names/`, in the order of their paths.
pub fn load(entries: &[Entry], diagnostics: &mut Diagnostics) -> Vec<Names> {
    let mut all: Vec<Names> = Vec::new();
    for entry in entries {
        if entry.kind != "names" {
            let message = format!("unknown kind of entry `{}`: expected names", entry.kind);
            diagnostics.unknown(&entry.origin, &entry.kind, message, ["names"]);
            continue;
        }
        let Some(raw) = entry.parse::<RawNames>(diagnostics) else { continue };
        if let Some(other) = all.iter().find(|other| other.name == raw.names) {
            diagnostics.error(&entry.origin, format!("`{}` are already listed at {}", raw.names, other.origin));
        }
        let mut values: Vec<Name> = Vec::new();
        for (index, value) in raw.values.into_iter().enumerate() {
            let text = value.text.unwrap_or_else(|| value.name.clone());
            let origin = entry.item_origin("values", index);
            if syn::parse_str::<syn::Ident>(&camel_case(&value.name)).is_err() {
                diagnostics.error(&origin, format!("`{}` makes no name of a variant", value.name));
            }
            let listed = |text: &String| values.iter().any(|other| other.text == *text || other.also.contains(text));
            if values.iter().any(|other| other.name == value.name) || listed(&text) {
                diagnostics.error(&origin, format!("`{text}` is listed twice"));
            }
            for also in value.also.iter().filter(|also| listed(also) || **also == text) {
                diagnostics.error(&origin, format!("`{also}` is listed twice"));
            }
            for form in value.forms.iter().filter(|form| !form.text.starts_with(&text)) {
                diagnostics.error(&origin, format!("`{}` does not begin with `{text}`", form.text));
            }
            values.push(Name { name: value.name, text, also: value.also, doc: value.doc, forms: value.forms });
        }
        let file = entry.origin.stem().to_string();
        all.push(Names { name: raw.names, file, doc: raw.doc, values, origin: entry.origin.clone() });
    }
    all
}
