//! `--device_replay_output` and its companions: the captures of models, the policies of files, and the mistakes that
//! the reference's tools refuse.

use std::path::Path;

use crate::common::{Outcome, folder, model, vireo};
use serde_json::Value;
use vireo::replay::format::{PRIVATE_PAYLOAD, RecordType};
use vireo::replay::operations::operation;
use vireo::replay::payloads::{ExpectedReadParts, RecordHeader};
use vireo::replay::{Reader, Summary};

/// The records of a capture with their payloads.
fn records(path: &Path) -> Vec<(RecordHeader, Vec<u8>)> {
    let mut reader = Reader::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut records = Vec::new();
    while let Some(record) = reader.next_record().unwrap() {
        let payload = reader.payload(&record, 1 << 30).unwrap();
        records.push((record.header, payload));
    }
    records
}

/// The results that a capture notes, as bytes.
fn expected_outputs(records: &[(RecordHeader, Vec<u8>)]) -> Vec<Vec<u8>> {
    let private = records.iter().filter(|(header, _)| header.payload_type == PRIVATE_PAYLOAD);
    private.map(|(_, payload)| ExpectedReadParts::read(payload).unwrap().data.to_vec()).collect()
}

/// Runs a program twice with its device, which the flags make, recorded, and checks what every capture has to be. A
/// replay on that device reads the results again.
fn record(name: &str, programs: &Path, device: &[&str], arguments: &[String]) -> Vec<(RecordHeader, Vec<u8>)> {
    let temporary = tempfile::tempdir().unwrap();
    let captures = ["first", "second"].map(|file| temporary.path().join(file));
    for capture in &captures {
        let flag = format!("--device_replay_output={}", capture.display());
        let flags = device.iter().copied().chain([flag.as_str()]);
        let outcome = vireo(programs, arguments.iter().map(String::as_str).chain(flags));
        // Some models print what they do.
        assert!(outcome.code == 0 && !outcome.stderr.contains("device_replay"), "{name}: {}", outcome.stderr);
    }
    let [first, second] = captures.each_ref().map(|capture| std::fs::read(capture).unwrap());
    assert!(first == second, "{name}: two recordings differ");
    let summary = Summary::read(&mut Reader::open(&captures[0]).unwrap()).unwrap();
    assert_eq!(summary.unsupported, 0, "{name}");
    let dumped = vireo(temporary.path(), ["replay", "dump", "first"]);
    assert!(dumped.stdout.contains("  strict_replay_supported: yes\n"), "{name}: {}{}", dumped.stdout, dumped.stderr);
    let records = records(&captures[0]);
    let count = expected_outputs(&records).len();
    if count > 0 {
        let verified = vireo(temporary.path(), ["replay", "verify", "first"].iter().chain(device));
        let told = format!("{count} of {count} outputs are as expected");
        assert!(
            verified.code == 0 && verified.stdout.contains(&told),
            "{name}: {}{}",
            verified.stdout,
            verified.stderr
        );
    }
    records
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("expected a string, got {value}"))
}

fn manifest(folder: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(folder.join("manifest.json")).unwrap()).unwrap()
}

/// Whether this machine has the processor that a module of `fixtures/models` needs.
fn runs(cpu: &str) -> bool {
    #[cfg(target_arch = "x86_64")]
    let has_v3 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
    #[cfg(not(target_arch = "x86_64"))]
    let has_v3 = false;
    cpu == "vmvx"
        || cpu == std::env::consts::ARCH
        || cfg!(target_arch = "x86_64") && cpu == "x86-64"
        || cpu == "x86-64-v3" && has_v3
}

