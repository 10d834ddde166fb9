//! The manual of the real specs and documents.

use std::process::Command;
use std::sync::LazyLock;

use vireo_codegen::emit::reference_docs::highlight;

use self::skip::{Need, skipped};

use super::*;

#[path = "../../../runtime/tests/support/skip.rs"]
mod skip;

/// The manual, which takes a second to render.
static MANUAL: LazyLock<Vec<GeneratedFile>> = LazyLock::new(|| manual(&outside()).map_err(message).unwrap());

/// The places of a manual in the folder of its own.
fn outside() -> Outside {
    Outside { sources: "../../".into(), library: Some("../doc/vireo/index.html".into()) }
}

fn message(failure: Failure) -> String {
    match failure {
        Failure::Wrong(message) | Failure::Usage(message) => message,
    }
}

/// `manual` refuses dead links, so this is about those of all documents, too.
#[test]
fn the_manual_is_the_same_each_time_and_no_link_is_dead() {
    assert!(*MANUAL == manual(&outside()).map_err(message).unwrap(), "the manual differs from itself");
    let mut paths: Vec<&str> = MANUAL.iter().map(|file| file.path.as_str()).collect();
    let count = paths.len();
    paths.sort_unstable();
    paths.dedup();
    assert_eq!(paths.len(), count, "two files have one name");
    for needed in ["index.html", "guides.html", "guide-cli.html", "guide-support.html", "pipeline.svg", "all.html"] {
        assert!(paths.contains(&needed), "there is no {needed}");
    }
}

#[test]
fn every_document_is_a_guide() {
    for entry in fs::read_dir(workspace().join("docs")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let known = GUIDES.iter().any(|guide| guide.file == format!("docs/{name}"));
        assert!(known || !name.ends_with(".md"), "docs/{name} is in no group of guides");
    }
}

/// The description of a guide in their list is the paragraph below its title.
#[test]
fn guides_lead_to_their_neighbours() {
    let guides: Vec<_> = MANUAL.iter().filter(|file| file.text.contains("<p class=\"crumbs\">")).collect();
    assert_eq!(guides.len(), GUIDES.len());
    let without = |word: &str| guides.iter().filter(|file| !file.text.contains(word)).count();
    // The first has none before it, the last none after it.
    assert_eq!((without(">Previous: <a href="), without(">Next: <a href=")), (1, 1));
}

#[test]
fn every_guide_says_what_it_is_about() {
    for guide in &GUIDES {
        let rendered = markdown::render(
            &read(guide.file).map_err(message).unwrap(),
            &|link| resolve(guide.file, link),
            &|_| None,
            &|_| None,
        );
        assert!(!rendered.unwrap().summary.is_empty(), "{}: expected a paragraph below the title", guide.file);
    }
}

/// A reader looks for changes of a release: not for all that was done, and not in a section without a date.
#[test]
fn the_changelog_has_a_short_section_for_each_release() {
    const MOST_ENTRIES: usize = 60;
    let text = read("CHANGELOG.md").map_err(message).unwrap();
    let sections: Vec<(&str, &str)> = text.split("\n## ").skip(1).filter_map(|one| one.split_once('\n')).collect();
    assert_eq!(sections.first().map(|(title, _)| *title), Some("[Unreleased]"));
    let version = format!("[{}] - ", env!("CARGO_PKG_VERSION"));
    let release = sections.iter().find(|(title, _)| title.starts_with(&version));
    let (title, _) = release.unwrap_or_else(|| panic!("CHANGELOG.md has no section `{version}DATE`"));
    assert_eq!(title.len(), version.len() + "2026-11-28".len(), "{title}");
    for (title, section) in sections {
        let entries = section.lines().filter(|line| line.starts_with("- ")).count();
        assert!(entries <= MOST_ENTRIES, "{title} has {entries} entries: details are for messages of commits");
    }
}

