//! The decisions of the JIT about the loops of functions, for `vireo dump --jit=why`: as text, and as JSON.

use std::fmt::Write;

use serde_json::{Map, Value, json};
use vireo::Result;
use vireo::asm::signature;
use vireo::bytecode::Names;
use vireo::interp::loops::{LoopDecision, LoopEstimate, Outcome, VectorLoopShape};
use vireo::visible_text::visible;
use vireo::vm::Module;

/// A function and the decisions about its loops.
pub struct FunctionLoops {
    name: String,
    signature: String,
    /// The executable that it is a kernel of.
    executable: Option<String>,
    /// None if the interpreter executes it.
    decisions: Option<Vec<LoopDecision>>,
}

/// The functions of a module, or of an `executable`, with these ordinals.
pub fn functions(
    module: &Module,
    names: Names<'_>,
    ordinals: &[usize],
    executable: Option<&str>,
) -> Result<Vec<FunctionLoops>> {
    let function = |ordinal: &usize| {
        let convention = module.functions().get(*ordinal).map(|function| signature(function.convention()));
        Ok(FunctionLoops {
            name: names.functions.get(*ordinal).cloned().unwrap_or_default(),
            signature: convention.unwrap_or_default(),
            executable: executable.map(str::to_string),
            decisions: module.loop_decisions(*ordinal)?,
        })
    };
    ordinals.iter().map(function).collect()
}

/// A line for each function and for each decision.
pub fn text(functions: &[FunctionLoops]) -> String {
    let mut text = String::new();
    let mut before = None;
    // Writing to a string cannot fail.
    for FunctionLoops { name, signature, executable, decisions } in functions {
        if before != Some(executable) {
            if let Some(executable) = executable {
                let _ = writeln!(text, "; executable @{}", visible(executable));
            }
            before = Some(executable);
        }
        let _ = writeln!(text, "; vm.func @{name}{signature}");
        let Some(decisions) = decisions else {
            text.push_str("; no machine code: the interpreter executes it\n");
            continue;
        };
        for decision in by_loop(decisions) {
            let _ = writeln!(text, "; loop at op {}: {decision}", decision.op);
        }
    }
    text
}

/// One document with all functions.
pub fn json(functions: &[FunctionLoops]) -> String {
    let function = |one: &FunctionLoops| {
        let mut object = Map::new();
        object.insert("name".into(), json!(one.name));
        object.insert("executable".into(), json!(one.executable));
        object.insert("is_compiled".into(), json!(one.decisions.is_some()));
        let mut loops: Vec<Value> = Vec::new();
        for decision in by_loop(one.decisions.as_deref().unwrap_or_default()) {
            match loops.last_mut().filter(|last| last["op"] == decision.op) {
                Some(Value::Object(last)) => {
                    if let Some(Value::Array(list)) = last.get_mut("decisions") {
                        list.push(decision_as_json(decision));
                    }
                }
                _ => loops.push(json!({"op": decision.op, "decisions": [decision_as_json(decision)]})),
            }
        }
        object.insert("loops".into(), Value::Array(loops));
        Value::Object(object)
    };
    let document = json!({"functions": functions.iter().map(function).collect::<Vec<_>>()});
    format!("{document:#}\n")
}

/// The decisions in the order of the loops, those of a loop in the order in which they were made.
fn by_loop(decisions: &[LoopDecision]) -> Vec<&LoopDecision> {
    let mut all: Vec<&LoopDecision> = decisions.iter().collect();
    all.sort_by_key(|decision| decision.op);
    all
}

fn decision_as_json(decision: &LoopDecision) -> Value {
    let mut object = Map::new();
    object.insert("transformation".into(), json!(decision.transformation.name()));
    object.insert("is_made".into(), json!(!matches!(decision.outcome, Outcome::Refused(_))));
    match &decision.outcome {
        Outcome::Split => {}
        Outcome::Collapsed { loops, iterations } => {
            object.insert("loops_around".into(), json!(loops));
            object.insert("iterations".into(), json!(iterations));
        }
        Outcome::Jammed { rows, vectors } => {
            object.insert("rows".into(), json!(rows));
            object.insert("vectors".into(), json!(vectors));
        }
        Outcome::Vectorised(loops) => {
            let vector_loop = |one: &VectorLoopShape| json!({"iterations": one.iterations, "lanes": one.lanes, "is_masked": one.is_masked});
            object.insert("vector_loops".into(), loops.iter().map(vector_loop).collect());
        }
        Outcome::Refused(refusal) => {
            object.insert("reason".into(), json!(refusal.name()));
        }
    }
    if let Some(LoopEstimate { iterations, is_known, scalar, transformed }) = decision.estimate {
        let estimate =
            json!({"iterations": iterations, "is_known": is_known, "scalar": scalar, "transformed": transformed});
        object.insert("estimate".into(), estimate);
    }
    Value::Object(object)
}
