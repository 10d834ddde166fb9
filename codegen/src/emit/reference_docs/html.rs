//! Pieces of HTML: tables, links, code and escaped text. Every page is made of them; nothing here knows what a spec is.

use std::fmt::Write as _;

/// The beginning of links to files of the repository, in HTML that is not yet a page.
pub const SOURCE: &str = "source:";

/// A table of cells that are HTML, empty if there are no rows. On narrow screens each row is a card:
/// its first cell is the title, and the others follow one below the other, labelled with the headings of their columns.
pub(super) fn table(columns: &[&str], rows: &[Vec<String>], class: &str) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let mut out = format!(
        "<div class=\"scroll\" tabindex=\"0\"><table class=\"{}\">\n<thead><tr>",
        format!("cards {class}").trim()
    );
    let labels: Vec<String> = columns.iter().map(|name| cell_label(name, columns.len())).collect();
    for column in columns {
        // A column of remarks has no heading.
        let cell =
            if column.is_empty() { "<td></td>".into() } else { format!("<th scope=\"col\">{}</th>", inline(column)) };
        out.push_str(&cell);
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for row in rows {
        out.push_str("<tr>");
        for (at, cell) in row.iter().enumerate() {
            let label = labels.get(at).filter(|_| !cell.is_empty()).map_or("", String::as_str);
            let _ = write!(out, "<td{label}>{cell}</td>");
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>");
    out
}

/// The attribute that labels a cell in the card of its row with the heading of its column. Empty if there is none, or
/// if the table has two columns: a title and what is below it.
pub fn cell_label(heading: &str, columns: usize) -> String {
    if columns < 3 || heading.is_empty() {
        return String::new();
    }
    format!(" data-label=\"{}\"", escape(&heading.replace('`', "")))
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
    while let Some((before, after)) = rest.split_once('`') {
        let Some((code, after)) = after.split_once('`') else { break };
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
pub(super) fn source(origin: &crate::diag::Origin) -> String {
    let (file, line) = (escape(&origin.file), origin.line);
    format!("<p class=\"source\"><a href=\"{SOURCE}{file}#L{line}\">{origin}</a></p>")
}