#[test]
fn the_support_matrix_is_that_of_its_file() {
    let page = MANUAL.iter().find(|file| file.path == "guide-support.html").unwrap();
    let text = read(IN_NAVIGATION).map_err(message).unwrap();
    let rows = text.lines().filter(|line| line.starts_with("| ") || line.starts_with("|-")).count();
    let heads = text.lines().filter(|line| line.starts_with("|--")).count();
    assert!(heads > 3 && page.text.matches("<tr>").count() + heads == rows, "rows of the matrix are missing");
    for file in MANUAL.iter().filter(|file| file.path.ends_with(".html")) {
        assert!(file.text.contains("href=\"guide-support.html\""), "{} does not link to the matrix", file.path);
    }
}

#[test]
fn links_lead_to_pages_or_name_sources() {
    let page = |link: &str| resolve("docs/cli.md", link);
    assert_eq!(page("jit.md#tiers"), Ok(Target::Page("guide-jit.html#tiers".into())));
    assert_eq!(page("../examples/README.md"), Ok(Target::Page("guide-examples.html".into())));
    assert_eq!(page("#values"), Ok(Target::Page("#values".into())));
    assert_eq!(page("https://iree.dev"), Ok(Target::Page("https://iree.dev".into())));
    assert_eq!(page("../Cargo.toml"), Ok(Target::Source("Cargo.toml".into())));
    assert_eq!(page("gone.md").unwrap_err(), "the link `gone.md` leads nowhere: there is no docs/gone.md");
    assert_eq!(page("../../x").unwrap_err(), "the link `../../x` leaves the repository");
}

/// The attributes and the content of each element of a kind that has none of its own kind inside.
fn elements<'a>(text: &'a str, name: &str) -> Vec<(&'a str, &'a str)> {
    let (open, close) = (format!("<{name}"), format!("</{name}>"));
    let parts = text.split(open.as_str()).skip(1).filter(|part| part.starts_with([' ', '>']));
    parts.filter_map(|part| part.split_once(close.as_str())?.0.split_once('>')).collect()
}

/// On a telephone the rows of tables are cards, in which each cell names its column.
#[test]
fn every_cell_of_a_card_names_its_column() {
    let mut labelled = 0;
    for file in MANUAL.iter().filter(|file| file.path.ends_with(".html")) {
        for (attributes, table) in elements(&file.text, "table") {
            assert!(attributes.contains("class=\"cards"), "{}: a table that is no list of cards", file.path);
            let (head, body) = table.split_once("</thead>").expect("a table has headings");
            let row =
                head.split_once("<tr>").expect("a row of headings").1.replace("<td", "<th").replace("</td>", "</th>");
            let headings: Vec<String> = elements(&row, "th").iter().map(|(_, heading)| without_tags(heading)).collect();
            for (_, row) in elements(body, "tr") {
                let cells = elements(row, "td");
                assert_eq!(cells.len(), headings.len(), "{}: {row}", file.path);
                for ((attributes, cell), heading) in cells.iter().zip(&headings) {
                    let needs_label = headings.len() > 2 && !heading.is_empty() && !cell.is_empty();
                    let label = if needs_label { format!(" data-label=\"{heading}\"") } else { String::new() };
                    let found = attributes.replace(" class=\"free\"", "");
                    assert_eq!(found, label, "{}: {cell}", file.path);
                    labelled += usize::from(needs_label);
                }
            }
        }
    }
    assert!(labelled > 10_000, "only {labelled} cells have labels");
    let style = &MANUAL.iter().find(|file| file.path == "style.css").unwrap().text;
    let (_, narrow) = style.split_once("@media (max-width: 40rem)").expect("rules for telephones");
    assert!(narrow.contains("table.cards td { display: block;") && narrow.contains("content: attr(data-label)"));
}

fn without_tags(html: &str) -> String {
    html.split('<').map(|part| part.split_once('>').map_or(part, |(_, text)| text)).collect()
}

