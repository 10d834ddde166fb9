//! The pages of calling conventions: the letters, the reference types, the codes of errors, and the exports of each
//! module.

use std::collections::BTreeMap;

use super::html::{self, code, code_link, escape, inline};
use super::links;
use super::name::NameKind;
use super::page::Page;
use super::text::first_sentence;
use crate::model::abi::{Abi, Arg, Bracket, Export, Field, Module, Type};

/// The overview and a page for each module.
pub(super) fn pages(abi: &Abi) -> Vec<Page> {
    let mut pages = vec![overview(abi)];
    pages.extend(abi.modules.values().map(|module| module_page(abi, module)));
    pages
}

fn module_path(module: &Module) -> String {
    format!("abi-{}.html", module.name)
}

fn export_id(module: &Module, export: &Export) -> String {
    // An export may have been replaced by another of the same name; the older ones say in their anchor until when they
    // were.
    if export.until < module.version { format!("{}-until-{}", export.name, export.until) } else { export.name.clone() }
}

fn overview(abi: &Abi) -> Page {
    let mut page = Page::new("abi.html", "Calling conventions", "abi.html");
    page.text(&abi.grammar.doc);
    page.text(&format!(
        "The version is `{}`, and `{}` comes before the results.",
        abi.grammar.version, abi.grammar.results
    ));
    page.text("`0rIiCrID_r` takes a reference, an i64, an i32 and any number of pairs of a reference and an i64, and returns a reference.");
    letters(abi, &mut page);
    references(abi, &mut page);
    statuses(abi, &mut page);
    modules(abi, &mut page);
    conventions(abi, &mut page);
    page
}

fn letters(abi: &Abi, page: &mut Page) {
    page.part("letters", "Letters");
    let rows: Vec<Vec<String>> = abi
        .grammar
        .letters
        .iter()
        .map(|letter| {
            let role = match letter.bracket {
                Some(Bracket::Opens) => "opens a span".to_string(),
                Some(Bracket::Closes) => "closes a span".to_string(),
                None => letter.kind.map(|kind| code(kind.name())).unwrap_or_default(),
            };
            let name = letter.letter.to_string();
            vec![
                page.anchored(NameKind::Letter, &name, (&format!("letter-{name}"), &name), &letter.doc),
                role,
                letter.slots.to_string(),
                inline(&letter.doc),
            ]
        })
        .collect();
    page.table(&["Letter", "Type", "Slots of 32 bits", "What it is"], &rows);
}

fn references(abi: &Abi, page: &mut Page) {
    page.part("refs", "Reference types");
    let rows: Vec<Vec<String>> = abi
        .refs
        .iter()
        .map(|reference| {
            vec![
                page.anchored(
                    NameKind::ReferenceType,
                    &reference.name,
                    (&ref_id(&reference.name), &reference.name),
                    &reference.doc,
                ),
                code(&format!("!{}", reference.name)),
                inline(&reference.doc),
            ]
        })
        .collect();
    page.table(&["Name", "In type tables", "What it is"], &rows);
}

fn statuses(abi: &Abi, page: &mut Page) {
    page.part("statuses", "Status codes");
    let rows: Vec<Vec<String>> = abi
        .statuses
        .iter()
        .map(|status| {
            let (id, name) = (links::status_id(&status.name), status.upper_name());
            let shown = page.anchored(NameKind::Status, &name, (&id, &name), &status.doc);
            vec![status.number.to_string(), shown, inline(&status.doc)]
        })
        .collect();
    page.table(&["Number", "Name", "What it says"], &rows);
}

fn modules(abi: &Abi, page: &mut Page) {
    page.part("modules", "Modules");
    let rows: Vec<Vec<String>> = abi
        .modules
        .values()
        .map(|module| {
            vec![
                code_link(&module_path(module), &module.name),
                format!("{} to {}", module.minimum_version, module.version),
                module.exports.len().to_string(),
                inline(&module.doc),
            ]
        })
        .collect();
    page.table(&["Module", "Versions", "Exports", "What it is for"], &rows);
}

fn conventions(abi: &Abi, page: &mut Page) {
    page.part("conventions", "Conventions in use");
    let mut users: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for module in abi.modules.values() {
        for export in &module.exports {
            users.entry(abi.grammar.text(&export.convention())).or_default().push(export_link(module, export));
        }
        for adaptor in &module.adaptors {
            let Some(export) = module.export(&adaptor.name) else { continue };
            users.entry(abi.grammar.text(&adaptor.convention)).or_default().push(export_link(module, export));
        }
    }
    let rows: Vec<Vec<String>> = users
        .into_iter()
        .map(|(convention, users)| {
            let id = format!("convention-{convention}");
            let shown = page.anchored(NameKind::Convention, &convention, (&id, &convention), "");
            vec![shown, format!("<span class=\"chips\">{}</span>", users.join(" "))]
        })
        .collect();
    page.table(&["Convention", "Exports"], &rows);
}

fn ref_id(name: &str) -> String {
    format!("ref-{name}")
}

fn export_link(module: &Module, export: &Export) -> String {
    let href = format!("{}#{}", module_path(module), export_id(module, export));
    code_link(&href, &format!("{}.{}", module.name, export.name))
}