#[test]
fn every_model_is_recorded_with_its_results() {
    let models = folder("../fixtures/models");
    let manifest = manifest(&models);
    let mut seen = std::collections::BTreeSet::new();
    for case in manifest["cases"].as_array().unwrap() {
        let (name, module) = (text(&case["name"]), &manifest["modules"][text(&case["module"])]);
        let [call] = case["calls"].as_array().unwrap().as_slice() else { continue };
        if !runs(text(&module["cpu"])) || call.get("error").is_some() || !seen.insert(text(&module["file"])) {
            continue;
        }
        for device in ["--device=local-sync", "--device=local-task"] {
            let mut arguments = vec![
                "run".to_string(),
                format!("--module={}", text(&module["file"])),
                format!("--function={}", text(&call["function"])),
            ];
            let inputs = call["inputs"].as_array().into_iter().flatten();
            arguments.extend(inputs.map(|input| format!("--input={}", text(input))));
            let records = record(name, &models, &[device], &arguments);
            let outputs = expected_outputs(&records);
            let arrays =
                call["outputs"].as_array().into_iter().flatten().map(text).filter(|path| path.ends_with(".npy"));
            let arrays: Vec<Vec<u8>> = arrays.map(|path| std::fs::read(models.join(path)).unwrap()).collect();
            if module.get("units").is_none() && cfg!(target_arch = "x86_64") && outputs.len() == arrays.len() {
                let good = arrays.iter().zip(&outputs).all(|(array, output)| array.ends_with(output));
                assert!(good, "{name}, {device}: an expected output is not the result");
            }
        }
    }
    assert!(seen.len() > 20, "{}", seen.len());
}

#[cfg_attr(not(target_os = "linux"), ignore = "the software agent reserves addresses as Linux does")]
#[test]
fn programs_on_the_software_agent_are_recorded() {
    let programs = folder("../fixtures/gpu");
    let manifest = manifest(&programs);
    for name in ["softmax", "layernorm", "gather", "topk", "matmul_i8"] {
        let program = &manifest["programs"][name];
        let module = format!("--module={}", text(&program["modules"]["gfx1100"]));
        let mut arguments = vec!["run".to_string(), "--function=main".to_string(), module];
        let inputs = program["inputs"].as_array().into_iter().flatten();
        arguments.extend(inputs.map(|input| format!("--input={}", text(input))));
        let device = ["--device=amdgpu", "--amdgpu_agent=software"];
        let records = record(name, &programs, &device, &arguments);
        assert!(!expected_outputs(&records).is_empty(), "{name}");
        assert!(records.iter().any(|(header, _)| header.operation_code == operation::BUFFER_UNMAP_RANGE), "{name}");
    }
}

#[test]
fn programs_on_the_software_driver_of_cuda_are_recorded() {
    let programs = folder("../fixtures/cuda");
    for (name, inputs) in [("sums", &["7x5xf32=2"][..]), ("layers", &["4x8xf32=1", "8x8xf32=0.5"])] {
        for graphs in ["never", "always"] {
            let mut arguments =
                vec!["run".to_string(), "--module=programs.vmfb".to_string(), format!("--function={name}")];
            arguments.extend(inputs.iter().map(|input| format!("--input={input}")));
            let graphs = format!("--cuda_use_graphs={graphs}");
            let device = ["--device=cuda", "--cuda_driver=software", &graphs];
            let records = record(name, &programs, &device, &arguments);
            assert_eq!(expected_outputs(&records).len(), 1, "{name}, {graphs}");
        }
    }
}

/// Runs the program with parameters, with its device recorded to `capture`.
fn with_parameters(capture: &Path, flags: &[&str]) -> Outcome {
    let output = format!("--device_replay_output={}", capture.display());
    let program = ["run", "--module=model.vmfb", "--function=forward", "--input=1x4xf32=1,2,3,4"];
    let flags = ["--parameters=model=weights.irpa", &output].into_iter().chain(flags.iter().copied());
    vireo(&folder("../fixtures/parameters"), program.into_iter().chain(flags))
}