/// A figure that is wider than a telephone has another one beside it, for telephones.
#[test]
fn figures_fit_telephones() {
    const TELEPHONE: u32 = 328;
    let mut narrow_ones = 0;
    for file in MANUAL.iter().filter(|file| file.path.ends_with(".html")) {
        let width = |svg: &str| -> u32 {
            let (_, rest) = svg.split_once(" width=\"").expect("a figure has a width");
            rest.split_once('"').and_then(|(width, _)| width.parse().ok()).expect("a number")
        };
        let (mut wide, mut narrow) = (0, 0);
        for part in file.text.split("<svg ").collect::<Vec<_>>().windows(2) {
            let is_for = |class: &str| {
                part[0].ends_with(&format!("<div class=\"{class}\"><div class=\"scroll\" tabindex=\"0\">"))
            };
            assert!(is_for("on-wide") || width(part[1]) <= TELEPHONE, "{}: {} pixels", file.path, width(part[1]));
            wide += usize::from(is_for("on-wide"));
            narrow += usize::from(is_for("on-narrow"));
        }
        assert_eq!(wide, narrow, "{}: figures for wide screens and for narrow ones", file.path);
        narrow_ones += narrow;
    }
    assert!(narrow_ones > 100, "only {narrow_ones} figures are drawn for telephones");
    // Images of packets in guides, too.
    let mut pictures = 0;
    for file in MANUAL.iter() {
        for (_, picture) in elements(&file.text, "picture") {
            let name = attribute(picture, "srcset").expect("an image for telephones");
            let image = MANUAL.iter().find(|file| file.path == name).unwrap_or_else(|| panic!("there is no {name}"));
            let width: u32 = attribute(&image.text, "width").and_then(|width| width.parse().ok()).expect("a width");
            assert!(width <= TELEPHONE, "{name} is {width} pixels wide");
            pictures += 1;
        }
    }
    assert!(pictures > 20, "only {pictures} images have another one for telephones");
}

/// The text of an element: without its tags, and with the letters that entities stand for.
fn text_of(html: &str) -> String {
    let text = without_tags(html).replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"");
    text.replace("&amp;", "&")
}

/// The tokens of `text` that have a colour, `class:text`.
fn tokens(language: &str, text: &str) -> Vec<String> {
    let html = highlight(language, text);
    assert_eq!(text_of(&html), text, "colours change no text");
    let spans = html.split("<span class=\"t-").skip(1).filter_map(|part| part.split_once("</span>"));
    spans.map(|(span, _)| text_of(&span.replacen("\">", ":", 1))).collect()
}

#[test]
fn code_has_colours() {
    let expected = [
        (
            "rust",
            r#"let x: &'a Vec<u8> = vec![b'\n', "a"]; // it's 1..2.5"#,
            r#"keyword:let name:'a type:Vec type:u8 name:vec text:'\n' text:"a" comment:// it's 1..2.5"#,
        ),
        ("rust", "/* a */ 1..2.5 \"open", "comment:/* a */ number:1 number:2.5 text:\"open"),
        ("c", "const char *a = \"b\"; // 0x10", "keyword:const type:char text:\"b\" comment:// 0x10"),
        ("python", "def f(a):  # x\n  return '''b\n'c'''", "keyword:def comment:# x keyword:return text:'''b\n'c'''"),
        (
            "yaml",
            "- op: a#a  # b\n  doc: Two's \"c\", {d: 0x10}",
            "name:op comment:# b name:doc text:\"c\" name:d number:0x10",
        ),
        (
            "vmasm",
            "%r = vm.add.i32 %a, 7 // c\n^bb0: !vm.ref @f",
            "name:%r keyword:vm.add.i32 name:%a number:7 comment:// c name:^bb0 type:!vm.ref name:@f",
        ),
        ("mlir", "return %a : tensor<2xf32>", "keyword:return name:%a type:tensor number:2xf32"),
        (
            "sh",
            "A=1 vireo run --input=f32=-2 | tee \"$B\" # c\nls",
            "name:A= number:1 keyword:vireo name:--input keyword:tee text:\"$B\" comment:# c keyword:ls",
        ),
        ("console", "$ a \\\n  -b\nout 1\n", "output:$  keyword:a name:-b output:out 1"),
        ("text", "let x = 1; // y", ""),
    ];
    for (language, text, expected) in expected {
        assert_eq!(tokens(language, text).join(" "), expected, "{language}: {text}");
    }
    for name in ["guide-library.html", "guide-cli.html", "guide-contributing.html", "vm-integer.html"] {
        let page = &MANUAL.iter().find(|file| file.path == name).unwrap().text;
        assert!(page.contains("<span class=\"t-"), "{name} has no colours");
    }
}

