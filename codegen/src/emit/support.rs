//! The section of `docs/support.md` about ops, generated from the specs alone. `cargo xtask op` writes it for a new op;
//! a test of the command `vireo` compares the whole page with the build.

use std::fmt::Write;

use crate::emit::jit::steps;
use crate::model::vm::{Body, Isa, Op};
use crate::sem::Lowering;

/// The heading of the section, which ends before the next heading.
pub const HEADING: &str = "## Ops\n";

/// The section, as Markdown.
pub fn ops(vm: &Isa) -> String {
    let mut text = format!(
        "{HEADING}Modules of bytecode {} are supported, with all {} ops, interpreted and in machine code. For an op, the JIT emits instructions, a call of \
         the interpreter's function, or a call of the interpreter, which executes the op and returns. Branches, calls and returns \
         are control flow of the machine code; an op that yields, fails or waits takes a side exit to the interpreter. Other \
         versions of bytecode are refused with `INCOMPATIBLE`.\n\n| family | ops | instructions | calls a function | control flow | calls the interpreter |\n\
         |---|---|---|---|---|---|\n",
        vm.versions_in_words(),
        vm.ops.len()
    );
    for (family, ops) in vm.families() {
        let of = |how: &str| ops.iter().filter(|op| in_machine_code(op) == how).count();
        let counts = ["instructions", "calls a function", "control flow", "calls the interpreter"].map(of);
        let _ = writeln!(text, "| {family} | {} | {} |", ops.len(), counts.map(|count| count.to_string()).join(" | "));
    }
    text
}

/// How machine code executes an op.
fn in_machine_code(op: &Op) -> &'static str {
    match steps(op) {
        Some(steps) if steps.iter().any(|step| step.lowering == Lowering::Call) => "calls a function",
        Some(_) => "instructions",
        None if matches!(op.body, Body::Control(_) | Body::Structure(_)) => "control flow",
        None => "calls the interpreter",
    }
}
