//! `vireo explain`: what a program needs, as text and as JSON, and the exit code.

use serde_json::Value;

use crate::common::{Outcome, folder};

/// Runs the command in the folder of the fixtures.
fn vireo(arguments: &[&str]) -> Outcome {
    crate::common::vireo(&folder("../fixtures"), arguments)
}

#[test]
fn what_a_program_needs_is_listed() {
    let output = vireo(&["explain", "variants/machines.vmfb"]);
    let text = &output.stdout;
    for expected in [
        "functions:\n  twice(input0: tensor<4xf32>) -> (output0: tensor<4xf32>)\n",
        "modules:\n  hal, version 7 or later\n",
        "devices, one of:\n  local*\n",
        "  embedded-elf-arm_64: 1 kernel, 3.5 KiB",
        "  vmvx-bytecode-fb: 1 kernel, 821 bytes\n",
        "everything is there\n",
    ] {
        assert!(text.contains(expected), "{expected}\nis not in\n{text}");
    }
    assert_eq!(output.code, 0);
}

#[test]
fn what_is_missing_fails() {
    let output = vireo(&["explain", "parameters/model.vmfb"]);
    let text = &output.stdout;
    assert!(text.contains("parameters: 3, 96 bytes\n") && text.contains("  model::w: 64 bytes  MISSING\n"), "{text}");
    assert!(text.contains("missing:\n") && text.contains("parameter `w` of the scope `model` (64 bytes)\n"), "{text}");
    assert_eq!(output.code, 3);
    let output = vireo(&["explain", "parameters/model.vmfb", "--parameters=model=parameters/weights.irpa"]);
    assert!(output.stdout.ends_with("everything is there\n"), "{}", output.stdout);
    assert_eq!(output.code, 0);
}

#[test]
fn programs_read_json() {
    let output = vireo(&["explain", "--json", "parameters/model.vmfb"]);
    let found: Value = serde_json::from_str(&output.stdout).expect("is JSON");
    assert_eq!(found["missing"].as_array().map(Vec::len), Some(3));
    assert_eq!(found["devices"][0]["pattern"], "local*");
    assert_eq!(found["parameters"][0]["available_bytes"], Value::Null);
    assert_eq!(found["functions"][0]["arguments"][0]["type"], "tensor<1x4xf32>");
    assert_eq!(found["modules"][0]["name"], "io_parameters");
    assert_eq!(output.code, 3);
}

#[test]
fn what_is_no_module_is_refused() {
    let output = vireo(&["explain", "parameters/weights.irpa"]);
    assert_eq!((output.stdout.as_str(), output.code), ("", 3));
    assert_eq!(vireo(&["explain"]).code, 2);
}