/// Whatever a block holds, its text stays, also if it ends in the middle of a token.
#[test]
fn colours_change_no_text() {
    let languages = ["rust", "c", "python", "yaml", "mlir", "sh", "console", "other"];
    for guide in &GUIDES {
        let text = read(guide.file).map_err(message).unwrap();
        for language in languages {
            assert!(text_of(&highlight(language, &text)) == text, "{}: {language}", guide.file);
        }
    }
    let odd = "'\\' \"\\\\ /* ${ '''é' $é --é=\"é\" é: 1.é 2..3 'é' '\\é";
    for (start, _) in odd.char_indices() {
        for (end, _) in odd.char_indices().filter(|(end, _)| *end >= start) {
            for language in languages {
                assert_eq!(text_of(&highlight(language, &odd[start..end])), odd[start..end], "{language}");
            }
        }
    }
}

/// Each link to the repository leads to a file of it, with the line where a host of repositories shows lines.
#[test]
fn sources_are_links_to_files_of_the_repository() {
    let mut files = BTreeSet::new();
    for page in MANUAL.iter().filter(|file| file.path.ends_with(".html")) {
        assert!(!page.text.contains("href=\"source:"), "{}: a link that leads nowhere", page.path);
        let links = page.text.split("href=\"../../").skip(1).filter_map(|part| part.split_once('"'));
        files.extend(links.map(|(path, _)| path.to_string()));
    }
    for file in &files {
        assert!(workspace().join(file).exists(), "there is no {file}");
    }
    for needed in ["spec/isa/vm/ops/integer.yaml", "spec/hal/device.yaml", "xtask/src/growth/kinds.rs"] {
        assert!(files.iter().any(|file| file.trim_end_matches('/') == needed), "no page leads to {needed}");
    }
    let sources = "https://example.org/vireo/blob/\"main\"/".to_string();
    let hosted = manual(&Outside { sources, library: None }).map_err(message).unwrap();
    let page = |files: &[GeneratedFile], path: &str| files.iter().find(|file| file.path == path).unwrap().text.clone();
    let text = page(&hosted, "vm-integer.html");
    assert!(text.contains("href=\"https://example.org/vireo/blob/&quot;main&quot;/spec/isa/vm/ops/integer.yaml#L"));
    let library = |files: &[GeneratedFile]| page(files, "index.html").contains("Documentation of the library");
    assert_eq!((library(&MANUAL), library(&hosted)), (true, false));
}

/// Any form of a word finds what a guide or a spec says with another one.
#[test]
fn the_search_finds_other_forms_of_words() {
    const QUERIES: [(&str, &str); 4] = [
        ("verified", "guide-readme.html#how-it-works"),
        ("compilers", "guide-jit.html"),
        ("sanitizing", "guide-cli.html#flag-sanitize"),
        ("multiplication of integers", "vm-integer.html#mul.i32"),
    ];
    let text = |path: &str| &MANUAL.iter().find(|file| file.path == path).unwrap().text;
    let find = "console.log(find(entries, query).map((entry) => entry.href).join(' '));";
    let queries = QUERIES.map(|(query, _)| format!("'{query}'")).join(",");
    let program = format!(
        "{}\n{}\nconst entries = read(vireoNames);\nfor (const query of [{queries}]) {find}\n",
        text("names.js"),
        text("search.js"),
    );
    let folder = target().join("tmp");
    let file = folder.join(format!("search-{}.js", std::process::id()));
    fs::create_dir_all(&folder).and_then(|()| fs::write(&file, program)).unwrap();
    let output = Command::new("node").arg(&file).output();
    fs::remove_file(&file).unwrap();
    let output = match output {
        Ok(output) => output,
        Err(error) => return skipped(Need::Tool("node"), format!("node: {error}")),
    };
    let found = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(found.lines().count(), QUERIES.len());
    for (line, (query, expected)) in found.lines().zip(QUERIES) {
        assert!(line.split(' ').any(|href| href.starts_with(expected)), "`{query}` finds {line}");
    }
}

