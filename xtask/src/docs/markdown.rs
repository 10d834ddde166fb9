//! Markdown as HTML for the manual: headings and flags get anchors, tables a box to scroll in, and links lead to pages
//! of the manual. `pulldown-cmark` reads and writes; this module changes the events between.

use std::collections::BTreeMap;

use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd, html};
use vireo_codegen::emit::reference_docs::{Anchor, AnchorKind, SOURCE, cell_label, highlight};

/// A document as HTML.
#[derive(Debug, Default)]
pub struct Rendered {
    /// The heading of the first level.
    pub title: String,
    /// The text of the first paragraph, with backticks around code.
    pub summary: String,
    /// Everything but that heading.
    pub html: String,
    /// Headings and flags.
    pub anchors: Vec<Anchor>,
    /// Paths of the images from the workspace root.
    pub images: Vec<String>,
}

/// The target of a link.
#[derive(Debug, PartialEq, Eq)]
pub enum Target {
    /// A page: of the manual, or of another host.
    Page(String),
    /// A file or folder of the repository, which the manual does not have: its path from the workspace root.
    Source(String),
}

impl Target {
    /// The link to it.
    fn href(self) -> String {
        match self {
            Target::Page(href) => href,
            Target::Source(path) => format!("{SOURCE}{path}"),
        }
    }
}

/// Says what a link leads to.
type Resolve<'r> = &'r dyn Fn(&str) -> Result<Target, String>;

/// The file that code names, such as `docs/cli.md`; none if it names none.
type Named<'r> = &'r dyn Fn(&str) -> Option<Target>;

/// The file that a telephone shows instead of an image; none if that is the same.
type Narrow<'r> = &'r dyn Fn(&str) -> Option<String>;

/// Renders `text`.
///
/// # Errors
/// If there is no title, or a link that `resolve` refuses.
pub fn render(text: &str, resolve: Resolve<'_>, named: Named<'_>, narrow: Narrow<'_>) -> Result<Rendered, String> {
    let mut events: Vec<Event<'_>> = Parser::new_ext(text, Options::ENABLE_TABLES).collect();
    let mut writer = Writer {
        resolve,
        named,
        narrow,
        is_narrowed: false,
        is_linked: false,
        rendered: Rendered::default(),
        ids: BTreeMap::new(),
        before_cell: None,
        flags: false,
        columns: Vec::new(),
        column: None,
        language: None,
    };
    writer.rendered.title = take_title(&mut events).ok_or("expected a document that begins with `# Title`")?;
    let mut out = Vec::with_capacity(events.len());
    for at in 0..events.len() {
        writer.event(&events[at..], &mut out)?;
    }
    html::push_html(&mut writer.rendered.html, out.into_iter());
    Ok(writer.rendered)
}

/// Removes the heading that a document begins with.
fn take_title(events: &mut Vec<Event<'_>>) -> Option<String> {
    let Some(Event::Start(Tag::Heading { level: HeadingLevel::H1, .. })) = events.first() else { return None };
    let title = plain(events).replace('`', "");
    let end = events.iter().position(|event| matches!(event, Event::End(TagEnd::Heading(_))))?;
    events.drain(..=end);
    Some(title)
}

struct Writer<'r> {
    resolve: Resolve<'r>,
    named: Named<'r>,
    narrow: Narrow<'r>,
    /// Whether the image has another one for telephones.
    is_narrowed: bool,
    /// Whether the text belongs to a link, or to a heading, which has a link of its own. Links do not nest.
    is_linked: bool,
    rendered: Rendered,
    /// How often each anchor was wanted.
    ids: BTreeMap<String, usize>,
    /// The text with which the next cell of a table begins.
    before_cell: Option<String>,
    /// Whether the table is one of flags.
    flags: bool,
    /// The headings of the table.
    columns: Vec<String>,
    /// The column of the next cell, below the headings.
    column: Option<usize>,
    /// The language of the block of code, and the text of that so far.
    language: Option<(String, String)>,
}

