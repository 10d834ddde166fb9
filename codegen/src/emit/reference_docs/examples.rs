//! The examples of an op: a table of operands and outcomes, and programs as text.

use std::fmt::Write as _;

use super::html::{self, code, escape, inline};
use super::links;
use super::page::Page;
use super::text::{float, sentence};
use crate::model::example::{
    After, Edge, Example, Instruction, Literal, Operand, Outcome, ProgramExample, Register, VectorExample,
};
use crate::model::vm::{FieldKind, Isa, Op};

/// Writes all examples of `op`.
pub(super) fn write(isa: &Isa, op: &Op, page: &mut Page) {
    let numbered = || op.examples.iter().enumerate().map(|(index, example)| (index + 1, example));
    let vectors: Vec<_> = numbered()
        .filter_map(|(number, example)| match example {
            Example::Vector(vector) => Some((number, vector)),
            Example::Program(_) => None,
        })
        .collect();
    page.html(vector_table(op, &vectors));
    for (number, example) in numbered() {
        if let Example::Program(program) = example {
            write_program(isa, op, number, program, page);
        }
    }
}

fn vector_table(op: &Op, vectors: &[(usize, &VectorExample)]) -> String {
    let inputs: Vec<&str> = op
        .fields
        .iter()
        .map(|field| field.name.as_str())
        .filter(|name| vectors.iter().any(|(_, vector)| vector.inputs.iter().any(|(input, _)| input == name)))
        .collect();
    let has_globals = vectors.iter().any(|(_, vector)| vector.globals.is_some());
    let has_after = vectors.iter().any(|(_, vector)| !vector.after.is_empty());
    let notes: Vec<String> = vectors.iter().map(|(_, vector)| note(vector)).collect();
    let has_notes = notes.iter().any(|note| !note.is_empty());

    let mut columns = vec!["#"];
    columns.extend(&inputs);
    if has_globals {
        columns.push("globals before");
    }
    columns.push("outcome");
    if has_after {
        columns.push("afterwards");
    }
    if has_notes {
        columns.push("");
    }
    let row = |(number, vector): &(usize, &VectorExample), note: &str| {
        let mut cells = vec![format!("<span id=\"{}\">{number}</span>", escape(&links::example_id(op, *number)))];
        for name in &inputs {
            let value = vector.inputs.iter().find(|(input, _)| input == name);
            cells.push(value.map(|(_, literal)| code(&text(literal))).unwrap_or_default());
        }
        if has_globals {
            cells.push(vector.globals.as_deref().map(|bytes| code(&hex(bytes))).unwrap_or_default());
        }
        cells.push(outcome(&vector.outcome, vector.any_nan));
        if has_after {
            cells.push(after(&vector.after));
        }
        if has_notes {
            cells.push(note.to_string());
        }
        cells
    };
    let rows: Vec<Vec<String>> = vectors.iter().zip(&notes).map(|(vector, note)| row(vector, note)).collect();
    html::table(&columns, &rows, "values")
}

/// The facts that operands and outcome do not show.
fn note(vector: &VectorExample) -> String {
    let mut parts: Vec<String> = vector.name.iter().map(|name| inline(name)).collect();
    if vector.ulp > 0 {
        parts.push(format!("up to {} ulp off", vector.ulp));
    }
    parts.join("; ")
}

fn outcome(outcome: &Outcome, any_nan: bool) -> String {
    match outcome {
        Outcome::Traps(name) => format!("<code class=\"trap\">{}</code>", name.to_uppercase()),
        Outcome::Results(_) if any_nan => "any NaN".to_string(),
        Outcome::Results(values) if values.is_empty() => "<span class=\"soft\">no result</span>".to_string(),
        Outcome::Results(values) => values.iter().map(|value| code(&text(value))).collect::<Vec<_>>().join(", "),
    }
}

fn after(after: &[(String, After)]) -> String {
    let states: Vec<String> = after
        .iter()
        .map(|(name, state)| match state {
            After::Bytes(bytes) => format!("{}: {}", escape(name), code(&hex(bytes))),
            After::List(values) => {
                let values: Vec<String> = values.iter().map(text).collect();
                format!("{}: {}", escape(name), code(&format!("[{}]", values.join(", "))))
            }
        })
        .collect();
    states.join("<br>")
}

fn hex(bytes: &[u8]) -> String {
    if bytes.is_empty() {
        return "(empty)".to_string();
    }
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ")
}

/// A value as specs write it.
fn text(literal: &Literal) -> String {
    let list = |values: &[Literal]| values.iter().map(text).collect::<Vec<_>>().join(", ");
    match literal {
        Literal::I32(value) => value.to_string(),
        Literal::I64(value) => value.to_string(),
        Literal::F32(bits) => float(u64::from(*bits), true),
        Literal::F64(bits) => float(*bits, false),
        Literal::Null => "null".to_string(),
        Literal::None => "none".to_string(),
        Literal::Buffer { bytes, mutable: true } => format!("buffer {}", hex(bytes)),
        Literal::Buffer { bytes, mutable: false } => format!("rodata {}", hex(bytes)),
        Literal::List { element, values } => format!("list<{element}> [{}]", list(values)),
        Literal::Same(name) => format!("same as {name}"),
        Literal::Regs(values) => format!("[{}]", list(values)),
        Literal::Ordinal(value) => value.to_string(),
        Literal::TypeName(name) => name.clone(),
        Literal::String(text) => format!("{text:?}"),
    }
}

