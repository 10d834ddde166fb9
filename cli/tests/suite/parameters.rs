//! Programs with parameters, and `vireo params`, against what the tools of the reference runtime printed
//! (`fixtures/parameters/recorded.json`).

use std::path::{Path, PathBuf};

use crate::common::{Outcome, folder, vireo};
use serde_json::Value;

fn fixtures() -> PathBuf {
    folder("../fixtures/parameters")
}

fn run(arguments: &[&str]) -> Outcome {
    vireo(&fixtures(), arguments)
}

fn ok(outcome: Outcome) -> String {
    assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""), "{}", outcome.stdout);
    outcome.stdout
}

/// Refused with a message that has all of these parts.
fn refused(outcome: &Outcome, code: i32, parts: &[&str]) {
    assert_eq!(outcome.code, code, "{}{}", outcome.stdout, outcome.stderr);
    for part in parts {
        assert!(outcome.stderr.contains(part), "expected `{part}` in:\n{}", outcome.stderr);
    }
}

#[test]
fn programs_print_what_the_reference_tools_print() {
    let recorded = std::fs::read(fixtures().join("recorded.json")).unwrap();
    let recorded: Value = serde_json::from_slice(&recorded).unwrap();
    let calls = [("forward", "--input=1x4xf32=1,2,3,4"), ("bump", "--input=4xf32=1,2,3,4"), ("gather", "")];
    for (archive, expected) in recorded.as_object().unwrap() {
        let parameters = format!("--parameters=model={archive}");
        for (function, input) in calls {
            for mode in ["mmap", "file", "preload"] {
                let (function_flag, mode) = (format!("--function={function}"), format!("--parameter_mode={mode}"));
                let mut flags = vec!["run", "--module=model.vmfb", &parameters, &function_flag, &mode];
                flags.extend(Some(input).filter(|input| !input.is_empty()));
                assert_eq!(ok(run(&flags)), expected[function].as_str().unwrap(), "{archive} {function} {mode}");
            }
        }
        assert_eq!(ok(run(&["params", "dump", &parameters])), expected["dump"].as_str().unwrap(), "{archive}");
        assert_eq!(ok(run(&["params", "dump", &format!("model={archive}")])), expected["dump"].as_str().unwrap());
    }
}

#[test]
fn missing_parameters_are_explained() {
    let call = ["run", "--module=model.vmfb", "--function=gather"];
    refused(&run(&call), 3, &["NOT_FOUND", "the scope `model`", "use --parameters=model=FILE"]);
    refused(&run(&[&call[..], &["--parameters=weights.irpa"]].concat()), 3, &["the scope `model`"]);
    refused(&run(&[&call[..], &["--parameters=model=missing.irpa"]].concat()), 3, &["missing.irpa"]);
    refused(&run(&[&call[..], &["--parameters=model="]].concat()), 2, &["names no file"]);
    refused(&run(&[&call[..], &["--parameters=model=model.vmfb"]].concat()), 3, &["UNIMPLEMENTED", "`vmfb`"]);
}

#[test]
fn a_parameter_that_an_archive_lacks_is_named_before_any_is_loaded() {
    let folder = tempfile::tempdir().unwrap();
    let (archive, trace) = (folder.path().join("part.irpa"), folder.path().join("trace.txt"));
    let output = format!("--output={}", archive.display());
    ok(run(&["params", "convert", "--parameters=weights.irpa", "--exclude=b", "--quiet", &output]));
    let trace_flag = format!("--device_trace={}", trace.display());
    for command in ["run", "benchmark"] {
        for mode in ["mmap", "file", "preload"] {
            let (parameters, mode) =
                (format!("--parameters=model={}", archive.display()), format!("--parameter_mode={mode}"));
            let flags = ["--module=model.vmfb", "--function=gather", &parameters, &mode, &trace_flag];
            let outcome = run(&[&[command], &flags[..]].concat());
            refused(&outcome, 3, &["NOT_FOUND: the program needs parameter `b` of the scope `model` (16 bytes)\n"]);
            assert!(!outcome.stderr.contains("hint"), "{}", outcome.stderr);
        }
    }
    // Nothing was loaded.
    let calls = std::fs::read_to_string(&trace).unwrap();
    assert!(["import_", "allocate_", "queue_"].iter().all(|call| !calls.contains(call)), "{calls}");
}