/// The value of an attribute of an element.
fn attribute<'a>(tag: &'a str, name: &str) -> Option<&'a str> {
    tag.split_once(&format!(" {name}=\""))?.1.split_once('"').map(|(value, _)| value)
}

/// The left and the right end of a label, by the width that its letters have in the mean.
fn extent(tag: &str, label: &str) -> (f64, f64) {
    let class = attribute(tag, "class").unwrap_or_default();
    let letter = if class.contains("small") { 5.6 } else { 7.3 };
    let (x, width) = (attribute(tag, "x").and_then(|x| x.parse::<f64>().ok()).unwrap(), letter * label.len() as f64);
    match class {
        class if class.contains("start") => (x, x + width),
        class if class.contains("end") => (x - width, x),
        _ => (x - width / 2.0, x + width / 2.0),
    }
}

/// Each figure is on the page that explains it, its labels are inside of their boxes, and its objects are those of the
/// specs. On a telephone it is shown at five sixths of its size at least.
#[test]
fn figures_are_on_their_pages_and_true() {
    const FIGURES: [(&str, &str); 3] = [
        ("call.svg", "guide-library.html"),
        ("objects.svg", "guide-devices.html"),
        ("submission.svg", "guide-amdgpu.html"),
    ];
    let spec = op::read_spec().map_err(message).unwrap();
    let objects: Vec<&str> =
        spec.hal.files.iter().filter_map(|file| Some(file.object.as_ref()?.name.as_str())).collect();
    let mut found = BTreeSet::new();
    for (figure, page) in FIGURES {
        let file = |path: &str| &MANUAL.iter().find(|file| file.path == path).unwrap().text;
        let text = file(figure);
        assert!(file(page).contains(&format!("<img src=\"{figure}\" alt=\"")), "{page} does not show {figure}");
        assert!(text.contains("<desc>") && text.contains("prefers-color-scheme:dark"), "{figure}");
        let width: f64 = attribute(text, "width").unwrap().parse().unwrap();
        assert!(width <= 440.0, "{figure} is {width} pixels wide");
        for (tag, label) in elements(text, "text").into_iter().filter(|(tag, _)| !tag.contains("transform")) {
            let (left, right) = extent(tag, label);
            assert!(left >= 0.0 && right <= width, "{figure}: `{label}` is from {left} to {right}");
            if tag.contains("object") {
                assert!(objects.contains(&label), "{figure}: `{label}` is no object of spec/hal");
                found.insert(label);
            }
        }
        for (_, group) in elements(text, "g") {
            let number = |name| attribute(group, name).unwrap().parse::<f64>().unwrap();
            let (start, end) = (number("x"), number("x") + number("width"));
            for (tag, label) in elements(group, "text") {
                let (left, right) = extent(tag, label);
                assert!(left > start && right < end, "{figure}: `{label}` is wider than its box");
            }
        }
    }
    for needed in ["device", "buffer", "command_buffer", "executable", "semaphore", "fence"] {
        assert!(found.contains(needed), "no figure shows `{needed}`");
    }
}

