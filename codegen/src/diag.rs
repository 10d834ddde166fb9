//! Diagnostics: messages about specs with their places. Readers and checks collect all of them before `load` returns
//! any.
//!
//! A message has the line that it is about. Readers that know the column give it. For all others `load` finds the first
//! name in quotes of the message that the line has; so a place is also known of entries whose values have lost theirs
//! to serde.

use std::collections::BTreeSet;
use std::fmt;

/// A place in a spec file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin {
    /// Path from the workspace root, such as `spec/isa/vm/ops/integer.yaml`.
    pub file: String,
    /// One-based line.
    pub line: usize,
}

impl Origin {
    /// The file without folder and ending: `integer` for `spec/isa/vm/ops/integer.yaml`.
    pub fn stem(&self) -> &str {
        self.file.rsplit('/').next().unwrap_or(&self.file).trim_end_matches(".yaml")
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// One error in a spec.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Diagnostic {
    /// The position of the wrong key.
    pub origin: Origin,
    /// The one-based character in the line, once it is known.
    column: Option<usize>,
    /// The mistake, and what was expected.
    pub message: String,
    /// The unknown name, if that is the error.
    missing: Option<String>,
    /// The line of the file, once it is known.
    line: Option<String>,
}

impl Diagnostic {
    /// The message with file, line and column, and the line of the file with a mark below the column, as the assembler
    /// shows its errors.
    pub fn report(&self) -> String {
        let Origin { file, line } = &self.origin;
        let (Some(column), Some(text)) = (self.column, &self.line) else { return format!("{self}\n") };
        let (number, before) = (line.to_string(), " ".repeat(column.saturating_sub(1)));
        // One character for one, so that the mark is below what it marks.
        let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let message = &self.message;
        format!("{file}:{line}:{column}: {message}\n {number} | {text}\n {:1$} | {before}^\n", "", number.len())
    }

    /// Sets the line and, unless that is known, the column.
    fn locate(&mut self, line: &str) {
        if self.column.is_none() {
            let mut quoted = self.message.split('`').skip(1).step_by(2);
            let offset = quoted.find_map(|name| find_word(line, name)).unwrap_or_else(|| value_of(line));
            self.column = Some(column_of(line, offset));
        }
        self.line = Some(line.trim_end().to_string());
    }
}

/// The one-based column of an offset in a line.
pub(crate) fn column_of(line: &str, offset: usize) -> usize {
    line[..offset].chars().count() + 1
}

/// The offset of the value after the key with which a line begins, or of the first word.
fn value_of(line: &str) -> usize {
    let text = line.trim_start();
    let text = text.strip_prefix("- ").unwrap_or(text).trim_start();
    let value = text.split_once(": ").filter(|(key, _)| key.chars().all(|c| c.is_alphanumeric() || c == '_'));
    line.len() - value.map_or(text, |(_, value)| value.trim_start()).len()
}

/// The offset of a name in a line, where it is no part of a longer name.
pub(crate) fn find_word(line: &str, name: &str) -> Option<usize> {
    let part_of_name = |c: char| c.is_alphanumeric() || c == '_';
    let is_whole =
        |start: usize| !line[..start].ends_with(part_of_name) && !line[start + name.len()..].starts_with(part_of_name);
    line.match_indices(name).map(|(start, _)| start).find(|start| !name.is_empty() && is_whole(*start))
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.origin, self.message)
    }
}

/// All errors found, sorted by place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diagnostics(Vec<Diagnostic>);

impl Diagnostics {
    /// Records one error.
    pub fn error(&mut self, origin: &Origin, message: impl Into<String>) {
        self.push(origin, None, message.into(), None);
    }

    /// Records one error at a one-based character of a line.
    pub fn error_at(&mut self, (origin, column): (Origin, usize), message: impl Into<String>) {
        self.push(&origin, Some(column), message.into(), None);
    }

    /// Records at a one-based character of a line that `name`, which `message` mentions, is unknown.
    pub fn unknown_at(&mut self, (origin, column): (Origin, usize), name: &str, message: impl Into<String>) {
        self.push(&origin, Some(column), message.into(), Some(name));
    }