fn module_page(abi: &Abi, module: &Module) -> Page {
    let mut page = Page::new(&module_path(module), &format!("Module: {}", module.name), "abi.html");
    page.name(NameKind::Module, &module.name, "", &module.doc);
    page.text(&module.doc);
    page.text(&format!(
        "Version {}; programs that ask for version {} or later are served.",
        module.version, module.minimum_version
    ));
    let rows: Vec<Vec<String>> = module
        .exports
        .iter()
        .map(|export| {
            vec![
                code_link(&format!("#{}", export_id(module, export)), &export.name),
                code(&abi.grammar.text(&export.convention())),
                inline(first_sentence(&export.doc)),
            ]
        })
        .collect();
    page.table(&["Export", "Convention", "What it does"], &rows);
    for export in &module.exports {
        write_export(abi, module, export, &mut page);
    }
    page
}

fn write_export(abi: &Abi, module: &Module, export: &Export, page: &mut Page) {
    let (id, name) = (export_id(module, export), format!("{}.{}", module.name, export.name));
    let convention = code(&abi.grammar.text(&export.convention()));
    page.part_of(NameKind::Export, &name, (&id, &export.name), &convention, &export.doc);
    page.html(format!("<pre class=\"form\">{}</pre>", escape(&signature(module, export))));
    let mut rows = Vec::new();
    for arg in &export.args {
        match arg {
            Arg::One(field) => rows.push(row(abi, field, "argument")),
            Arg::Span { name, fields } => {
                rows.push(vec![
                    code(name),
                    "<a href=\"abi.html#letter-C\"><code>C</code></a>".to_string(),
                    "span of tuples".to_string(),
                    "argument".to_string(),
                ]);
                rows.extend(fields.iter().map(|field| {
                    let mut row = row(abi, field, "field of the span");
                    row[0] = format!("&nbsp;&nbsp;{}", row[0]);
                    row
                }));
            }
        }
    }
    rows.extend(export.results.iter().map(|field| row(abi, field, "result")));
    page.table(&["Name", "Letter", "Type", ""], &rows);
    let mut facts = Vec::new();
    if export.since > module.minimum_version {
        facts.push(format!("since version {}", export.since));
    }
    if export.until < module.version {
        facts.push(format!("until version {}", export.until));
    }
    if export.yields {
        facts.push("may suspend its caller".to_string());
    }
    let adaptors = module.adaptors.iter().filter(|adaptor| adaptor.name == export.name);
    let earlier: Vec<Vec<String>> = adaptors
        .map(|adaptor| {
            let convention = abi.grammar.text(&adaptor.convention);
            vec![code(&convention), format!("until version {}", adaptor.until), inline(&adaptor.doc)]
        })
        .collect();
    if !earlier.is_empty() {
        page.table(&["Earlier form", "Imported", "What differs"], &earlier);
    }
    if !facts.is_empty() {
        let badges: String = facts.iter().map(|fact| format!("<span class=\"badge\">{fact}</span>")).collect();
        page.html(format!("<p>{badges}</p>"));
    }
    page.html(html::source(&export.origin));
}

fn row(abi: &Abi, field: &Field, role: &str) -> Vec<String> {
    let letter = abi.grammar.letter(field.ty.kind());
    let ty = match &field.ty {
        Type::Number(kind) => code(kind.name()),
        Type::Ref => "any reference".to_string(),
        Type::Object(name) if abi.refs.iter().any(|reference| reference.name == *name) => {
            code_link(&format!("abi.html#{}", ref_id(name)), name)
        }
        Type::Object(name) => code(name),
    };
    let null = if field.nullable { ", may be null" } else { "" };
    let meaning = field.meaning.as_ref().map(|meaning| format!(", as {}", code(meaning.name()))).unwrap_or_default();
    vec![
        code(&field.name),
        code_link(&format!("abi.html#letter-{letter}"), &letter.to_string()),
        ty + null + &meaning,
        role.to_string(),
    ]
}

/// `hal.buffer.length(buffer: hal.buffer) -> (length: i64)`
fn signature(module: &Module, export: &Export) -> String {
    let args: Vec<String> = export
        .args
        .iter()
        .map(|arg| match arg {
            Arg::One(field) => value(field),
            Arg::Span { name, fields } => {
                format!("{name}: [({})]", fields.iter().map(value).collect::<Vec<_>>().join(", "))
            }
        })
        .collect();
    let results: Vec<String> = export.results.iter().map(value).collect();
    let name = format!("{}.{}", module.name, export.name);
    let one_line = format!("{name}({}) -> ({})", args.join(", "), results.join(", "));
    if one_line.len() <= 100 {
        return one_line;
    }
    format!("{name}(\n    {},\n) -> ({})", args.join(",\n    "), results.join(", "))
}

fn value(field: &Field) -> String {
    let ty = match &field.ty {
        Type::Number(kind) => kind.name(),
        Type::Ref => "ref",
        Type::Object(name) => name,
    };
    format!("{}: {ty}{}", field.name, if field.nullable { "?" } else { "" })
}