fn write_program(isa: &Isa, op: &Op, number: usize, program: &ProgramExample, page: &mut Page) {
    page.html(format!(
        "<p id=\"{}\"><b>{number}.</b> {}</p>",
        escape(&links::example_id(op, number)),
        inline(&sentence(&program.name))
    ));
    let mut out = String::new();
    for (ordinal, name) in program.types.iter().enumerate() {
        let _ = writeln!(out, "<i>type {ordinal}: {}</i>", escape(name));
    }
    for (ordinal, (name, convention)) in program.imports.iter().enumerate() {
        let _ = writeln!(out, "<i>optional import {ordinal}: {} {}</i>", escape(name), escape(convention));
    }
    for (ordinal, bytes) in program.rodata.iter().enumerate() {
        let _ = writeln!(out, "<i>rodata {ordinal}: {}</i>", hex(bytes));
    }
    if program.global_bytes > 0 || program.global_refs > 0 {
        let _ = writeln!(out, "<i>globals: {} bytes, {} references</i>", program.global_bytes, program.global_refs);
    }
    for (ordinal, function) in program.functions.iter().enumerate() {
        let _ = writeln!(out, "function {ordinal} ({})", escape(&isa.conventions.text(&function.convention)));
        for (block, instructions) in function.blocks.iter().enumerate() {
            let _ = writeln!(out, "^{block}:");
            for instruction in instructions {
                let _ = writeln!(out, "  {}", instruction_text(isa, op, instruction));
            }
        }
    }
    page.html(format!("<pre>{}</pre>", out.trim_end()));
    let args: Vec<String> = program.args.iter().map(|value| code(&text(value))).collect();
    let args = if args.is_empty() { "without arguments".to_string() } else { format!("with {}", args.join(", ")) };
    let verb = if matches!(program.outcome, Outcome::Traps(_)) { "traps:" } else { "returns" };
    let result = match &program.outcome {
        Outcome::Results(values) if values.is_empty() => "nothing".to_string(),
        other => outcome(other, false),
    };
    page.html(format!("<p>Called {args} it {verb} {result}.</p>"));
}

/// `%i2 = vm.add.i32 lhs: %i0, rhs: %i1` with names where a value alone would not say enough.
fn instruction_text(isa: &Isa, of: &Op, instruction: &Instruction) -> String {
    let Some(op) = isa.op(&instruction.mnemonic) else { return escape(&instruction.mnemonic) };
    let mut out = String::new();
    let pairs = || op.fields.iter().zip(&instruction.operands);
    let written = |kind: FieldKind| matches!(kind, FieldKind::Result | FieldKind::Results);
    for (_, operand) in pairs().filter(|(field, _)| written(field.kind)) {
        let text = operand_text(operand);
        if !text.is_empty() {
            let _ = write!(out, "{} = ", escape(text.trim_start_matches('[').trim_end_matches(']')));
        }
    }
    let name = format!("vm.{}", instruction.mnemonic);
    if op.mnemonic == of.mnemonic {
        let _ = write!(out, "<b>{}</b>", escape(&name));
    } else {
        out.push_str(
            &links::op(op)
                .replace("<code>", "")
                .replace("</code>", "")
                .replace(&format!(">{}<", op.mnemonic), &format!(">{name}<")),
        );
    }
    let inputs: Vec<String> =
        pairs().filter(|(field, _)| !written(field.kind)).map(|(_, operand)| operand_text(operand)).collect();
    if !inputs.is_empty() {
        let _ = write!(out, " {}", escape(&inputs.join(", ")));
    }
    out
}

fn operand_text(operand: &Operand) -> String {
    let registers = |list: &[Register]| list.iter().map(|one| register(*one)).collect::<Vec<_>>().join(", ");
    match operand {
        Operand::Reg(one) => register(*one),
        Operand::Regs(list) if list.is_empty() => "[]".to_string(),
        Operand::Regs(list) => format!("[{}]", registers(list)),
        Operand::Imm(literal) => text(literal),
        Operand::Ordinal(ordinal) => ordinal.to_string(),
        Operand::Import(ordinal) => format!("import {ordinal}"),
        Operand::String(text) => format!("{text:?}"),
        Operand::Edge(one) => edge(one),
        Operand::Target(block) => format!("^{block}"),
        Operand::Segments(segments) => format!("segments {segments:?}"),
        Operand::Cases(cases) => format!("cases [{}]", cases.iter().map(edge).collect::<Vec<_>>().join(", ")),
    }
}

fn edge(edge: &Edge) -> String {
    let pairs: Vec<String> =
        edge.remap.iter().map(|(source, target)| format!("{}->{}", register(*source), register(*target))).collect();
    if pairs.is_empty() { format!("^{}", edge.target) } else { format!("^{}({})", edge.target, pairs.join(", ")) }
}

fn register(register: Register) -> String {
    let bank = if register.is_ref { 'r' } else { 'i' };
    format!("%{bank}{}{}", register.index, if register.moved { "!" } else { "" })
}
