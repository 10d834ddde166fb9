//! `vireo replay` and `vireo profile` against recorded output of IREE's tools.

use std::fs;

use crate::common::{folder, vireo};

/// Each command with the record of its output, both in `fixtures/`.
const COMMANDS: [(&[&str], &str); 8] = [
    (&["replay", "dump", "replay/payloads.ireereplay"], "replay/payloads.txt"),
    (&["replay", "dump", "replay/parameters.ireereplay", "--format=jsonl"], "replay/parameters.jsonl"),
    (&["profile", "cat", "profile/abs.ireeprof"], "profile/abs.cat.txt"),
    (&["profile", "cat", "profile/contents.ireeprof", "--format=jsonl"], "profile/contents.cat.jsonl"),
    (&["profile", "summary", "profile/contents.ireeprof"], "profile/contents.summary.txt"),
    (&["profile", "summary", "profile/abs.ireeprof", "--format=jsonl"], "profile/abs.summary.jsonl"),
    (&["profile", "export", "profile/contents.ireeprof", "--format=ireeperf-jsonl"], "profile/contents.export.jsonl"),
    (&["profile", "explain", "profile/joined.ireeprof", "--format=jsonl"], "profile/joined.explain.jsonl"),
];

#[test]
fn reports_are_those_of_the_reference_tools() {
    let fixtures = folder("../fixtures");
    for (arguments, expected) in COMMANDS {
        let outcome = vireo(&fixtures, arguments);
        let expected = fs::read_to_string(fixtures.join(expected)).expect("the record exists");
        assert_eq!((outcome.code, outcome.stdout.as_str()), (0, expected.as_str()), "{arguments:?}");
    }
}

/// A file of another format, and one that is not there.
#[test]
fn other_files_are_refused() {
    let fixtures = folder("../fixtures");
    let outcome = vireo(&fixtures, ["replay", "dump", "profile/abs.ireeprof"]);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (2, ""));
    let told = "byte 0: the file begins with 0x46505249: expected 0x50525249 of a capture";
    assert!(outcome.stderr.contains(told), "{}", outcome.stderr);
    let outcome = vireo(&fixtures, ["profile", "diff", "profile/abs.ireeprof", "replay/abs.ireereplay"]);
    assert_eq!(outcome.code, 2, "{}", outcome.stderr);
    let outcome = vireo(&fixtures, ["profile", "cat", "no/such/file.ireeprof"]);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (2, ""));
    assert!(outcome.stderr.contains("no/such/file.ireeprof"), "{}", outcome.stderr);
}

/// A program writes a profile, whose reports have its dispatches; the flags that need each other say so.
#[test]
fn programs_write_profiles() {
    let temporary = tempfile::tempdir().unwrap();
    let (module, profile) = (folder("../fixtures/models").join("vmvx_mlp.vmfb"), temporary.path().join("mlp.ireeprof"));
    let (module, profile) = (module.to_str().unwrap(), profile.to_str().unwrap());
    let output = format!("--device_profiling_output={profile}");
    let call = ["run", module, "--input=8x64xf32=1", "--device_profiling_mode=queue-events,host-execution"];
    let outcome = vireo(temporary.path(), call.iter().chain(&[output.as_str()]));
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let report = |command: &'static str| vireo(temporary.path(), ["profile", command, profile]);
    for command in
        ["summary", "explain", "statistics", "executable", "dispatch", "command", "queue", "counter", "memory", "cat"]
    {
        let outcome = report(command);
        assert_eq!(outcome.code, 0, "{command}: {}", outcome.stderr);
    }
    assert!(report("dispatch").stdout.contains("host_dispatches: total=2 matched=2 valid=2"));
    for (flags, told) in [
        (["--device_profiling_mode=queue-events", ""], "needs --device_profiling_output"),
        ([output.as_str(), ""], "needs --device_profiling_mode"),
        ([output.as_str(), "--device_profiling_mode=no-such"], "has no mode `no-such`"),
        ([output.as_str(), "--device_profiling_mode=counters"], "need each other"),
        ([output.as_str(), "--device_profiling_mode=dispatch-events"], "has no measurements of dispatch_events"),
    ] {
        let flags = flags.into_iter().filter(|flag| !flag.is_empty());
        let outcome = vireo(temporary.path(), ["run", module, "--input=8x64xf32=1"].into_iter().chain(flags));
        assert_eq!((outcome.code, outcome.stdout.as_str()), (2, ""), "{told}");
        assert!(outcome.stderr.contains(told), "{}", outcome.stderr);
    }
    let outcome = vireo(temporary.path(), ["profile", "dispatch", profile, "--dispatch_events"]);
    assert_eq!(outcome.code, 2, "{}", outcome.stderr);
}

