//! Diagnostics: messages about specs with `file:line`. Readers and checks collect all of them before `load` returns any.

use std::collections::BTreeSet;
use std::fmt;

/// A place in a spec file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin {
    /// Path from the workspace root, such as `spec/vm/ops/integer.yaml`.
    pub file: String,
    /// One-based line.
    pub line: usize,
}

impl Origin {
    /// The file without folder and ending: `integer` for `spec/vm/ops/integer.yaml`.
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
    /// The mistake, and what was expected.
    pub message: String,
    /// The unknown name, if that is the error.
    missing: Option<String>,
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
        self.0.push(Diagnostic { origin: origin.clone(), message: message.into(), missing: None });
    }

    /// Records that `name` is unknown, with the most similar known names. If an entry of this name is wrong itself, that is the
    /// error, and this one is left out.
    pub fn unknown<'a>(
        &mut self,
        origin: &Origin,
        name: &str,
        message: impl Into<String>,
        known: impl IntoIterator<Item = &'a str>,
    ) {
        let message = format!("{}{}", message.into(), did_you_mean(name, known));
        self.0.push(Diagnostic { origin: origin.clone(), message, missing: Some(name.to_string()) });
    }

    /// Removes diagnostics that follow from errors in other entries. Each entry is given as its name, its place and its number of lines.
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
