//! The specs against an installed reference: the ops that its runtime executes, what its modules export, and what its
//! compiler imports from them. The released tools have more of each than the published sources.
//!
//! With `VIREO_REFERENCE_TOOLS=FOLDER`, the bin folder of an environment with IREE's tools and their Python bindings;
//! skipped without.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use vireo::asm::assemble;
use vireo::bytecode::opcode;
use vireo_codegen::Spec;

use crate::skip::{Need, skipped};

/// Reads a module as hexadecimal digits and where in it an op is. Tells what the reference knows, a line for each
/// thing.
const SCRIPT: &str = r#"
import pathlib, re, sys
import iree.compiler
import iree.runtime as rt

instance = rt.VmInstance()
digits, place = sys.stdin.read().split()
module, place = bytes.fromhex(digits), int(place)
for name, prefix in (("core", []), ("ext_f32", [0xE0]), ("ext_f64", [0xE1])):
    for op in range(256):
        # Operands of an op that is known may be wrong. The verifier says which op it does not know.
        code = bytes(prefix + [op] + [0] * 10)
        try:
            rt.VmContext(instance, [rt.VmModule.copy_buffer(instance, module[:place] + code + module[place + len(code):])])
            error = ""
        except Exception as failure:
            error = str(failure)
        if "unhandled" not in error and "unrecognized opcode" not in error:
            print("op", name, op)

hal = rt.create_hal_module(instance, rt.get_device("local-sync"))
for exporter in (hal, rt.create_io_parameters_module(instance)):
    for name in exporter.function_names:
        print("export", exporter.name, *re.search(r"VmFunction (\S+)\((\w+)\)", repr(exporter.lookup_function(name))).groups())

# The compiler contains its lists of imports as text.
library = next((pathlib.Path(iree.compiler.__file__).parent / "_mlir_libs").glob("libIREECompiler*")).read_bytes()
LETTERS = {"i8": "i", "i16": "i", "i32": "i", "i64": "I", "index": "I", "f32": "f", "f64": "F"}

def letters(types):
    """The letters of a list of types, of which tuples and what has dots are spans."""
    types = re.sub(r"!vm\.\w+(<[^<>]*(<[^<>]*>)?[^<>]*>)?", "ref", types)
    found = []
    for tuple_, name, dots in re.findall(r"(?:%\w+\s*:\s*)?(?:tuple<([^>]*)>|(\w+))\s*(\.\.\.)?", types):
        inner = "".join(LETTERS.get(part.strip(), "r") for part in (tuple_ or name).split(","))
        found.append(f"C{inner}D" if dots else inner)
    return "".join(found) or "v"

for start in re.finditer(rb"vm\.module @(\w+) \{", library):
    text = library[start.end():library.index(b"\0", start.end())].decode()
    text = re.sub(r"//.*", "", text)
    declared = r"vm\.import\s+private\s+(?:optional\s+)?@([\w.]+)\(([^)]*)\)(?:\s*->\s*(?:\(([^)]*)\)|([^\n{]+)))?"
    for name, args, results, result in re.findall(declared, text):
        print("import", start[1].decode(), name, f"0{letters(args)}_{letters(results or result)}")
"#;

/// The tables of the reference: lines of words. None, and a line that says why, if there is none.
fn reference() -> Option<Vec<String>> {
    let Some(folder) = std::env::var_os("VIREO_REFERENCE_TOOLS") else {
        skipped(Need::Variable("VIREO_REFERENCE_TOOLS"), "it names no folder with the IREE tools");
        return None;
    };
    // Instructions to be replaced, and one of each feature that others need.
    const MARK: i32 = 0x7E57_C0DE;
    let text = format!(
        "vm.module @probe version 0\nvm.export @f\nvm.func @f() -> () {{\n^bb0:\n  %i0 = vm.const.i32 {MARK}\n{}\
         \n  %i0 = vm.const.f32.zero\n  %i0:1 = vm.const.f64.zero\n  vm.return\n}}\n",
        "  %i0 = vm.const.i32 0\n".repeat(4)
    );
    let module = assemble(&text).expect("the module that is probed");
    let mark = module.windows(4).position(|bytes| *bytes == MARK.to_le_bytes()).expect("its first constant");
    let digits: String = module.iter().map(|byte| format!("{byte:02x}")).collect();

    let python = PathBuf::from(folder).join("python");
    let mut command = Command::new(&python);
    command.args(["-c", SCRIPT]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap_or_else(|error| panic!("{}: {error}", python.display()));
    let mut input = child.stdin.take().expect("its input");
    writeln!(input, "{digits} {}", mark - 1).expect("it reads");
    drop(input);
    let output = child.wait_with_output().expect("its output");
    assert!(output.status.success(), "{}: {}", python.display(), output.status);
    Some(String::from_utf8(output.stdout).expect("text").lines().map(str::to_string).collect())
}

fn difference(what: &str, theirs: &BTreeSet<String>, ours: &BTreeSet<String>) -> String {
    let list = |set: Vec<&String>| set.iter().map(|item| format!("\n  {item}")).collect::<String>();
    let (missing, more) = (list(theirs.difference(ours).collect()), list(ours.difference(theirs).collect()));
    format!("{what} that the specs lack:{missing}\n{what} that the reference lacks:{more}")
}

/// The rest of the lines that begin with a word.
fn about(lines: &[String], word: &str) -> BTreeSet<String> {
    lines.iter().filter_map(|line| line.strip_prefix(word)?.strip_prefix(' ')).map(str::to_string).collect()
}

/// `module name convention` of all exports of the newest versions.
fn exports(spec: &Spec) -> BTreeSet<String> {
    let modules = spec.abi.modules.values();
    let exports = modules.flat_map(|module| {
        let newest = module.exports.iter().filter(|export| export.until >= module.version);
        newest.map(|export| format!("{} {} {}", module.name, export.name, spec.abi.grammar.text(&export.convention())))
    });
    exports.collect()
}

#[test]
fn ops_exports_and_imports_are_those_of_the_reference() {
    let Some(lines) = reference() else { return };
    let sets = [
        ("core", opcode::core_mnemonic as fn(u8) -> Option<&'static str>),
        ("ext_f32", opcode::ext_f32_mnemonic),
        ("ext_f64", opcode::ext_f64_mnemonic),
    ];
    let ops = |set: &'static str, mnemonic: fn(u8) -> Option<&'static str>| {
        (0..=u8::MAX).filter(move |op| mnemonic(*op).is_some()).map(move |op| format!("{set} {op}"))
    };
    let ours: BTreeSet<String> = sets.into_iter().flat_map(|(set, mnemonic)| ops(set, mnemonic)).collect();
    let theirs = about(&lines, "op");
    assert!(theirs == ours, "{}", difference("ops", &theirs, &ours));

    let spec = vireo_codegen::load(vireo_spec::FILES).unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
    let (ours, theirs) = (exports(&spec), about(&lines, "export"));
    let is_shown = |export: &&String| theirs.iter().any(|other| other.split(' ').next() == export.split(' ').next());
    let shown: BTreeSet<String> = ours.iter().filter(is_shown).cloned().collect();
    assert!(theirs == shown, "{}", difference("exports", &theirs, &shown));

    let imported = about(&lines, "import");
    assert!(imported.len() > 100, "the compiler's lists of imports were not found: {imported:?}");
    let missing: Vec<&String> = imported.difference(&ours).collect();
    assert!(missing.is_empty(), "the compiler imports what the specs lack: {missing:#?}");
}
