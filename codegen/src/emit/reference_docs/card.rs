//! The card: commands, the flags that are used most, and all ops by what they do, on one sheet of paper. The caller
//! knows commands and flags from the guides; ops are those of the specs.

use std::fmt::Write as _;

use super::html::{code_link, escape, inline};
use super::page::Page;
use super::purposes::{by_purpose, split};
use super::{links, purposes};
use crate::model::vm::{Isa, Op};

/// The name of the page.
pub(super) const PATH: &str = "card.html";

/// An entry of the card: a command or a flag.
#[derive(Clone, Debug)]
pub struct CardEntry {
    /// `--device=DEVICE`
    pub name: String,
    /// The description of it, in some words.
    pub doc: String,
    /// The page and anchor that describe it.
    pub href: String,
}

/// The parts of the card that no spec holds.
#[derive(Clone, Debug, Default)]
pub struct Card {
    /// The commands.
    pub commands: Vec<CardEntry>,
    /// Flags.
    pub flags: Vec<CardEntry>,
}

/// The page.
pub(super) fn page(isa: &Isa, card: &Card) -> Page {
    let mut page = Page::new(PATH, "Card", PATH);
    page.text("One sheet to print: in the print dialogue of the browser, on A4 or letter.");
    let mut html = String::from("<div class=\"card\">\n");
    for (title, entries) in [("Commands", &card.commands), ("Flags", &card.flags)] {
        if entries.is_empty() {
            continue;
        }
        let _ = writeln!(html, "<section><h3>{title}</h3><dl>");
        for CardEntry { name, doc, href } in entries {
            let _ = writeln!(html, "<dt>{}</dt><dd>{}</dd>", code_link(href, name), inline(doc));
        }
        html.push_str("</dl></section>\n");
    }
    for (purpose, ops) in by_purpose(isa) {
        let _ = writeln!(html, "<section><h3>{}</h3><p class=\"ops\">{}</p></section>", purpose.title(), names(&ops));
    }
    html.push_str("</div>");
    page.html(html);
    page.text("Of an op the name comes first and then its types: each is a link.");
    page.html(format!("<p>{}</p>", super::html::link(purposes::PATH, "Ops by what they do")));
    page
}

/// The names of ops, each once, with the types that it is there for.
fn names(ops: &[&Op]) -> String {
    let mut stems: Vec<(&str, Vec<String>)> = Vec::new();
    for op in ops {
        let (stem, types) = split(&op.mnemonic);
        let text = if types.is_empty() { stem } else { types };
        let href = links::op_path(op);
        let link = format!("<a href=\"{}\">{}</a>", escape(&href), escape(text));
        match stems.iter_mut().find(|(known, _)| *known == stem && !types.is_empty()) {
            Some((_, links)) => links.push(link),
            None if types.is_empty() => stems.push((stem, vec![link])),
            None => stems.push((stem, vec![format!("<b>{}</b>", escape(stem)), link])),
        }
    }
    stems.into_iter().map(|(_, links)| format!("<span>{}</span>", links.join(" "))).collect::<Vec<_>>().join(" ")
}
