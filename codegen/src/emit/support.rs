//! The part of `docs/support.md` that follows from the ops alone. `cargo xtask op` writes it for a new op; a test of the command `vireo` holds
//! the whole page to what the build says.

use std::fmt::Write;

use crate::Spec;
use crate::emit::jit::steps;
use crate::model::vm::{Body, Op};
use crate::sem::Lowering;

/// The heading that the part begins with; it ends before the next one.
pub const HEADING: &str = "## Ops\n";

/// What is supported of the ops, as Markdown.
pub fn ops(spec: &Spec) -> String {
    let vm = &spec.vm;
    let mut text = format!(
        "{HEADING}All {} ops of bytecode {}.{}, interpreted and in machine code. Machine code has instructions for an op, calls the function \
         that the interpreter calls for it, or lets the interpreter do it and goes on. Branches, calls and returns are its own; \
         what yields, fails or waits leaves it for the interpreter. Other versions of bytecode are refused with \
         `INCOMPATIBLE`.\n\n| family | ops | instructions | calls a function | control flow | calls the interpreter |\n\
         |---|---|---|---|---|---|\n",
        vm.ops.len(),
        vm.bytecode.major,
        vm.bytecode.minor
    );
    for (family, ops) in vm.families() {
        let of = |how: &str| ops.iter().filter(|op| in_machine_code(op) == how).count();
        let counts = ["instructions", "calls a function", "control flow", "calls the interpreter"].map(of);
        let _ = writeln!(text, "| {family} | {} | {} |", ops.len(), counts.map(|count| count.to_string()).join(" | "));
    }
    text
}

/// How machine code does an op.
fn in_machine_code(op: &Op) -> &'static str {
    match steps(op) {
        Some(steps) if steps.iter().any(|step| step.lowering == Lowering::Call) => "calls a function",
        Some(_) => "instructions",
        None if matches!(op.body, Body::Control(_) | Body::Structure(_)) => "control flow",
        None => "calls the interpreter",
    }
}
