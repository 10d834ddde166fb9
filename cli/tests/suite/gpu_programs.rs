//! Programs for GPUs on the software agent, which interprets the code that the compiler wrote for a GPU: the results
//! are those of the same program compiled for the processor, within the tolerances of `fixtures/gpu`.

use crate::common::{Outcome, folder, vireo};

use serde_json::Value;

/// Runs all programs on the software agent with these flags, too. Each has to give the results that are recorded, and
/// to say nothing.
fn run_all(flags: &[&str]) {
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
        arguments.extend(flags.iter().map(|flag| flag.to_string()));
        let outcome = vireo(&programs, &arguments);
        if outcome.code != 0 || !outcome.stderr.is_empty() {
            failures.push(format!("{name}: {}{}", outcome.stdout, outcome.stderr));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[cfg_attr(not(target_os = "linux"), ignore = "the software agent reserves addresses as Linux does")]
#[test]
fn programs_for_gfx1100_give_the_results_of_the_processor() {
    run_all(&[]);
}

#[cfg_attr(not(target_os = "linux"), ignore = "the software agent reserves addresses as Linux does")]
#[test]
fn the_sanitizer_finds_nothing_in_programs_that_are_right() {
    run_all(&["--sanitize=memory,race,init"]);
}

/// Traces a program of four kernels.
fn trace(flags: &[&str]) -> Outcome {
    let program = ["gfx1100/reductions.vmfb", "--function=main", "--input=@inputs/reductions_0.npy"];
    vireo(&folder("../fixtures/gpu"), ["trace"].iter().chain(&program).chain(flags))
}

#[cfg_attr(not(target_os = "linux"), ignore = "the software agent reserves addresses as Linux does")]
#[test]
fn a_trace_has_the_packets_of_a_program() {
    let outcome = trace(&[]);
    assert!(outcome.code == 0 && outcome.stdout.starts_with("EXEC @main\n"), "{}", outcome.stderr);
    let header = "# time in us since the agent was made, + how long a packet took in us, what happened\n";
    assert!(outcome.stderr.starts_with(header), "{}", outcome.stderr);
    // How the driver orders packets and which signals it uses is its own affair.
    let kernels: Vec<&str> = outcome
        .stderr
        .lines()
        .filter_map(|line| line.split_once("kernel_dispatch "))
        .map(|(_, kernel)| kernel)
        .collect();
    let expected = [
        "main_dispatch_0_reduction_37x130_f32 grid=[64, 1, 1] workgroup=[32, 1, 1]",
        "main_dispatch_1_reduction_130x37_f32 grid=[160, 1, 1] workgroup=[32, 1, 1]",
        "main_dispatch_2_reduction_4810_f32 grid=[1, 1, 1] workgroup=[1, 1, 1]",
        "main_dispatch_3_reduction_37x130_f32 grid=[64, 1, 1] workgroup=[32, 1, 1]",
    ];
    assert!(kernels.iter().zip(expected).all(|(kernel, expected)| kernel.starts_with(expected)), "{}", outcome.stderr);
    assert_eq!(kernels.len(), expected.len(), "{}", outcome.stderr);
    let ended = outcome.stderr.lines().filter(|line| line.contains(" packet "));
    assert!(ended.clone().all(|line| line.contains(" +")) && ended.count() >= 4, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("queue 1: doorbell "), "{}", outcome.stderr);
    assert!(outcome.stderr.contains(", completed signal#"), "{}", outcome.stderr);
}

#[cfg_attr(not(target_os = "linux"), ignore = "the software agent reserves addresses as Linux does")]
#[test]
fn a_trace_for_perfetto_is_json_with_ends_for_beginnings() {
    let temporary = tempfile::tempdir().unwrap();
    let path = temporary.path().join("trace.json");
    let outcome = trace(&["--format=perfetto", "-o", path.to_str().unwrap()]);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""));
    let trace: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    let mut open: Vec<&Value> = Vec::new();
    let mut slices = 0;
    for event in trace["traceEvents"].as_array().unwrap() {
        match event["ph"].as_str().unwrap() {
            "B" => open.push(event),
            "E" => {
                let begin = open.pop().expect("a slice that has begun");
                assert!(["pid", "tid", "name"].iter().all(|key| begin[*key] == event[*key]), "{begin} {event}");
                assert!(begin["ts"].as_f64() <= event["ts"].as_f64(), "{begin} {event}");
                slices += 1;
            }
            _ => {}
        }
    }
    assert!(open.is_empty() && slices >= 4, "{slices} slices, {open:?} are open");
}

