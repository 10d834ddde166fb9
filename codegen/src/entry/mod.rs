//! Splits a spec file into its entries and deserialises each with its place.
//!
//! YAML parsers for serde lose the line of a value once it is deserialised. Spec files are therefore lists whose entries
//! start with `- ` in column 0: each entry is cut out as text and deserialised on its own. `lines` finds the lines of its keys in that text,
//! `mistakes` what is wrong with an entry that cannot be deserialised.

use serde::de::DeserializeOwned;

use crate::diag::{Diagnostics, Origin};

mod lines;
mod mistakes;

pub use lines::Entry;

impl Entry {
    /// Deserialises the entry, or records all that is wrong with it.
    pub fn parse<T: DeserializeOwned>(&self, diagnostics: &mut Diagnostics) -> Option<T> {
        match serde_yaml::from_str::<[T; 1]>(&self.text) {
            Ok([value]) => Some(value),
            Err(error) => {
                mistakes::record::<T>(self, &error, diagnostics);
                None
            }
        }
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
