//! The sanitizer of kernels (`--sanitize`) and the disassembler of GPU code (`vireo disasm --gfx`).

use serde_json::Value;

use crate::common::{folder, vireo};

/// The race that the compiler makes of a `topk` is found, at the instruction that has it.
#[cfg_attr(not(target_os = "linux"), ignore = "the software agent reserves addresses as Linux does")]
#[test]
fn the_race_of_a_compiled_program_is_found() {
    let report = tempfile::NamedTempFile::new().unwrap();
    let file = format!("--sanitize_report={}", report.path().display());
    let run = ["run", "--module=topk.vmfb", "--device=amdgpu", "--amdgpu_agent=software", "--input=4x64xf32=1", &file];
    let flags = |checks: &'static str| run.into_iter().chain([checks]);
    let outcome = vireo(&folder("../fixtures/sanitizer"), flags("--sanitize=race"));
    assert_eq!(outcome.code, 5, "{}{}", outcome.stdout, outcome.stderr);
    assert!(outcome.stdout.contains("result[1]: hal.buffer_view"), "it runs to its end: {}", outcome.stdout);
    assert!(outcome.stderr.ends_with("sanitizer: 8 found\n"), "{}", outcome.stderr);
    let report: Value = serde_json::from_str(&std::fs::read_to_string(report.path()).unwrap()).unwrap();
    let first = &report["findings"][0];
    assert_eq!(first["finding"], "race");
    assert_eq!(first["site"]["kernel"], "main_dispatch_0_topk_4x64xf32");
    assert_eq!(first["site"]["work_group"], serde_json::json!([0, 0, 0]));
    assert_eq!((&first["site"]["wave"], &first["site"]["lane"]), (&Value::from(1), &Value::from(0)));
    assert_eq!((&first["access"], &first["other"]["access"]), (&Value::from("load"), &Value::from("store")));
    assert_eq!(first["other"]["site"]["wave"], 0);
    // Nothing else is wrong with it.
    let outcome = vireo(&folder("../fixtures/sanitizer"), flags("--sanitize=memory,init"));
    assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""), "{}", outcome.stdout);
}

/// A tensor that was never written is found each time that the program makes one: its memory is not that of another
/// one, and no zeros.
#[cfg_attr(not(target_os = "linux"), ignore = "the software agent reserves addresses as Linux does")]
#[test]
fn loads_of_what_a_compiled_program_has_not_written_are_found() {
    let report = tempfile::NamedTempFile::new().unwrap();
    let file = format!("--sanitize_report={}", report.path().display());
    let run =
        ["run", "--module=unwritten.vmfb", "--device=amdgpu", "--amdgpu_agent=software", "--input=64xf32=1", &file];
    let flags = |checks: &'static str| run.into_iter().chain([checks]);
    let outcome = vireo(&folder("../fixtures/sanitizer"), flags("--sanitize=init"));
    assert_eq!(outcome.code, 5, "{}{}", outcome.stdout, outcome.stderr);
    let report: Value = serde_json::from_str(&std::fs::read_to_string(report.path()).unwrap()).unwrap();
    let findings = report["findings"].as_array().unwrap();
    assert_eq!(findings.len(), 1, "{}", outcome.stderr);
    let [finding, kernel] = [&findings[0]["finding"], &findings[0]["site"]["kernel"]];
    assert_eq!((finding, kernel), (&"uninitialized".into(), &"add_unwritten_dispatch_0_elementwise_64_f32".into()));
    // Each of two tensors, once for each element.
    assert_eq!(findings[0]["count"], 128, "{}", outcome.stderr);
    let outcome = vireo(&folder("../fixtures/sanitizer"), flags("--sanitize=memory,race"));
    assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""), "{}", outcome.stdout);
}

