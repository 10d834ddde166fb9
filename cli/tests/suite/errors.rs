//! Exit codes and messages of everything that can go wrong, from the command line to the program.

use std::path::Path;

use crate::common::{Outcome, command, folder, vireo};

/// Runs the module of the fixtures.
fn run(flags: &[&str]) -> Outcome {
    vireo(&folder("tests/fixtures"), ["run", "--module=values.vmfb"].iter().chain(flags))
}

#[track_caller]
fn check(outcome: &Outcome, code: i32, parts: &[&str]) {
    assert_eq!(outcome.code, code, "{}{}", outcome.stdout, outcome.stderr);
    for part in parts {
        assert!(outcome.stderr.contains(part), "expected `{part}` in:\n{}", outcome.stderr);
    }
    assert!(!outcome.stderr.contains("panicked"), "{}", outcome.stderr);
    assert!(!outcome.stderr.contains('\x1b'), "no colours without a terminal: {}", outcome.stderr);
}

#[test]
fn usage_is_code_2() {
    check(&vireo(Path::new("."), ["run"]), 2, &["no module is given", "--module=file.vmfb"]);
    check(&vireo(Path::new("."), ["bogus"]), 2, &["unrecognized subcommand 'bogus'"]);
    check(&run(&["--bogus"]), 2, &["unexpected argument '--bogus'"]);
    check(
        &run(&["--device-capture-tool=renderdoc"]),
        2,
        &["UNIMPLEMENTED", "--device_capture_tool of iree-run-module is not supported: no capture tool is driven yet"],
    );
    check(&run(&["--task_abort_on_failure=true"]), 2, &["UNIMPLEMENTED", "--task_abort_on_failure"]);
    check(&run(&["--equality_mode=vague"]), 2, &["'vague'", "approximate, exact"]);
    check(&run(&["--flagfile=/nonexistent"]), 2, &["--flagfile=/nonexistent"]);
    check(&vireo(Path::new("."), ["dump", "x", "--format=json", "--output=disassembly"]), 2, &["JSON"]);
}

#[test]
fn values_are_code_2() {
    let value = |text: &str| run(&["--function=id", &format!("--input={text}")]);
    check(
        &value("2xf32=1,two"),
        2,
        &["--input #1 `2xf32=1,two`", "element 1 is `two`", "of type f32", "the function is `id("],
    );
    check(&value("999999999999xf32"), 2, &["needs 3999999999996 bytes", "--max-tensor-bytes"]);
    check(&value("@/nonexistent.npy"), 2, &["cannot open `/nonexistent.npy`", "No such file"]);
    check(&value("2xf32=@values.mlir/x"), 2, &["cannot open"]);
    check(&value("(ignored)"), 2, &["`(ignored)` is for expected results"]);
    check(&value("999xf32=@values.vmfb"), 2, &["--input #1 `999xf32=@values.vmfb`", "bytes of `values.vmfb` are left"]);
    check(&value("99999xf32=@values.vmfb"), 2, &["`values.vmfb` ends at byte", "399996 bytes of 99999xf32"]);
    check(&value("@values.npy"), 2, &["cannot open"]);
    check(&value(""), 2, &["the value is empty"]);
    check(&run(&["--function=id"]), 2, &["@id takes 1 argument, 0 given"]);
    check(&run(&["--function=id", "--input=2xf32", "--input=2xf32"]), 2, &["--input #2", "no more than 1"]);
    check(&run(&["--function=id", "--input=2xf32", "--expected_output=f32"]), 2, &["--expected-output #1 `f32`"]);
    check(&run(&["--function=id", "--input=2xf32", "--output=x.npy"]), 2, &["`x.npy` is not an output"]);
    check(&run(&["--function=id", "--input=2xf32", "--output=-", "--output=-"]), 2, &["2 outputs", "returns 1"]);
    let expected = ["--expected_output=2xf32", "--expected_output=2xf32"];
    let two = |last: &str| run(&["--function=pair", "--input=2x2xf32", "--input=3xi8", last]);
    check(&two(expected[0]), 2, &["1 expected outputs are given, but @pair returns 2", "`pair("]);
    check(&run(&["--function=id", "--input=2xf32", expected[0], expected[1]]), 2, &["no more than 1"]);
}

