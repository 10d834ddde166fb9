//! Nothing that a module, an archive or a text says can drive the terminal or pass for a line of the command: every
//! string of a module has every character that could, and every command shows it.

use std::path::Path;

use crate::common::{Outcome, folder, model, vireo};

/// The characters, by what they do.
fn hostile() -> String {
    let controls = (0u32..0x20).chain([0x7F]).chain(0x80..0xA0);
    let marks = [0x61C, 0x200E, 0x200F, 0x2028, 0x2029].into_iter().chain(0x202A..=0x202E).chain(0x2066..=0x2069);
    controls.chain(marks).filter_map(char::from_u32).collect()
}

/// The same as in a string of the assembler.
fn quoted(text: &str) -> String {
    format!("\"{}{}\"", text, hostile().chars().map(|c| format!("\\u{{{:x}}}", u32::from(c))).collect::<String>())
}

/// A module each string of which has all of them, but for the functions that tests find by their names.
fn source() -> String {
    let [module, key, value, dependency, export, event, text, failure, attribute, declared, parameter] =
        ["m", "k", "v", "d", "e", "t", "p", "f", "a", "x", "w"].map(quoted);
    let import = quoted("i.j");
    let fake = "\"line\\nresult[0]: i32=7\\r\\nEXEC @real\\n\"";
    format!(
        "vm.module @{module} version 0
vm.type !vm.buffer
vm.attr {key} = {value}
vm.dependency optional @{dependency} version 0
vm.import optional @{import} cconv \"0i_i\"
vm.rodata[0] = 1b5b33316d1b5d303b70776e07
vm.rodata[1] = {parameter_bytes}
vm.export @{export} = @fails
vm.export @fails
vm.export @prints
vm.export @forges
vm.export @returns
vm.export @passes
vm.func @fails(%i0: i32) -> (i32) {{
  vm.attr \"iree.abi.declaration\" = {declared}
  vm.attr {attribute} = {value}
^bb0:
  vm.fail %i0, {failure}
}}
vm.func @passes() -> () {{
^bb0:
  %i0 = vm.const.i32 5
  vm.fail %i0, {failure}
}}
vm.func @prints(%i0: i32) -> () {{
^bb0:
  vm.trace {event}, %i0
  vm.print {text}, %i0
  vm.print {parameter}, %i0
  vm.return
}}
vm.func @forges(%i0: i32) -> (i32) {{
^bb0:
  vm.print {fake}, %i0
  vm.trace {fake}, %i0
  vm.return %i0
}}
vm.func @returns(%i0: i32) -> (!vm.buffer, !vm.buffer) {{
^bb0:
  %r0 = vm.const.ref.rodata 0
  %r1 = vm.const.ref.rodata 1
  vm.return %r0, %r1
}}
",
        parameter_bytes = hostile().bytes().map(|byte| format!("{byte:02x}")).collect::<String>()
    )
}

