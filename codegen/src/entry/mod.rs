//! Splits a spec file into its entries and deserialises each with its place.
//!
//! YAML parsers for serde lose the line of a value once it is deserialised. Spec files are therefore lists whose entries
//! start with `- ` in column 0: each entry is cut out as text, deserialised on its own, and the lines of its keys are indexed.

use serde::de::DeserializeOwned;

use crate::diag::{Diagnostics, Origin};

mod mistakes;

/// One entry of a spec file, not yet deserialised.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The first key, which names the kind: `op`, `encoding`, `table`, ...
    pub kind: String,
    /// Where it is declared.
    pub origin: Origin,
    text: String,
}

impl Entry {
    /// The value of the first key, which names the thing.
    pub fn name(&self) -> &str {
        let line = self.text.lines().next().unwrap_or_default();
        line.split_once(':')
            .map_or("", |(_, value)| value.split(" #").next().unwrap_or_default().trim().trim_matches('"'))
    }

    /// The position of the key `name` of this entry, or of the entry if it has no such key.
    pub fn origin_of(&self, name: &str) -> Origin {
        let offset = self
            .text
            .lines()
            .position(|line| {
                line.get(2..).is_some_and(|rest| rest.strip_prefix(name).is_some_and(|r| r.starts_with(':')))
            })
            .unwrap_or(0);
        Origin { file: self.origin.file.clone(), line: self.origin.line + offset }
    }

    /// The position of item `index` of the list under the key `name`, if the list has one item per line.
    pub fn item_origin(&self, name: &str, index: usize) -> Origin {
        let key = self.origin_of(name);
        let skipped = key.line - self.origin.line + 1;
        let lines = self.text.lines().enumerate().skip(skipped);
        let lines = lines
            .take_while(|(_, line)| line.is_empty() || line.starts_with("   ") || line.trim_start().starts_with('#'));
        let mut indent = None;
        let mut items = lines.filter(|(_, line)| {
            let spaces = line.len() - line.trim_start().len();
            line.trim_start().starts_with("- ") && spaces == *indent.get_or_insert(spaces)
        });
        match items.nth(index) {
            Some((offset, _)) => Origin { file: key.file, line: self.origin.line + offset },
            None => key,
        }
    }

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

    /// Records that all of `keys` are missing, or that one has the wrong indentation.
    pub(crate) fn lacks(&self, keys: &[&str], message: String, diagnostics: &mut Diagnostics) {
        let (origin, message) = self.misplaced(keys).unwrap_or_else(|| (self.origin.clone(), message));
        diagnostics.error(&origin, message);
    }

    /// How many lines it has.
    pub(crate) fn lines(&self) -> usize {
        self.text.lines().count()
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
