//! The text form: what IREE's assembler made of `fixtures/golden/*.vmasm` is printed again as it was written.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use vireo::bytecode::{Names, disassemble};
use vireo::vm::Module;

fn fixtures(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures").join(folder);
    let entries = std::fs::read_dir(folder).expect("the folder is readable");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("the folder is readable").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "vmasm"));
    paths.sort();
    assert!(!paths.is_empty());
    paths
}

/// Every function of the module beside `path`, printed. The file names exports only; the source names all functions, in
/// the order of their ordinals.
fn printed(path: &Path, source: &str) -> String {
    let module = Module::from_file(path.with_extension("vmfb")).unwrap_or_else(|status| panic!("{status}"));
    let archive = module.archive().expect("a bytecode module");
    let types: Vec<String> = archive.types().map(ToString::to_string).collect();
    let imports: Vec<String> = archive.imports().map(|import| import.full_name.to_string()).collect();
    let functions = function_names(source);
    let names = Names { module: module.name(), types: &types, imports: &imports, functions: &functions, rodata: &[] };
    module.functions().iter().map(|function| disassemble(function.decoded(), names)).collect()
}

/// The names of all functions, in the order of their ordinals.
fn function_names(source: &str) -> Vec<String> {
    let lines = source.lines().filter_map(|line| line.strip_prefix("vm.func @")?.split_once('('));
    lines.map(|(name, _)| name.to_string()).collect()
}

/// The source with functions called by name where it calls them by ordinal, as in `@bench:2(%i0)`.
fn with_names(source: &str) -> String {
    let module = source.lines().find_map(|line| line.strip_prefix("vm.module @")?.split(' ').next()).expect("a module");
    let names = function_names(source).into_iter().enumerate();
    names.fold(source.to_string(), |text, (ordinal, name)| {
        text.replace(&format!("@{module}:{ordinal}("), &format!("@{name}("))
    })
}

/// The part in which both texts agree: without comments, without the second half of register pairs, numbers as values.
fn normal(line: &str) -> String {
    let line = line.split("  //").next().unwrap_or_default().trim();
    let mut parts = line.split("%i");
    let mut text = parts.next().unwrap_or_default().to_string();
    for part in parts {
        let digits = part.len() - part.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (register, rest) = part.split_at(digits);
        let rest = rest.strip_prefix(':').map_or(rest, |pair| pair.trim_start_matches(|c: char| c.is_ascii_digit()));
        text.push_str(&format!("%i{register}{rest}"));
    }
    // The type that a cast starts from is not in the bytecode.
    if let (Some(from), Some(to)) = (text.find(" : "), text.find(" -> "))
        && text.contains("vm.cast.any.ref")
    {
        text.replace_range(from..to, " : ?");
    }
    if let Some((op, number)) = text.split_once(" = vm.const.").and_then(|(_, op)| op.rsplit_once(' ')) {
        let end = text.len() - number.len();
        // The one hexadecimal float of the fixtures, which Rust does not parse.
        let number = if number == "0x1.8p-3" { "0.1875" } else { number };
        let number = match op {
            "f32" => format!("{:?}", number.parse::<f32>()),
            "f64" => format!("{:?}", number.parse::<f64>()),
            _ => number.to_string(),
        };
        text.replace_range(end.., &number);
    }
    text
}

/// A line of a listing as the assembler reads it. The reference runtime prints, and so do we, what its assembler does
/// not read: the operands of traces in parentheses, and computed globals as `.rwdata[%i0]`, which are written as `%i0`
/// and before the value of a store.
fn as_assembled(line: &str) -> String {
    if ["  vm.trace ", "  vm.print "].iter().any(|op| line.starts_with(op)) {
        let line = line.strip_suffix("()").unwrap_or(line.strip_suffix(')').unwrap_or(line));
        return line.replacen("\"(", "\", ", 1);
    }
    let Some((head, rest)) = line.split_once(".rwdata[%").or_else(|| line.split_once(".refs[%")) else {
        return line.to_string();
    };
    let (register, tail) = rest.split_once(']').expect("a bracket is closed");
    match head.strip_suffix(", ").and_then(|store| store.rsplit_once(' ')) {
        Some((mnemonic, value)) => format!("{mnemonic} %{register}{tail}, {value}"),
        None => format!("{head}%{register}{tail}"),
    }
}

fn code(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| line.starts_with("  ") || line.starts_with("^bb"))
}

#[test]
fn assembly_of_the_reference_is_printed_as_it_was_written() {
    let mut mnemonics = BTreeSet::new();
    for path in fixtures("golden").into_iter().chain(fixtures("bench")) {
        let source = with_names(&std::fs::read_to_string(&path).expect("the fixture is readable"));
        let expected: Vec<String> = code(&source).map(normal).collect();
        let found: Vec<String> = code(&printed(&path, &source)).map(|line| normal(&as_assembled(line))).collect();
        let differences = expected.iter().zip(&found).filter(|(expected, found)| expected != found);
        let differences: Vec<String> =
            differences.map(|(expected, found)| format!("- {expected}\n+ {found}")).collect();
        assert!(differences.is_empty(), "{}:\n{}", path.display(), differences.join("\n"));
        assert_eq!(expected.len(), found.len(), "{}", path.display());
        let words = found.iter().flat_map(|line| line.split([' ', ',']).find(|word| word.starts_with("vm.")));
        mnemonics.extend(words.map(ToString::to_string));
    }
    // All but the op that IREE's assembler cannot write, and the ones that it writes but no record needs.
    assert!(mnemonics.len() >= 255, "only {} mnemonics are covered", mnemonics.len());
}