#[test]
fn conversion_makes_the_file_that_the_reference_tool_makes() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("out.irpa");
    let flag = format!("--output={}", output.display());
    let archive = "--parameters=weights.safetensors";
    let printed = ok(run(&["params", "convert", archive, "--splat=state=f32=1.5", &flag]));
    assert!(printed.contains("// Parameter scope <global> (3 entries, 96 total bytes)"), "{printed}");
    assert_eq!(std::fs::read(&output).unwrap(), std::fs::read(fixtures().join("weights.irpa")).unwrap());

    let edited = ["params", "convert", archive, "--strip", "--exclude=w", "--rename=b=c", "--quiet", &flag];
    assert_eq!(ok(run(&edited)), "");
    let listed = ok(vireo(folder.path(), ["params", "dump", "out.irpa", "--format=json"]));
    let listed: Value = serde_json::from_str(&listed).unwrap();
    let expected = serde_json::json!({"scopes": [{"scope": "", "total_bytes": 32, "parameters": [
        {"key": "c", "length": 16, "splat": "00"},
        {"key": "state", "length": 16, "splat": "00"},
    ]}]});
    assert_eq!(listed, expected);

    refused(&run(&["params", "convert", archive, "--rename=b=w", &flag]), 2, &["two parameters `w`"]);
    refused(&run(&["params", "convert", archive, "--splat=b=f32", &flag]), 2, &["--splat=b=f32"]);
    refused(&run(&["params", "convert", archive, "--output=x.safetensors"]), 2, &["UNIMPLEMENTED", ".irpa"]);
    refused(&run(&["params", "convert", &flag]), 2, &["no parameters"]);
    // A command that failed has left the file alone.
    assert!(ok(vireo(folder.path(), ["params", "dump", "out.irpa"])).contains("`c`"));
}

#[test]
fn an_archive_can_be_converted_onto_itself() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::copy(fixtures().join("weights.irpa"), folder.path().join("x.irpa")).unwrap();
    ok(vireo(folder.path(), ["params", "convert", "--parameters=x.irpa", "--exclude=b", "--output=x.irpa"]));
    ok(vireo(folder.path(), ["params", "dump", "x.irpa", "--extract=w=w.bin"]));
    let w: Vec<u8> = (0..16).flat_map(|number| (number as f32 * 0.25 - 1.0).to_le_bytes()).collect();
    assert_eq!(std::fs::read(folder.path().join("w.bin")).unwrap(), w);
}

#[test]
fn archives_are_made_of_values() {
    let folder = tempfile::tempdir().unwrap();
    let at = |arguments: &[&str]| vireo(folder.path(), arguments);
    let flags = [
        "params",
        "create",
        "--data=zeros=3xf32",
        "--data=ones=2x2xi16=1",
        "--data=list=2xi8=1,2",
        "--splat=s=8xi8=7",
        "--output=x.irpa",
    ];
    let printed = ok(at(&flags));
    assert!(printed.contains("(4 entries, 30 total bytes)"), "{printed}");
    let extract = ["--extract=zeros=z", "--extract=ones=o", "--extract=list=l", "--extract=s=s"];
    ok(at(&[&["params", "dump", "x.irpa"], &extract[..]].concat()));
    let read = |name: &str| std::fs::read(folder.path().join(name)).unwrap();
    assert_eq!((read("z"), read("o")), (vec![0; 12], vec![1, 0, 1, 0, 1, 0, 1, 0]));
    assert_eq!((read("l"), read("s")), (vec![1, 2], vec![7; 8]));
    for (flag, part) in [
        ("--data=x", "expected a name"),
        ("--data=x=2xf33", "f33"),
        ("--data=x=2xf32=a", "`a` is not of type f32"),
        ("--data=x=4xi4=1", "UNIMPLEMENTED"),
        ("--data=x=99999999999x99999999999xf32", "too many elements"),
        ("--alignment=3", "power of two"),
    ] {
        refused(&at(&["params", "create", flag, "--output=y.irpa"]), 2, &[part]);
    }
    refused(&at(&["params", "create", "--data=a=1xi8", "--splat=a=1xi8", "--output=y.irpa"]), 2, &["two parameters"]);
    refused(&at(&["params", "dump", "x.irpa", "--extract=none=n"]), 2, &["no parameter `none`"]);
    refused(&at(&["params", "dump"]), 2, &["no parameters"]);
    assert!(!Path::new(&folder.path().join("y.irpa")).exists());
}

#[test]
fn values_come_from_files_with_several_tensors() {
    let folder = tempfile::tempdir().unwrap();
    let module = format!("--module={}", fixtures().join("model.vmfb").display());
    let parameters = format!("--parameters=model={}", fixtures().join("weights.irpa").display());
    let call = |rest: &[&str]| {
        let flags = ["run", &module, &parameters, "--function=bump"];
        vireo(folder.path(), flags.iter().chain(rest))
    };
    for file in ["x.npz", "x.safetensors"] {
        let output = format!("--output=@{file}:sum");
        assert_eq!(ok(call(&["--input=4xf32=1,2,3,4", &output])), "EXEC @bump\n");
        for input in [format!("--input=@{file}"), format!("--input=@{file}:sum"), format!("--input=*{file}")] {
            assert_eq!(ok(call(&[&input])), "EXEC @bump\nresult[0]: hal.buffer_view\n4xf32=4 5 6 7\n");
        }
        ok(call(&["--input=4xf32=1,2,3,4", &format!("--expected_output=@{file}")]));
        refused(&call(&[&format!("--input=@{file}:other")]), 2, &["there is no tensor `other`; there are sum"]);
    }
    refused(&call(&["--input=@missing.npz"]), 2, &["missing.npz"]);
}