impl Writer<'_> {
    /// Appends what becomes of the first of `rest`, which is everything from there on.
    fn event<'a>(&mut self, rest: &[Event<'a>], out: &mut Vec<Event<'a>>) -> Result<(), String> {
        let raw = |html: &str| Event::InlineHtml(html.to_string().into());
        match &rest[0] {
            Event::Start(Tag::Heading { level, .. }) => {
                self.is_linked = true;
                out.push(self.heading(*level, rest));
            }
            Event::End(TagEnd::Heading(_)) => {
                self.is_linked = false;
                out.extend(self.rendered.anchors.last().map(|anchor| raw(&link_to(anchor))));
                out.push(rest[0].clone());
            }
            Event::Start(Tag::Paragraph) => {
                self.describe(&plain(rest));
                out.push(rest[0].clone());
            }
            Event::Start(Tag::Table(_)) => {
                self.flags = rest.get(2..).is_some_and(|head| plain(head) == "flag");
                self.columns.clear();
                self.column = None;
                // The writer of HTML gives tables and cells no attributes.
                out.push(raw("<div class=\"scroll\" tabindex=\"0\"><table class=\"cards\">"));
            }
            Event::End(TagEnd::Table) => out.extend([rest[0].clone(), raw("</div>\n")]),
            Event::Start(Tag::TableRow) => {
                self.column = Some(0);
                if self.flags {
                    self.before_cell = self.flag_row(&rest[1..]);
                }
                out.push(rest[0].clone());
            }
            Event::Start(Tag::TableCell) => self.cell(rest, out),
            Event::End(TagEnd::TableCell) => out.push(raw(if self.column.is_none() { "</th>" } else { "</td>" })),
            Event::Start(Tag::Link { dest_url, .. }) => {
                self.is_linked = true;
                out.push(leading_to(&rest[0], (self.resolve)(dest_url)?.href()));
            }
            Event::End(TagEnd::Link) => {
                self.is_linked = false;
                out.push(rest[0].clone());
            }
            Event::Code(code) if !self.is_linked => match (self.named)(code) {
                Some(target) => {
                    out.push(raw(&format!("<a href=\"{}\"><code>{}</code></a>", escape(&target.href()), escape(code))));
                }
                None => out.push(rest[0].clone()),
            },
            Event::Start(Tag::CodeBlock(kind)) => {
                let language = match kind {
                    CodeBlockKind::Fenced(info) => info.split([',', ' ']).next().unwrap_or_default(),
                    CodeBlockKind::Indented => "",
                };
                self.language = Some((language.to_string(), String::new()));
            }
            Event::End(TagEnd::CodeBlock) => {
                let (language, text) = self.language.take().unwrap_or_default();
                out.push(raw(&format!("<pre><code>{}</code></pre>\n", highlight(&language, &text))));
            }
            Event::Text(text) => match &mut self.language {
                Some((_, code)) => code.push_str(text),
                None => out.push(rest[0].clone()),
            },
            Event::Start(Tag::Image { .. }) => {
                let image = self.image(&rest[0], out)?;
                out.push(image);
            }
            Event::End(TagEnd::Image) => {
                out.push(rest[0].clone());
                out.extend(std::mem::take(&mut self.is_narrowed).then(|| raw("</picture>")));
            }
            // The manual has elements of its own making only; others are shown as they are written.
            Event::Html(text) | Event::InlineHtml(text) => out.push(Event::Text(text.clone())),
            other => out.push(other.clone()),
        }
        Ok(())
    }

    fn heading<'a>(&mut self, level: HeadingLevel, rest: &[Event<'a>]) -> Event<'a> {
        let name = plain(rest);
        let id = self.unique(slug(&name));
        let kind = if level == HeadingLevel::H2 { AnchorKind::Part } else { AnchorKind::Heading };
        self.rendered.anchors.push(Anchor { id: id.clone(), name, doc: String::new(), kind });
        Event::Start(Tag::Heading { level, id: Some(id.into()), classes: Vec::new(), attrs: Vec::new() })
    }

    /// The start of a cell: of a heading, or below one, which labels it where the row is a card.
    fn cell<'a>(&mut self, rest: &[Event<'a>], out: &mut Vec<Event<'a>>) {
        let Some(column) = self.column else {
            self.columns.push(plain(rest));
            return out.push(Event::InlineHtml("<th scope=\"col\">".into()));
        };
        self.column = Some(column + 1);
        let heading = self.columns.get(column).map_or("", String::as_str);
        let is_empty = matches!(rest.get(1), Some(Event::End(_)));
        let label = if is_empty { String::new() } else { cell_label(heading, self.columns.len()) };
        out.push(Event::InlineHtml(format!("<td{label}>").into()));
        out.extend(self.before_cell.take().map(|html| Event::InlineHtml(html.into())));
    }

    /// An image with the name of its file, which is taken along, and before it the one for telephones.
    fn image<'a>(&mut self, event: &Event<'a>, out: &mut Vec<Event<'a>>) -> Result<Event<'a>, String> {
        let mut event = event.clone();
        if let Event::Start(Tag::Image { dest_url, .. }) = &mut event {
            let Target::Source(path) = (self.resolve)(dest_url)? else {
                return Err(format!("expected an image of the repository, got `{dest_url}`"));
            };
            if let Some(narrow) = (self.narrow)(&path) {
                self.is_narrowed = true;
                let source = format!("<source media=\"(max-width: 40rem)\" srcset=\"{}\">", escape(&narrow));
                out.push(Event::InlineHtml(format!("<picture>{source}").into()));
            }
            *dest_url = path.rsplit('/').next().unwrap_or(&path).to_string().into();
            self.rendered.images.push(path);
        }
        Ok(event)
    }

    /// A paragraph says what the document is about, or the heading above it if it has none yet.
    fn describe(&mut self, text: &str) {
        let Rendered { anchors, summary, .. } = &mut self.rendered;
        let doc = anchors.last_mut().map_or(summary, |anchor| &mut anchor.doc);
        if doc.is_empty() {
            *doc = text.to_string();
        }
    }

    /// Notes the flags that the first cell of a row names, and returns the anchor that it gets.
    fn flag_row(&mut self, cells: &[Event<'_>]) -> Option<String> {
        let end = cells.iter().position(|event| matches!(event, Event::End(TagEnd::TableCell)))?;
        let flags: Vec<&str> = cells[..end]
            .iter()
            .filter_map(|event| match event {
                Event::Code(code) if code.starts_with("--") => code.split(['=', '[']).next(),
                _ => None,
            })
            .collect();
        let id = self.unique(format!("flag-{}", flags.first()?.trim_matches(['-', '.'])));
        let row = cells.iter().position(|event| matches!(event, Event::End(TagEnd::TableRow)))?;
        let texts =
            cells[end..row].iter().enumerate().filter(|(_, event)| matches!(event, Event::Start(Tag::TableCell)));
        let texts: Vec<String> =
            texts.map(|(at, _)| plain(&cells[end + at..])).filter(|text| !text.is_empty()).collect();
        let doc = texts.join("; ");
        self.rendered.anchors.extend(flags.iter().map(|flag| Anchor {
            id: id.clone(),
            name: flag.to_string(),
            doc: doc.clone(),
            kind: AnchorKind::Flag,
        }));
        Some(format!("<span id=\"{}\"></span>", escape(&id)))
    }

    /// `id`, with a number if it is taken.
    fn unique(&mut self, id: String) -> String {
        let count = self.ids.entry(id.clone()).or_default();
        *count += 1;
        if *count == 1 { id } else { format!("{id}-{}", *count - 1) }
    }
}

