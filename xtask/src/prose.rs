//! `cargo xtask prose`: counts the comments that break the rules of prose, of which there may only be fewer from change
//! to change.
//!
//! A comment names its subject with a noun of the field, and a `SAFETY` comment names the invariant that its block
//! relies on. Comments that do neither are found by their first words. `xtask/prose.txt` has how many of each kind are
//! left: more of them fail a test of this crate, and the command writes the lower counts.

use std::fs;
use std::path::Path;

use crate::chore::{Failure, workspace};

/// The counts that are left, a kind and a number in each line.
const LEFT: &str = "xtask/prose.txt";

/// Longest line, in characters.
const COLUMNS: usize = 120;

/// A rule, and whether a line breaks it.
type Rule = (&'static str, fn(&str) -> bool);

const RULES: [Rule; 4] = [
    ("begin with What or Who", has_no_subject),
    ("say nobody or whoever", has_vague_subject),
    ("are SAFETY without an invariant", names_no_invariant),
    ("are lines of more than 120 columns", is_too_long),
];

/// A line that breaks a rule.
struct Finding {
    rule: &'static str,
    place: String,
}

/// Prints the counts and the lines of a rule that has more than are left, and writes lower counts.
pub fn prose() -> Result<(), Failure> {
    let findings = findings().map_err(Failure::Wrong)?;
    let left = left().map_err(Failure::Wrong)?;
    let more = excess(&findings, &left);
    if !more.is_empty() {
        return Err(Failure::Wrong(more));
    }
    let counts: String =
        RULES.iter().map(|(rule, _)| format!("{} comments {rule}\n", count(&findings, rule))).collect();
    print!("{counts}");
    fs::write(workspace().join(LEFT), counts).map_err(|error| Failure::Wrong(format!("{LEFT}: {error}")))
}

fn count(findings: &[Finding], rule: &str) -> usize {
    findings.iter().filter(|finding| finding.rule == rule).count()
}

/// The counts that are left, by rule.
fn left() -> Result<Vec<(String, usize)>, String> {
    let text = fs::read_to_string(workspace().join(LEFT)).map_err(|error| format!("{LEFT}: {error}"))?;
    text.lines()
        .map(|line| {
            let (number, rule) = line.split_once(" comments ").ok_or_else(|| format!("{LEFT}: `{line}`"))?;
            Ok((rule.to_string(), number.parse().map_err(|error| format!("{LEFT}: `{line}`: {error}"))?))
        })
        .collect()
}

/// The rules that more lines break than are left, with all of their lines; empty if there are none.
fn excess(findings: &[Finding], left: &[(String, usize)]) -> String {
    let mut text = String::new();
    for (rule, _) in RULES {
        let most = left.iter().find(|(known, _)| known == rule).map_or(0, |(_, most)| *most);
        let number = count(findings, rule);
        if number > most {
            for finding in findings.iter().filter(|finding| finding.rule == rule) {
                text += &format!("{}\n", finding.place);
            }
            text += &format!("{number} comments {rule}, where {most} are left: write new ones otherwise\n\n");
        }
    }
    text
}

/// The lines of hand-written Rust that break a rule.
fn findings() -> Result<Vec<Finding>, String> {
    let mut found = Vec::new();
    let mut folders = vec![workspace().to_path_buf()];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        for entry in entries.filter_map(Result::ok) {
            let (path, name) = (entry.path(), entry.file_name());
            let name = name.to_string_lossy();
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if is_folder && !name.starts_with('.') && !matches!(&*name, "target" | "snapshots") {
                folders.push(path);
            } else if name.ends_with(".rs") && !is_folder {
                let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
                look_at(path.strip_prefix(workspace()).unwrap_or(&path), &text, &mut found);
            }
        }
    }
    found.sort_by(|one, other| one.place.cmp(&other.place));
    Ok(found)
}

fn look_at(path: &Path, text: &str, found: &mut Vec<Finding>) {
    for (index, line) in text.lines().enumerate() {
        for (rule, breaks) in RULES {
            if breaks(line) {
                found.push(Finding { rule, place: format!("{}:{}: {}", path.display(), index + 1, line.trim()) });
            }
        }
    }
}

/// The text of a comment in a line of its own.
fn comment(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix("//")?;
    Some(rest.strip_prefix(['/', '!']).unwrap_or(rest).trim_start())
}

fn has_no_subject(line: &str) -> bool {
    comment(line).is_some_and(|text| ["What ", "Who ", "Whoever "].iter().any(|word| text.starts_with(word)))
}

fn has_vague_subject(line: &str) -> bool {
    let words = comment(line).unwrap_or_default().split(|letter: char| !letter.is_alphanumeric());
    words.into_iter().any(|word| ["nobody", "whoever"].iter().any(|vague| word.eq_ignore_ascii_case(vague)))
}

fn names_no_invariant(line: &str) -> bool {
    let Some((_, reason)) = line.split_once("SAFETY: ") else { return false };
    let reason = reason.to_ascii_lowercase();
    // Another place has the reason, or none is given: that the caller guarantees "it" says nothing.
    [
        "as in `",
        "as for `",
        "as above",
        "the caller's promise",
        "the caller guarantees it",
        "the caller guarantees exactly",
    ]
    .iter()
    .any(|vague| reason.starts_with(vague))
}

/// Rows of tables cannot be wrapped.
fn is_too_long(line: &str) -> bool {
    line.chars().count() > COLUMNS && comment(line).is_some_and(|text| !text.starts_with("| "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_comments_break_the_rules() {
        let more = excess(&findings().expect("the sources"), &left().expect("the counts"));
        assert!(more.is_empty(), "{more}");
    }

    #[test]
    fn lines_that_break_a_rule_are_found() {
        let broken = |line: &str| {
            let mut found = Vec::new();
            look_at(Path::new("a.rs"), line, &mut found);
            found.iter().map(|finding| finding.rule).collect::<Vec<_>>()
        };
        let subject = RULES[0].0;
        assert_eq!(broken(&["    /// ", "What it is."].concat()), [subject]);
        assert_eq!(broken(&["//", "! ", "Who calls it."].concat()), [subject]);
        assert_eq!(broken(&["// Memory that no", "body uses."].concat()), [RULES[1].0]);
        assert_eq!(broken(&["// SAF", "ETY: as in `op`."].concat()), [RULES[2].0]);
        assert_eq!(broken(&["// SAF", "ETY: the caller's promise; more."].concat()), [RULES[2].0]);
        assert_eq!(broken(&format!("//{}", "x".repeat(COLUMNS - 1))), [RULES[3].0]);
        assert!(broken("let what = 1; // The length is known. SAFETY: the range is mapped.").is_empty());
        assert!(broken(&format!("//{}", "x".repeat(COLUMNS - 2))).is_empty());
        assert!(broken(&format!("// | {}", "x".repeat(COLUMNS))).is_empty());
        let findings = [Finding { rule: subject, place: "a.rs:1: text".into() }];
        assert!(excess(&findings, &[(subject.to_string(), 1)]).is_empty());
        assert!(excess(&findings, &[(subject.to_string(), 0)]).contains("a.rs:1: text"));
    }
}