    fn push(&mut self, origin: &Origin, column: Option<usize>, message: String, missing: Option<&str>) {
        let missing = missing.map(ToString::to_string);
        self.0.push(Diagnostic { origin: origin.clone(), column, message, missing, line: None });
    }

    /// Records that `name` is unknown, with the most similar known names. If an entry of this name is wrong itself,
    /// that is the error, and this one is left out.
    pub fn unknown<'a>(
        &mut self,
        origin: &Origin,
        name: &str,
        message: impl Into<String>,
        known: impl IntoIterator<Item = &'a str>,
    ) {
        let message = format!("{}{}", message.into(), did_you_mean(name, known));
        self.push(origin, None, message, Some(name));
    }

    /// Removes diagnostics that follow from errors in other entries. Each entry is given as its name, its place and its
    /// number of lines.
    pub(crate) fn without_follow_ups<'a>(&mut self, entries: impl IntoIterator<Item = (&'a str, &'a Origin, usize)>) {
        let wrong: BTreeSet<&str> = entries
            .into_iter()
            .filter(|(name, start, lines)| {
                let lines = start.line..start.line + lines;
                self.0.iter().any(|error| {
                    error.origin.file == start.file
                        && lines.contains(&error.origin.line)
                        && error.missing.as_deref() != Some(name)
                })
            })
            .map(|(name, ..)| name)
            .collect();
        self.0.retain(|error| error.missing.as_deref().is_none_or(|name| !wrong.contains(name)));
    }

    /// Finds the columns and lines of the errors in the texts of the files, each given as its path and its text.
    pub(crate) fn locate(&mut self, files: &[(&str, &str)]) {
        for diagnostic in &mut self.0 {
            let text = files.iter().find(|(path, _)| *path == diagnostic.origin.file).map(|(_, text)| *text);
            if let Some(line) = text.and_then(|text| text.lines().nth(diagnostic.origin.line.saturating_sub(1))) {
                diagnostic.locate(line);
            }
        }
    }

    /// All errors with the lines that they are about, in the order of their places.
    pub fn report(&self) -> String {
        self.0.iter().map(Diagnostic::report).collect()
    }

    /// Appends all errors of `other`.
    pub fn extend(&mut self, other: Diagnostics) {
        self.0.extend(other.0);
    }

    /// True if nothing is wrong.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many errors there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The errors in the order of their places.
    pub fn iter(&self) -> impl Iterator<Item = &Diagnostic> {
        self.0.iter()
    }

    /// `Ok(value)` if nothing is wrong, else all errors in the order of their places.
    pub fn into_result<T>(mut self, value: T) -> Result<T, Diagnostics> {
        if self.0.is_empty() {
            return Ok(value);
        }
        self.0.sort();
        self.0.dedup();
        Err(self)
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for diagnostic in &self.0 {
            writeln!(f, "{diagnostic}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Diagnostics {}

/// `; did you mean` with the names most similar to `name`, or nothing if there are none.
pub fn did_you_mean<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    // Whole words count as much as a letter: `add` may be short for `wrapping_add`, `max` for `max_s`.
    let has_word = |other: &str| !name.is_empty() && other.split(['_', '.']).any(|word| word == name);
    let distance = |other: &str| if has_word(other) { 1 } else { strsim::osa_distance(name, other) };
    let limit = 1 + name.chars().count() / 4;
    let mut near: Vec<(usize, &str)> = known.into_iter().map(|other| (distance(other), other)).collect();
    near.retain(|(distance, other)| *distance <= limit && *other != name);
    near.sort();
    near.dedup();
    let best: Vec<String> = near
        .iter()
        .filter(|(distance, _)| *distance == near[0].0)
        .take(3)
        .map(|(_, other)| format!("`{other}`"))
        .collect();
    match best.split_last() {
        None => String::new(),
        Some((last, [])) => format!("; did you mean {last}?"),
        Some((last, others)) => format!("; did you mean {} or {last}?", others.join(", ")),
    }
}
