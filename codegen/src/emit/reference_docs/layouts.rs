//! Binary layouts and types of native functions: what `spec/hal/` and other folders of layouts have in common.

use super::diagram::{self, Span};
use super::html::{self, code, code_link, escape, inline};
use super::name::NameKind;
use super::page::Page;
use crate::model::hal::{Function, Layout, LayoutType};

/// The names to which a layout may refer: the size in bytes and the page that describes it.
pub(super) trait Names {
    /// Bytes of what is declared as `name`; none if it is not known.
    fn size(&self, name: &str) -> Option<u64>;
    /// Where `name` is described.
    fn href(&self, name: &str) -> Option<String>;
    /// A diagram of all bits of a layout, instead of one of its bytes and those of the words in it.
    fn layout_bits(&self, _layout: &Layout) -> Option<String> {
        None
    }
    /// A diagram of the bits of `name`, if it is a word of bit fields.
    fn bits(&self, _name: &str) -> Option<String> {
        None
    }
}

/// Writes the part of a page about a layout.
pub(super) fn write(names: &dyn Names, kind: NameKind, layout: &Layout, page: &mut Page) {
    let note = format!("{} bytes, aligned to {}", layout.size, layout.align);
    page.part_of(kind, &layout.name, (&layout.name, &layout.name), &note, &layout.doc);
    let mut spans = Vec::new();
    let mut rows = Vec::new();
    for field in &layout.fields {
        let length = size(names, &field.ty).unwrap_or(0) * field.count.unwrap_or(1);
        let count = field.count.map(|count| format!(" x {count}")).unwrap_or_default();
        spans.push(Span {
            label: field.name.clone(),
            note: format!("{}{count}", plain(&field.ty)),
            start: field.offset,
            length,
        });
        rows.push(vec![
            code(&format!("{:#x}", field.offset)),
            field.offset.to_string(),
            length.to_string(),
            page.member(NameKind::Field, &layout.name, &field.name, &field.doc),
            format!("{}{count}", linked(names, &field.ty)),
            inline(&field.doc),
        ]);
    }
    let bits = names.layout_bits(layout);
    let has_all = bits.is_some();
    page.html(bits.unwrap_or_else(|| diagram::rows(&spans, &format!("bytes of {}", layout.name))));
    page.table(&["Offset", "", "Size", "Field", "Type", "What it holds"], &rows);
    for field in layout.fields.iter().filter(|_| !has_all) {
        if let LayoutType::Layout(name) = &field.ty
            && let Some(bits) = names.bits(name)
        {
            page.html(format!("<p>Bits of {}, {}:</p>{bits}", code(&field.name), linked(names, &field.ty)));
        }
    }
    page.html(html::source(&layout.origin));
}

/// Writes the part of a page about the type of a native function.
pub(super) fn write_function(names: &dyn Names, function: &Function, page: &mut Page) {
    page.part_of(NameKind::Function, &function.name, (&function.name, &function.name), "function", &function.doc);
    let args: Vec<String> =
        function.args.iter().map(|(name, ty)| format!("{}: {}", escape(name), linked_text(names, ty))).collect();
    let result = function.result.as_ref().map(|ty| format!(" -> {}", linked_text(names, ty))).unwrap_or_default();
    page.html(format!("<pre class=\"form\">{}({}){result}</pre>", escape(&function.name), args.join(", ")));
    page.html(html::source(&function.origin));
}

fn size(names: &dyn Names, ty: &LayoutType) -> Option<u64> {
    match ty {
        LayoutType::Int(int) => Some(int.size()),
        LayoutType::Pointer { .. } | LayoutType::Function(_) => Some(8),
        LayoutType::Void => None,
        LayoutType::Layout(name) => names.size(name),
    }
}

/// A type as specs write it.
fn plain(ty: &LayoutType) -> String {
    match ty {
        LayoutType::Int(int) => int.name().to_string(),
        LayoutType::Pointer { to, mutable } => format!("{} {}", if *mutable { "mut" } else { "ptr" }, plain(to)),
        LayoutType::Void => "void".to_string(),
        LayoutType::Function(name) => format!("fn {name}"),
        LayoutType::Layout(name) => name.clone(),
    }
}

/// A type as specs write it, as code, with a link to what it names.
fn linked(names: &dyn Names, ty: &LayoutType) -> String {
    format!("<code>{}</code>", linked_text(names, ty))
}

fn linked_text(names: &dyn Names, ty: &LayoutType) -> String {
    let name = match innermost(ty) {
        LayoutType::Function(name) | LayoutType::Layout(name) => name,
        _ => return escape(&plain(ty)),
    };
    let text = plain(ty);
    let before = text.strip_suffix(name.as_str()).unwrap_or_default();
    let link = names.href(name).map_or_else(|| escape(name), |href| code_link(&href, name));
    format!("{}{}", escape(before), link.replace("<code>", "").replace("</code>", ""))
}

fn innermost(ty: &LayoutType) -> &LayoutType {
    match ty {
        LayoutType::Pointer { to, .. } => innermost(to),
        other => other,
    }
}
