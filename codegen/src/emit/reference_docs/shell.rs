//! The frame of every page: navigation, search box and list of contents around what a `Page` holds. `reference` puts it
//! there last, when all pages are known.

use std::fmt::Write as _;

use super::html::{escape, inline};
use super::outside::Outside;
use super::page::Page;
use crate::emit::file::GeneratedFile;

/// The title of the manual.
pub(super) const TITLE: &str = "Vireo manual";

/// The sections of the manual: their first pages and names, in the order of the navigation.
pub(super) struct Shell<'a> {
    /// First pages and names.
    pub sections: Vec<(&'a str, &'a str)>,
    /// The places that links out of the manual lead to.
    pub outside: &'a Outside,
}

impl Shell<'_> {
    /// The file of a page.
    pub fn file(&self, page: Page) -> GeneratedFile {
        let title = escape(&page.title);
        let whole = if page.title == TITLE { title.clone() } else { format!("{title} - {TITLE}") };
        let (layout, contents) = match page.contents.as_slice() {
            [] | [_] => ("wide", String::new()),
            several => ("with-side", links_of(several)),
        };
        let (mut side, mut folded) = (String::new(), String::new());
        if !contents.is_empty() {
            side = format!("<nav class=\"side\" aria-label=\"On this page\"><p>On this page</p>\n{contents}</nav>\n");
            folded = format!(
                "<details class=\"contents\"><summary>On this page</summary>\n<nav aria-label=\"On this page\">\n{contents}</nav></details>\n"
            );
        }
        let text = format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <title>{whole}</title>\n<link rel=\"stylesheet\" href=\"style.css\">\n<script src=\"search.js\" defer></script>\n\
             </head>\n<body>\n{}<div class=\"{layout}\">\n{side}<main id=\"page-content\">\n<h1>{title}</h1>\n{folded}{}</main>\n\
             </div>\n</body>\n</html>\n",
            self.top(&page.section),
            self.outside.lead(&page.body)
        );
        GeneratedFile { path: page.path, text }
    }

    /// The bar above each page. Wide screens show the sections in a bar and narrow ones in a menu that unfolds; a style
    /// sheet alone cannot open the menu for the former, so they are there twice, and one of them is not displayed.
    fn top(&self, section: &str) -> String {
        let mut bar = String::new();
        for (href, name) in &self.sections {
            let current = if *href == section { " aria-current=\"page\"" } else { "" };
            let _ = write!(bar, "<a href=\"{href}\"{current}>{}</a>", escape(name));
        }
        let nav = |class: &str| format!("<nav{class} aria-label=\"Sections\">{bar}</nav>");
        format!(
            "<a class=\"skip\" href=\"#page-content\">Skip to the content</a>\n<header class=\"top\">\n{}\n\
             <details class=\"menu\"><summary>Sections</summary>{}</details>\n\
             <form class=\"search\" role=\"search\" action=\"{}\"><input id=\"page-search\" type=\"search\" name=\"q\" \
             placeholder=\"Search ( / )\" aria-label=\"Search the manual\" autocomplete=\"off\" spellcheck=\"false\"></form>\n</header>\n",
            nav(" class=\"bar\""),
            nav(""),
            super::names::PATH,
        )
    }
}

fn links_of(contents: &[(String, String)]) -> String {
    let mut links = String::new();
    for (id, label) in contents {
        let _ = writeln!(links, "<a href=\"#{}\">{}</a>", escape(id), inline(label));
    }
    links
}