#[test]
fn outputs_are_checked_before_the_call() {
    let output = |spec: &str| run(&["--function=id", "--input=2xf32", &format!("--output={spec}")]);
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path().display();
    for (spec, code, part) in [
        ("x.npy", 2, "`x.npy` is not an output"),
        ("+x.npz", 2, "cannot be appended to"),
        ("@/nonexistent/x", 1, "cannot write `/nonexistent/x`"),
        (&format!("@{folder}"), 1, "cannot write"),
        ("@", 1, "cannot write ``"),
    ] {
        let outcome = output(spec);
        check(&outcome, code, &[part]);
        assert_eq!(outcome.stdout, "", "{spec}: nothing has run");
    }
    let file = temporary.path().join("x.bin");
    check(&output(&format!("@{}", file.display())), 0, &[]);
    assert_eq!(std::fs::metadata(file).unwrap().len(), 8);
}

#[test]
fn names_that_are_alike_are_suggested() {
    check(&run(&["--function=negat"]), 3, &["did you mean `@negate`? module `module` exports"]);
    check(&run(&["--function=@id", "--input=2xf32"]), 0, &[]);
    check(&run(&["--function=@nope"]), 3, &["there is no function `@nope`"]);
    check(&run(&["--function=id", "--input=2xf32=1", "--device=local-tusk"]), 3, &["did you mean `local-task`?"]);
    check(&vireo(Path::new("."), ["devices", "nul"]), 3, &["did you mean `null`?"]);
    check(
        &vireo(&folder("tests/fixtures"), ["dump", "values.vmfb", "--function=negat"]),
        3,
        &["did you mean `negate`?"],
    );
    for (typed, meant) in [("rn", "run"), ("dmp", "dump"), ("chek", "check"), ("bench", "benchmark")] {
        check(&vireo(Path::new("."), [typed]), 2, &["unrecognized subcommand", meant]);
    }
}

#[test]
fn modules_are_named_without_a_flag_too() {
    let fixtures = folder("tests/fixtures");
    let flag = run(&["--function=id", "--input=2xf32=1"]);
    let outcome = vireo(&fixtures, ["run", "values.vmfb", "--function=id", "--input=2xf32=1"]);
    assert_eq!((outcome.code, &outcome.stdout), (0, &flag.stdout), "{}", outcome.stderr);
    let outcome = vireo(&fixtures, ["benchmark", "benchmark.vmfb", "--benchmark_list_tests"]);
    check(&outcome, 0, &[]);
    for command in ["dump", "disasm"] {
        let flag = vireo(&fixtures, [command, "--module=values.vmfb"]);
        check(&flag, 0, &[]);
        assert_eq!(flag.stdout, vireo(&fixtures, [command, "values.vmfb"]).stdout);
        check(&vireo(&fixtures, [command]), 2, &["FILE"]);
        check(&vireo(&fixtures, [command, "values.vmfb", "--module=values.vmfb"]), 2, &["cannot be used with"]);
    }
}

#[test]
fn files_that_are_no_modules_are_named() {
    let temporary = tempfile::tempdir().unwrap();
    for (name, contents, what, hint) in [
        ("a.png", &b"\x89PNG\r\n\x1a\n"[..], "a PNG image, not a module", "iree-compile writes"),
        ("a.mlir", b"// f\nfunc.func @f() {\n", "the text of an MLIR program", "iree-compile --iree-hal"),
        ("a.vmasm", b"vm.module @m version 0\n", "the text of a module", "vireo asm a.vmasm -o"),
        ("a.so", b"\x7fELF\x02\x01\x01", "an ELF file", "--executable_plugin=a.so"),
        ("a.irpa", b"IRPA\0\0\0\0", "an archive of parameters", "--parameters=a.irpa"),
        ("a.npy", b"\x93NUMPY\x01\0", "a NumPy array", "--input=@a.npy"),
        ("empty", b"", "the file is empty", "iree-compile writes"),
        ("a.onnx", b"\x08\x08\x12\x07pytorch\x1a\x05", "a model of ONNX", "iree-import-onnx a.onnx"),
        ("a.tflite", b"\x1c\0\0\0TFL3\x14\0\x20\0", "a model of TensorFlow Lite", "iree-import-tflite a.tflite"),
        (
            "a.safetensors",
            b"\x10\0\0\0\0\0\0\0{\"a\": 1}      ",
            "an archive of parameters",
            "--parameters=a.safetensors",
        ),
        (
            "a.pt",
            b"PK\x03\x04\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x0a\0\0\0a/data.pkl",
            "a file of PyTorch",
            "iree.turbine",
        ),
        (
            "a.npz",
            b"PK\x03\x04\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x05\0\0\0x.npy",
            "NumPy arrays",
            "--input=@a.npz",
        ),
    ] {
        std::fs::write(temporary.path().join(name), contents).unwrap();
        for command in ["run", "benchmark", "check", "dump", "disasm"] {
            check(&vireo(temporary.path(), [command, name]), 3, &["cannot load the module", what, hint]);
        }
    }
}