/// Programs for GPUs write profiles with the device's times of each dispatch, and each report takes them.
#[cfg_attr(not(target_os = "linux"), ignore = "the software agent reserves addresses as Linux does")]
#[test]
fn programs_for_gpus_write_profiles() {
    let temporary = tempfile::tempdir().unwrap();
    let profile = temporary.path().join("gpu.ireeprof");
    let output = format!("--device_profiling_output={}", profile.display());
    let cuda = [
        &["cuda/programs.vmfb", "--function=layers", "--input=4x8xf32=1", "--input=8x8xf32=0.5"][..],
        &["--device=cuda", "--cuda_driver=software"],
    ];
    let amdgpu = [
        &["gpu/gfx1100/reductions.vmfb", "--function=main", "--input=@gpu/inputs/reductions_0.npy"][..],
        &["--device=amdgpu", "--amdgpu_agent=software"],
    ];
    for (program, graphs) in [(cuda, Some("never")), (cuda, Some("always")), (amdgpu, None)] {
        let graphs = graphs.map(|graphs| format!("--cuda_use_graphs={graphs}"));
        let modes = "--device_profiling_mode=queue-events,device-queue-events,dispatch-events,memory-events";
        let flags = ["run", modes, &output].into_iter().chain(graphs.as_deref());
        let ran = vireo(&folder("../fixtures"), flags.chain(program.concat()));
        assert_eq!(ran.code, 0, "{program:?}: {}", ran.stderr);
        let report = |command: &str, flags: &[&str]| {
            let profile = profile.to_str().unwrap();
            let outcome = vireo(temporary.path(), ["profile", command, profile].iter().chain(flags));
            assert_eq!(outcome.code, 0, "{program:?}, {command}: {}", outcome.stderr);
            outcome.stdout
        };
        for command in ["summary", "statistics", "executable", "command", "queue", "counter", "memory", "cat"] {
            report(command, &[]);
        }
        // As many dispatches as a trace of them has.
        let dispatches = report("dispatch", &["--format=jsonl", "--dispatch_events"]);
        let events = dispatches.lines().filter(|row| row.contains("\"type\":\"dispatch_event\"")).count();
        let trace = temporary.path().join("trace.json");
        let flag = format!("--dispatch_trace={}", trace.display());
        let traced = ["run", &flag].into_iter().chain(graphs.as_deref()).chain(program.concat());
        let traced = vireo(&folder("../fixtures"), traced);
        assert_eq!(traced.code, 0, "{}", traced.stderr);
        let begun = fs::read_to_string(&trace).unwrap().matches("\"ph\":\"B\"").count();
        assert!(begun > 0 && events == begun, "{program:?}: {events} events of {begun} dispatches: {dispatches}");
    }
}

/// A command buffer that also fills has its dispatches: those of the driver's own kernels are of no executable, which
/// IREE's tool refuses.
#[cfg_attr(not(target_os = "linux"), ignore = "the software agent reserves addresses as Linux does")]
#[test]
fn dispatches_beside_fills_belong_to_their_commands() {
    let temporary = tempfile::tempdir().unwrap();
    let profile = temporary.path().join("gpu.ireeprof");
    let output = format!("--device_profiling_output={}", profile.display());
    let inputs = [0, 1, 2].map(|number| format!("--input=@gpu/inputs/conv_{number}.npy"));
    let run = ["run", "gpu/gfx1100/conv.vmfb", "--function=main", "--device=amdgpu", "--amdgpu_agent=software"];
    let modes = ["--device_profiling_mode=dispatch-events", &output];
    let ran = vireo(&folder("../fixtures"), run.into_iter().chain(modes).chain(inputs.iter().map(String::as_str)));
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let flags = ["profile", "dispatch", profile.to_str().unwrap(), "--format=jsonl", "--dispatch_events"];
    let rows = vireo(temporary.path(), flags).stdout;
    let events: Vec<&str> = rows.lines().filter(|row| row.contains("\"type\":\"dispatch_event\"")).collect();
    assert!(!events.is_empty(), "{rows}");
    for event in events {
        assert!(!event.contains("\"executable_id\":0,") && !event.contains("\"command_buffer_id\":0,"), "{event}");
    }
}

