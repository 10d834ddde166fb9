//! The pages of file formats: FlatBuffer tables in slot order, structs, enums, unions, headers and constants.

use super::diagram::{self, Span};
use super::html::{self, code, code_link, escape, inline};
use super::name::NameKind;
use super::page::Page;
use crate::model::schema::{Cell, Field, FieldType, Item, ItemKind, Schema, SchemaFile};

/// The overview and a page for each file.
pub(super) fn pages(schema: &Schema) -> Vec<Page> {
    let mut overview = Page::new("schema.html", "File formats", "schema.html");
    overview.text(
        "What stands in the files that Vireo reads: programs, archives of parameters and what executables hold. Names are resolved within one file of specs, so each has a page.",
    );
    let mut pages = Vec::new();
    for (stem, file) in &schema.files {
        overview.part(stem, stem);
        let rows: Vec<Vec<String>> = file
            .items
            .iter()
            .map(|item| {
                let href = format!("{}#{}", path(stem), id(item));
                vec![code_link(&href, &item.name), kind(&item.kind).1.to_string(), inline(&item.doc)]
            })
            .collect();
        overview.html(format!("<p>{}</p>", html::link(&path(stem), &format!("All of {stem}"))));
        overview.table(&["Name", "Kind", "What it is"], &rows);
        pages.push(file_page(stem, file));
    }
    pages.insert(0, overview);
    pages
}

fn path(stem: &str) -> String {
    format!("schema-{stem}.html")
}

/// The root of a file has the name of its table, so its anchor is another one.
fn id(item: &Item) -> String {
    if matches!(item.kind, ItemKind::Root { .. }) { format!("root-{}", item.name) } else { item.name.clone() }
}

fn kind(kind: &ItemKind) -> (NameKind, &'static str) {
    match kind {
        ItemKind::Root { .. } => (NameKind::Format, "root"),
        ItemKind::Table(_) => (NameKind::Table, "table"),
        ItemKind::Struct(_) => (NameKind::Struct, "struct"),
        ItemKind::Enum { flags: false, .. } => (NameKind::Enum, "enum"),
        ItemKind::Enum { flags: true, .. } => (NameKind::Bits, "flags"),
        ItemKind::Union(_) => (NameKind::Union, "union"),
        ItemKind::Layout(_) => (NameKind::Layout, "layout"),
        ItemKind::Constant { .. } | ItemKind::Text(_) => (NameKind::Constant, "constant"),
        ItemKind::Record { .. } => (NameKind::Record, "record"),
    }
}

fn file_page(stem: &str, file: &SchemaFile) -> Page {
    let mut page = Page::new(&path(stem), &format!("Format: {stem}"), "schema.html");
    page.name(NameKind::Format, stem, "", "");
    page.html(format!("<p class=\"source\">{}</p>", escape(&file.path)));
    for item in &file.items {
        let label = if matches!(item.kind, ItemKind::Root { .. }) { "root" } else { &item.name };
        let (kind, note) = kind(&item.kind);
        page.part_of(kind, &item.name, (&id(item), label), note, &item.doc);
        write(file, item, &mut page);
        page.html(html::source(&item.origin));
    }
    page
}

fn write(file: &SchemaFile, item: &Item, page: &mut Page) {
    match &item.kind {
        ItemKind::Root { identifier, size_prefixed, limits } => {
            let prefix =
                if *size_prefixed { "a u32 with its size comes before it and counts for alignment" } else { "none" };
            let rows = [
                ("Root table", code_link(&format!("#{}", item.name), &item.name)),
                ("File identifier", code(identifier)),
                ("Size prefix", prefix.to_string()),
                ("Nesting, at most", limits.depth.to_string()),
                ("Tables, at most", limits.tables.to_string()),
                (
                    "Total size of what is referred to, at most",
                    format!("{} times that of the FlatBuffer", limits.expansion),
                ),
            ];
            let rows: Vec<Vec<String>> = rows.into_iter().map(|(name, value)| vec![name.to_string(), value]).collect();
            page.table(&["Property", "Value"], &rows);
        }
        ItemKind::Table(fields) => write_table(file, item, fields, page),
        ItemKind::Struct(fields) => write_fixed(file, item, fields, true, page),
        ItemKind::Layout(fields) => write_fixed(file, item, fields, false, page),
        ItemKind::Enum { ty, values, .. } => {
            page.text(&format!("Stored as `{}`.", ty.name()));
            let rows: Vec<Vec<String>> = values
                .iter()
                .map(|value| {
                    let name = page.member(NameKind::Value, &item.name, &value.name, &value.doc);
                    vec![name, code(&format!("{:#x}", value.value)), inline(&value.doc)]
                })
                .collect();
            page.table(&["Name", "Value", "What it means"], &rows);
        }
        ItemKind::Union(variants) => {
            let none = vec!["0".to_string(), "none".to_string()];
            let tags = variants
                .iter()
                .enumerate()
                .map(|(index, name)| vec![(index + 1).to_string(), code_link(&format!("#{name}"), name)]);
            page.table(&["Tag", "Table"], &std::iter::once(none).chain(tags).collect::<Vec<_>>());
        }
        ItemKind::Constant { ty, value } => {
            page.html(format!("<p>{} = {} ({value})</p>", code(ty.name()), code(&format!("{value:#x}"))));
        }
        ItemKind::Text(text) => page.html(format!("<p>{}</p>", code(text))),
        ItemKind::Record { fields, rows, .. } => {
            let rows = rows.iter().map(|row| row.iter().map(cell).collect());
            let names = fields.iter().map(|field| field.name.as_str()).collect::<Vec<_>>();
            page.table(&names, &rows.collect::<Vec<Vec<String>>>());
        }
    }
}