/// Bytes of a result that no kernel writes are found where they leave the device, though no kernel reads them.
#[cfg_attr(not(target_os = "linux"), ignore = "the software agent reserves addresses as Linux does")]
#[test]
fn a_result_that_a_compiled_program_writes_in_part_is_found() {
    let report = tempfile::NamedTempFile::new().unwrap();
    let file = format!("--sanitize_report={}", report.path().display());
    let run = ["run", "--module=part.vmfb", "--device=amdgpu", "--amdgpu_agent=software", "--input=48xf32=1", &file];
    let flags = |checks: &'static str| run.into_iter().chain([checks]);
    let outcome = vireo(&folder("../fixtures/sanitizer"), flags("--sanitize=memory,race,init"));
    assert_eq!(outcome.code, 5, "{}{}", outcome.stdout, outcome.stderr);
    let report: Value = serde_json::from_str(&std::fs::read_to_string(report.path()).unwrap()).unwrap();
    let findings = report["findings"].as_array().unwrap();
    assert_eq!(findings.len(), 1, "{}", outcome.stderr);
    assert_eq!((&findings[0]["finding"], &findings[0]["site"]), (&"unwritten-result".into(), &Value::Null));
    let exit = serde_json::json!({"name": "result[0]", "bytes": 256, "unwritten": 64, "offset": 192});
    assert_eq!(findings[0]["exit"], exit);
    let outcome = vireo(&folder("../fixtures/sanitizer"), flags("--sanitize=memory,race"));
    assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""), "{}", outcome.stdout);
}

/// Waves that store the same are no reason to fail, and are told to those who ask.
#[cfg_attr(not(target_os = "linux"), ignore = "the software agent reserves addresses as Linux does")]
#[test]
fn races_of_equal_values_in_a_compiled_program_do_not_fail_it() {
    let report = tempfile::NamedTempFile::new().unwrap();
    let file = format!("--sanitize_report={}", report.path().display());
    let inputs = ["--input=10x40xf32=1", "--input=5xi32=1,2,3,4,5"];
    let run = ["run", "--module=gather.vmfb", "--device=amdgpu", "--amdgpu_agent=software", &file];
    let flags = |checks: &'static str| run.into_iter().chain(inputs).chain([checks]);
    let outcome = vireo(&folder("../fixtures/sanitizer"), flags("--sanitize=memory,race,init"));
    assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""), "{}", outcome.stdout);
    let outcome = vireo(&folder("../fixtures/sanitizer"), flags("--sanitize=race-same-value"));
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let report: Value = serde_json::from_str(&std::fs::read_to_string(report.path()).unwrap()).unwrap();
    let findings = report["findings"].as_array().unwrap();
    assert!(!findings.is_empty() && findings.iter().all(|finding| finding["finding"] == "same-value-race"));
    assert_eq!(report["warnings"], serde_json::json!([]));
}

#[test]
fn the_sanitizer_needs_the_software_agent() {
    let outcome = vireo(&folder("../fixtures/sanitizer"), ["run", "topk.vmfb", "--device=amdgpu", "--sanitize=race"]);
    assert_eq!(outcome.code, 2, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("the sanitizer checks kernels on the software agent"), "{}", outcome.stderr);
    // It would find nothing in kernels that it does not see.
    let outcome =
        vireo(&folder("../fixtures/sanitizer"), ["run", "topk.vmfb", "--sanitize=race", "--input=4x64xf32=1"]);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (2, ""), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("--sanitize checks kernels on the software agent"), "{}", outcome.stderr);
    let outcome = vireo(&folder("../fixtures/sanitizer"), ["run", "topk.vmfb", "--sanitize=races"]);
    assert_eq!(outcome.code, 2, "{}", outcome.stderr);
}

#[test]
fn code_objects_are_disassembled_with_labels_and_lines() {
    let outcome = vireo(&folder("../fixtures/sanitizer"), ["disasm", "seeds.co", "--gfx"]);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""));
    let source = std::fs::read_to_string(folder("../fixtures/sanitizer/seeds.s")).unwrap();
    let line = 1 + source.lines().position(|line| line.ends_with("// BUG grid_race")).unwrap();
    let text = &outcome.stdout[outcome.stdout.find("\ngrid_race:  // kernel, descriptor at 0x").unwrap()..];
    let expected = format!("  // seeds.s:{line}\n  global_store_b32 v1, v0, s[2:3]  ");
    assert!(text.contains(&expected), "{text}");
    assert_eq!(outcome.stdout.matches("  s_endpgm  ").count(), 11);
    let outcome = vireo(&folder("../fixtures/sanitizer"), ["disasm", "seeds.co", "--gfx", "--json"]);
    let json: Value = serde_json::from_str(&outcome.stdout).unwrap();
    let functions = json["code_objects"][0]["functions"].as_array().unwrap();
    let names: Vec<&str> = functions.iter().map(|function| function["name"].as_str().unwrap()).collect();
    assert_eq!((names.len(), names[0], names[10]), (11, "right", "group_uninitialized"));
    let last = functions[0]["instructions"].as_array().unwrap().last().unwrap();
    assert_eq!((&last["text"], &last["bytes"]), (&Value::from("s_endpgm"), &Value::from("0000b0bf")));
}

