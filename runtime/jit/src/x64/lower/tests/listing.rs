//! Which ops compiled code executes itself, and by which instructions: a page of `snapshots/machine_code` for each
//! family of ops.
//!
//! Operands are in `rsi`, `rdi` and `r8`, or `xmm1` to `xmm3`, and results in `rbx` or `xmm0`; the register allocator
//! chooses any.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;

use dynasmrt::DynasmLabelApi;
use iced_x86::{Decoder, DecoderOptions, Formatter, IntelFormatter};
use vireo_codegen::emit::jit::{Step, steps};
use vireo_codegen::model::vm::{Body, ControlOp};
use vireo_codegen::sem::Lowering;

use super::super::emit;
use super::cases::{Case, cases};
use super::{Asm, Features, Src, attempt, load, set_if, store, test, value};
use crate::generated::vm::primitive::Lower;
use crate::generated::vm::primitive::Primitive;
use crate::ir::types::{Effect, Scalar, Ty};

const NEWER: Features = Features { avx: true, bmi2: true, lzcnt: true, avx2: true, avx512: true };
const OPERANDS: [u8; 3] = [6, 7, 8];
const VECTOR_OPERANDS: [u8; 3] = [1, 2, 3];

fn operand(of: Scalar, index: usize) -> u8 {
    if of.is_float() { VECTOR_OPERANDS[index] } else { OPERANDS[index] }
}

fn result(of: Scalar) -> u8 {
    if of.is_float() { 0 } else { 3 }
}

/// The code of a step; `selects` is the type of the selection that a test is for.
fn assemble(features: Features, cases: &[Case], primitive: Primitive, of: Scalar, selects: Option<Scalar>) -> Vec<u8> {
    let mut asm = Asm::new(features);
    let trap = asm.ops.new_dynamic_label();
    match primitive.effect() {
        Effect::Load => {
            let Ty::Scalar(of) = primitive.result(of) else { panic!("{primitive:?} loads no value") };
            load(&mut asm, primitive, result(of), OPERANDS[0], Src::Reg(OPERANDS[1]));
        }
        Effect::Store => {
            let is_float = |ty: Ty| matches!(ty, Ty::Scalar(of) if of.is_float());
            let value =
                if primitive.operands(of).last().is_some_and(is_float) { VECTOR_OPERANDS[2] } else { OPERANDS[2] };
            store(&mut asm, primitive, OPERANDS[0], Src::Reg(OPERANDS[1]), Src::Reg(value));
        }
        Effect::Pure | Effect::Trap | Effect::Call => {
            let case = cases.iter().find(|case| (case.primitive, case.of) == (primitive, of));
            let case = case.unwrap_or_else(|| panic!("{primitive:?} of {of:?} has no case"));
            let src: Vec<Src> =
                case.params.iter().enumerate().map(|(index, of)| Src::Reg(operand(*of, index))).collect();
            let dst = result((case.expect)(&vec![1; src.len()]).0);
            if primitive.effect() == Effect::Trap {
                attempt(&mut asm, primitive, of, dst, [src[0], src[1]], trap);
            } else if primitive.result(of) == Ty::Truth {
                let flags = test(&mut asm, primitive, of, &src);
                match selects {
                    Some(of) => asm.select(of, flags, result(of), operand(of, 1), operand(of, 2)),
                    None => set_if(&mut asm, flags, dst),
                }
            } else {
                value(&mut asm, primitive, of, dst, &src);
            }
        }
    }
    emit!(asm; =>trap);
    asm.ops.finalize().unwrap()
}

/// Instructions with their bytes.
fn disassemble(code: &[u8], text: &mut String) {
    let mut formatter = IntelFormatter::new();
    let options = formatter.options_mut();
    options.set_space_after_operand_separator(true);
    options.set_hex_prefix("0x");
    options.set_hex_suffix("");
    options.set_uppercase_hex(false);
    options.set_branch_leading_zeros(false);
    for instruction in Decoder::with_ip(64, code, 0, DecoderOptions::NONE) {
        let start = instruction.ip() as usize;
        let bytes: String = code[start..start + instruction.len()].iter().map(|byte| format!("{byte:02x}")).collect();
        let mut line = String::new();
        formatter.format(&instruction, &mut line);
        writeln!(text, "    {start:3x}  {bytes:20}  {line}").unwrap();
    }
}

