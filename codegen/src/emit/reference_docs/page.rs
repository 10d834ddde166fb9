//! A page in the making: parts with anchors, and the names that they describe. Every module of the manual writes its
//! facts to one; `shell` puts the navigation around it.

use super::html::{code, escape, inline, table};
use super::name::{Name, NameKind};
use super::text::first_sentence;

/// A page that is being written. All pages are in one folder, so a link is the name of a file.
pub(super) struct Page {
    /// The name of its file.
    pub path: String,
    /// Its heading.
    pub title: String,
    /// The first page of its section.
    pub section: String,
    /// Anchors and labels of its parts.
    pub contents: Vec<(String, String)>,
    /// The names that it describes, in order.
    pub names: Vec<Name>,
    /// The text below the heading.
    pub body: String,
}

impl Page {
    /// A page of the section whose first page is `section`.
    pub fn new(path: &str, title: &str, section: &str) -> Self {
        let names = vec![Name::new(NameKind::Page, title, path, "", "")];
        Page {
            path: path.into(),
            title: title.into(),
            section: section.into(),
            contents: Vec::new(),
            names,
            body: String::new(),
        }
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

    /// Starts a section with an anchor and an entry in the table of contents.
    pub fn part(&mut self, id: &str, title: &str) {
        self.name(NameKind::Section, title, id, "");
        self.titled_part((id, title), &inline(title), "");
    }

    /// Starts a section about `name`. `note` is HTML at the other end of the heading's line.
    pub fn part_of(&mut self, kind: NameKind, name: &str, (id, label): (&str, &str), note: &str, doc: &str) {
        self.name(kind, name, id, doc);
        self.titled_part((id, label), &code(name), note);
        self.text(doc);
    }

    /// Starts a part with HTML for its heading and for the note at the other end, and `label` for the list of contents.
    /// It is in no index; `name` puts it there.
    pub fn titled_part(&mut self, (id, label): (&str, &str), heading: &str, note: &str) {
        self.contents.push((id.to_string(), label.to_string()));
        let (id, label) = (escape(id), escape(&label.replace('`', "")));
        let anchor = format!("<a class=\"anchor\" href=\"#{id}\" aria-label=\"link to {label}\">#</a>");
        let note = if note.is_empty() { String::new() } else { format!("<span class=\"note\">{note}</span>") };
        self.html(format!("<h2 id=\"{id}\">{heading}{anchor}{note}</h2>"));
    }

    /// Notes that the anchor `id` of this page describes `name`.
    pub fn name(&mut self, kind: NameKind, name: &str, id: &str, doc: &str) {
        self.names.push(Name::new(kind, name, &self.path, id, first_sentence(doc)));
    }

    /// An anchor for what describes `name`, as a cell of a table: `shown` as code.
    pub fn anchored(&mut self, kind: NameKind, name: &str, (id, shown): (&str, &str), doc: &str) -> String {
        self.name(kind, name, id, doc);
        format!("<span id=\"{}\">{}</span>", escape(id), code(shown))
    }

    /// As `anchored`, for a member of what is called `of`: it is found by both names.
    pub fn member(&mut self, kind: NameKind, of: &str, name: &str, doc: &str) -> String {
        let whole = format!("{of}.{name}");
        self.anchored(kind, &whole, (&whole, name), doc)
    }

    /// Appends a table of cells that are HTML; none if there are no rows.
    pub fn table(&mut self, columns: &[&str], rows: &[Vec<String>]) {
        self.html(table(columns, rows, ""));
    }
}
