//! The page of words: closed sets of texts that programs, hosts or files write, such as keys of queries and directives
//! of assembly.

use super::html::{self, code, inline};
use super::name::NameKind;
use super::page::Page;
use crate::model::names::Names;

/// The page.
pub(super) fn page(sets: &[Names]) -> Page {
    let mut page = Page::new("words.html", "Words", "words.html");
    page.text(
        "Closed sets of words: what programs ask devices for, attributes of functions, types of list elements, and the directives of VM \
         assembly. A word is written as it stands here.",
    );
    for set in sets {
        page.part_of(NameKind::Words, &set.name, (&set.name, &set.name), "words", &set.doc);
        let rows: Vec<Vec<String>> = set
            .values
            .iter()
            .map(|word| {
                let id = format!("{}.{}", set.name, word.name);
                let written = page.anchored(NameKind::Value, &word.text, (&id, &word.text), &word.doc);
                vec![written, code(&word.name), inline(&word.doc)]
            })
            .collect();
        page.table(&["Written", "Name", "What it says"], &rows);
        page.html(html::source(&set.origin));
    }
    page
}
