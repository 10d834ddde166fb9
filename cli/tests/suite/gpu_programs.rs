//! Programs for GPUs on the software agent, which interprets the code that the compiler wrote for a GPU: the results are those of the same
//! program compiled for the processor, within the tolerances of `fixtures/gpu`.

use crate::common::{folder, vireo};

use serde_json::Value;

#[cfg_attr(not(target_os = "linux"), ignore = "the software agent reserves addresses as Linux does")]
#[test]
fn programs_for_gfx1100_give_the_results_of_the_processor() {
    let programs = folder("../fixtures/gpu");
    let manifest = std::fs::read_to_string(programs.join("manifest.json")).unwrap();
    let manifest: Value = serde_json::from_str(&manifest).unwrap();
    let mut failures = Vec::new();
    for (name, program) in manifest["programs"].as_object().unwrap() {
        let text = |value: &Value| value.as_str().unwrap().to_string();
        let list = |key: &str| program[key].as_array().unwrap().iter().map(text).collect::<Vec<_>>();
        let mut arguments = vec![
            "run".to_string(),
            format!("--module={}", text(&program["modules"]["gfx1100"])),
            "--device=amdgpu".to_string(),
            "--amdgpu_agent=software".to_string(),
            "--function=main".to_string(),
            format!("--expected_f32_threshold={}", program["tolerance"]),
        ];
        arguments.extend(list("inputs").iter().map(|input| format!("--input={input}")));
        arguments.extend(list("expected").iter().map(|expected| format!("--expected_output=@{expected}")));
        let outcome = vireo(&programs, &arguments);
        if outcome.code != 0 {
            failures.push(format!("{name}: {}{}", outcome.stdout, outcome.stderr));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