#[test]
fn loading_is_code_3() {
    let temporary = tempfile::tempdir().unwrap();
    let load = |name: &str, contents: Option<&[u8]>| {
        let path = temporary.path().join(name);
        if let Some(contents) = contents {
            std::fs::write(&path, contents).unwrap();
        }
        vireo(temporary.path(), ["run", &format!("--module={}", path.display())])
    };
    check(&load("missing.vmfb", None), 3, &["missing.vmfb"]);
    check(&load("empty.vmfb", Some(b"")), 3, &["empty.vmfb"]);
    check(
        &load("text.vmfb", Some(b"this is not a module, it is a text")),
        3,
        &["text.vmfb", "the file is a text, not a module"],
    );
    let module = std::fs::read(folder("tests/fixtures").join("values.vmfb")).unwrap();
    check(&load("short.vmfb", Some(&module[..module.len() / 2])), 3, &["short.vmfb", "at 0x"]);
    check(&run(&["--function=nope"]), 3, &["nope", "@id"]);
    check(&run(&["--function=id", "--input=2xf32=1", "--device=toaster"]), 3, &["toaster", "local-sync"]);
    check(&run(&["--function=id", "--input=2xf32=1", "--device=hip"]), 3, &["UNIMPLEMENTED", "`hip`", "local-sync"]);
    check(&run(&["--function=id", "--input=2xf32=1", "--device=local-task://?nope=1"]), 2, &["nope"]);
}

#[test]
fn a_choice_that_is_missing_is_code_2() {
    check(&run(&[]), 2, &["--function", "@negate"]);
}

#[test]
fn arguments_of_another_type_are_code_2_and_nothing_runs() {
    for input in ["2x2xf32=1", "f32=1", "2xf64=1", "2xi32=1"] {
        let outcome = run(&["--function=negate", &format!("--input={input}")]);
        let given = format!("tensor<{}> is given", input.split('=').next().unwrap());
        check(&outcome, 2, &["argument 0", "@negate is tensor<", &given, "`negate("]);
        assert_eq!(outcome.stdout, "");
    }
}

/// Compilers export `name$async` beside `name`, and initialisers.
#[test]
fn the_only_function_for_callers_is_called_where_none_is_named() {
    let temporary = tempfile::tempdir().unwrap();
    let text = "vm.module @m version 0\nvm.type i32\nvm.export @cnn\nvm.func @cnn() -> (i32) {\n^bb0:\n  %i0 = vm.const.i32 7\n  vm.return %i0\n}\n\
        vm.export @cnn$async\nvm.func @cnn$async() -> (i32) {\n^bb0:\n  %i0 = vm.const.i32 8\n  vm.return %i0\n}\n";
    std::fs::write(temporary.path().join("a.vmasm"), text).unwrap();
    check(&vireo(temporary.path(), ["asm", "a.vmasm", "-o", "a.vmfb"]), 0, &[]);
    let outcome = vireo(temporary.path(), ["run", "a.vmfb"]);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (0, "EXEC @cnn\nresult[0]: i32=7\n"), "{}", outcome.stderr);
    let outcome = vireo(temporary.path(), ["benchmark", "a.vmfb", "--benchmark_list_tests"]);
    assert!(outcome.code == 0 && !outcome.stdout.contains("async"), "{}", outcome.stdout);
}

#[test]
fn failures_of_files_have_no_hint_about_the_function() {
    let outcome = run(&["--function=negate", "--input=@missing.npy"]);
    assert!(outcome.code == 2 && !outcome.stderr.contains("the function is"), "{}", outcome.stderr);
}

#[test]
fn a_module_is_no_text_of_one() {
    let module = folder("tests/fixtures").join("values.vmfb");
    let outcome = vireo(Path::new("."), ["asm".as_ref(), module.as_os_str(), "-o".as_ref(), "x.vmfb".as_ref()]);
    check(&outcome, 2, &["the file is a module, not the text of a module", "vireo disasm"]);
}

#[test]
fn running_is_code_1() {
    let outcome = run(&["--function=negate", "--input=(null)"]);
    check(&outcome, 1, &["calling @negate", "INVALID_ARGUMENT", "at module.negate+0x", "`negate("]);
    assert_eq!(outcome.stdout, "EXEC @negate\n");
    check(&run(&["--function=list", "--output=@/tmp/x.npy"]), 1, &["!vm.list"]);
}

