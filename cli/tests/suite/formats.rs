//! `--format=json`: one spelling for all commands, one document on stdout, and the same keys for failures.

use serde_json::{Value, json};

use crate::common::{Outcome, folder, model, vireo};

fn fixtures(arguments: &[&str]) -> Outcome {
    vireo(&folder("../fixtures"), arguments)
}

fn document(outcome: &Outcome) -> Value {
    serde_json::from_str(&outcome.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}{}", outcome.stdout, outcome.stderr))
}

#[test]
fn each_command_that_reports_has_the_flag() {
    let abs = format!("models/{}", model("abs"));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("w.irpa");
    let output = format!("--output={}", file.display());
    let commands: [&[&str]; 9] = [
        &["run", &abs, "--input=f32=-2"],
        &["explain", &abs],
        &["dump", &abs],
        &["devices", "local-sync"],
        &["check", "models/vmvx_fills.vmfb"],
        &["params", "create", "--data=w=2xf32=1,2", &output],
        &["params", "dump", "parameters/weights.irpa"],
        &["benchmark", &abs, "--input=f32=-2", "--benchmark_dry_run"],
        &["cpuinfo"],
    ];
    for command in commands {
        let outcome = fixtures(&[command, &["--format=json"]].concat());
        let found = document(&outcome);
        assert!(found.is_object(), "{command:?}: {found}");
        let text = fixtures(&[command, &["--format=text"]].concat());
        assert!(serde_json::from_str::<Value>(&text.stdout).is_err(), "{command:?}: {}", text.stdout);
        assert_eq!(outcome.code, text.code, "{command:?}");
    }
    // Earlier spellings, and those of the reference's tools.
    for flags in [&["explain", "--json", &abs][..], &["benchmark", &abs, "--input=f32=1", "--benchmark_format=json"]] {
        assert!(document(&fixtures(flags)).is_object(), "{flags:?}");
    }
    let outcome = fixtures(&["disasm", "models/state.vmfb", "--format=json"]);
    assert_eq!(outcome.code, 2);
    assert!(outcome.stderr.contains("is for `vireo asm`, and has no form in JSON"), "{}", outcome.stderr);
}

#[test]
fn results_are_a_document_with_stable_keys() {
    let abs = format!("models/{}", model("abs"));
    let outcome = fixtures(&["run", &abs, "--input=f32=-2.5", "--format=json"]);
    let result =
        json!({"name": "output0", "type": "tensor", "element_type": "f32", "shape": [], "count": 1, "values": [2.5]});
    assert_eq!(document(&outcome), json!({"function": "abs", "results": [result]}));
    assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""));
    // Numbers.
    let outcome = fixtures(&["run", "models/state.vmfb", "--function=increment", "--input=7", "--format=json"]);
    assert_eq!(document(&outcome)["results"], json!([{"name": "output0", "type": "i32", "value": 17}]));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x.npy");
    let output = format!("--output=@{}", file.display());
    let outcome = fixtures(&["run", &abs, "--input=f32=-2", &output, "--format=json"]);
    let found = document(&outcome);
    // The document omits elements that a file has.
    assert_eq!((&found["results"][0]["count"], &found["results"][0]["values"]), (&json!(1), &json!([])));
    assert!(file.exists());
    let outcome = fixtures(&["run", &abs, "--input=f32=-2", "--expected_output=f32=3", "--format=json"]);
    let found = document(&outcome);
    assert_eq!((outcome.code, &found["comparison"]["matches"]), (4, &json!(false)));
    assert!(
        found["comparison"]["report"].as_str().unwrap().contains("element at index 0 (2) does not match"),
        "{found}"
    );
    let outcome = fixtures(&["run", &abs, "--input=f32=-2", "--expected_output=f32=2", "--format=json"]);
    assert_eq!((outcome.code, &document(&outcome)["comparison"]["matches"]), (0, &json!(true)));
}

#[test]
fn failures_are_a_document_too() {
    let run = |flags: &[&str]| fixtures(&[&["run", "models/multi.vmfb", "--format=json"], flags].concat());
    let outcome = run(&["--function=require_positive", "--input=-1"]);
    let error = &document(&outcome)["error"];
    assert_eq!((outcome.code, &error["exit_code"], &error["code"]), (1, &json!(1), &json!("FAILED_PRECONDITION")));
    assert_eq!(error["message"], "calling @require_positive");
    assert_eq!(error["causes"], json!(["FAILED_PRECONDITION: the argument must be positive"]));
    assert_eq!(error["backtrace"][0]["function"], "require_positive");
    assert!(error["hint"].as_str().unwrap().contains("require_positive(input0: i32)"), "{error}");
    // People read it on stderr.
    assert!(outcome.stderr.contains("error: calling @require_positive"), "{}", outcome.stderr);
    let outcome = run(&["--function=none"]);
    assert_eq!((outcome.code, &document(&outcome)["error"]["exit_code"]), (3, &json!(3)));
    let outcome = fixtures(&["explain", "none.vmfb", "--format=json"]);
    assert_eq!((outcome.code, &document(&outcome)["error"]["code"]), (3, &json!("NOT_FOUND")));
}

#[test]
fn colours_are_for_terminals_and_those_who_ask() {
    let commands: [&[&str]; 4] = [
        &["explain", "parameters/model.vmfb"],
        &["dump", "models/state.vmfb"],
        &["devices", "local-sync"],
        &["benchmark", "bench/vm.vmfb", "--function=empty", "--benchmark_dry_run"],
    ];
    for command in commands {
        let plain = fixtures(command);
        assert!(!plain.stdout.contains('\x1b'), "{command:?}: {}", plain.stdout);
        let coloured = fixtures(&[command, &["--color=always"]].concat());
        assert!(coloured.stdout.contains('\x1b'), "{command:?}: {}", coloured.stdout);
    }
    let coloured = fixtures(&["explain", "parameters/model.vmfb", "--color=always"]);
    assert!(coloured.stdout.contains("\x1b[31mMISSING\x1b[0m"), "{:?}", coloured.stdout);
}

#[test]
fn the_version_says_what_the_build_is() {
    let short = fixtures(&["-V"]);
    assert_eq!(short.stdout, concat!("vireo ", env!("CARGO_PKG_VERSION"), "\n"));
    let long = fixtures(&["--version"]).stdout;
    assert!(long.starts_with(short.stdout.trim_end()), "{long}");
    for part in ["compilers: IREE 3.1 to 3.13", "target:", "features:", "tiers:     interp"] {
        assert!(long.contains(part), "{long}");
    }
}