/// A value in a list of records.
fn cell(cell: &Cell) -> String {
    match cell {
        Cell::Number(value) => value.to_string(),
        Cell::Text(text) => code(text),
    }
}

/// The fields of a table with the slots that the FlatBuffer's vtable has for them: a union takes two.
fn write_table(file: &SchemaFile, item: &Item, fields: &[Field], page: &mut Page) {
    let mut slot = 0;
    let mut rows = Vec::new();
    for field in fields {
        let slots = if is_union(file, &field.ty) { 2 } else { 1 };
        let number = if slots == 2 { format!("{slot} (tag), {}", slot + 1) } else { slot.to_string() };
        let absent = match &field.ty {
            _ if field.required => "required".to_string(),
            FieldType::Scalar(_) => code(&field.default.to_string()),
            FieldType::Named(name) if matches!(file.item(name).map(|item| &item.kind), Some(ItemKind::Enum { .. })) => {
                code(&field.default.to_string())
            }
            _ => "none".to_string(),
        };
        rows.push(vec![
            number,
            format!("{}", 4 + 2 * (slot + slots - 1)),
            page.member(NameKind::Field, &item.name, &field.name, &field.doc),
            ty(file, &field.ty),
            absent,
            inline(&field.doc),
        ]);
        slot += slots;
    }
    page.table(&["Slot", "Vtable offset", "Field", "Type", "If absent", "What it holds"], &rows);
}

fn is_union(file: &SchemaFile, ty: &FieldType) -> bool {
    match ty {
        FieldType::Named(name) => matches!(file.item(name).map(|item| &item.kind), Some(ItemKind::Union(_))),
        FieldType::Vector(element) => is_union(file, element),
        FieldType::Scalar(_) | FieldType::String => false,
    }
}

/// A struct with its fields at their alignments, or a layout without any padding.
fn write_fixed(file: &SchemaFile, item: &Item, fields: &[Field], aligned: bool, page: &mut Page) {
    let mut offset = 0u64;
    let mut spans = Vec::new();
    let mut rows = Vec::new();
    for field in fields {
        let size = match &field.ty {
            FieldType::Scalar(scalar) => scalar.size(),
            FieldType::Named(name) => match file.item(name).map(|item| &item.kind) {
                Some(ItemKind::Enum { ty, .. }) => ty.size(),
                _ => 0,
            },
            FieldType::String | FieldType::Vector(_) => 0,
        };
        let size = u64::try_from(size).unwrap_or(0);
        if aligned {
            offset = offset.next_multiple_of(size.max(1));
        }
        let name = page.member(NameKind::Field, &item.name, &field.name, &field.doc);
        rows.push(vec![offset.to_string(), name, ty(file, &field.ty), inline(&field.doc)]);
        spans.push(Span { label: field.name.clone(), note: plain(&field.ty), start: offset, length: size });
        offset += size;
    }
    page.html(diagram::rows(&spans, &format!("bytes of {}", item.name)));
    page.table(&["Offset", "Field", "Type", "What it holds"], &rows);
}

/// A type with links to the entries that it names.
fn ty(file: &SchemaFile, ty: &FieldType) -> String {
    match ty {
        FieldType::Named(name) if file.item(name).is_some() => code_link(&format!("#{name}"), name),
        FieldType::Vector(element) => format!("[{}]", self::ty(file, element)),
        other => code(&plain(other)),
    }
}

fn plain(ty: &FieldType) -> String {
    match ty {
        FieldType::Scalar(scalar) => scalar.name().to_string(),
        FieldType::String => "string".to_string(),
        FieldType::Named(name) => name.clone(),
        FieldType::Vector(element) => format!("[{}]", plain(element)),
    }
}
