//! The assembler against the fixtures: this assembler makes of an assembly file what IREE's made of it, and every
//! module is the same after its text has been assembled again.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use vireo::asm::{assemble, disassemble};
use vireo::interp::{DispatchMode, Limits};
use vireo::vm::{Context, Module, Value};
use vireo::vmfb::Archive;

fn fixtures(extension: &str) -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let folders = ["fixtures/golden", "fixtures/bench", "fixtures/context", "fixtures/models", "cli/tests/fixtures"];
    let mut paths = Vec::new();
    for folder in folders {
        let entries = std::fs::read_dir(root.join(folder)).expect("the folder is readable");
        paths.extend(entries.map(|entry| entry.expect("the folder is readable").path()));
    }
    paths.retain(|path| path.extension().is_some_and(|found| found == extension));
    paths.sort();
    assert!(!paths.is_empty());
    paths
}

/// Everything about a module but source locations, and how rodata inside of the FlatBuffer is aligned.
fn contents(archive: &Archive) -> String {
    let mut text = String::new();
    let def = archive.def();
    writeln!(
        text,
        "{} {} {:?} {:?}",
        archive.name(),
        archive.version(),
        archive.bytecode_version(),
        def.requirements()
    )
    .unwrap();
    writeln!(text, "attrs {:?}", archive.attrs().collect::<Vec<_>>()).unwrap();
    writeln!(text, "types {:?}", archive.types().collect::<Vec<_>>()).unwrap();
    writeln!(text, "dependencies {:?}", archive.dependencies().collect::<Vec<_>>()).unwrap();
    for (import, table) in archive.imports().zip(def.imported_functions().unwrap_or_default().iter()) {
        let attrs = table.signature().and_then(|signature| signature.attrs()).map_or(0, |attrs| attrs.len());
        writeln!(text, "import {import:?} {:?} {attrs}", table.flags()).unwrap();
    }
    writeln!(text, "exports {:?}", archive.exports().collect::<Vec<_>>()).unwrap();
    for segment in archive.rodata() {
        writeln!(text, "rodata {:?} {:?}", segment.location, &archive.bytes()[segment.range]).unwrap();
    }
    writeln!(text, "globals {:?}", archive.globals()).unwrap();
    for function in archive.functions() {
        writeln!(
            text,
            "function {:?} {} {} {} {} {:?} {:?}",
            function.requirements,
            function.blocks,
            function.slots,
            function.refs,
            function.convention(),
            function.attrs().collect::<Vec<_>>(),
            &archive.bytecode()[function.code.clone()],
        )
        .unwrap();
    }
    text
}

fn same(path: &Path, expected: &Archive, found: &Archive) {
    let (expected, found) = (contents(expected), contents(found));
    for (expected, found) in expected.lines().zip(found.lines()) {
        let short = |line: &str| line.chars().take(2000).collect::<String>();
        assert!(expected == found, "{}:\n- {}\n+ {}", path.display(), short(expected), short(found));
    }
    assert_eq!(expected.len(), found.len(), "{}", path.display());
}

#[test]
fn assembly_becomes_what_the_reference_assembler_makes_of_it() {
    for path in fixtures("vmasm") {
        let source = std::fs::read_to_string(&path).expect("the fixture is readable");
        let bytes = assemble(&source).unwrap_or_else(|error| panic!("{}:{error}", path.display()));
        let found = Archive::from_bytes(&bytes).unwrap_or_else(|status| panic!("{}: {status}", path.display()));
        let expected = Archive::open(path.with_extension("vmfb")).expect("the fixture is readable");
        same(&path, &expected, &found);
        assert_eq!(expected.bytecode(), found.bytecode(), "{}", path.display());
    }
}

#[test]
fn every_module_is_the_same_after_a_round_trip() {
    let mut functions = 0;
    for path in fixtures("vmfb") {
        let module = Module::from_file(&path).unwrap_or_else(|status| panic!("{status}"));
        let archive = module.archive().expect("a bytecode module");
        let text = disassemble(archive, module.functions());
        let bytes = assemble(&text).unwrap_or_else(|error| panic!("{}:{error}", path.display()));
        let again = Archive::from_bytes(&bytes).unwrap_or_else(|status| panic!("{}: {status}", path.display()));
        same(&path, archive, &again);
        let module =
            Module::from_archive(again.clone()).unwrap_or_else(|status| panic!("{}: {status}", path.display()));
        // Without source locations the names of internal functions may be others, but the text stays as long.
        let second = disassemble(&again, module.functions());
        assert_eq!(text.lines().count(), second.lines().count(), "{}", path.display());
        functions += module.functions().len();
    }
    assert!(functions > 500, "only {functions} functions were compared");
}

