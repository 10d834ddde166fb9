//! `vireo benchmark`: what it reports, not how long anything takes.

mod common;

use common::{Outcome, folder, vireo};
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
    assert_eq!(names[2..], ["mean", "median", "stddev", "cv"].map(|name| format!("{base}_{name}")));
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
fn what_is_wrong_is_said_before_anything_is_measured() {
    for (flags, code, part) in [
        (&["--function=nothing"] as &[&str], 3, "nothing"),
        (&["--function=fib"], 2, "takes 1 argument, 0 given"),
        (&["--function=empty", "--function=fib", "--input=1"], 2, "--input"),
        (&["--input=1"], 3, "no function is chosen"),
        (&["--function=empty", "--benchmark_repetitions=0"], 2, "0"),
        (&["--function=empty", "--tier=jit"], 2, "jit"),
        (&["--function=empty", "--benchmark_out=no/such/folder"], 1, "no/such/folder"),
    ] {
        let outcome = benchmark(flags);
        assert_eq!((outcome.code, outcome.stdout.as_str()), (code, ""), "{flags:?}: {}", outcome.stderr);
        assert!(outcome.stderr.contains(part), "{flags:?}: {}", outcome.stderr);
    }
}