/// Runs a program of four kernels with a trace of its dispatches, and returns the names, numbers of workgroups and
/// times of its slices.
fn dispatches(flags: &[&str]) -> Vec<(String, i64, f64, f64)> {
    let temporary = tempfile::tempdir().unwrap();
    let path = temporary.path().join("trace.json");
    let file = format!("--dispatch_trace={}", path.display());
    let program = ["run", "gfx1100/reductions.vmfb", "--function=main", "--input=@inputs/reductions_0.npy", &file];
    let device = ["--device=amdgpu", "--amdgpu_agent=software"];
    let outcome = vireo(&folder("../fixtures/gpu"), program.iter().chain(&device).chain(flags));
    assert!(outcome.code == 0 && outcome.stdout.starts_with("EXEC @main\n"), "{}", outcome.stderr);
    let statistics = flags.contains(&"--print_device_statistics");
    assert_eq!(outcome.stderr.starts_with("Device statistics:\n"), statistics, "{}", outcome.stderr);
    assert!(statistics || outcome.stderr.is_empty(), "{}", outcome.stderr);
    let trace: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let named = |name: &str| events.iter().any(|event| event["args"]["name"] == name);
    assert!(named("amdgpu") && named("queue 0"), "{trace}");
    let of = |phase: &'static str| events.iter().filter(move |event| event["ph"] == phase);
    assert_eq!((of("B").count(), of("i").count() % 2), (of("E").count(), 0), "{trace}");
    let slice = |(begin, end): (&Value, &Value)| {
        assert_eq!((&begin["name"], &begin["tid"]), (&end["name"], &end["tid"]));
        let workgroups = begin["args"]["workgroups"].as_i64().unwrap();
        (
            begin["name"].as_str().unwrap().to_string(),
            workgroups,
            begin["ts"].as_f64().unwrap(),
            end["ts"].as_f64().unwrap(),
        )
    };
    of("B").zip(of("E")).map(slice).collect()
}

#[cfg_attr(not(target_os = "linux"), ignore = "the software agent reserves addresses as Linux does")]
#[test]
fn a_trace_of_dispatches_has_the_times_of_the_gpu() {
    for flags in [&[][..], &["--print_device_statistics"]] {
        let slices = dispatches(flags);
        let kernels: Vec<(&str, i64)> = slices
            .iter()
            .filter(|(name, ..)| name.starts_with("main_dispatch_"))
            .map(|(name, workgroups, ..)| (name.as_str(), *workgroups))
            .collect();
        let expected = [
            ("main_dispatch_0_reduction_37x130_f32", 2),
            ("main_dispatch_1_reduction_130x37_f32", 5),
            ("main_dispatch_2_reduction_4810_f32", 1),
            ("main_dispatch_3_reduction_37x130_f32", 2),
        ];
        assert_eq!(kernels, expected);
        assert!(slices.iter().all(|(.., begin, end)| begin <= end), "{slices:?}");
        // The agent runs one packet after the other.
        assert!(slices.is_sorted_by(|(.., end), (_, _, begin, _)| end <= begin), "{slices:?}");
    }
}

#[cfg_attr(not(target_os = "linux"), ignore = "the software agent reserves addresses as Linux does")]
#[test]
fn a_trace_takes_each_way_to_name_the_device() {
    for device in ["--device=amdgpu:0", "--device=amdgpu:/0?amdgpu_queues=2", "--device=amdgpu://GPU-0000000000000001"]
    {
        let outcome = trace(&[device]);
        assert!(outcome.code == 0 && outcome.stderr.contains("kernel_dispatch "), "{device}: {}", outcome.stderr);
    }
    let refused = trace(&["--device=amdgpu://9"]);
    assert!(refused.code == 3 && refused.stderr.contains("has no device `9`"), "{}", refused.stderr);
}

#[test]
fn only_packets_of_the_software_agent_can_be_traced() {
    for (flags, expected) in [
        (&["--device=local-sync"][..], "the device `local-sync` has none; expected `amdgpu`"),
        (&["--amdgpu_agent=library"], "`vireo trace` traces the software agent; expected --amdgpu_agent=software"),
        (&["-o", "gone/trace.txt"], "cannot write the trace to gone/trace.txt"),
    ] {
        let outcome = trace(flags);
        assert_eq!((outcome.code, outcome.stdout.as_str()), (2, ""), "{flags:?}");
        assert!(outcome.stderr.contains(expected), "{}", outcome.stderr);
    }
}

#[test]
fn a_trace_says_what_its_numbers_are_and_nothing_before_an_error() {
    let missing = vireo(&folder("../fixtures/gpu"), ["trace", "--aql", "none.vmfb"]);
    assert_eq!((missing.code, missing.stdout.as_str()), (3, ""));
    assert!(missing.stderr.starts_with("error: cannot load the module `none.vmfb`"), "{}", missing.stderr);
}
