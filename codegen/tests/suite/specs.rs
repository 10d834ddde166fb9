//! Mini-specs, accepted and rejected: each file below `tests/specs/` is loaded after `tests/specs/isa.yaml`, and what
//! comes of it is compared with the snapshot beside it. A new file needs no line here;
//! `INSTA_UPDATE=always cargo test -p vireo-codegen` accepts.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use vireo_codegen::model::vm::{Body, Op};
use vireo_codegen::sem::{Expr, ExprKind};
use vireo_codegen::{Diagnostics, Spec, generate};

use crate::mini;

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/specs").join(name)
}

fn mini_specs(name: &str) -> Vec<(String, String)> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder(name))
        .expect("the folder is readable")
        .map(|entry| entry.expect("the folder is readable").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
        .collect();
    files.sort();
    let stem = |path: &Path| path.file_stem().expect("a name").to_string_lossy().into_owned();
    files.iter().map(|path| (stem(path), std::fs::read_to_string(path).expect("readable"))).collect()
}

fn load_mini(stem: &str, text: &str) -> Result<Spec, Diagnostics> {
    // Primitives are of the vocabulary; the lines of the others are empty there, so that each keeps its number.
    let (mut ops, mut primitives, mut is_primitive) = (String::new(), String::new(), false);
    for line in text.lines() {
        if line.starts_with("- ") {
            is_primitive = line.starts_with("- primitive:");
        }
        let (this, other) = if is_primitive { (&mut primitives, &mut ops) } else { (&mut ops, &mut primitives) };
        this.push_str(line);
        this.push('\n');
        other.push('\n');
    }
    let ops = (format!("spec/isa/vm/ops/{stem}.yaml"), ops);
    let mut files = vec![(ops.0.as_str(), ops.1.as_str())];
    let primitives = (format!("spec/primitives/{stem}.yaml"), primitives);
    if text.contains("- primitive:") {
        files.push((&primitives.0, &primitives.1));
    }
    mini::load(&files)
}

fn check(kind: &str, stem: &str, outcome: &str) {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(folder(kind));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(stem, outcome));
}

#[test]
fn rejected() {
    for (stem, text) in mini_specs("rejected") {
        let diagnostics = load_mini(&stem, &text).err().unwrap_or_else(|| panic!("{stem}.yaml is accepted"));
        check("rejected", &stem, &without_shared_lines(&diagnostics.report()));
    }
}

#[test]
fn accepted() {
    for (stem, text) in mini_specs("accepted") {
        let spec =
            load_mini(&stem, &text).unwrap_or_else(|diagnostics| panic!("{stem}.yaml is rejected:\n{diagnostics}"));
        let mut outcome = String::new();
        for op in &spec.vm("vm").expect("the VM").ops {
            describe(op, &mut outcome);
        }
        for artifact in ["decode", "verify", "disasm"] {
            let path = format!("vm/{artifact}/{stem}.rs");
            let file = generate(&spec).into_iter().find(|file| file.path == path);
            let text = file.unwrap_or_else(|| panic!("{path} is not generated")).text;
            let _ = write!(outcome, "\n==== {path}\n{text}");
        }
        check("accepted", &stem, &outcome);
    }
}

/// Diagnostics without the lines of files that the real spec shares: those move.
fn without_shared_lines(text: &str) -> String {
    let mut parts = text.split("spec/primitives/");
    let mut result = parts.next().unwrap_or_default().to_string();
    for part in parts {
        let (file, rest) = part.split_once(':').unwrap_or((part, ""));
        if !vireo_spec::FILES.iter().any(|(path, _)| path.strip_prefix("spec/primitives/") == Some(file)) {
            let _ = write!(result, "spec/primitives/{part}");
            continue;
        }
        let _ = write!(result, "spec/primitives/{file}:N{}", rest.trim_start_matches(|c: char| c.is_ascii_digit()));
    }
    result
}

/// The op as the checker understood it: fields, typed body, inferred properties, number of examples.
fn describe(op: &Op, out: &mut String) {
    let fields = op.fields.iter().map(|field| {
        let ty = field.ty.map_or(String::new(), |ty| format!(": {}", ty.name()));
        format!("{} {}{ty}", field.kind.name(), field.name)
    });
    let body = match &op.body {
        Body::Semantics(expr) => show(expr),
        other => format!("{other:?}"),
    };
    let _ =
        writeln!(out, "{} = {}({:#04x}) [{}]", op.mnemonic, op.set, op.opcode, fields.collect::<Vec<_>>().join(", "));
    let _ = writeln!(out, "  {body}");
    let properties = [
        (op.properties.can_trap, "can trap"),
        (op.properties.reads_memory, "reads memory"),
        (op.properties.writes_memory, "writes memory"),
        (op.properties.touches_refs, "touches refs"),
        (op.properties.calls, "calls"),
        (op.properties.yields, "yields"),
        (op.is_terminator(), "ends the block"),
    ];
    let properties: Vec<_> = properties.iter().filter(|(has, _)| *has).map(|(_, name)| *name).collect();
    let _ = writeln!(out, "  properties: {}", properties.join(", "));
    let _ = writeln!(out, "  examples: {}", op.examples.len());
}

fn show(expr: &Expr) -> String {
    let text = match &expr.kind {
        ExprKind::Operand(name) => name.clone(),
        ExprKind::Int(value) => value.to_string(),
        ExprKind::Float(bits) => format!("{bits:#x}"),
        ExprKind::BoolToI32(inner) => format!("bool_to_i32 {}", show(inner)),
        ExprKind::Call { primitive, args, .. } => {
            format!("{}({})", primitive.written(), args.iter().map(show).collect::<Vec<_>>().join(", "))
        }
    };
    format!("{text}: {}", expr.ty)
}
