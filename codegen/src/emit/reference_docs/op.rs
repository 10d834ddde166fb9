//! One op: its encoding, text form, operands, semantics, traps, properties and examples.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::highlight::highlight;
use super::html::{self, code, escape, inline};
use super::name::NameKind;
use super::page::Page;
use super::{diagram, examples, links, stream, text};
use crate::model::example::{Example, Outcome};
use crate::model::status::StatusCode;
use crate::model::vm::{Body, FieldKind, Isa, Op, Structure, TextPart};
use crate::sem::{Expr, ExprKind, Primitive, Ty};

/// `0x22`, or `0xe0 0x00` for an op of another set than the first.
pub(super) fn opcode_text(isa: &Isa, op: &Op) -> String {
    match isa.prefix(&op.set) {
        Some(prefix) => format!("{prefix:#04x} {:#04x}", op.opcode),
        None => format!("{:#04x}", op.opcode),
    }
}

/// The part of a page about `op`.
pub(super) fn part(isa: &Isa, statuses: &[StatusCode], op: &Op, page: &mut Page) {
    let (name, opcode) = (code(&format!("vm.{}", op.mnemonic)), code(&opcode_text(isa, op)));
    page.name(NameKind::Op, &op.mnemonic, &op.mnemonic, &op.doc);
    page.titled_part((&op.mnemonic, &op.mnemonic), &name, &opcode);
    page.text(&op.doc);
    page.html(format!("<pre class=\"form\">{}</pre>", highlight("vmasm", &text_form(op))));

    page.html("<h3>Encoding</h3>");
    let operands = stream::operands(op);
    let cells: Vec<_> = stream::opcode(isa, op).into_iter().chain(operands.iter().flat_map(stream::cells)).collect();
    page.html(diagram::stream(&cells, &format!("encoding of {}", op.mnemonic)));
    if !op.encoding.is_empty() {
        page.html(format!("<p>Encoding {}.</p>", links::encoding(op)));
    }
    page.table(&["Operand", "Kind", "Type", "Use"], &stream::rows(&operands));

    page.html("<h3>Semantics</h3>");
    semantics(op, page);
    properties(op, page);
    traps(op, statuses, page);
    if !op.examples.is_empty() {
        page.html("<h3>Examples</h3>");
        examples::write(isa, op, page);
    }
    page.html(html::source(&op.origin));
}

/// `%result = vm.add.i32 %lhs, %rhs`
fn text_form(op: &Op) -> String {
    let mut text = String::new();
    if let Some(result) = op.result() {
        let _ = write!(text, "%{} = ", result.name);
    } else if let Some(results) = op.fields.iter().find(|field| field.kind == FieldKind::Results) {
        let _ = write!(text, "%{}... = ", results.name);
    }
    let _ = write!(text, "vm.{}", op.mnemonic);
    let operand = |name: &str| match op.field(name).map(|field| field.kind) {
        Some(FieldKind::Reg) => format!("%{name}"),
        Some(FieldKind::Regs) => format!("%{name}..."),
        Some(FieldKind::Edge | FieldKind::Target) => format!("^{name}"),
        Some(FieldKind::String) => format!("\"{name}\""),
        _ => name.to_string(),
    };
    match &op.text {
        Some(parts) => {
            text.push(' ');
            for part in parts {
                match part {
                    TextPart::Literal(literal) => text.push_str(literal),
                    TextPart::Field(name) => text.push_str(&operand(name)),
                }
            }
        }
        None => {
            let inputs = op.fields.iter().filter(|field| !matches!(field.kind, FieldKind::Result | FieldKind::Results));
            let inputs: Vec<String> = inputs.map(|field| operand(&field.name)).collect();
            if !inputs.is_empty() {
                let _ = write!(text, " {}", inputs.join(", "));
            }
        }
    }
    text
}