#[test]
fn executables_of_modules_are_disassembled() {
    let outcome = vireo(&folder("../fixtures/sanitizer"), ["disasm", "topk.vmfb", "--gfx"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert!(outcome.stdout.starts_with("// vm.rodata["), "{}", outcome.stdout);
    assert!(outcome.stdout.contains("\nmain_dispatch_0_topk_4x64xf32:  // kernel"), "{}", outcome.stdout);
    // Branches go to labels.
    assert!(outcome.stdout.contains("\nL0:\n") && outcome.stdout.contains(" L0  "), "{}", outcome.stdout);
    let missing = vireo(&folder("../fixtures/models"), ["disasm", "abs.vmfb", "--gfx"]);
    assert_eq!(missing.code, 3);
    assert!(missing.stderr.contains("there is no executable for AMD GPUs"), "{}", missing.stderr);
    let library = vireo(&folder("../fixtures/elf"), ["disasm", "kernels.so", "--gfx"]);
    assert_eq!(library.code, 3);
    assert!(library.stderr.contains("machine is 0x3e, expected 0xe0"), "{}", library.stderr);
}

/// A kernel with an instruction that the software agent lacks is refused before anything runs, and `explain` and the
/// listing name it.
#[cfg_attr(not(target_os = "linux"), ignore = "the software agent reserves addresses as Linux does")]
#[test]
fn an_instruction_that_the_agent_lacks_is_named_before_a_program_runs() {
    let mut module = std::fs::read(folder("../fixtures/gpu").join("gfx1100/softmax.vmfb")).unwrap();
    // s_sethalt 0 in place of s_endpgm.
    let (old, new) = (0xBFB0_0000u32.to_le_bytes(), 0xBF82_0000u32.to_le_bytes());
    let at = (0..module.len()).step_by(4).find(|at| module[*at..].starts_with(&old)).expect("an end");
    module[at..at + 4].copy_from_slice(&new);
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("m.vmfb"), module).unwrap();
    let named = "the software agent does not execute s_sethalt (0xbf820000) at 0x";

    let told = vireo(directory.path(), ["explain", "m.vmfb"]);
    assert!(told.stdout.contains(named) && told.stdout.contains(" of `main_dispatch_0_"), "{}", told.stdout);
    let run = ["run", "--module=m.vmfb", "--device=amdgpu", "--amdgpu_agent=software", "--input=4x37xf32=1"];
    let refused = vireo(directory.path(), run);
    assert_ne!(refused.code, 0);
    assert!(refused.stderr.contains(named), "{}", refused.stderr);
    let listing = vireo(directory.path(), ["disasm", "--gfx", "m.vmfb"]);
    assert!(listing.stdout.contains(".long 0xbf820000 ; s_sethalt "), "{}", listing.stdout);
}

/// The PTX of a module and of an executable alone, as text and as JSON.
#[test]
fn the_ptx_of_programs_is_written() {
    let ptx =
        |file: &str, flags: &[&str]| vireo(&folder("../fixtures/cuda"), [&["disasm", file, "--ptx"], flags].concat());
    let text = ptx("programs.vmfb", &[]).stdout;
    assert!(text.starts_with("// vm.rodata[") && text.contains("\n.target sm_60\n"), "{text}");
    assert!(text.contains(".visible .entry "), "{text}");
    let alone = ptx("conformance_sm_60.cda1", &[]).stdout;
    assert!(alone.starts_with("// module 0\n") && alone.contains("add_dispatch_0_elementwise_64_f32("), "{alone}");
    let found: Value = serde_json::from_str(&ptx("programs.vmfb", &["--json"]).stdout).expect("is JSON");
    let executables = found["executables"].as_array().expect("a list");
    let modules = executables.iter().map(|executable| executable["modules"].as_array().map_or(0, Vec::len));
    assert_eq!(modules.sum::<usize>(), text.matches(".target sm_60").count());
    assert!(executables[0]["modules"][0]["text"].as_str().is_some_and(|text| text.contains(".version")), "{found}");
    let other = vireo(&folder("../fixtures/models"), ["disasm", "abs.vmfb", "--ptx"]);
    assert_eq!(other.code, 3);
    assert!(other.stderr.contains("no executable for NVIDIA GPUs"), "{}", other.stderr);
    assert_eq!(ptx("programs.vmfb", &["--gfx"]).code, 2);
}
