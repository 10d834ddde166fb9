//! `vireo benchmark`: what it reports, not how long anything takes.

use crate::common::{Outcome, folder, model, vireo};
use crate::tiers::has_jit;
use serde_json::Value;

fn benchmark(flags: &[&str]) -> Outcome {
    let always = ["benchmark", "--module=bench/vm.vmfb", "--benchmark_min_time=3x"];
    vireo(&folder("../fixtures"), always.iter().chain(flags))
}

#[test]
fn json_is_that_of_google_benchmark() {
    let outcome = benchmark(&["--function=fib", "--input=5", "--benchmark_repetitions=2", "--benchmark_format=json"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let report: Value = serde_json::from_str(&outcome.stdout).unwrap();
    let benchmarks = report["benchmarks"].as_array().unwrap();
    let names: Vec<_> = benchmarks.iter().map(|benchmark| benchmark["name"].as_str().unwrap()).collect();
    let base = "BM_fib/process_time/real_time";
    assert_eq!(names[..2], [base, base]);
    assert_eq!(names[2..], ["mean", "median", "stddev", "cv", "min", "max"].map(|name| format!("{base}_{name}")));
    for (index, one) in benchmarks[..2].iter().enumerate() {
        assert_eq!(
            (one["run_type"].as_str(), one["repetition_index"].as_u64()),
            (Some("iteration"), Some(index as u64))
        );
        assert_eq!((one["iterations"].as_u64(), one["time_unit"].as_str()), (Some(3), Some("ms")));
        assert!(one["real_time"].is_f64() && one["cpu_time"].is_f64() && one["items_per_second"].is_f64());
    }
    assert_eq!(benchmarks[3]["aggregate_name"], "median");
    assert_eq!(report["context"]["json_schema_version"], 1);
}

#[test]
fn without_a_function_those_without_arguments_are_measured() {
    let outcome = benchmark(&["--tier=interp", "--batch_size=2"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert_eq!(outcome.stdout.matches("BM_").count(), 1, "{}", outcome.stdout);
    assert!(outcome.stdout.contains("BM_empty/process_time/real_time"));
}

#[test]
fn csv_is_that_of_google_benchmark() {
    let outcome = benchmark(&[
        "--function=empty",
        "--benchmark_format=csv",
        "--benchmark_time_unit=ns",
        "--benchmark_repetitions=2",
    ]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let lines: Vec<_> = outcome.stdout.lines().collect();
    assert!(
        lines[0].starts_with("name,iterations,real_time,cpu_time,time_unit,bytes_per_second,items_per_second,label,")
    );
    assert!(lines[1].starts_with("\"BM_empty/process_time/real_time\",3,"), "{}", lines[1]);
    assert!(lines.iter().all(|line| line.split(',').count() == 10), "{}", outcome.stdout);
    assert_eq!(lines.len(), 1 + 2 + 6);
}

#[test]
fn benchmarks_are_listed_and_filtered() {
    let outcome = benchmark(&["--function=empty", "--function=fib", "--benchmark_list_tests"]);
    let both = "BM_empty/process_time/real_time\nBM_fib/process_time/real_time\n";
    assert_eq!((outcome.code, outcome.stdout.as_str()), (0, both), "{}", outcome.stderr);
    let outcome =
        benchmark(&["--function=empty", "--function=fib", "--benchmark_list_tests", "--benchmark_filter=-em.*y"]);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (0, "BM_fib/process_time/real_time\n"), "{}", outcome.stderr);
    let outcome = benchmark(&["--benchmark_filter=nothing"]);
    assert!(outcome.code == 2 && outcome.stderr.contains("no benchmark matches"), "{}", outcome.stderr);
    let outcome = benchmark(&["--benchmark_filter=(("]);
    assert!(outcome.code == 2 && outcome.stderr.contains("not a regular expression"), "{}", outcome.stderr);
}

#[test]
fn the_terminal_may_show_aggregates_only() {
    let temporary = tempfile::tempdir().unwrap();
    let path = temporary.path().join("out.csv");
    let out = format!("--benchmark_out={}", path.display());
    let flags = ["--function=empty", "--benchmark_repetitions=3", "--benchmark_display_aggregates_only", &out];
    let outcome = benchmark(&[&flags[..], &["--benchmark_out_format=csv", "--print_statistics"]].concat());
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert_eq!(outcome.stdout.matches("BM_empty").count(), 6, "{}", outcome.stdout);
    assert_eq!(std::fs::read_to_string(path).unwrap().lines().count(), 1 + 3 + 6);
    assert!(outcome.stderr.contains("HOST_LOCAL"), "{}", outcome.stderr);
}

#[test]
fn functions_compiled_as_benchmarks_are_found() {
    let folder = folder("tests/fixtures");
    let outcome = vireo(&folder, ["benchmark", "--module=benchmark.vmfb", "--benchmark_dry_run", "--batch_size=3"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert_eq!(outcome.stdout.matches("BM_").count(), 1, "{}", outcome.stdout);
    assert!(outcome.stdout.contains("BM_scale_benchmark/process_time/real_time"), "{}", outcome.stdout);
}

#[test]
fn calls_that_take_fences_overlap() {
    let folder = folder("tests/fixtures");
    for (size, concurrency, iterations) in [("1", "1", 1), ("5", "2", 6), ("4", "4", 4)] {
        let (size, concurrency) = (format!("--batch_size={size}"), format!("--batch_concurrency={concurrency}"));
        let flags =
            ["--module=benchmark_async.vmfb", "--function=scale", "--input=64xf32=2", "--benchmark_format=json"];
        let flags = [&["benchmark", "--benchmark_dry_run", &size, &concurrency][..], &flags].concat();
        let outcome = vireo(&folder, flags);
        assert_eq!(outcome.code, 0, "{}", outcome.stderr);
        let report: Value = serde_json::from_str(&outcome.stdout).unwrap();
        assert_eq!(report["benchmarks"][0]["iterations"].as_u64(), Some(iterations));
    }
}

#[test]
fn what_is_wrong_is_said_before_anything_is_measured() {
    for (flags, code, part) in [
        (&["--function=nothing"] as &[&str], 3, "nothing"),
        (&["--function=fib"], 2, "takes 1 argument, 0 given"),
        (&["--function=empty", "--function=fib", "--input=1"], 2, "--input"),
        (&["--input=1"], 2, "no function is chosen"),
        (&["--function=empty", "--benchmark_repetitions=0"], 2, "0"),
        (&["--function=empty", "--tier=fast"], 2, "fast"),
        (&["--function=empty", "--benchmark_out=no/such/folder"], 1, "no/such/folder"),
    ] {
        let outcome = benchmark(flags);
        assert_eq!((outcome.code, outcome.stdout.as_str()), (code, ""), "{flags:?}: {}", outcome.stderr);
        assert!(outcome.stderr.contains(part), "{flags:?}: {}", outcome.stderr);
    }
}

#[test]
fn times_are_compared_with_those_of_an_earlier_run() {
    let temporary = tempfile::tempdir().unwrap();
    let path = temporary.path().join("before.json");
    let (out, baseline) = (format!("--benchmark_out={}", path.display()), format!("--baseline={}", path.display()));
    let outcome = benchmark(&["--function=empty", &out]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let outcome = benchmark(&["--function=empty", "--function=fib", "--input=1", &baseline]);
    assert_eq!(outcome.code, 2, "{}", outcome.stderr);
    let outcome = benchmark(&["--function=empty", &baseline, "--benchmark_repetitions=2"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let lines: Vec<_> = outcome.stdout.lines().collect();
    let table = lines.iter().position(|line| line.starts_with("  benchmark ")).expect("a table");
    assert!(lines[table].ends_with("change"), "{}", outcome.stdout);
    assert!(lines[table + 1].contains("BM_empty") && lines[table + 1].ends_with(" %"), "{}", outcome.stdout);
    assert!(lines.iter().all(|line| line.chars().count() <= 100), "{}", outcome.stdout);
    // Programs that read stdout find the report alone.
    let outcome = benchmark(&["--function=empty", &baseline, "--benchmark_format=json"]);
    assert!(serde_json::from_str::<Value>(&outcome.stdout).is_ok(), "{}", outcome.stdout);
    assert!(outcome.stderr.contains("change"), "{}", outcome.stderr);
    for (contents, part) in [("{}", "expected a list `benchmarks`"), ("no", "--baseline=")] {
        std::fs::write(&path, contents).unwrap();
        let outcome = benchmark(&["--function=empty", &baseline]);
        assert_eq!((outcome.code, outcome.stdout.as_str()), (2, ""), "{}", outcome.stderr);
        assert!(outcome.stderr.contains(part), "{}", outcome.stderr);
    }
}

#[test]
fn flags_of_google_benchmark_are_read_or_refused() {
    let empty = |flag: &str| benchmark(&["--function=empty", "--benchmark_format=json", flag]);
    let outcome = empty("--benchmark_context=host=a,run=b=c");
    let report: Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!((&report["context"]["host"], &report["context"]["run"]), (&"a".into(), &"b=c".into()));
    for flag in [
        "--benchmark_color=auto",
        "--benchmark_color=false",
        "--benchmark_color=true",
        "--benchmark_counters_tabular=false",
        "--benchmark_enable_random_interleaving=false",
        "--benchmark_perf_counters=",
        "--v=0",
        "--dispatch_statistics=false",
        "--enable_output_processing=false",
    ] {
        assert_eq!(empty(flag).code, 0, "{flag}: {}", empty(flag).stderr);
    }
    for flag in [
        "--benchmark_counters_tabular=true",
        "--benchmark_enable_random_interleaving=true",
        "--benchmark_perf_counters=CYCLES",
        "--v=1",
    ] {
        let outcome = empty(flag);
        assert!(outcome.code == 2 && outcome.stderr.contains("UNIMPLEMENTED"), "{flag}: {}", outcome.stderr);
    }
    let outcome = empty("--cuda_tracing=1");
    assert!(outcome.stderr.contains("--cuda_tracing of iree-benchmark-module is not supported"), "{}", outcome.stderr);
    assert_eq!(empty("--benchmark_context=nothing").code, 2);
}

#[test]
fn dispatches_have_rows_of_their_own() {
    let models = folder("../fixtures/models");
    let mlp = model("mlp");
    let flags = ["benchmark", &mlp, "--function=mlp", "--input=8x64xf32=1", "--benchmark_min_time=3x"];
    let of = |rest: &[&str]| vireo(&models, flags.iter().chain(rest));
    let kernels = ["mlp_dispatch_0_matmul_8x64x64_f32", "mlp_dispatch_1_matmul_8x16x64_f32"];
    for device in ["local-sync", "local-task"] {
        let device = format!("--device={device}");
        let outcome = of(&["--dispatch_statistics", "--benchmark_format=json", "--benchmark_repetitions=2", &device]);
        assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""));
        let report: Value = serde_json::from_str(&outcome.stdout).unwrap();
        let rows = report["benchmarks"].as_array().unwrap();
        let rows: Vec<_> = rows.iter().filter(|row| row.get("calls").is_some()).collect();
        for (row, kernel) in rows.iter().zip(kernels) {
            assert_eq!(row["name"], format!("BM_mlp/{kernel}"));
            assert_eq!((&row["iterations"], &row["calls"], &row["time_unit"]), (&3.into(), &1.0.into(), &"ms".into()));
        }
        let percent: f64 = rows.iter().filter_map(|row| row["percent"].as_f64()).sum();
        assert!(rows.len() == 2 && (percent - 100.0).abs() < 1e-6, "{rows:?}");
    }
    if has_jit() {
        let table = of(&["--dispatch_statistics", "--tier=both"]).stdout;
        for tier in ["interp", "jit"] {
            assert!(table.contains(&format!("\nBM_mlp/{tier}/{}", kernels[0])), "{table}");
        }
    }
    let csv = of(&["--dispatch_statistics", "--benchmark_format=csv"]).stdout;
    assert!(csv.lines().all(|line| line.split(',').count() == 12), "{csv}");
    let outcome = of(&["--dispatch_statistics", "--print_device_statistics"]);
    assert!(outcome.code == 2 && outcome.stderr.contains("cannot be combined"), "{}", outcome.stderr);
    let outcome = of(&["--dispatch_statistics", "--device=null"]);
    assert!(outcome.code == 0 && outcome.stderr.contains("no kernel ran on the host"), "{}", outcome.stderr);
}

#[test]
fn statistics_of_devices_go_to_stderr() {
    let run = |rest: &[&str]| {
        let mlp = model("mlp");
        let flags = [&mlp, "--function=mlp", "--input=8x64xf32=1", "--print_device_statistics"];
        vireo(&folder("../fixtures/models"), rest.iter().chain(&flags))
    };
    let once = run(&["run", "--output="]);
    assert_eq!((once.code, once.stdout.as_str()), (0, "EXEC @mlp\n"));
    let of = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.trim_start().starts_with(name)).unwrap_or_else(|| panic!("{text}"));
        line.split_whitespace().nth(1).and_then(|count| count.parse::<u64>().ok())
    };
    assert_eq!((of(&once.stderr, "queue_execute"), of(&once.stderr, "mlp_dispatch_0_")), (Some(1), Some(1)));
    // The first call, and those that are measured.
    let several = run(&["benchmark", "--benchmark_min_time=4x"]);
    assert_eq!((of(&several.stderr, "queue_execute"), of(&several.stderr, "mlp_dispatch_1_")), (Some(5), Some(5)));
}

#[test]
fn benchmark_lists_devices_too() {
    for flag in ["--list_drivers", "--list_devices", "--dump_devices=null"] {
        let of = |command: &str| vireo(&folder("../fixtures"), [command, flag]);
        let (run, outcome) = (of("run"), of("benchmark"));
        assert_eq!((outcome.code, outcome.stdout), (0, run.stdout), "{}", outcome.stderr);
    }
}

#[test]
fn percentiles_are_of_single_calls() {
    let outcome = benchmark(&["--function=fib", "--input=5", "--percentiles", "--format=json"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let report: Value = serde_json::from_str(&outcome.stdout).unwrap();
    let found: Vec<_> = report["benchmarks"].as_array().unwrap()[1..].to_vec();
    assert_eq!(
        found.iter().map(|one| one["aggregate_name"].as_str().unwrap()).collect::<Vec<_>>(),
        ["p50", "p90", "p99"]
    );
    let times: Vec<_> = found.iter().map(|one| one["real_time"].as_f64().unwrap()).collect();
    assert!(times[0] > 0.0 && times.is_sorted(), "{times:?}");
    assert!(found.iter().all(|one| one["iterations"] == 3 && one["cpu_time"].is_null()), "{found:?}");
    assert!(report["context"]["load_avg"].is_array());
    let outcome = benchmark(&["--function=fib", "--input=5", "--percentiles"]);
    assert_eq!(outcome.stdout.matches("_p9").count(), 2, "{}", outcome.stdout);
}

#[test]
fn markdown_is_a_table() {
    let outcome = benchmark(&["--function=fib", "--input=5", "--benchmark_repetitions=2", "--format=markdown"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let lines: Vec<_> = outcome.stdout.lines().collect();
    assert_eq!(lines[..2], ["| benchmark | time | CPU | iterations | calls/s |", "|---|--:|--:|--:|--:|"]);
    assert_eq!(lines.len(), 2 + 2 + 6, "{}", outcome.stdout);
    assert!(lines.iter().all(|line| line.matches('|').count() == 6), "{}", outcome.stdout);
}

#[test]
fn results_are_checked_once_before_the_measurement() {
    let checked = benchmark(&["--function=fib", "--input=5", "--expected_output=5"]);
    assert_eq!(checked.code, 0, "{}{}", checked.stdout, checked.stderr);
    assert!(checked.stdout.contains("BM_fib"), "{}", checked.stdout);
    let wrong = benchmark(&["--function=fib", "--input=5", "--expected_output=6"]);
    assert_eq!(wrong.code, 4, "{}{}", wrong.stdout, wrong.stderr);
    assert!(wrong.stdout.contains("[FAILED] result[0]") && !wrong.stdout.contains("BM_fib"), "{}", wrong.stdout);
    let printed = benchmark(&["--function=fib", "--input=5", "--output=-"]);
    assert!(printed.stdout.starts_with("i32=5\n") && printed.stdout.contains("BM_fib"), "{}", printed.stdout);
    let several = benchmark(&["--function=fib", "--function=empty", "--expected_output=5"]);
    assert!(several.code == 2 && several.stderr.contains("for one function"), "{}", several.stderr);
}

#[test]
fn another_module_is_measured_in_turn() {
    let flags = ["--function=fib", "--input=5", "--benchmark_repetitions=3", "--baseline=bench/vm.vmfb"];
    let outcome = benchmark(&flags);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let table = outcome.stdout.trim_end().rsplit("\n\n").next().unwrap();
    assert!(
        table.starts_with("  benchmark ") && table.contains(" baseline ") && table.trim_end().ends_with('%'),
        "{table}"
    );
    assert!(table.trim_end().lines().count() == 2 && table.contains("BM_fib/process_time/real_time"), "{table}");
    let refused = benchmark(&[&flags[..], &["--tier=both"]].concat());
    assert!(refused.code == 2 && refused.stderr.contains("expected one of them"), "{}", refused.stderr);
    let other = benchmark(&["--function=fib", "--input=5", "--baseline=models/state.vmfb"]);
    assert!(other.code == 3 && other.stderr.contains("no function `fib`"), "{}", other.stderr);
}