/// The assembler of the reference declares the registers that code names, which may be fewer than there are arguments.
#[test]
fn frames_have_room_for_arguments_that_code_does_not_name() {
    let text = "vm.module @few\n\nvm.export @third\nvm.func @third(%i0: i32, %i1: i32, %i2: i32, %i3: i32) -> (i32) registers(3, 0) {\n\
                ^bb0:\n  %i2 = vm.add.i32 %i2, %i2\n  vm.return %i2\n}\n";
    let bytes = assemble(text).unwrap();
    let archive = Archive::from_bytes(&bytes).unwrap();
    assert_eq!(archive.functions().next().map(|function| (function.slots, function.refs)), Some((3, 0)));
    for dispatch in [DispatchMode::Loop, DispatchMode::Threaded, DispatchMode::Compiled] {
        let module = Module::from_bytes(&bytes).unwrap();
        let again = disassemble(module.archive().unwrap(), module.functions());
        assert_eq!(assemble(&again).unwrap(), bytes, "{again}");
        let limits = Limits { dispatch, ..Limits::default() };
        let function = Context::with_limits([module], limits).unwrap().function("third").unwrap();
        let results = function.call(&[1, 2, 3, 4].map(Value::I32)).unwrap();
        assert!(matches!(results[..], [Value::I32(6)]), "{dispatch:?}: {results:?}");
    }
    let more = text.replace("registers(3, 0)", "registers(2, 0)");
    assert!(assemble(&more).unwrap_err().to_string().contains("registers"), "{more}");
}

/// Counts of registers that a text states are those of the file, and are stated again unless they are what follows from
/// the code anyway: a file does not tell those that were written from those that were not.
#[test]
fn stated_registers_survive() {
    /// The counts that a text states, by those that follow from the code.
    type Counts = dyn Fn((u32, u32)) -> (u32, u32);

    let mut accepted = 0;
    for path in fixtures("vmasm") {
        let module = Module::from_file(path.with_extension("vmfb")).unwrap_or_else(|status| panic!("{status}"));
        let plain = disassemble(module.archive().unwrap(), module.functions());
        let inferred: Vec<_> =
            module.archive().unwrap().functions().map(|function| (function.slots, function.refs)).collect();
        let stated = |counts: &Counts| -> String {
            let mut ordinal = 0;
            let line = |line: &str| match line.strip_prefix("vm.func @").and(line.strip_suffix(" {")) {
                Some(head) if !line.contains(" registers(") => {
                    let (slots, refs) = counts(inferred[ordinal]);
                    ordinal += 1;
                    format!("{head} registers({slots}, {refs}) {{\n")
                }
                Some(_) => {
                    ordinal += 1;
                    format!("{line}\n")
                }
                None => format!("{line}\n"),
            };
            plain.lines().map(line).collect()
        };
        let all: [&Counts; 5] = [
            &|(slots, refs)| if slots < 2 && refs < 2 { (0, 0) } else { (slots, refs) },
            &|counts| counts,
            &|(slots, refs)| (slots + 1, refs),
            &|(slots, refs)| (slots, refs + 3),
            &|(slots, refs)| (slots - slots / 4, refs - refs / 4),
        ];
        for counts in all {
            let text = stated(counts);
            let Ok(bytes) = assemble(&text) else { continue };
            let Ok(module) = Module::from_bytes(&bytes) else { continue };
            accepted += 1;
            let archive = module.archive().unwrap();
            let again = disassemble(archive, module.functions());
            assert!(assemble(&again).unwrap() == bytes, "{}:\n{again}", path.display());
            for ((function, inferred), line) in
                archive.functions().zip(&inferred).zip(again.lines().filter(|line| line.starts_with("vm.func")))
            {
                let found = (function.slots, function.refs);
                let clause = format!(" registers({}, {})", found.0, found.1);
                assert!(found == *inferred || line.contains(&clause), "{}: {found:?} in {line}", path.display());
            }
        }
        // Text that the disassembler has written is written again as it was.
        let bytes = assemble(&plain).unwrap();
        let module = Module::from_bytes(&bytes).unwrap();
        let second = disassemble(module.archive().unwrap(), module.functions());
        let bytes = assemble(&second).unwrap();
        let module = Module::from_bytes(&bytes).unwrap();
        assert_eq!(second, disassemble(module.archive().unwrap(), module.functions()), "{}", path.display());
    }
    assert!(accepted > 40, "only {accepted} texts were accepted");
}

#[test]
fn a_function_that_is_refused_is_named_once() {
    let mark = 0x7E57_C0DE_u32;
    let text = format!(
        "vm.module @m\n\nvm.export @f\nvm.func @f() -> () {{\n^bb0:\n  %i0 = vm.const.i32 {mark}\n  vm.return\n}}\n"
    );
    let mut bytes = assemble(&text).unwrap();
    let place = bytes.windows(4).position(|bytes| *bytes == mark.to_le_bytes()).unwrap();
    bytes[place - 1] = 0xFF;
    let message = Module::from_bytes(&bytes).unwrap_err().message().to_string();
    assert!(message.contains("function 0 `f` at 0x0001: "), "{message}");
    assert_eq!(message.matches("function 0").count(), 1, "{message}");
}
