//! Programs for NVIDIA GPUs on the software CUDA driver, which interprets the PTX that the compiler wrote.

use crate::common::{Outcome, command, folder, vireo};

fn run(flags: &[&str]) -> Outcome {
    let program = ["run", "--module=programs.vmfb", "--cuda_driver=software"];
    vireo(&folder("../fixtures/cuda"), program.iter().chain(flags))
}

fn sums(flags: &[&str]) -> Outcome {
    let input = ["--function=sums", "--input=7x5xf32=2"];
    run(&[&input[..], flags].concat())
}

#[test]
fn programs_run_by_streams_and_graphs() {
    for flags in [
        &["--device=cuda"][..],
        &["--device=cuda", "--cuda_use_graphs=always"],
        &["--device=cuda", "--cuda_use_streams=false", "--cuda_async_allocations=false"],
        &["--device=cuda://?streams=3"],
        &["--device=cuda", "--cuda_default_index=0", "--cuda_default_index_from_mpi=false"],
        &["--device=cuda", "--sanitize=memory,race,init"],
    ] {
        let outcome = sums(flags);
        let expected = "EXEC @sums\nresult[0]: hal.buffer_view\n5xf32=14 14 14 14 14\n";
        assert_eq!((outcome.code, outcome.stdout.as_str(), outcome.stderr.as_str()), (0, expected, ""), "{flags:?}");
        let layers = ["--function=layers", "--input=4x8xf32=1", "--input=8x8xf32=0.5", "--expected_output=4x8xf32=64"];
        let outcome = run(&[&layers[..], flags].concat());
        assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""), "{flags:?}: {}", outcome.stdout);
    }
}

#[test]
fn calls_of_the_library_are_traced() {
    let outcome = sums(&["--device=cuda", "--cuda_trace_calls"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let launches = outcome.stderr.lines().filter(|line| line.starts_with("cuLaunchKernel(function=CuFunction("));
    assert_eq!(launches.count(), 1, "{}", outcome.stderr);
}

#[test]
fn what_is_missing_is_named() {
    let outcome = sums(&["--device=cuda", "--cuda_default_index=7", "--cuda_default_index_from_mpi=false"]);
    assert!(outcome.code != 0 && outcome.stderr.contains("no device `7`"), "{}", outcome.stderr);
    let outcome = sums(&["--device=cuda", "--cuda_driver=/no/such/libcuda.so.1"]);
    assert!(outcome.code != 0 && outcome.stderr.contains("/no/such/libcuda.so.1"), "{}", outcome.stderr);
    let outcome = sums(&["--device=cuda", "--cuda_driver=library", "--untrusted"]);
    assert!(outcome.code != 0 && outcome.stderr.contains("--untrusted takes away"), "{}", outcome.stderr);
}

/// The rank of a launcher counts more than the flag, unless that is switched off.
#[test]
fn launchers_choose_the_device() {
    let run = |variable: &str, flags: &[&str]| {
        let mut command = command();
        command.args(["run", "--module=programs.vmfb", "--function=sums", "--input=7x5xf32=2", "--device=cuda"]);
        command.args(["--cuda_driver=software"]).args(flags).env(variable, "1").env("VIREO_SOFTCUDA", "devices=1");
        let output = command.current_dir(folder("../fixtures/cuda")).output().expect("the command runs");
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for variable in ["PMI_RANK", "OMPI_COMM_WORLD_LOCAL_RANK"] {
        let (is_done, said) = run(variable, &["--cuda_default_index=0"]);
        assert!(!is_done && said.contains("no device `1`"), "{variable}: {said}");
        let (is_done, said) = run(variable, &["--cuda_default_index_from_mpi=false"]);
        assert!(is_done, "{variable}: {said}");
    }
}
