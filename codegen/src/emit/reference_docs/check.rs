//! The check of links: every `href` and `src` of the manual leads to a file of it, and to an anchor that is there once.
//! `cargo xtask docs` writes no manual that fails it.

use std::collections::{BTreeMap, BTreeSet};

use super::outside::Outside;
use crate::emit::file::GeneratedFile;

/// The dead links and repeated anchors of `files`, a sentence each. Links to other hosts and to `outside` are not
/// followed.
pub fn dead_links(files: &[GeneratedFile], outside: &Outside) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut anchors: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for GeneratedFile { path, text } in files {
        let known = anchors.entry(path).or_default();
        for id in attributes(path, text, "id") {
            if !known.insert(id.clone()) {
                wrong.push(format!("{path}: there are two anchors `{id}`"));
            }
        }
    }
    for GeneratedFile { path, text } in files {
        let links = attributes(path, text, "href").into_iter().chain(attributes(path, text, "src"));
        let is_own = |link: &String| {
            !["https://", "http://"].iter().any(|host| link.starts_with(host)) && !outside.is_outside(link)
        };
        for link in links.filter(is_own) {
            let (file, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let file = if file.is_empty() { path.as_str() } else { file };
            match anchors.get(file) {
                None => wrong.push(format!("{path}: there is no file for the link `{link}`")),
                Some(known) if !anchor.is_empty() && !known.contains(anchor) => {
                    wrong.push(format!("{path}: there is no anchor for the link `{link}`"));
                }
                Some(_) => {}
            }
        }
    }
    wrong
}

/// The values of an attribute of the elements of a page, with what entities stand for.
fn attributes(path: &str, text: &str, name: &str) -> Vec<String> {
    if !path.ends_with(".html") {
        return Vec::new();
    }
    let pattern = format!(" {name}=\"");
    let tags = text.split('<').skip(1).filter_map(|part| part.split_once('>')).map(|(tag, _)| tag);
    tags.flat_map(|tag| tag.split(pattern.as_str()).skip(1))
        .filter_map(|rest| rest.split_once('"'))
        .map(|(value, _)| value.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&"))
        .collect()
}
