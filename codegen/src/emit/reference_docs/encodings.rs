//! The page of operand encodings, and of the kinds of fields that they are made of.

use super::diagram;
use super::highlight::highlight;
use super::html::{self, code};
use super::links;
use super::name::NameKind;
use super::page::Page;
use super::stream::{self, Operand};
use crate::model::vm::{FieldKind, Isa, Op};

/// The name of the page.
pub(super) const PATH: &str = "vm-encodings.html";

/// The page.
pub(super) fn page(isa: &Isa) -> Page {
    let mut page = Page::new(PATH, "Encodings", "vm.html");
    page.text(
        "An encoding is a list of operands that follow the opcode without padding, except where a kind of field asks for it. The \
         parameters in parentheses are types that an op puts in: `add.i32` has the encoding `binary(i32)`.",
    );
    page.part("kinds", "Kinds of fields");
    page.text("Offsets in the diagrams count from the start of the field. Padding to an even offset counts from the start of the function.");
    for kind in FieldKind::ALL {
        let operand = Operand { name: "field", kind: *kind, ty: kind.is_typed().then_some("i32"), movable: false };
        let id = format!("kind-{}", kind.name());
        page.name(NameKind::FieldKind, kind.name(), &id, stream::meaning(*kind));
        page.html(format!("<h3 id=\"{id}\"><code>{}</code></h3>", kind.name()));
        page.text(stream::meaning(*kind));
        let operand = if kind.is_typed() { Operand { ty: Some("T"), ..operand } } else { operand };
        page.html(diagram::stream(&stream::cells(&operand), &format!("bytes of a field of kind {}", kind.name())));
    }
    for encoding in &isa.encodings {
        let parameters = if encoding.parameters.is_empty() {
            String::new()
        } else {
            format!("({})", encoding.parameters.join(", "))
        };
        page.name(NameKind::Encoding, &encoding.name, &encoding.name, &encoding.doc);
        let heading = code(&format!("{}{parameters}", encoding.name));
        page.titled_part((&encoding.name, &encoding.name), &heading, "");
        page.text(&encoding.doc);
        if let Some(text) = &encoding.text {
            page.html(format!("<p>Text form:</p><pre class=\"form\">{}</pre>", highlight("vmasm", text)));
        }
        let operands: Vec<Operand<'_>> = encoding
            .fields
            .iter()
            .map(|field| Operand {
                name: &field.name,
                kind: field.kind,
                ty: field.ty.as_deref(),
                movable: field.movable,
            })
            .collect();
        if !operands.is_empty() {
            let cells: Vec<_> = operands.iter().flat_map(stream::cells).collect();
            page.html(diagram::stream(&cells, &format!("operands of {}", encoding.name)));
        }
        page.table(&["Operand", "Kind", "Type", "Use"], &stream::rows(&operands));
        let users: Vec<String> = isa
            .ops
            .iter()
            .filter(|op| links::encoding_name(op) == encoding.name)
            .map(|op: &Op| links::op(op))
            .collect();
        page.html(format!("<p class=\"chips\">Used by {}</p>", users.join(" ")));
        page.html(html::source(&encoding.origin));
    }
    page
}