#[cfg(unix)]
#[test]
fn the_policy_of_files_applies_to_parameters() {
    let temporary = tempfile::tempdir().unwrap();
    let capture = temporary.path().join("capture");
    let summary = |flags: &[&str]| {
        let outcome = with_parameters(&capture, flags);
        assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""), "{flags:?}");
        Summary::read(&mut Reader::open(&capture).unwrap()).unwrap()
    };
    for (policy, [external, inline, ranges]) in
        [("reference", [1, 0, 0]), ("capture-all", [0, 1, 0]), ("capture-ranges", [0, 0, 1])]
    {
        let flag = format!("--device_replay_file_policy={policy}");
        for mode in ["mmap", "file"] {
            let summary = summary(&[&flag, &format!("--parameter_mode={mode}")]);
            let counts = summary.file_counts;
            let found = [counts.external, counts.inline, counts.ranges];
            assert_eq!(found, [external, inline, ranges], "{policy}, {mode}");
        }
    }
    let (identity, digest) = (summary(&[]), summary(&["--device_replay_file_validation=digest"]));
    assert_eq!((identity.validation.identity, identity.validation.digest), (1, 0));
    assert_eq!((digest.validation.identity, digest.validation.digest), (0, 1));
    let refused = with_parameters(&capture, &["--device_replay_file_policy=fail"]);
    assert!(refused.code != 0 && refused.stderr.contains("FAILED_PRECONDITION: weights.irpa: "), "{}", refused.stderr);
    assert!(Summary::read(&mut Reader::open(&capture).unwrap()).is_ok(), "what was recorded before stays");
}

#[test]
fn values_of_the_flags_are_those_of_the_reference_tools() {
    let temporary = tempfile::tempdir().unwrap();
    let capture = temporary.path().join("capture").display().to_string();
    let run = |flags: &[&str]| {
        let module = model("abs");
        let program = ["run", "--input=f32=-2", "--function=abs", &module];
        vireo(&folder("../fixtures/models"), program.into_iter().chain(flags.iter().copied()))
    };
    let output = format!("--device_replay_output={capture}");
    for (flag, message) in [
        (
            "--device_replay_file_policy=some",
            "--device_replay_file_policy must be `reference`, `capture-ranges`, `capture-all`, or `fail`; got `some`",
        ),
        (
            "--device_replay_file_validation=some",
            "--device_replay_file_validation must be `identity` or `digest`; got `some`",
        ),
    ] {
        let refused = run(&[flag, &output]);
        assert!(refused.code != 0 && refused.stderr.contains(message), "{}", refused.stderr);
        assert_eq!(run(&[flag]).code, 0, "without an output it means nothing");
        assert_eq!(run(&[flag, "--device_replay_output="]).code, 0, "as the default");
    }
    let refused = run(&["--device_replay_output=/no/such/folder/capture"]);
    assert!(
        refused.code != 0 && refused.stderr.contains("cannot write --device_replay_output=/no/such/"),
        "{}",
        refused.stderr
    );
}

#[test]
fn a_benchmark_has_a_scope_for_each_call() {
    let temporary = tempfile::tempdir().unwrap();
    let capture = temporary.path().join("capture");
    let output = format!("--device_replay_output={}", capture.display());
    let (module, models) = (model("abs"), folder("../fixtures/models"));
    let flags = ["benchmark", "--function=abs", "--input=f32=-2", "--benchmark_min_time=3x", &module, &output];
    let outcome = vireo(&models, flags);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let records = records(&capture);
    let count = |code: u32| records.iter().filter(|(header, _)| header.operation_code == code).count();
    let (begun, ended) = (count(operation::REPLAY_SCOPE_BEGIN), count(operation::REPLAY_SCOPE_END));
    // `init`, calls that are not measured, and three that are.
    assert!(begun >= 4 && begun == ended, "{begun} {ended}");
    assert!(count(operation::DEVICE_QUEUE_EXECUTE) >= 3);
    assert!(records.iter().all(|(header, _)| header.record_type != RecordType::UNSUPPORTED.0));
}

/// A process that is killed leaves a capture of what it did until then.
#[cfg(unix)]
#[test]
fn a_process_that_is_killed_leaves_whole_records() {
    let temporary = tempfile::tempdir().unwrap();
    let capture = temporary.path().join("capture");
    let mut child = crate::common::command()
        .args(["benchmark", "--function=abs", "--input=f32=-2", "--benchmark_min_time=60s"])
        .arg(model("abs"))
        .arg(format!("--device_replay_output={}", capture.display()))
        .current_dir(folder("../fixtures/models"))
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    // Long enough that much was written, whatever the machine.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while std::fs::metadata(&capture).map_or(0, |metadata| metadata.len()) < 1 << 20 {
        assert!(std::time::Instant::now() < deadline, "nothing is written");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let records = records(&capture);
    assert!(records.len() > 1000, "{}", records.len());
}
