//! Splits a spec file into its entries and deserialises each with its place.
//!
//! YAML parsers for serde lose the line of a value once it is deserialised. Spec files are therefore lists whose
//! entries start with `- ` in column 0: each entry is cut out as text and deserialised on its own. `lines` finds the
//! lines of its keys in that text, `mistakes` what is wrong with an entry that cannot be deserialised.

use serde::de::DeserializeOwned;

use crate::diag::{Diagnostics, Origin, did_you_mean};

mod lines;
mod mistakes;

pub use lines::Entry;

/// The keys of an entry that were left out because they are misspelt or have wrong values.
#[derive(Default)]
pub struct LeftOut(Vec<String>);

impl LeftOut {
    /// Whether it was told already that `key` is not there, as it is wrong or misspelt.
    pub fn has(&self, key: &str) -> bool {
        let is_meant = |other: &String| other == key || did_you_mean(other, [key]).contains(&format!("`{key}`"));
        self.0.iter().any(is_meant)
    }
}

impl Entry {
    /// Deserialises the entry, or records all that is wrong with it.
    pub fn parse<T: DeserializeOwned>(&self, diagnostics: &mut Diagnostics) -> Option<T> {
        match self.read() {
            Ok([value]) => Some(value),
            Err(error) => {
                mistakes::record::<T>(self, &error, diagnostics);
                None
            }
        }
    }

    /// Deserialises the entry, and records nothing.
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Result<[T; 1], serde_yaml::Error> {
        serde_yaml::from_str(&self.text)
    }

    /// Deserialises the entry without the keys that are wrong, and records those, so that the others can be checked
    /// too.
    pub fn parse_good_keys<T: DeserializeOwned>(&self, diagnostics: &mut Diagnostics) -> Option<(T, LeftOut)> {
        let before = diagnostics.len();
        if let Some(value) = self.parse(diagnostics) {
            return Some((value, LeftOut::default()));
        }
        debug_assert!(diagnostics.len() > before);
        let (text, left_out) = self.without(|key, lines| mistakes::is_good::<T>(self, key, lines));
        let [value] = serde_yaml::from_str::<[T; 1]>(&text).ok()?;
        Some((value, LeftOut(left_out)))
    }
}

/// Splits `text` into its entries.
pub fn split(file: &str, text: &str, diagnostics: &mut Diagnostics) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let origin = Origin { file: file.to_string(), line: index + 1 };
        if let Some(rest) = line.strip_prefix("- ") {
            let kind = rest.split(':').next().unwrap_or_default().trim().to_string();
            entries.push(Entry { kind, origin, text: String::new() });
        } else if let Some(spaces) = without_tabs(line) {
            let column = line.find('\t').unwrap_or(0) + 1;
            diagnostics.error_at((origin, column), "a tab is not indentation: expected spaces");
            // Lines below the key are read as they are meant, so that nothing else is told of them.
            if let Some(entry) = entries.last_mut() {
                entry.text.push_str(&spaces);
                entry.text.push('\n');
            }
            continue;
        } else if !line.is_empty() && !line.starts_with([' ', '#']) {
            diagnostics.error(&origin, "expected a list of entries: `- kind: name` in column 0");
            continue;
        }
        if let Some(entry) = entries.last_mut() {
            entry.text.push_str(line);
            entry.text.push('\n');
        }
    }
    entries
}

/// The line with two spaces for each tab in its indentation; nothing if there is none.
fn without_tabs(line: &str) -> Option<String> {
    let text = line.trim_start_matches([' ', '\t']);
    let indentation = &line[..line.len() - text.len()];
    (indentation.contains('\t') && !text.is_empty()).then(|| format!("{}{text}", indentation.replace('\t', "  ")))
}