fn named(name: impl std::fmt::Debug) -> Primitive {
    let name = format!("{name:?}");
    *Primitive::ALL.iter().find(|primitive| format!("{primitive:?}") == name).expect("a primitive of compiled code")
}

fn scalar(name: impl std::fmt::Debug) -> Scalar {
    let name = format!("{name:?}");
    super::ALL.into_iter().find(|scalar| format!("{scalar:?}") == name).expect("a type")
}

/// The text below the name of an op.
fn describe(steps: &[Step], cases: &[Case], seen: &mut BTreeSet<Primitive>, text: &mut String) {
    for (index, step) in steps.iter().enumerate() {
        let name = step.primitive.name();
        if step.lowering == Lowering::Others {
            writeln!(text, "  {name}: a word of the buffer").unwrap();
            continue;
        }
        let (primitive, of) = (named(&step.primitive), scalar(step.of));
        seen.insert(primitive);
        if step.lowering == Lowering::Call {
            assert!(primitive.function(of).is_some(), "{name} of {of:?} has no function");
            writeln!(text, "  {name}: a call").unwrap();
        } else if primitive != Primitive::Select {
            let is_select = |next: &&Step| next.primitive.name() == "select";
            let selects = steps.get(index + 1).filter(is_select);
            let selects = selects.map(|next| scalar(next.of));
            writeln!(text, "  {name}{}", if selects.is_some() { ", select" } else { "" }).unwrap();
            let plain = assemble(Features::default(), cases, primitive, of, selects);
            disassemble(&plain, text);
            let newer = assemble(NEWER, cases, primitive, of, selects);
            if newer != plain {
                text.push_str("   with AVX, BMI2 and LZCNT\n");
                disassemble(&newer, text);
            }
        }
    }
}

/// How an op is executed that is not made of primitives with machine code. `runtime/tests/suite/compiled_share.rs`
/// looks at the code of some.
fn otherwise(body: &Body) -> &'static str {
    match body {
        Body::Control(ControlOp::Br | ControlOp::CondBr) => {
            "compiled: jumps and moves; where references are passed on, the interpreter"
        }
        Body::Control(ControlOp::Call) => "compiled: a call of compiled code, or of the runtime for an import",
        Body::Control(ControlOp::Return) => {
            "compiled: a return to compiled code; the interpreter where that has not called"
        }
        Body::Control(control) if control.is_terminator() => "interpreter",
        Body::Control(_) | Body::Helper(_) | Body::Semantics(_) => {
            "runtime: a call of the function that the interpreter has for it"
        }
        Body::Structure(_) => "no op",
    }
}

#[test]
fn every_op_with_its_machine_code() {
    let spec = vireo_codegen::load(vireo_spec::FILES).unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
    let (cases, mut seen) = (cases(), BTreeSet::new());
    let mut families: BTreeMap<&str, String> = BTreeMap::new();
    for op in &spec.vm("vm").expect("the VM").ops {
        let text = families.entry(&op.family).or_default();
        let steps = steps(op);
        let how = match &steps {
            None => otherwise(&op.body),
            Some(steps) if steps.iter().any(|step| step.lowering == Lowering::Call) => "called",
            Some(_) => "lowered",
        };
        writeln!(text, "{:23} {how}", op.mnemonic).unwrap();
        describe(&steps.unwrap_or_default(), &cases, &mut seen, text);
    }
    assert!(Primitive::ALL.iter().all(|primitive| seen.contains(primitive)), "no op is made of some primitives");
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../snapshots/machine_code"));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    for (family, text) in families {
        settings.bind(|| insta::assert_snapshot!(family, text));
    }
}
