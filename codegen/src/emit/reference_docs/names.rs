//! The index of names: what each page describes, with its kind, anchor and a sentence. `Page` collects it, the page of
//! all names lists it, and `names.js` hands it to the search of the pages.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::html::{code_link, escape};
use super::name::{Name, NameKind};
use super::page::Page;
use super::text::json;
use crate::emit::file::GeneratedFile;

/// The page that lists all names.
pub(super) const PATH: &str = "all.html";

/// The page of all names that `pages` describe.
pub(super) fn page(pages: &[Page]) -> Page {
    let mut entries: Vec<&Name> =
        pages.iter().flat_map(|page| &page.names).filter(|name| name.kind.is_named()).collect();
    entries.sort_by_cached_key(|entry| (entry.key(), entry.name.clone(), entry.kind, entry.href()));
    let mut page = Page::new(PATH, "All names", PATH);
    page.text(&format!(
        "Each of the {} names in this manual, with what it is and a link to where it is described. A field or value follows the name of \
         what it belongs to.",
        entries.len()
    ));
    let mut letters: BTreeMap<char, String> = BTreeMap::new();
    for entry in entries {
        let first = entry.key().chars().next().filter(char::is_ascii_alphabetic);
        // Conventions begin with a number. What is no letter comes after them.
        let list = letters.entry(first.map_or(char::MAX, |letter| letter.to_ascii_uppercase())).or_default();
        let link = code_link(&entry.href(), &entry.name);
        let _ = writeln!(list, "<li>{link} <span class=\"kind\">{}</span></li>", escape(entry.kind.text()));
    }
    for (letter, list) in letters {
        let title = if letter == char::MAX { "Numbers".to_string() } else { letter.to_string() };
        page.titled_part((&format!("letter-{title}"), &title), &title, "");
        page.html(format!("<ul class=\"names\">\n{list}</ul>"));
    }
    page
}

/// The names that `pages` describe as a script, since pages that are opened as files cannot load anything else.
pub(super) fn data(pages: &[Page]) -> GeneratedFile {
    let list = |items: Vec<String>| items.join(",");
    let kinds = list(NameKind::TEXTS.iter().map(|text| json(text)).collect());
    let titles = list(pages.iter().map(|page| format!("[{},{}]", json(&page.path), json(&page.title))).collect());
    let mut text = format!("var vireoNames = {{\"kinds\":[{kinds}],\n\"pages\":[{titles}],\n\"names\":[");
    let mut separator = "\n";
    for (number, page) in pages.iter().enumerate() {
        for Name { kind, name, id, doc, .. } in &page.names {
            let row = [json(name), json(id), json(doc)].join(",");
            let _ = write!(text, "{separator}[{},{number},{row}]", *kind as usize);
            separator = ",\n";
        }
    }
    text.push_str("\n]};\n");
    GeneratedFile { path: "names.js".into(), text }
}
