//! The reader of sequences: ops that the threaded dispatcher executes by one handler. `load` calls it when all ops are
//! known.

use serde::Deserialize;

use super::isa::{Isa, Sequence, SequenceStep};
use crate::diag::Diagnostics;
use crate::entry::Entry;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSequence {
    sequence: Vec<String>,
    #[serde(default)]
    doc: String,
}

/// The last step of a sequence that a branch ends.
const BRANCH: &str = "cond_br";

/// Reads the sequences of `entries` into `isa`.
pub(super) fn load_all(isa: &mut Isa, entries: &[&Entry], diagnostics: &mut Diagnostics) {
    for entry in entries {
        let Some(sequence) = load(isa, entry, diagnostics) else { continue };
        match isa.sequences.iter().find(|other| (&other.steps, other.branch) == (&sequence.steps, sequence.branch)) {
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
    let (branch, ops) = match raw.sequence.split_last() {
        Some((last, ops)) if last == BRANCH => (true, ops),
        _ => (false, raw.sequence.as_slice()),
    };
    if ops.len() < 2 {
        diagnostics.error(&entry.origin, "a sequence has at least two ops, and may end in a branch on the last one");
        return None;
    }
    let mut steps = Vec::new();
    for (index, text) in ops.iter().enumerate() {
        steps.push(step(isa, text, index, entry, diagnostics)?);
    }
    let test = steps.last().and_then(|step| isa.op(&step.op)).filter(|op| branch && !op.is_test());
    if let Some(op) = test {
        let message = format!("a branch on the result of `{}` is not fused with it", op.mnemonic);
        diagnostics.error(&entry.origin, message);
        return None;
    }
    let doc = raw.doc.split_whitespace().collect::<Vec<_>>().join(" ");
    Some(Sequence { steps, branch, doc, origin: entry.origin.clone() })
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
