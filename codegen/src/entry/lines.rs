//! An entry as text, and the places in it: the lines of keys and of items of lists, and lines with the wrong
//! indentation.

use std::ops::Range;

use crate::diag::{Diagnostics, Origin, column_of, find_word};

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

    /// The place of the byte `offset` of the text under the key `name`: white space between the two forms of the text
    /// may differ, since YAML folds it.
    pub(crate) fn place_in(&self, name: &str, text: &str, offset: usize) -> (Origin, usize) {
        let key = self.origin_of(name);
        let first = key.line - self.origin.line;
        let before = text.get(..offset).unwrap_or(text).chars().filter(|c| !c.is_whitespace()).count();
        let mut left = before;
        for (index, line) in self.text.lines().enumerate().skip(first) {
            let mut start = 0;
            if index == first {
                // The key, and how the text is written: in quotes, or below.
                start = line.find(':').map_or(0, |colon| colon + 1);
                let value = line[start..].trim_start();
                start = line.len() - value.len();
                if value.starts_with(['>', '|']) {
                    continue;
                }
                start += usize::from(value.starts_with(['"', '\'']));
            }
            let mut columns = line.char_indices().enumerate().filter(|(_, (at, c))| *at >= start && !c.is_whitespace());
            let count = columns.clone().count();
            if left < count {
                let column = columns.nth(left).map_or(0, |(column, _)| column);
                return (self.line(index), column + 1);
            }
            left -= count;
            // The end of the text is after its last line.
            if left == 0 && offset >= text.trim_end().len() {
                return (self.line(index), line.trim_end().chars().count() + 1);
            }
        }
        (key, 1)
    }

    /// The place in item `index` of the list under the key `name` of the first name in quotes of a message that is
    /// there.
    pub(crate) fn place_in_item(&self, name: &str, index: usize, message: &str) -> Option<(Origin, usize)> {
        let (_, lines) = self.keys().into_iter().find(|(key, _)| *key == name)?;
        let item = self.items(lines).into_iter().nth(index)?;
        let lines = || self.text.lines().enumerate().skip(item.start).take(item.len());
        let find =
            |name: &str| lines().find_map(|(index, line)| Some((index, column_of(line, find_word(line, name)?))));
        let (line, column) = message.split('`').skip(1).step_by(2).find_map(find)?;
        Some((self.line(line), column))
    }

    /// Records that the documentation of the entry does not end with a full stop.
    pub(crate) fn check_doc(&self, diagnostics: &mut Diagnostics) {
        let keys = self.keys();
        let Some((_, lines)) = keys.iter().find(|(key, _)| *key == "doc") else { return };
        // With a line in it that is none of its own, it does not end where it seems to.
        let is_told = |line: usize| diagnostics.iter().any(|error| error.origin == self.line(line));
        if lines.clone().any(is_told) {
            return;
        }
        let text = self.text.lines().enumerate().skip(lines.start).take(lines.len());
        let is_text = |line: &str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
        let Some((last, line)) = text.filter(|(_, line)| is_text(line)).last() else { return };
        let line = line.trim_end().trim_end_matches(['"', '\'']);
        let value = if last == lines.start { line.split_once(':').map_or("", |(_, value)| value) } else { line };
        // That there is none at all is told elsewhere.
        if !value.trim().is_empty() && !line.ends_with(['.', ':', '`']) {
            let place = (self.line(last), line.chars().count() + 1);
            diagnostics.error_at(place, "the doc does not end with a full stop");
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

    /// The items of a list that is written one item a line or more, each with its lines; none if the value is no such
    /// list.
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

    /// The text of the entry without the lines of the keys that `is_good` refuses; all others are at their places.
    pub(super) fn without(&self, is_good: impl Fn(&str, Range<usize>) -> bool) -> (String, Vec<String>) {
        let (mut dropped, mut holes) = (Vec::new(), Vec::new());
        for (key, lines) in self.keys() {
            if !is_good(key, lines.clone()) {
                dropped.push(key.to_string());
                holes.push(lines);
            }
        }
        let lines = self.text.lines().enumerate();
        let kept = lines.map(|(index, line)| if holes.iter().any(|hole| hole.contains(&index)) { "" } else { line });
        (kept.flat_map(|line| [line, "\n"]).collect(), dropped)
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
