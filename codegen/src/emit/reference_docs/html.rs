//! Pages: HTML text with a heading, a list of contents and links to all sections. Nothing here knows what a spec is.

use std::fmt::Write as _;

use crate::emit::file::GeneratedFile;

/// The sections in the bar at the top of each page: their first pages and names.
pub(super) const SECTIONS: &[(&str, &str)] = &[
    ("index.html", "Vireo reference"),
    ("vm.html", "Instruction set"),
    ("vm-encodings.html", "Encodings"),
    ("vm-primitives.html", "Primitives"),
    ("abi.html", "Calling conventions"),
    ("hal.html", "HAL"),
    ("amdgpu.html", "AMD GPUs"),
    ("schema.html", "File formats"),
];

/// A page in the making. All pages stand in one folder, so a link is the name of a file.
pub(super) struct Page {
    path: String,
    title: String,
    section: &'static str,
    contents: Vec<(String, String)>,
    body: String,
}

impl Page {
    /// A page of the section whose first page is `section`.
    pub fn new(path: &str, title: &str, section: &'static str) -> Self {
        Page { path: path.into(), title: title.into(), section, contents: Vec::new(), body: String::new() }
    }

    /// Appends HTML.
    pub fn html(&mut self, html: impl AsRef<str>) {
        self.body.push_str(html.as_ref());
        self.body.push('\n');
    }

    /// Appends a paragraph; backticks make code.
    pub fn text(&mut self, text: &str) {
        self.html(format!("<p>{}</p>", inline(text)));
    }

    /// Starts a part that has an anchor and stands in the list of contents.
    pub fn part(&mut self, id: &str, title: &str) {
        self.titled_part(id, title, &inline(title));
    }

    /// As `part`, with HTML for the heading.
    pub fn titled_part(&mut self, id: &str, label: &str, heading: &str) {
        self.contents.push((id.to_string(), label.to_string()));
        let id = escape(id);
        let anchor = format!("<a class=\"anchor\" href=\"#{id}\" aria-label=\"link to this part\">#</a>");
        self.html(format!("<h2 id=\"{id}\">{heading}{anchor}</h2>"));
    }

    /// Appends a table of cells that are HTML; none if there are no rows.
    pub fn table(&mut self, columns: &[&str], rows: &[Vec<String>]) {
        self.html(table(columns, rows, ""));
    }

    /// The file.
    pub fn finish(self) -> GeneratedFile {
        let mut bar = String::new();
        for (href, name) in SECTIONS {
            let current = if *href == self.section { " aria-current=\"page\"" } else { "" };
            let _ = write!(bar, "<a href=\"{href}\"{current}>{name}</a>");
        }
        let mut side = String::new();
        if self.contents.len() > 1 {
            side.push_str("<nav class=\"side\"><p>On this page</p>\n");
            for (id, label) in &self.contents {
                let _ = writeln!(side, "<a href=\"#{}\">{}</a>", escape(id), inline(label));
            }
            side.push_str("</nav>\n");
        }
        let layout = if side.is_empty() { "wide" } else { "with-side" };
        let title = escape(&self.title);
        let text = format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <title>{title} - Vireo reference</title>\n<link rel=\"stylesheet\" href=\"style.css\">\n</head>\n<body>\n\
             <nav class=\"bar\">{bar}</nav>\n<div class=\"{layout}\">\n{side}<main>\n<h1>{title}</h1>\n{}</main>\n</div>\n\
             </body>\n</html>\n",
            self.body
        );
        GeneratedFile { path: self.path, text }
    }
}

/// A table of cells that are HTML, empty if there are no rows.
pub(super) fn table(columns: &[&str], rows: &[Vec<String>], class: &str) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let mut out = format!("<div class=\"scroll\"><table class=\"{class}\">\n<thead><tr>");
    for column in columns {
        let _ = write!(out, "<th>{}</th>", inline(column));
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for row in rows {
        out.push_str("<tr>");
        for cell in row {
            let _ = write!(out, "<td>{cell}</td>");
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>");
    out
}

/// `text` with what HTML reserves written as entities.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            other => out.push(other),
        }
    }
    out
}

/// Text of a spec: what stands between backticks is code. A backtick without a partner stays as it is.
pub(super) fn inline(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text.trim();
    while let Some((before, behind)) = rest.split_once('`') {
        let Some((code, after)) = behind.split_once('`') else { break };
        out.push_str(&escape(before));
        let _ = write!(out, "<code>{}</code>", escape(code));
        rest = after;
    }
    out.push_str(&escape(rest));
    out
}

/// `text` as code.
pub(super) fn code(text: &str) -> String {
    format!("<code>{}</code>", escape(text))
}

/// A link whose text is code.
pub(super) fn code_link(href: &str, text: &str) -> String {
    format!("<a href=\"{}\"><code>{}</code></a>", escape(href), escape(text))
}

/// A link.
pub(super) fn link(href: &str, text: &str) -> String {
    format!("<a href=\"{}\">{}</a>", escape(href), inline(text))
}

/// Where an entry stands, in small print.
pub(super) fn source(origin: &crate::Origin) -> String {
    format!("<p class=\"source\">{origin}</p>")
}