/// The software agent counts what kernels execute, under the names of the vendor's profiler. Sums are those of
/// waves, and of the parts of a counter.
#[cfg_attr(not(target_os = "linux"), ignore = "the software agent reserves addresses as Linux does")]
#[test]
fn the_software_agent_counts_what_kernels_execute() {
    let temporary = tempfile::tempdir().unwrap();
    let profile = temporary.path().join("gpu.ireeprof");
    let output = format!("--device_profiling_output={}", profile.display());
    let program = ["gpu/gfx1100/matmul_f32.vmfb", "--function=main", "--input=@gpu/inputs/matmul_f32_0.npy"];
    let device = ["--input=@gpu/inputs/matmul_f32_1.npy", "--device=amdgpu", "--amdgpu_agent=software"];
    let modes = ["run", "--device_profiling_mode=counters,dispatch-events", &output];
    let run = |counters: &[&str], more: &[&str]| {
        let counters: Vec<String> = counters.iter().map(|name| format!("--device_profiling_counter={name}")).collect();
        let counters = counters.iter().map(String::as_str);
        vireo(
            &folder("../fixtures"),
            modes.into_iter().chain(program).chain(device).chain(counters).chain(more.to_vec()),
        )
    };
    let report = |command: &str, flag: &str| {
        let outcome = vireo(temporary.path(), ["profile", command, profile.to_str().unwrap(), "--format=jsonl", flag]);
        assert_eq!(outcome.code, 0, "{command}: {}", outcome.stderr);
        let rows = outcome.stdout.lines().map(|row| serde_json::from_str(row).unwrap());
        rows.collect::<Vec<serde_json::Value>>()
    };
    let names =
        ["SQ_WAVES", "SQ_WAVE32_INSTS", "SQ_INSTS_VALU", "SQ_INSTS_LDS", "SQ_INSTS_TEX_LOAD", "SQ_INSTS_TEX_STORE"];
    let names = [&names[..], &["SQ_INSTS_WAVE32", "SQ_INSTS_FLAT", "SQ_INSTS_SALU", "SQ_INSTS_SMEM"]].concat();
    let ran = run(&names, &[]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let value = |name: &str| -> u64 {
        let rows = report("counter", "--filter=*");
        let of = rows.iter().filter(|row| row["type"] == "counter_group" && row["counter"] == name);
        of.map(|row| row["sum"].as_f64().unwrap() as u64).sum()
    };
    let dispatches = report("dispatch", "--dispatch_events");
    let waves = dispatches.iter().filter(|row| row["type"] == "dispatch_event").map(|row| {
        let product = |key: &str| row[key].as_array().unwrap().iter().map(|one| one.as_u64().unwrap()).product::<u64>();
        product("workgroup_count") * product("workgroup_size").div_ceil(32)
    });
    let [waves, counted] = [waves.sum::<u64>(), value("SQ_WAVES")];
    assert!(waves > 0 && counted == waves, "{counted} of {waves} waves");
    let sum = |names: &[&str]| names.iter().map(|name| value(name)).sum::<u64>();
    let of_lanes = sum(&["SQ_INSTS_VALU", "SQ_INSTS_LDS", "SQ_INSTS_TEX_LOAD", "SQ_INSTS_TEX_STORE"]);
    assert_eq!(value("SQ_INSTS_WAVE32"), of_lanes);
    // Others are of control: the end of each wave at least.
    assert!(value("SQ_WAVE32_INSTS") >= of_lanes + sum(&["SQ_INSTS_SALU", "SQ_INSTS_SMEM"]) + waves);
    for (counters, more, told) in [
        (&["SQ_WAVES", "SQ_INSTS_BRANCH"][..], &[][..], "has no counter `SQ_INSTS_BRANCH`: expected one of SQ_WAVES,"),
        (&["SQ_WAVES", "SQ_WAVES"], &[], "`SQ_WAVES` is selected twice"),
    ] {
        let outcome = run(counters, more);
        assert_eq!((outcome.code, outcome.stdout.as_str()), (2, ""), "{told}");
        assert!(outcome.stderr.contains(told), "{}", outcome.stderr);
    }
}

/// The guide has each counter of the software agent, which an error names.
#[cfg_attr(not(target_os = "linux"), ignore = "the software agent reserves addresses as Linux does")]
#[test]
fn the_guide_has_the_counters_of_the_software_agent() {
    let guide = fs::read_to_string(folder("../docs").join("profiles.md")).expect("the guide exists");
    let (_, table) = guide.split_once("| counter | what it counts |").expect("it has a table of counters");
    let (table, _) = table.split_once("\n\n").expect("it ends");
    let rows = table.lines().skip(2).map(|row| row.split('|').nth(1).unwrap_or_default());
    let mut listed: Vec<&str> = rows.flat_map(|names| names.split('`').skip(1).step_by(2)).collect();
    let temporary = tempfile::tempdir().unwrap();
    let refused = vireo(
        &folder("../fixtures"),
        [
            "run",
            "gpu/gfx1100/softmax.vmfb",
            "--device=amdgpu",
            "--amdgpu_agent=software",
            "--device_profiling_mode=counters",
            "--device_profiling_counter=none",
            &format!("--device_profiling_output={}", temporary.path().join("none").display()),
        ],
    );
    let (_, known) = refused.stderr.split_once("expected one of ").expect("it names all");
    let mut known: Vec<&str> = known.trim().split(", ").collect();
    listed.sort_unstable();
    known.sort_unstable();
    assert_eq!(listed, known);
}

/// The exit code of a comparison says whether something grew too much.
#[test]
fn profiles_are_compared() {
    let fixtures = folder("../fixtures");
    let (abs, joined) = ("profile/abs.ireeprof", "profile/joined.ireeprof");
    for (arguments, code, told) in [
        (&[abs, joined][..], 0, "dispatch_time:"),
        (&[abs, abs, "--fail_above=0%"], 0, "values_above=0"),
        (&[abs, joined, "--fail_above=50%", "--format=jsonl"], 4, "\"above\":true"),
        (&[abs, joined, "--fail_above=-5%"], 2, "expected a share such as `5%`"),
        (&[abs, joined, "--fail_above=5"], 2, "expected a share such as `5%`"),
        (&[abs, "no/such/file.ireeprof"], 2, "cannot read `no/such/file.ireeprof`"),
    ] {
        let outcome = vireo(&fixtures, ["profile", "diff"].iter().chain(arguments));
        let all = format!("{}{}", outcome.stdout, outcome.stderr);
        assert!(outcome.code == code && all.contains(told), "{arguments:?}: {} {all}", outcome.code);
    }
}

/// Pages and traces go to files, or to stdout.
#[test]
fn profiles_are_rendered() {
    let (fixtures, scratch) = (folder("../fixtures"), tempfile::tempdir().expect("a folder"));
    for (format, begin) in [("html", &b"<!doctype html>"[..]), ("perfetto", &b"\n"[..])] {
        let output = scratch.path().join(format);
        let outcome = vireo(
            &fixtures,
            [
                "profile",
                "render",
                "profile/abs.ireeprof",
                &format!("--format={format}"),
                &format!("--output={}", output.display()),
            ],
        );
        assert_eq!((outcome.code, outcome.stdout.as_str()), (0, ""), "{}", outcome.stderr);
        assert!(fs::read(&output).expect("it is written").starts_with(begin), "{format}");
    }
    let outcome = vireo(&fixtures, ["profile", "render", "profile/joined.ireeprof", "--output=-"]);
    assert!(outcome.code == 0 && outcome.stdout.contains("kernel_a"), "{}", outcome.stderr);
    let outcome = vireo(&fixtures, ["profile", "render", "profile/joined.ireeprof", "--output=no/such/folder/page"]);
    assert_eq!(outcome.code, 1, "{}", outcome.stderr);
}

/// Replays of a capture, with the exit codes of each way in which they end.
#[test]
fn captures_are_replayed_and_compared() {
    let fixtures = folder("../fixtures");
    let scratch = tempfile::tempdir().expect("a folder");
    let at = |name: &str| scratch.path().join(name).display().to_string();
    let softmax = "replay/runs/softmax.ireereplay";
    let ends = |arguments: &[&str], code: i32, told: &str| {
        let outcome = vireo(&fixtures, arguments);
        let all = format!("{}{}", outcome.stdout, outcome.stderr);
        assert!(outcome.code == code && all.contains(told), "{arguments:?}: {} {all}", outcome.code);
        outcome.stdout
    };
    for device in ["--device=local-sync", "--device=local-task"] {
        assert_eq!(ends(&["replay", "run", softmax, device], 0, ""), "");
    }
    assert_eq!(ends(&["replay", "run", softmax, "--untrusted", "--no-confine", "--timeout=60"], 0, ""), "");
    ends(
        &["replay", "run", softmax, "--untrusted", "--replay_allow_writes"],
        2,
        "--replay_allow_writes cannot be combined",
    );
    ends(
        &["replay", "run", softmax, "--device=local-sync", "--device=local-task"],
        1,
        "the capture has 1 devices, and 2 are given",
    );
    ends(&["replay", "run", "replay/payloads.ireereplay"], 3, "cannot replay the capture");
    ends(&["replay", "run", "profile/abs.ireeprof"], 2, "expected 0x50525249 of a capture");
    ends(&["replay", "run", softmax, "--replay_executable_substitution=all=no/such/file"], 2, "no/such/file");
    let row = "BM_replay/scope:execute/process_time/manual_time";
    ends(&["replay", "benchmark", softmax, "--replay_scope=execute", "--benchmark_min_time=2x"], 0, row);
    ends(&["replay", "benchmark", softmax, "--benchmark_list_tests"], 0, "BM_replay/process_time/real_time\n");
    ends(&["replay", "benchmark", softmax, "--replay_scope=nothing"], 2, "the capture has no scope `nothing`");
    ends(&["replay", "check", "replay/runs/waits.ireereplay"], 0, "replays with IREE's tools: no: record 16 waits");
    ends(&["replay", "check", softmax, "--format=jsonl"], 0, "\"hermetic\":true");
    ends(&["replay", "check", "replay/payloads.ireereplay"], 1, "replays here: no");
    ends(&["replay", "verify", softmax], 2, "the capture has no expected outputs");
    let expected = at("expected.ireereplay");
    ends(&["replay", "verify", softmax, &format!("--write_expected={expected}")], 0, "outputs are expected now");
    ends(&["replay", "verify", &expected, "--device=local-task"], 0, "2 of 2 outputs are as expected");
    let mut bytes = fs::read(&expected).expect("it was written");
    let place = bytes.windows(4).rposition(|word| word == b"VIRE").expect("an output is expected");
    // The digest of the last output, in the payload after the header, which has the number in its middle.
    bytes[place + 32 + 32] ^= 1;
    fs::write(&expected, &bytes).expect("it can be written");
    ends(&["replay", "verify", &expected], 4, "1 of 2 outputs are as expected");
    let parts = at("parts");
    let listing = ends(&["replay", "extract", softmax, &format!("--output={parts}")], 0, "vmvx-bytecode-fb.bin");
    assert_eq!(fs::read_dir(&parts).expect("it was made").count(), listing.lines().count());
    ends(&["replay", "extract", softmax, &format!("--output={parts}")], 1, "cannot write");
    let torn = at("torn.ireereplay");
    let whole = fs::read(fixtures.join(softmax)).expect("the capture exists");
    fs::write(&torn, &whole[..whole.len() - 1]).expect("it can be written");
    ends(&["replay", "run", &torn], 2, "the length is");
    let saved = at("saved.ireereplay");
    ends(&["replay", "salvage", &torn, &format!("--output={saved}")], 0, "records were saved");
    ends(&["replay", "run", &saved], 0, "");
}