fn semantics(op: &Op, page: &mut Page) {
    match &op.body {
        Body::Semantics(expr) => {
            let target = op.result().filter(|_| expr.ty != Ty::Unit).map(|field| format!("{} = ", field.name));
            page.html(format!("<pre>{}{}</pre>", target.unwrap_or_default(), expression(expr)));
            let mut used = BTreeSet::new();
            expr.for_each_primitive(&mut |primitive| {
                used.insert(primitive.clone());
            });
            let items: String = used
                .iter()
                .map(|primitive| format!("<li>{}: {}</li>", links::primitive(primitive), inline(primitive.doc())))
                .collect();
            page.html(format!("<ul>{items}</ul>"));
        }
        Body::Helper(_) | Body::Control(_) => {
            page.html(format!("<pre class=\"steps\">{}</pre>", escape(op.effect.as_deref().unwrap_or_default())));
            page.html(format!("<p>{}</p>", html::link("vm.html#steps", "How steps are written")));
        }
        Body::Structure(Structure::Block) => {
            page.text("None: it marks the start of a block, and branches name its offset.")
        }
        Body::Structure(Structure::Prefix) => page.text("None of its own: the byte after it is an opcode of the set."),
    }
}

/// The expression as specs write it, with a link for each primitive.
fn expression(expr: &Expr) -> String {
    match &expr.kind {
        ExprKind::Operand(name) => escape(name),
        ExprKind::Int(value) => value.to_string(),
        ExprKind::Float(bits) => text::float(*bits, expr.ty == Ty::F32),
        ExprKind::BoolToI32(inner) => expression(inner),
        ExprKind::Call { primitive, args, .. } => {
            let mut parts = args.iter().map(expression);
            let receiver = parts.next().unwrap_or_default();
            let question = if primitive.effect().traps() { "?" } else { "" };
            format!("{receiver}.{}({}){question}", call_link(primitive), parts.collect::<Vec<_>>().join(", "))
        }
    }
}

fn call_link(primitive: &Primitive) -> String {
    format!("<a href=\"{}\">{}</a>", links::primitive_path(primitive), primitive.written())
}

fn properties(op: &Op, page: &mut Page) {
    let properties = op.properties;
    let all = [
        (properties.can_trap, "can trap"),
        (properties.reads_memory, "reads memory"),
        (properties.writes_memory, "writes memory"),
        (properties.touches_refs, "touches references"),
        (properties.calls, "calls"),
        (properties.yields, "may suspend"),
        (op.is_terminator(), "ends its block"),
    ];
    let mut badges: String = all
        .iter()
        .filter(|(holds, _)| *holds)
        .map(|(_, name)| format!("<span class=\"badge\">{name}</span>"))
        .collect();
    if badges.is_empty() {
        badges.push_str("<span class=\"badge\">pure</span>");
    }
    page.html(format!("<h3>Properties</h3><p>{badges}</p>"));
}

/// The codes that the description or the examples of the op name, with the examples that show them.
fn traps(op: &Op, statuses: &[StatusCode], page: &mut Page) {
    let mut codes: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for status in statuses {
        let upper = status.upper_name();
        if op.doc.split(|c: char| !(c.is_ascii_uppercase() || c == '_')).any(|word| word == upper) {
            codes.entry(&status.name).or_default();
        }
    }
    for (index, example) in op.examples.iter().enumerate() {
        let outcome = match example {
            Example::Vector(example) => &example.outcome,
            Example::Program(example) => &example.outcome,
        };
        if let Outcome::Traps(name) = outcome {
            codes.entry(name).or_default().push(index + 1);
        }
    }
    if codes.is_empty() {
        return;
    }
    page.html("<h3>Traps</h3>");
    let rows: Vec<Vec<String>> = codes
        .into_iter()
        .map(|(name, shown)| {
            let links: Vec<String> = shown
                .iter()
                .map(|number| html::link(&format!("#{}", links::example_id(op, *number)), &number.to_string()))
                .collect();
            vec![links::status(name), links.join(", ")]
        })
        .collect();
    page.table(&["Status", "Shown by example"], &rows);
}
