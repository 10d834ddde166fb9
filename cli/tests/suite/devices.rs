//! Programs that use several devices, several formats of executables, and operations that models seldom use, through
//! the command: what is printed is what the tool of the reference runtime printed.

use crate::common::{folder, vireo};
use crate::skip::{Need, skipped};

use serde_json::Value;

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("expected a string, got {value}"))
}

#[test]
fn output_equals_that_of_the_reference_tool() {
    if !cfg!(target_arch = "x86_64") {
        return skipped(Need::Platform("x86_64"), "the kernels are for x86-64");
    }
    let programs = folder("../fixtures/devices");
    let recorded = std::fs::read_to_string(programs.join("recorded.json")).unwrap();
    let recorded: Value = serde_json::from_str(&recorded).unwrap();
    for drivers in [["local-sync"; 3], ["local-task"; 3], ["local-sync", "local-task", "null"]] {
        let driver = drivers[0];
        for case in recorded.as_array().unwrap() {
            let mut arguments = vec![
                "run".to_string(),
                format!("--module={}.vmfb", text(&case["module"])),
                format!("--function={}", text(&case["function"])),
            ];
            let count = case["devices"].as_u64().unwrap() as usize;
            arguments.extend(drivers[..count].iter().map(|driver| format!("--device={driver}")));
            if driver == "local-task" && case["function"] == "queries" {
                // It tells the number of its queues, which is that of the machine's memory nodes.
                continue;
            }
            let inputs = case["inputs"].as_array().unwrap();
            arguments.extend(inputs.iter().map(|input| format!("--input={}", text(input))));
            let outcome = vireo(&programs, &arguments);
            assert_eq!(outcome.stdout, text(&case["stdout"]), "{arguments:?}\n{}", outcome.stderr);
            match &case["error"] {
                Value::Null => assert_eq!((outcome.code, outcome.stderr.as_str()), (0, text(&case["stderr"]))),
                error => {
                    assert_ne!(outcome.code, 0);
                    for part in [text(&error["code"]), text(&error["message"])] {
                        assert!(outcome.stderr.contains(part), "{}", outcome.stderr);
                    }
                }
            }
        }
    }
}

#[test]
fn devices_say_what_they_have() {
    let outcome = vireo(&folder("../fixtures"), ["devices", "local-sync", "--format=json"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let listing: Value = serde_json::from_str(&outcome.stdout).unwrap();
    let device = &listing["drivers"][0]["devices"][0];
    assert_eq!(device["uri"], "local-sync://");
    assert!(device["memory"].as_array().is_some_and(|heaps| !heaps.is_empty()), "{device}");
    assert!(device["queues"].as_i64() >= Some(1) && device["concurrency"].as_i64() >= Some(1), "{device}");
}

#[test]
fn features_of_the_processor_are_listed() {
    let outcome = vireo(std::path::Path::new("."), ["cpuinfo"]);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""));
    let is_line = |line: &str| matches!(line.split_whitespace().collect::<Vec<_>>()[..], [_, "0" | "1"]);
    assert!(outcome.stdout.lines().all(is_line), "{}", outcome.stdout);
    assert_eq!(outcome.stdout.contains("avx2 "), cfg!(target_arch = "x86_64"), "{}", outcome.stdout);
}

#[cfg_attr(not(target_os = "linux"), ignore = "the software agent reserves addresses as Linux does")]
#[test]
fn programs_for_amd_gpus_run_on_the_software_agent() {
    let programs = folder("../fixtures/amdgpu");
    let run = |arguments: &[&str]| {
        let device = ["run", "--module=kernels.vmfb", "--device=amdgpu", "--amdgpu_agent=software"];
        vireo(&programs, device.iter().chain(arguments))
    };
    let outcome = run(&["--function=add", "--input=5xf32=1,2,3,4,5", "--input=5xf32=10"]);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""));
    assert!(outcome.stdout.contains("5xf32=11 12 13 14 15"), "{}", outcome.stdout);
    let outcome = run(&["--function=abs", "--input=64xf32=-1.5"]);
    assert!(outcome.stdout.contains("64xf32=1.5 1.5"), "{}\n{}", outcome.stdout, outcome.stderr);
    let listed = vireo(&programs, ["devices", "amdgpu", "--amdgpu_agent=software"]);
    assert!(listed.stdout.contains("amdgpu://") && listed.stdout.contains("gfx1100"), "{}", listed.stdout);
    let absent = vireo(&programs, ["devices", "amdgpu", "--amdgpu_libhsa_search_path=/no/such/file"]);
    assert!(absent.stdout.contains("/no/such/file"), "{}", absent.stdout);
}

/// Messages of the software agent go to stderr. Without a reader there they are lost, and nothing else is.
#[cfg_attr(not(target_os = "linux"), ignore = "the software agent reserves addresses as Linux does")]
#[test]
fn a_closed_stderr_does_not_stop_the_software_agent() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = crate::common::command();
    command.args(["devices", "--amdgpu_agent=software"]).env("VIREO_SOFTHSA", "agents=many").stderr(writer);
    let output = command.output().unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}: {stdout}", output.status);
    assert!(stdout.contains("driver amdgpu cannot be used"), "{stdout}");
}
