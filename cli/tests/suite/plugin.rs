//! Drivers from other libraries, with the example driver. That this package depends on it makes cargo build its
//! library.

use std::path::Path;

use crate::common::{Outcome, example_library, folder, model, vireo};
use crate::skip::{Need, skipped};

fn run(arguments: &[&str]) -> Outcome {
    let plugin = format!("--driver_plugin={}", example_library("vireo_counting_driver").display());
    vireo(&folder("../fixtures/models"), [arguments, &[&plugin]].concat())
}

#[test]
fn programs_run_on_devices_of_a_plugin() {
    if !cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
        skipped(Need::Platform("x86_64"), "the kernels are for x86-64 and 64-bit Arm");
        return;
    }
    let module = model("abs");
    let abs = ["run", &module, "--function=abs", "--input=f32=-2"];
    let outcome = run(&[&abs[..], &["--device=counting://cpu?log=1"]].concat());
    assert_eq!(outcome.stdout, "EXEC @abs\nresult[0]: hal.buffer_view\nf32=2\n", "{}", outcome.stderr);
    assert!(outcome.code == 0 && outcome.stderr.contains("counting: execute 1\n"), "{}", outcome.stderr);
    let wrong = run(&[&abs[..], &["--device=counting://gpu"]].concat());
    assert!(wrong.code == 3 && wrong.stderr.contains("the only one is counting://cpu"), "{}", wrong.stderr);
    let unknown = run(&[&abs[..], &["--device=toaster"]].concat());
    assert!(
        unknown.code == 3 && unknown.stderr.contains("local-sync, local-task, null, amdgpu, cuda, counting"),
        "{}",
        unknown.stderr
    );
}

#[test]
fn devices_of_a_plugin_are_listed() {
    let table = run(&["devices"]);
    assert!(table.stdout.contains("counting://cpu  local-sync, counted  from lib"), "{}", table.stdout);
    let list = run(&["run", "--list_devices=counting"]);
    assert_eq!(list.stdout, "counting://cpu\n", "{}", list.stderr);
    let dump = run(&["run", "--dump_devices=counting"]);
    assert!(dump.stdout.contains("?log=1 writes") && dump.stdout.contains("memory: "), "{}", dump.stdout);
    let json = run(&["devices", "counting", "--format=json"]);
    let json: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(json["drivers"][0]["devices"][0]["uri"], "counting://cpu");
}

#[test]
fn what_is_no_plugin_is_a_load_failure() {
    for (file, expected) in [("abs.vmfb", "no library that can be loaded"), ("missing.so", "no such file")] {
        let outcome = vireo(&folder("../fixtures/models"), ["devices", "--driver-plugin", file]);
        assert_eq!(outcome.code, 3, "{}", outcome.stderr);
        assert!(outcome.stderr.starts_with("error: cannot load a driver plugin\n"), "{}", outcome.stderr);
        assert!(outcome.stderr.contains(expected) && outcome.stderr.contains(file), "{}", outcome.stderr);
        assert_eq!(outcome.stdout, "");
    }
    assert_eq!(vireo(Path::new("."), ["devices", "--driver-plugin"]).code, 2);
}
