//! Guides: documents in prose beside the pages of the specs. The caller passes them as HTML, since no spec holds
//! them; `cargo xtask docs` makes them of Markdown.

use super::html::{inline, link};
use super::name::NameKind;
use super::page::Page;
use super::text::first_sentence;

/// The page that lists all guides.
pub(super) const PATH: &str = "guides.html";

/// A document in prose.
#[derive(Clone, Debug)]
pub struct Document {
    /// The name of its page, `guide-cli.html`.
    pub path: String,
    /// Its heading.
    pub title: String,
    /// The group of guides that it belongs to.
    pub group: String,
    /// The text; its first sentence is shown.
    pub summary: String,
    /// The question of a newcomer that it answers, for the first page: `run a model from a shell`.
    pub begin: Option<String>,
    /// Whether the navigation of every page has a link to it.
    pub in_navigation: bool,
    /// The text below the heading. Links are names of files of the manual.
    pub html: String,
    /// Its headings and flags, in order.
    pub anchors: Vec<Anchor>,
}

/// An anchor of a document.
#[derive(Clone, Debug)]
pub struct Anchor {
    /// The `id` of an element of the document.
    pub id: String,
    /// The name of the thing, with backticks around code.
    pub name: String,
    /// The description of it.
    pub doc: String,
    /// Its kind.
    pub kind: AnchorKind,
}

/// The kind of thing to which an anchor of a document leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnchorKind {
    /// A heading that the list of contents has.
    Part,
    /// A heading below one of these.
    Heading,
    /// A flag of a command.
    Flag,
}

/// The list of all guides, by group, and a page for each.
pub(super) fn pages(documents: &[Document]) -> Vec<Page> {
    if documents.is_empty() {
        return Vec::new();
    }
    let mut overview = Page::new(PATH, "Guides", PATH);
    overview.text("How to use Vireo, and how and why it is built as it is.");
    let mut groups: Vec<&str> = documents.iter().map(|document| document.group.as_str()).collect();
    groups.dedup();
    for (number, group) in groups.iter().enumerate() {
        overview.part(&format!("group-{number}"), group);
        let members = documents.iter().filter(|document| document.group == *group);
        let rows: Vec<Vec<String>> = members
            .map(|document| vec![link(&document.path, &document.title), inline(first_sentence(&document.summary))])
            .collect();
        overview.table(&["Guide", "What it says"], &rows);
    }
    let mut pages = vec![overview];
    for (index, document) in documents.iter().enumerate() {
        let before = index.checked_sub(1).and_then(|index| documents.get(index));
        pages.push(page(document, before, documents.get(index + 1)));
    }
    pages
}

/// The page of a document, with the way to it above and links to its neighbours below.
fn page(document: &Document, before: Option<&Document>, after: Option<&Document>) -> Page {
    let section = if document.in_navigation { &document.path } else { PATH };
    let mut page = Page::new(&document.path, &document.title, section);
    for Anchor { id, name, doc, kind } in &document.anchors {
        let named = if *kind == AnchorKind::Flag { NameKind::Flag } else { NameKind::Section };
        page.name(named, name, id, doc);
        if *kind == AnchorKind::Part {
            page.contents.push((id.clone(), name.clone()));
        }
    }
    page.html(format!("<p class=\"crumbs\">{} / {}</p>\n", link(PATH, "Guides"), inline(&document.group)));
    page.html(&document.html);
    let neighbour = |document: Option<&Document>, class: &str, word: &str| {
        document.map_or_else(String::new, |document| {
            format!("<span class=\"{class}\">{word}: {}</span>", link(&document.path, &document.title))
        })
    };
    let links = neighbour(before, "before", "Previous") + &neighbour(after, "after", "Next");
    page.html(format!("<nav class=\"neighbours\" aria-label=\"Neighbours\">{links}</nav>\n"));
    page
}
