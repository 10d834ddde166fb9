//! The page of primitives: what the semantics of ops are made of.

use super::html::{code, inline};
use super::links;
use super::name::NameKind;
use super::page::Page;
use crate::model::vm::{Body, Isa};
use crate::sem::{Effect, Lowering, Primitive};

/// The name of the page.
pub(super) const PATH: &str = "vm-primitives.html";

/// The page.
pub(super) fn page(isa: &Isa) -> Page {
    let mut page = Page::new(PATH, "Primitives", "vm.html");
    page.text(
        "Semantics are method calls of these primitives, and of nothing else. Each has one definition, which all tiers are compared \
         with. `N` and `L` are `i32` or `i64`, `F` is `f32` or `f64`, `T` any of the four, the same in all places of one use; `bits(F)` is the \
         integer as wide as `F`. A `?` after a use says that it can trap.",
    );
    let rows: Vec<Vec<String>> = isa
        .primitives
        .iter()
        .map(|primitive| {
            let params: Vec<String> = primitive.params().iter().map(ToString::to_string).collect();
            let signature = format!("({}) -> {}", params.join(", "), primitive.result());
            vec![
                page.anchored(
                    NameKind::Primitive,
                    primitive.written(),
                    (primitive.variant(), primitive.written()),
                    primitive.doc(),
                ),
                code(&signature),
                format!("{}{}", inline(primitive.doc()), examples(primitive)),
                effect(primitive).to_string(),
                format!("<span class=\"chips\">{}</span>", users(isa, primitive).join(" ")),
            ]
        })
        .collect();
    page.table(&["Primitive", "Signature", "What it computes", "Effect", "Used by"], &rows);
    page
}

fn examples(primitive: &Primitive) -> String {
    let examples: Vec<String> = primitive.examples().iter().map(|example| code(&example.text)).collect();
    if examples.is_empty() { String::new() } else { format!("<br>{}", examples.join(" ")) }
}

fn effect(primitive: &Primitive) -> &'static str {
    match primitive.effect() {
        Effect::Pure if primitive.lowering() == Lowering::Call => "none; out of line",
        Effect::Pure => "none",
        Effect::Trap => "may trap",
        Effect::Refs => "looks at references",
        Effect::Load => "reads a buffer, or traps",
        Effect::Store => "writes a buffer, or traps",
        Effect::GlobalLoad => "reads globals",
        Effect::GlobalStore => "writes globals",
        Effect::IndirectLoad => "reads globals, or traps",
        Effect::IndirectStore => "writes globals, or traps",
    }
}

fn users(isa: &Isa, wanted: &Primitive) -> Vec<String> {
    let uses = |body: &Body| {
        let mut found = false;
        if let Body::Semantics(expr) = body {
            expr.for_each_primitive(&mut |primitive| found |= primitive == wanted);
        }
        found
    };
    isa.ops.iter().filter(|op| uses(&op.body)).map(links::op).collect()
}
