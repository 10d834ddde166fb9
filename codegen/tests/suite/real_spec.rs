//! The real specs: they load, generate the same bytes twice, and one more entry is all that a new op needs.

use std::collections::BTreeSet;

use vireo_codegen::model::vm::Body;
use vireo_codegen::sem::{Effect, Expr, Sig, Ty};
use vireo_codegen::{GeneratedFile, generate, load};

use crate::real::{GENERATED, SPEC};

fn generate_from(files: &[(&str, &str)]) -> Vec<GeneratedFile> {
    generate(&load(files).unwrap_or_else(|diagnostics| panic!("{diagnostics}")))
}

/// Compares file by file, so that a failure names the file instead of printing all of them.
fn same(left: &[GeneratedFile], right: &[GeneratedFile]) {
    assert_eq!(left.len(), right.len(), "numbers of files");
    for (left, right) in left.iter().zip(right) {
        assert_eq!(left.path, right.path);
        assert!(left.text == right.text, "{} differs", left.path);
    }
}

/// Nor does anything else that may differ from one run to the next.
#[test]
fn the_order_of_files_does_not_matter() {
    let mut reversed = vireo_spec::FILES.to_vec();
    reversed.reverse();
    same(&GENERATED, &generate_from(&reversed));
}

/// The crate that includes a file imports what it names, so that its modules can be renamed without a change of an
/// emitter.
#[test]
fn generated_rust_has_no_path_of_the_crate_that_includes_it() {
    let rust = GENERATED.iter().filter(|file| file.path.ends_with(".rs"));
    let wrong: Vec<&str> = rust.filter(|file| file.text.contains("crate::")).map(|file| file.path.as_str()).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn every_entry_of_bytecode_17_is_there() {
    let spec = &*SPEC;
    let versions: Vec<_> = spec
        .vm("vm")
        .expect("the VM")
        .versions
        .iter()
        .map(|version| (version.major, version.minor, version.moves))
        .collect();
    assert_eq!(versions, [(15, 0, false), (16, 0, true), (17, 0, true)]);
    assert_eq!(spec.vm("vm").expect("the VM").sets.len(), 3);
    assert!(spec.vm("vm").expect("the VM").ops.len() >= 265, "only {} ops", spec.vm("vm").expect("the VM").ops.len());
}

/// The manual has nothing else to say what they do.
#[test]
fn ops_without_an_expression_have_their_steps_written_down() {
    let spec = &*SPEC;
    for op in &spec.vm("vm").expect("the VM").ops {
        let opaque = matches!(op.body, Body::Helper(_) | Body::Control(_));
        assert_eq!(op.effect.is_some(), opaque, "{}: {}", op.origin, op.mnemonic);
    }
}

/// An op made of known primitives is one entry: every artifact of the VM then knows it.
#[test]
fn one_entry_adds_an_op_everywhere() {
    let spec = &*SPEC;
    let used: BTreeSet<u8> =
        spec.vm("vm").expect("the VM").ops.iter().filter(|op| op.set == "core").map(|op| op.opcode).collect();
    let free = (0..=u8::MAX).find(|opcode| !used.contains(opcode)).expect("core has a free opcode");
    let entry = format!(
        "- op: nand.i32\n  opcode: {free:#04x}\n  encoding: binary(i32)\n  doc: The complement of the bitwise and.\n  \
         semantics: lhs.and(rhs).not()\n  examples:\n    - {{lhs: 0, rhs: -1, result: -1}}\n"
    );
    let mut files = vireo_spec::FILES.to_vec();
    files.push(("spec/isa/vm/ops/extra.yaml", &entry));

    let after = generate_from(&files);
    for artifact in ["opcode", "decode", "verify", "disasm", "asm", "interp", "interp/threaded", "jit", "op_tests"] {
        let mentions = |files: &[GeneratedFile]| {
            let of_artifact =
                |path: &str| path == format!("vm/{artifact}.rs") || path.starts_with(&format!("vm/{artifact}/"));
            let names = ["nand.i32", "nand_i32", "NandI32", "NAND_I32"];
            files
                .iter()
                .filter(|file| of_artifact(&file.path))
                .any(|file| names.iter().any(|name| file.text.contains(name)))
        };
        assert!(!mentions(&GENERATED), "{artifact} knows the op already");
        assert!(mentions(&after), "{artifact} does not know the new op");
    }
}

/// A primitive is there for the instruction sets that it names, and each of them needs it.
#[test]
fn primitives_are_used_by_the_sets_that_they_name() {
    let spec = &*SPEC;
    let mut used: BTreeSet<(String, &str)> = BTreeSet::new();
    let mut uses = |expr: &Expr, set| {
        expr.for_each_primitive(&mut |primitive| {
            used.insert((primitive.name().to_string(), set));
        });
    };
    for op in &spec.vm("vm").expect("the VM").ops {
        if let Body::Semantics(expr) = &op.body {
            uses(expr, "vm");
        }
    }
    for instruction in &spec.gfx("gfx11").expect("gfx11").instructions {
        if let vireo_codegen::model::gfx::Body::Semantics(results) = &instruction.body {
            results.iter().chain(instruction.clamped.iter().flatten()).for_each(|(_, expr)| uses(expr, "gfx11"));
        }
    }
    for handler in &spec.ptx("ptx").expect("PTX").handlers {
        handler.results.iter().for_each(|(_, expr)| uses(expr, "ptx"));
    }
    let named = spec
        .primitives
        .iter()
        .flat_map(|primitive| primitive.used_by().iter().map(|set| (primitive.name().to_string(), set.as_str())));
    assert_eq!(named.collect::<BTreeSet<_>>(), used);
}

/// Those that work on memory or references have examples with the ops that use them.
#[test]
fn primitives_on_values_have_examples() {
    let spec = &*SPEC;
    let is_value = |sig: &Sig| match sig {
        Sig::Is(ty) => ty.scalar().is_some() || *ty == Ty::Bool,
        Sig::N | Sig::L | Sig::F | Sig::T | Sig::BitsOfF => true,
        Sig::RegsT => false,
    };
    for primitive in spec.vm("vm").expect("the VM").primitives.iter() {
        let on_values = matches!(primitive.effect(), Effect::Pure | Effect::Trap)
            && primitive.params().iter().chain([&primitive.result()]).all(is_value);
        assert_eq!(primitive.examples().is_empty(), !on_values, "{}: {}", primitive.origin(), primitive.name());
    }
}
