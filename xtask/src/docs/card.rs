//! The card's commands and flags, from the guide of the command: nothing of it is written twice.

use std::collections::BTreeMap;

use vireo_codegen::emit::reference_docs::{Anchor, AnchorKind, Card, CardEntry};

/// Flags on the card: as many as leave it one sheet.
const FLAGS: usize = 18;

/// Longest description, in characters.
const LONGEST: usize = 72;

/// The card of the command that the guide on `page` describes with `text` and `anchors`. `guides` are the texts of all
/// guides; the flags that their examples use most are those of the card.
pub fn card(page: &str, text: &str, anchors: &[Anchor], guides: &[String]) -> Card {
    let commands = commands(text).map(|(name, doc)| {
        let code = format!("`{name}`");
        let anchor = anchors.iter().find(|anchor| anchor.kind != AnchorKind::Flag && anchor.name.contains(&code));
        let href = anchor.map_or(page.to_string(), |anchor| format!("{page}#{}", anchor.id));
        CardEntry { name: name.to_string(), doc: doc.to_string(), href }
    });
    let commands = commands.collect();
    let mut uses: BTreeMap<String, usize> = BTreeMap::new();
    guides.iter().flat_map(|guide| flags_of_examples(guide)).for_each(|flag| *uses.entry(flag).or_default() += 1);
    let mut flags: Vec<(usize, &Anchor)> = Vec::new();
    for anchor in anchors.iter().filter(|anchor| anchor.kind == AnchorKind::Flag) {
        // The first table has the flags of programs; later ones say how a command differs.
        if !flags.iter().any(|(_, known)| known.name == anchor.name) {
            flags.extend(uses.get(&anchor.name).map(|count| (*count, anchor)));
        }
    }
    flags.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
    let entry = |(_, anchor): &(usize, &Anchor)| CardEntry {
        name: anchor.name.clone(),
        doc: clause(&anchor.doc).to_string(),
        href: format!("{page}#{}", anchor.id),
    };
    Card { commands, flags: flags.iter().take(FLAGS).map(entry).collect() }
}

/// The lines of the first block of the guide: `vireo run   call a function`.
fn commands(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let block = text.split("```").nth(1).unwrap_or_default();
    block.lines().filter_map(|line| line.split_once("  ")).map(|(name, doc)| (name.trim(), doc.trim()))
}

/// The flags of the commands in the blocks of a guide, as their tables write them.
fn flags_of_examples(guide: &str) -> Vec<String> {
    let blocks = guide.split("```").skip(1).step_by(2);
    let lines = blocks.flat_map(str::lines).map(|line| line.trim_start_matches("$ "));
    let words = lines.filter(|line| line.starts_with("vireo ")).flat_map(str::split_whitespace);
    let flags = words.filter_map(|word| word.strip_prefix("--")).map(|flag| flag.split('=').next().unwrap_or_default());
    flags.map(|flag| format!("--{}", flag.replace('-', "_"))).collect()
}

/// The first clause of a description: short enough for a line of the card, if it has one that is.
fn clause(doc: &str) -> &str {
    let end = ["; ", ". ", ": ", ", "].iter().filter_map(|mark| doc.find(mark)).min().unwrap_or(doc.len());
    let short = doc[..end].trim_end_matches('.');
    match short.char_indices().nth(LONGEST) {
        Some((end, _)) => short[..end].rsplit_once(' ').map_or(short, |(words, _)| words),
        None => short,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn anchor(name: &str, id: &str, doc: &str, kind: AnchorKind) -> Anchor {
        Anchor { id: id.into(), name: name.into(), doc: doc.into(), kind }
    }

    #[test]
    fn commands_and_flags_are_those_of_the_guide() {
        let text = "# T\n```text\nx run    runs it\nx stop   stops it\n```\n```sh\nvireo run --a-b=1 --c\n$ vireo run --c\nother --d\n```\n--d\n";
        let anchors = [
            anchor("`x run` and more", "run", "", AnchorKind::Part),
            anchor("--a_b", "flag-a", "first, and `more`; and so on", AnchorKind::Flag),
            anchor("--c", "flag-c", "second. More", AnchorKind::Flag),
            anchor("--c", "flag-c-1", "as above", AnchorKind::Flag),
            anchor("--d", "flag-d", "third", AnchorKind::Flag),
        ];
        let card = card("p.html", text, &anchors, &[text.to_string()]);
        let rows = |entries: &[CardEntry]| -> Vec<String> {
            entries.iter().map(|entry| format!("{} {} {}", entry.name, entry.doc, entry.href)).collect()
        };
        assert_eq!(rows(&card.commands), ["x run runs it p.html#run", "x stop stops it p.html"]);
        assert_eq!(rows(&card.flags), ["--c second p.html#flag-c", "--a_b first p.html#flag-a"]);
        assert_eq!(clause(&"word ".repeat(40)).len(), "word ".repeat(14).trim_end().len());
    }
}
