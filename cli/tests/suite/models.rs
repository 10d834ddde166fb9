//! The model fixtures through the command: stdout must be, byte for byte, what the tool of the reference runtime
//! printed.

use crate::common::{folder, vireo};
use crate::skip::{Need, skipped};

use serde_json::Value;

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("expected a string, got {value}"))
}

/// True if this machine can run the kernels that were compiled for `cpu`.
fn runs(cpu: &str) -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        let v3 =
            is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("bmi2");
        matches!(cpu, "x86-64" | "vmvx") || (cpu == "x86-64-v3" && v3)
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        cpu == "vmvx" || cpu == std::env::consts::ARCH
    }
}

/// Whether the command printed what is expected. A new NaN has another sign on 64-bit Arm than on x86-64, where the
/// answers were recorded.
fn agrees(stdout: &str, expected: &str) -> bool {
    let unsigned = |text: &str| text.replace("-NAN", "NAN");
    stdout == expected || cfg!(target_arch = "aarch64") && unsigned(stdout) == unsigned(expected)
}

#[test]
fn stdout_equals_that_of_the_reference_tool() {
    let models = folder("../fixtures/models");
    let manifest = std::fs::read_to_string(models.join("manifest.json")).unwrap();
    let manifest: Value = serde_json::from_str(&manifest).unwrap();
    let (mut compared, mut differences) = (0, Vec::new());
    for case in manifest["cases"].as_array().unwrap() {
        let (name, module) = (text(&case["name"]), &manifest["modules"][text(&case["module"])]);
        let [call] = case["calls"].as_array().unwrap().as_slice() else { continue };
        if !runs(text(&module["cpu"])) {
            let need = if module["cpu"] == "aarch64" { Need::Platform("aarch64") } else { Need::Processor("bmi2") };
            skipped(need, format_args!("{name} needs a processor of level {}", module["cpu"]));
            continue;
        }
        if module.get("units").is_some() {
            // Its last digits are not to be equal.
            continue;
        }
        let mut arguments = vec![
            "run".to_string(),
            format!("--module={}", text(&module["file"])),
            format!("--function={}", text(&call["function"])),
        ];
        arguments
            .extend(call["inputs"].as_array().into_iter().flatten().map(|input| format!("--input={}", text(input))));
        let outcome = vireo(&models, &arguments);
        compared += 1;
        let is_refused = outcome.code == 2 && outcome.stdout.is_empty();
        let good = (is_refused || agrees(&outcome.stdout, text(&call["stdout"])))
            && match &call["error"] {
                Value::Null => outcome.code == 0,
                error => {
                    let (code, message) = (text(&error["code"]), text(&error["message"]));
                    // An argument of another type is refused before the program, which would find it itself, runs.
                    is_refused && code == "INVALID_ARGUMENT" && outcome.stderr.contains(" is given")
                        || outcome.code == 1 && outcome.stderr.contains(code) && outcome.stderr.contains(message)
                }
            };
        if !good {
            let (stdout, stderr) = (outcome.stdout, outcome.stderr);
            differences.push(format!(
                "{name}: code {}\n{stdout}{stderr}expected:\n{}{}",
                outcome.code, call["stdout"], call["error"]
            ));
        }
    }
    assert!(differences.is_empty(), "{} of {compared} differ:\n{}", differences.len(), differences.join("\n"));
}