/// The link `event` with another target.
fn leading_to<'a>(event: &Event<'a>, href: String) -> Event<'a> {
    let mut event = event.clone();
    if let Event::Start(Tag::Link { dest_url, .. }) = &mut event {
        *dest_url = href.into();
    }
    event
}

/// The link of a heading to itself.
fn link_to(anchor: &Anchor) -> String {
    let (id, label) = (escape(&anchor.id), escape(&anchor.name.replace('`', "")));
    format!("<a class=\"anchor\" href=\"#{id}\" aria-label=\"link to {label}\">#</a>")
}

/// The text between the first of `events` and its end, with backticks around code.
fn plain(events: &[Event<'_>]) -> String {
    let (mut depth, mut out) = (0usize, String::new());
    for event in events {
        match event {
            Event::Start(_) => depth += 1,
            Event::End(_) => depth -= 1,
            Event::Text(text) => out.push_str(text),
            Event::Code(code) => out.push_str(&format!("`{code}`")),
            Event::SoftBreak | Event::HardBreak => out.push(' '),
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
    out
}

/// The anchor that hosts of repositories give a heading, which links in documents are written for.
fn slug(heading: &str) -> String {
    let kept = heading.chars().filter(|letter| letter.is_alphanumeric() || [' ', '-', '_'].contains(letter));
    kept.map(|letter| if letter == ' ' { '-' } else { letter }).flat_map(char::to_lowercase).collect()
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(text: &str) -> Rendered {
        let resolve = |link: &str| match link {
            "gone" => Err("the link `gone` leads nowhere".to_string()),
            link if link.starts_with("src/") => Ok(Target::Source(link.to_string())),
            link => Ok(Target::Page(link.replace(".md", ".html"))),
        };
        let named = |code: &str| code.starts_with("src/").then(|| Target::Source(code.to_string()));
        render(text, &resolve, &named, &|_| None).unwrap_or_else(|problem| panic!("{problem}"))
    }

    #[test]
    fn headings_get_the_anchors_that_links_are_written_for() {
        let text = "# The `x` command\nAbout x. More.\n\n## Flags of the tool's\nThey are few.\n\nOthers.\n### `vireo run`\n## Flags of the tool's\n";
        let rendered = rendered(text);
        assert_eq!((rendered.title.as_str(), rendered.summary.as_str()), ("The x command", "About x. More."));
        let anchors: Vec<(&str, &str, &str, AnchorKind)> = rendered
            .anchors
            .iter()
            .map(|anchor| (anchor.id.as_str(), anchor.name.as_str(), anchor.doc.as_str(), anchor.kind))
            .collect();
        assert_eq!(
            anchors,
            [
                ("flags-of-the-tools", "Flags of the tool's", "They are few.", AnchorKind::Part),
                ("vireo-run", "`vireo run`", "", AnchorKind::Heading),
                ("flags-of-the-tools-1", "Flags of the tool's", "", AnchorKind::Part),
            ]
        );
        assert!(
            rendered.html.starts_with("<p>About x. More.</p>\n<h2 id=\"flags-of-the-tools\">"),
            "{}",
            rendered.html
        );
    }

    #[test]
    fn flags_of_tables_get_anchors() {
        let text = "# T\n\n| flag | |\n|---|---|\n| `--a_b=N`, `--c[=X]` | counts `N` |\n| other | |\n\n| value | |\n|---|---|\n| `--d` | |\n";
        let rendered = rendered(text);
        let names: Vec<(&str, &str, &str)> = rendered
            .anchors
            .iter()
            .map(|anchor| (anchor.name.as_str(), anchor.id.as_str(), anchor.doc.as_str()))
            .collect();
        assert_eq!(names, [("--a_b", "flag-a_b", "counts `N`"), ("--c", "flag-a_b", "counts `N`")]);
        assert!(rendered.html.contains("<td><span id=\"flag-a_b\"></span><code>--a_b=N</code>"), "{}", rendered.html);
        assert_eq!(rendered.html.matches("<div class=\"scroll\" tabindex=\"0\"><table class=\"cards\">").count(), 2);
    }

    #[test]
    fn cells_are_labelled_with_their_columns() {
        let rendered = rendered(
            "# T\n\n| a | `b` | |\n|---|---|---|\n| 1 | 2 | 3 |\n| 4 | | 5 |\n\n| a | b |\n|---|---|\n| 1 | 2 |\n",
        );
        let tables = "<thead><tr><th scope=\"col\">a</th><th scope=\"col\"><code>b</code></th><th scope=\"col\"></th></tr></thead><tbody>\n\
                      <tr><td data-label=\"a\">1</td><td data-label=\"b\">2</td><td>3</td></tr>\n<tr><td data-label=\"a\">4</td><td></td><td>5</td></tr>\n</tbody></table>";
        assert!(rendered.html.contains(tables), "{}", rendered.html);
        assert!(rendered.html.contains("<tr><td>1</td><td>2</td></tr>"), "{}", rendered.html);
    }

    #[test]
    fn links_lead_to_pages_and_images_are_taken_along() {
        let rendered =
            rendered("# T\n[a](b.md#c) [`d`](src/d.rs) ![e](src/f.svg) <b> `src/g`\n\n## `src/h`\n[`src/i`](b.md)");
        let body = "<p><a href=\"b.html#c\">a</a> <a href=\"source:src/d.rs\"><code>d</code></a> \
                    <img src=\"f.svg\" alt=\"e\" /> &lt;b&gt; <a href=\"source:src/g\"><code>src/g</code></a></p>\n\
                    <h2 id=\"srch\"><code>src/h</code><a class=\"anchor\" href=\"#srch\" aria-label=\"link to src/h\">#</a></h2>\n\
                    <p><a href=\"b.html\"><code>src/i</code></a></p>\n";
        assert_eq!(rendered.html, body);
        assert_eq!(rendered.images, ["src/f.svg"]);
    }

    #[test]
    fn telephones_show_other_images() {
        let resolve = |link: &str| Ok(Target::Source(link.to_string()));
        let narrow = |path: &str| path.strip_suffix("a.svg").map(|_| "a-narrow.svg".to_string());
        let rendered = render("# T\n![a](b/a.svg) ![c](b/c.svg)\n", &resolve, &|_| None, &narrow).unwrap();
        let picture = "<picture><source media=\"(max-width: 40rem)\" srcset=\"a-narrow.svg\"><img src=\"a.svg\" alt=\"a\" /></picture>";
        assert_eq!(rendered.html, format!("<p>{picture} <img src=\"c.svg\" alt=\"c\" /></p>\n"));
        assert_eq!(rendered.images, ["b/a.svg", "b/c.svg"]);
    }

    #[test]
    fn what_cannot_be_rendered_is_refused() {
        let resolve = |link: &str| match link {
            "gone" => Err("the link `gone` leads nowhere".to_string()),
            link => Ok(Target::Page(link.to_string())),
        };
        let refused = |text: &str| render(text, &resolve, &|_| None, &|_| None).unwrap_err();
        assert_eq!(refused("text"), "expected a document that begins with `# Title`");
        assert_eq!(refused("# T\n[a](gone)"), "the link `gone` leads nowhere");
        assert_eq!(refused("# T\n![a](http://b/c.png)"), "expected an image of the repository, got `http://b/c.png`");
    }
}
