//! The reader of sequences: ops that the threaded dispatcher executes by one handler. `load` calls it when all ops are
//! known.

use serde::Deserialize;

use super::isa::{Isa, Op, Sequence, SequenceStep, Type};
use crate::diag::Diagnostics;
use crate::entry::Entry;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSequence {
    sequence: Vec<String>,
    #[serde(default)]
    doc: String,
}

/// Reads the sequences of `entries` into `isa`.
pub(super) fn load_all(isa: &mut Isa, entries: &[&Entry], diagnostics: &mut Diagnostics) {
    for entry in entries {
        let Some(sequence) = load(isa, entry, diagnostics) else { continue };
        match isa.sequences.iter().find(|other| other.steps == sequence.steps) {
            Some(other) => {
                diagnostics.error(&entry.origin, format!("the same sequence is already declared at {}", other.origin));
            }
            None => isa.sequences.push(sequence),
        }
    }
}

fn load(isa: &Isa, entry: &Entry, diagnostics: &mut Diagnostics) -> Option<Sequence> {
    let raw: RawSequence = entry.parse(diagnostics)?;
    if raw.doc.trim().is_empty() {
        entry.lacks(&["doc"], "the sequence has no doc".to_string(), diagnostics);
    }
    if raw.sequence.len() < 2 {
        diagnostics.error(&entry.origin, "a sequence has at least two ops");
        return None;
    }
    let last = raw.sequence.len() - 1;
    let mut steps = Vec::new();
    for (index, text) in raw.sequence.iter().enumerate() {
        steps.push(step(isa, text, index, entry, diagnostics)?);
    }
    let tests = steps.iter().enumerate().filter(|(_, step)| isa.op(&step.op).is_some_and(Op::is_test));
    let tests: Vec<usize> = tests.map(|(index, _)| index).collect();
    let head = match *tests {
        [] => None,
        [test] if test == last => None,
        [first, second] if second == last && first > 0 && first + 1 < second => Some(first + 1),
        _ => {
            let message = "a comparison ends a sequence, or each half of a loop, whose other ops are before it";
            diagnostics.error(&entry.origin, message);
            return None;
        }
    };
    let doc = raw.doc.split_whitespace().collect::<Vec<_>>().join(" ");
    Some(Sequence { steps, head, doc, origin: entry.origin.clone() })
}

/// A step from `add.i64(lhs)`: the op, and in parentheses the operand that is the carried register.
fn step(isa: &Isa, text: &str, index: usize, entry: &Entry, diagnostics: &mut Diagnostics) -> Option<SequenceStep> {
    let (mnemonic, carried) = match text.strip_suffix(')').and_then(|text| text.split_once('(')) {
        Some((mnemonic, carried)) => (mnemonic, Some(carried)),
        None => (text, None),
    };
    let Some(op) = isa.op(mnemonic) else {
        let known = isa.ops.iter().map(|op| op.mnemonic.as_str());
        diagnostics.unknown(&entry.origin, mnemonic, format!("unknown op `{mnemonic}`"), known);
        return None;
    };
    let mut wrong = |message: String| diagnostics.error(&entry.origin, message);
    if !op.is_portable() {
        wrong(format!("`{mnemonic}` is not made of primitives, so its handler is not generated"));
        return None;
    }
    if op.result().is_some_and(|field| field.ty.is_some_and(Type::is_ref)) {
        wrong(format!("`{mnemonic}` writes a reference, but a handler that repeats a sequence keeps its buffer"));
        return None;
    }
    match carried {
        Some(name) if index == 0 => {
            wrong(format!("any operand of the first op may be carried: `{name}` need not be named"));
            return None;
        }
        Some(name) if !op.values().any(|field| field.name == name) => {
            wrong(format!("`{name}` is no value operand of `{mnemonic}`"));
            return None;
        }
        _ => {}
    }
    Some(SequenceStep { op: op.mnemonic.clone(), carried: carried.map(str::to_string) })
}