fn write(folder: &Path) {
    std::fs::write(folder.join("h.vmasm"), source()).unwrap();
    let outcome = vireo(folder, ["asm", "h.vmasm", "-o", "h.vmfb"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
}

/// Fails if the command wrote one of the characters. Lines and tabs are its own.
fn assert_harmless(command: &[&str], outcome: &Outcome) {
    let hostile = hostile();
    for text in [&outcome.stdout, &outcome.stderr] {
        let found = text.char_indices().find(|(_, c)| hostile.contains(*c) && !matches!(c, '\n' | '\t'));
        if let Some((position, c)) = found {
            let around =
                text[..position].chars().rev().take(60).collect::<Vec<_>>().into_iter().rev().collect::<String>();
            panic!("`{}` wrote {c:?} after {around:?}", command.join(" "));
        }
    }
}

#[test]
fn no_command_lets_a_module_drive_the_terminal() {
    let temporary = tempfile::tempdir().unwrap();
    write(temporary.path());
    let export = format!("e{}", hostile().replace('\0', ""));
    let commands: &[&[&str]] = &[
        &["run", "h.vmfb", "--function=fails", "--input=3"],
        &["run", "h.vmfb", "--function=prints", "--input=3"],
        &["run", "h.vmfb", "--function=forges", "--input=3"],
        &["run", "h.vmfb", "--function=returns", "--input=3"],
        &["run", "h.vmfb", "--function=prints", "--input=3", "--trace_execution"],
        &["run", "h.vmfb", "--function=fails", "--input=3", "--trace_execution"],
        &["run", "h.vmfb", "--function=prints", "--input=3", "--print_statistics", "--untrusted"],
        &["run", "h.vmfb", "--function=prints", "--input=3", "--tier=both"],
        &["run", "h.vmfb", "--function=fails", "--input=3", "--tier=both"],
        &["run", "h.vmfb", "--function=fails"],
        &["run", "h.vmfb", "--function=returns", "--input=3", "--expected-output=1", "--expected-output=2"],
        &["run", "h.vmfb", "--function=nothing"],
        &["run", "h.vmfb"],
        &["run", "h.vmfb", "--function", &export, "--input=3"],
        &["benchmark", "h.vmfb", "--benchmark_list_tests"],
        &["benchmark", "h.vmfb", "--function=fails", "--input=3"],
        &["benchmark", "h.vmfb", "--function=prints", "--input=3", "--benchmark_min_time=1x"],
        &[
            "benchmark",
            "h.vmfb",
            "--function=returns",
            "--input=3",
            "--benchmark_min_time=1x",
            "--benchmark_format=json",
        ],
        &[
            "benchmark",
            "h.vmfb",
            "--function=returns",
            "--input=3",
            "--benchmark_min_time=1x",
            "--benchmark_format=csv",
        ],
        &["check", "h.vmfb"],
        &["check", "h.vmfb", "--list"],
        &["check", "h.vmfb", "--format=json"],
        &["check", "h.vmfb", "--tier=both"],
        &["explain", "h.vmfb"],
        &["explain", "h.vmfb", "--json"],
        &["dump", "h.vmfb"],
        &["dump", "h.vmfb", "--output=all"],
        &["dump", "h.vmfb", "--output=metadata"],
        &["dump", "h.vmfb", "--output=metadata", "--format=json"],
        &["dump", "h.vmfb", "--output=disassembly"],
        &["dump", "h.vmfb", "--jit"],
        &["dump", "h.vmfb", "--function", &export],
        &["disasm", "h.vmfb"],
        &["asm", "h.vmfb", "-o", "x.vmfb"],
        &["trace", "h.vmfb", "--function=fails", "--input=3"],
    ];
    let mut shown = 0;
    for command in commands {
        // No argument of a process can have the character zero, and some of these end one.
        let outcome = vireo(temporary.path(), *command);
        assert_harmless(command, &outcome);
        assert!(outcome.code != 101 && outcome.code != -1, "`{}`: {}", command.join(" "), outcome.stderr);
        shown += usize::from([&outcome.stdout, &outcome.stderr].iter().any(|text| text.contains("1b")));
    }
    // Most of them do show the strings.
    assert!(shown > commands.len() / 2, "{shown}");
}

#[test]
fn archives_and_texts_of_modules_cannot_either() {
    let temporary = tempfile::tempdir().unwrap();
    let hostile = hostile().replace(['\0', '\n'], "");
    let splat = format!("--splat=w{hostile}=2xf32=1");
    let scoped = format!("s{hostile}=w.irpa");
    std::fs::write(temporary.path().join("a.vmasm"), format!("vm.module @m\nvm.{hostile} x\n")).unwrap();
    let parameters = format!("--parameters={scoped}");
    for command in [
        &["params", "create", &splat, "-o", "w.irpa"][..],
        &["params", "dump", "w.irpa"],
        &["params", "dump", &parameters],
        &["params", "dump", "w.irpa", "--extract=nothing=x.bin"],
        &["asm", "a.vmasm", "-o", "a.vmfb"],
        &["dump", "w.irpa"],
    ] {
        assert_harmless(command, &vireo(temporary.path(), command));
    }
}

#[test]
fn places_in_source_files_cannot_either() {
    // The names of source files in the debug database, without a change of their length.
    let temporary = tempfile::tempdir().unwrap();
    let file = std::fs::read(folder("../fixtures/models").join(model("state"))).unwrap();
    let mut changed = file.clone();
    let mut count = 0;
    for position in 0..file.len() - 5 {
        if &file[position..position + 5] == b".mlir" {
            changed[position..position + 5].copy_from_slice(b"\x1b[7m\r");
            count += 1;
        }
    }
    assert!(count > 0, "the module has no places");
    std::fs::write(temporary.path().join("c.vmfb"), changed).unwrap();
    let mut shown = 0;
    for command in [
        &["dump", "c.vmfb", "--output=all"][..],
        &["dump", "c.vmfb", "--jit"],
        &["dump", "c.vmfb", "--output=metadata", "--format=json"],
        &["explain", "c.vmfb"],
        &["disasm", "c.vmfb"],
        &["run", "c.vmfb", "--timeout=0.000001"],
    ] {
        let outcome = vireo(temporary.path(), command);
        assert_harmless(command, &outcome);
        shown += usize::from((outcome.stdout + &outcome.stderr).contains("1b"));
    }
    assert!(shown > 0, "no place was shown");
}

#[test]
fn a_program_cannot_forge_the_lines_of_the_command() {
    let temporary = tempfile::tempdir().unwrap();
    write(temporary.path());
    let outcome = vireo(temporary.path(), ["run", "h.vmfb", "--function=forges", "--input=3"]);
    assert_eq!(outcome.stdout, "EXEC @forges\nresult[0]: i32=3\n");
    let expected = "[print] line\n[print] result[0]: i32=7\\r\n[print] EXEC @real\n[print] : 3\n\
                    [trace] line\\nresult[0]: i32=7\\r\\nEXEC @real\\n: 3\n";
    assert_eq!(outcome.stderr, expected);
}