#[test]
fn mismatch_is_code_4() {
    let outcome = run(&[
        "--function=numbers",
        "--input=1",
        "--input=2",
        "--input=1.5",
        "--input=2.5",
        "--expected_output=1",
        "--expected_output=3",
        "--expected_output=1.5",
        "--expected_output=(ignored)",
    ]);
    check(&outcome, 4, &[]);
    let expected = "EXEC @numbers\n[FAILED] result[1]: i64 values differ\n  expected: 3\n  actual: 2\n";
    assert_eq!(outcome.stdout, expected);
}

#[test]
fn modules_come_from_stdin_too() {
    use std::io::Write;
    use std::process::Stdio;
    let module = std::fs::read(folder("tests/fixtures").join("values.vmfb")).unwrap();
    let mut child = command()
        .args(["run", "--module=-", "--function=id", "--input=2xf32=1"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(&module).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "EXEC @id\nresult[0]: hal.buffer_view\n2xf32=1 1\n");
}

#[test]
fn commands_that_look_at_modules_end_at_their_limit_of_time() {
    use std::process::Stdio;
    for command_line in [&["dump"][..], &["dump", "--jit"], &["dump", "--output=all"], &["explain"]] {
        // The module never comes.
        let mut child = command()
            .args(command_line)
            .args(["-", "--timeout=0.05"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stdin = child.stdin.take();
        let output = child.wait_with_output().unwrap();
        drop(stdin);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{command_line:?}: {stderr}");
        assert!(stderr.contains("the module took longer than the limit of 0.05 s"), "{command_line:?}: {stderr}");
    }
}

#[test]
fn files_that_are_written_can_be_read_again() {
    let temporary = tempfile::tempdir().unwrap();
    let module = format!("--module={}", folder("tests/fixtures").join("values.vmfb").display());
    let flags =
        ["--function=pair", "--input=2x2xf32=1,2,3,4", "--input=3xi8=5", "--output=@out.npy", "--output=+out.npy"];
    check(&vireo(temporary.path(), ["run", &module].iter().chain(&flags)), 0, &[]);
    let outcome = vireo(temporary.path(), ["run", &module, "--function=pair", "--input=*out.npy"]);
    let expected =
        "EXEC @pair\nresult[0]: hal.buffer_view\n2x2xf32=[1 2][3 4]\nresult[1]: hal.buffer_view\n3xsi8=5 5 5\n";
    assert_eq!(outcome.stdout, expected);
}

#[test]
fn help_and_listings() {
    let help = vireo(Path::new("."), ["run", "--help"]);
    check(&help, 0, &[]);
    assert!(help.stdout.contains("4  mismatch"));
    let devices = vireo(Path::new("."), ["run", "--list_devices"]);
    check(&devices, 0, &[]);
    assert!(devices.stdout.starts_with("local-sync"), "{}", devices.stdout);
    let json = vireo(Path::new("."), ["devices", "null", "--format=json"]);
    check(&json, 0, &[]);
    let json: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(json["drivers"][0]["devices"][0]["uri"], "null://");
    let table = vireo(Path::new("."), ["devices"]);
    check(&table, 0, &[]);
    assert!(table.stdout.contains("local-sync://  default"), "{}", table.stdout);
    check(
        &vireo(Path::new("."), ["devices", "warp"]),
        3,
        &["there is no driver `warp`", "local-sync, local-task, null"],
    );
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = vireo(Path::new("."), ["completions", shell]);
        assert!(script.code == 0 && script.stdout.contains("expected-output"), "{shell}");
    }
}

/// A file that is opened where there is no standard output must not become it.
#[cfg(unix)]
#[test]
fn files_do_not_take_the_place_of_closed_streams() {
    let temporary = tempfile::tempdir().unwrap();
    let module = format!("--module={}", folder("tests/fixtures").join("values.vmfb").display());
    let program = command();
    let status = std::process::Command::new("sh")
        .args(["-c", r#"exec "$@" <&- >&- 2>&-"#, "sh"])
        .arg(program.get_program())
        .args(program.get_args())
        .args(["run", &module, "--function=pair", "--input=2x2xf32=1,2,3,4", "--input=3xi8=5"])
        .args(["--output=@first.npy", "--output=@second.npy"])
        .current_dir(temporary.path())
        .status();
    assert_eq!(status.unwrap().code(), Some(0));
    let outcome = vireo(
        temporary.path(),
        [
            "run",
            &module,
            "--function=pair",
            "--input=@first.npy",
            "--input=@second.npy",
            "--expected_output=@first.npy",
            "--expected_output=@second.npy",
        ],
    );
    check(&outcome, 0, &[]);
}
