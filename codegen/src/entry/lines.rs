//! An entry as text, and the places in it: the lines of keys and of items of lists, and lines with the wrong indentation.

use std::ops::Range;

use crate::diag::{Diagnostics, Origin};

/// One entry of a spec file, not yet deserialised.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The first key, which names the kind: `op`, `encoding`, `table`, ...
    pub kind: String,
    /// Where it is declared.
    pub origin: Origin,
    pub(super) text: String,
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

    /// Records that all of `keys` are missing, or that one has the wrong indentation.
    pub(crate) fn lacks(&self, keys: &[&str], message: String, diagnostics: &mut Diagnostics) {
        let (origin, message) = self.misplaced(keys).unwrap_or_else(|| (self.origin.clone(), message));
        diagnostics.error(&origin, message);
    }

    /// How many lines it has.
    pub(crate) fn lines(&self) -> usize {
        self.text.lines().count()
    }

    /// Records that the entry has no documentation, if `doc` is empty.
    pub(crate) fn need_doc(&self, doc: &str, diagnostics: &mut Diagnostics) {
        if doc.trim().is_empty() {
            diagnostics.error(&self.origin, format!("{} has no doc", self.kind));
        }
    }

    /// The place of the line with this index.
    pub(super) fn line(&self, index: usize) -> Origin {
        Origin { file: self.origin.file.clone(), line: self.origin.line + index }
    }

    /// The keys of the entry, each with its lines.
    pub(super) fn keys(&self) -> Vec<(&str, Range<usize>)> {
        let mut keys: Vec<(&str, Range<usize>)> = Vec::new();
        let count = self.text.lines().count();
        for (index, line) in self.text.lines().enumerate() {
            let Some(rest) = line.strip_prefix(if index == 0 { "- " } else { "  " }) else { continue };
            let Some((key, _)) = rest.split_once(':').filter(|_| !rest.starts_with([' ', '#', '-'])) else { continue };
            if let Some((_, lines)) = keys.last_mut() {
                lines.end = index;
            }
            keys.push((key.trim().trim_matches('"'), index..count));
        }
        keys
    }

    /// The items of a list that is written one item a line or more, each with its lines; none if the value is no such list.
    pub(super) fn items(&self, key: Range<usize>) -> Vec<Range<usize>> {
        let mut items: Vec<Range<usize>> = Vec::new();
        let mut indent = None;
        for (index, line) in self.text.lines().enumerate().take(key.end).skip(key.start + 1) {
            let text = line.trim_start();
            let spaces = line.len() - text.len();
            if text.is_empty() || text.starts_with('#') {
                continue;
            }
            if text.starts_with("- ") && spaces == *indent.get_or_insert(spaces) {
                if let Some(last) = items.last_mut() {
                    last.end = index;
                }
                items.push(index..key.end);
            } else if items.is_empty() {
                return Vec::new();
            }
        }
        items
    }

    /// The line of a key among some lines, or the first of them.
    pub(super) fn line_of(&self, lines: Range<usize>, key: &str) -> usize {
        let is_there = |line: &str| {
            let mut words = line.split(|letter: char| letter.is_whitespace() || "{},".contains(letter));
            words.any(|word| word.strip_suffix(':').is_some_and(|word| word.trim_matches('"') == key))
        };
        let found = self.text.lines().enumerate().skip(lines.start).take(lines.len()).find(|(_, line)| is_there(line));
        found.map_or(lines.start, |(index, _)| index)
    }

    /// The text of the entry with nothing but the line of a key and some lines below it, all at their places.
    pub(super) fn only(&self, key: usize, part: Range<usize>) -> Option<String> {
        let mut text = String::new();
        for (index, line) in self.text.lines().enumerate() {
            if index == key {
                text.push_str("- ");
                text.push_str(line.get(2..)?);
            } else if part.contains(&index) {
                text.push_str(line);
            }
            text.push('\n');
        }
        Some(text)
    }

    /// The position of one of the missing `keys` if it has the wrong indentation, and the message about it.
    pub(super) fn misplaced(&self, keys: &[&str]) -> Option<(Origin, String)> {
        let there = self.keys();
        let mut list = None;
        for (index, line) in self.text.lines().enumerate().skip(1) {
            let text = line.trim_start();
            let spaces = line.len() - text.len();
            if text.is_empty() || text.starts_with('#') {
                continue;
            }
            if spaces <= 2 {
                list = None;
            }
            if text.starts_with("- ") && list.is_none() {
                list = Some(spaces);
            }
            let key = text.split_once(':').map(|(key, _)| key);
            let Some(key) = key.filter(|key| keys.contains(key) && !there.iter().any(|(other, _)| other == key)) else {
                continue;
            };
            if spaces != 2 && list.is_none_or(|list| spaces < list) {
                let message =
                    format!("`{key}` is indented by {spaces} spaces: the keys of an entry are indented by two");
                return Some((self.line(index), message));
            }
        }
        None
    }
}