/// Each op is in the index by purpose and on the card once, and some are where a reader looks for them.
#[test]
fn ops_are_found_by_what_they_do() {
    let page = |path: &str| &MANUAL.iter().find(|file| file.path == path).unwrap().text;
    let spec = op::read_spec().map_err(message).unwrap();
    let (index, card) = (page("vm-purposes.html"), page("card.html"));
    for op in &spec.vm("vm").expect("the VM").ops {
        let link = format!("<a href=\"vm-{}.html#{}\">", op.family, op.mnemonic);
        assert_eq!(index.matches(&link).count(), 1, "{} in the index", op.mnemonic);
        assert_eq!(card.matches(&link).count(), 1, "{} on the card", op.mnemonic);
    }
    let part = |title: &str| {
        let parts = index.split("<h2 ").find(|part| part.contains(&format!(">{title}<a")));
        parts.unwrap_or_else(|| panic!("there is no part `{title}`"))
    };
    for (title, ops) in [
        ("Make a constant", "const.i32 const.f64.zero"),
        ("Calculate with integers", "add.i32 div.i64.u"),
        ("Calculate with floats", "add.f32 atan2.f64 fpowi.f32"),
        ("Compare", "cmp.lt.i32.s cmp.eq.ref cmp.nan.f64"),
        ("Convert", "trunc.i32.i8 cast.f64.ui64 bitcast.i32.f32"),
        ("Choose a value", "select.f64 switch.i32"),
        ("Read buffers", "buffer.load.i8.u buffer.length buffer.hash"),
        ("Make and write buffers", "buffer.alloc buffer.store.i64 buffer.copy"),
        ("Read globals", "global.load.indirect.f64 global.load.ref"),
        ("Write globals", "global.store.i32 global.store.ref"),
        ("Read lists", "list.size list.get.ref"),
        ("Make and write lists", "list.alloc list.set.i32"),
        ("Handle references", "select.ref cast.any.ref discard.refs"),
        ("Branch, call and return", "br call.yieldable return"),
        ("Mark blocks and opcode sets", "block prefix.ext_f32"),
    ] {
        for op in ops.split(' ') {
            assert!(part(title).contains(&format!("<code>{op}</code>")), "{op} is not under `{title}`");
        }
    }
    // Ops of one sentence are in one row.
    assert!(
        part("Calculate with integers")
            .contains("#add.i32\"><code>add.i32</code></a> <a href=\"vm-integer64.html#add.i64\">")
    );
}

/// The card has all commands, the flags that examples use most, and rules for the printer that make it one sheet.
#[test]
fn the_card_has_commands_flags_and_ops() {
    let page = |path: &str| &MANUAL.iter().find(|file| file.path == path).unwrap().text;
    let card = page("card.html");
    let lists = elements(card, "dl");
    let names = |list: &str| elements(list, "dt").iter().map(|(_, name)| without_tags(name)).collect::<Vec<_>>();
    let [(_, commands), (_, flags)] = lists[..] else { panic!("commands and flags, found {} lists", lists.len()) };
    let (commands, flags) = (names(commands), names(flags));
    for needed in ["vireo run", "vireo check", "vireo disasm", "vireo devices"] {
        assert!(commands.iter().any(|command| command == needed), "{needed} is not among {commands:?}");
    }
    assert!((10..=18).contains(&flags.len()), "{flags:?}");
    for needed in ["--module", "--input", "--device"] {
        assert!(flags.iter().any(|flag| flag == needed), "{needed} is not among {flags:?}");
    }
    assert!(card.contains("guide-cli.html#flag-input") && card.contains("guide-cli.html#vireo-run"));
    let print = page("style.css").split("@media print").nth(1).expect("rules for printers");
    for rule in ["main:has(.card) { page: card; }", ".card { columns: 3; font-size: 6.6pt;", "@page card { size: A4;"] {
        assert!(print.contains(rule), "there is no `{rule}`");
    }
    assert!(page("index.html").contains("href=\"card.html\"") && page("vm.html").contains("href=\"vm-purposes.html\""));
}
