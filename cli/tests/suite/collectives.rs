//! `--collectives`: the ranks of a program as processes of the command, which meet over TCP.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Stdio};

use crate::common::{Outcome, command, folder, vireo};

fn fixtures() -> PathBuf {
    folder("tests/fixtures")
}

/// A port of this host that is free now.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port").port()
}

/// A rank, started with these flags and variables.
fn start(device: &str, function: &str, input: &str, meeting: &str, variables: &[(&str, String)]) -> Child {
    let mut command = command();
    // Ranks on GPUs run on the software driver, and NCCL in software.
    let module = if device.starts_with("cuda") { "collectives_cuda.vmfb" } else { "collectives.vmfb" };
    command.args(["run", "--cuda_driver=software", &format!("--module={module}")]);
    command.args([format!("--device={device}"), format!("--function={function}"), format!("--input={input}")]);
    command.arg(format!("--collectives={meeting}")).envs(variables.iter().cloned());
    command.current_dir(fixtures()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("the command starts")
}

fn end(child: Child) -> Outcome {
    let output = child.wait_with_output().expect("the command ends");
    let text = |bytes| String::from_utf8(bytes).expect("output is UTF-8");
    Outcome { code: output.status.code().unwrap_or(-1), stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// Runs a function at ranks with these inputs, and returns the last line of each.
fn run(device: &str, function: &str, inputs: &[&str]) -> Vec<String> {
    let (port, count) = (free_port(), inputs.len());
    let rank = |(rank, input): (usize, &&str)| {
        start(device, function, input, &format!("tcp://127.0.0.1:{port},{rank},{count},60"), &[])
    };
    let ranks: Vec<Child> = inputs.iter().enumerate().map(rank).collect();
    let result = |rank| {
        let outcome = end(rank);
        assert_eq!(outcome.code, 0, "{}", outcome.stderr);
        outcome.stdout.lines().last().unwrap_or_default().to_string()
    };
    ranks.into_iter().map(result).collect()
}

#[test]
fn ranks_are_processes() {
    let cases = [
        ("sum", ["4xf32=1,2,3,4", "4xf32=5,6,7,8"], ["4xf32=6 8 10 12", "4xf32=6 8 10 12"]),
        (
            "gather",
            ["2x2xi32=1,2,3,4", "2x2xi32=5,6,7,8"],
            ["2x4xi32=[1 2 5 6][3 4 7 8]", "2x4xi32=[1 2 5 6][3 4 7 8]"],
        ),
        (
            "scatter",
            ["4x2xf32=1,2,3,4,5,6,7,8", "4x2xf32=10,20,30,40,50,60,70,80"],
            ["2x2xf32=[11 22][33 44]", "2x2xf32=[55 66][77 88]"],
        ),
        (
            "exchange",
            ["2x4xi32=1,2,3,4,5,6,7,8", "2x4xi32=11,12,13,14,15,16,17,18"],
            ["4x2xi32=[1 2][5 6][11 12][15 16]", "4x2xi32=[3 4][7 8][13 14][17 18]"],
        ),
        ("forward", ["3xf32=1,2,3", "3xf32=4,5,6"], ["3xf32=0 0 0", "3xf32=1 2 3"]),
    ];
    for (function, inputs, expected) in cases {
        for device in ["local-sync", "local-task", "cuda"] {
            assert_eq!(run(device, function, &inputs), expected, "{function} on {device}");
        }
    }
}

#[test]
fn programs_split_their_ranks() {
    for device in ["local-task", "cuda"] {
        let results = run(device, "pairs", &["2xi32=1,-1", "2xi32=7,8", "2xi32=3,-3", "2xi32=5,9"]);
        assert_eq!(results, ["2xi32=3 -1", "2xi32=7 9", "2xi32=3 -1", "2xi32=7 9"], "{device}");
    }
}

#[test]
fn launchers_of_mpi_programs_say_the_rank() {
    for [rank_name, count_name] in [["PMI_RANK", "PMI_SIZE"], ["OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"]] {
        let meeting = format!("tcp://127.0.0.1:{}", free_port());
        let rank = |rank: u32| {
            let variables = [(rank_name, rank.to_string()), (count_name, "2".to_string())];
            start("local-sync", "sum", "4xf32=1", &meeting, &variables)
        };
        for outcome in [rank(0), rank(1)].map(end) {
            assert_eq!(outcome.code, 0, "{}", outcome.stderr);
            assert!(outcome.stdout.ends_with("4xf32=2 2 2 2\n"), "{}", outcome.stdout);
        }
    }
}

#[test]
fn ranks_that_disagree_fail_with_both_values() {
    let port = free_port();
    let rank = |rank: u32, function: &str, input: &str| {
        start("local-task", function, input, &format!("tcp://127.0.0.1:{port},{rank},2,60"), &[])
    };
    for outcome in [rank(0, "sum", "4xf32=1"), rank(1, "gather", "2x2xi32=1")].map(end) {
        assert_ne!(outcome.code, 0);
        let expected = "rank 0 runs all_reduce sum of 4 float_32, rank 1 runs all_gather of 4 uint_32 \
                        (kinds all_reduce and all_gather)";
        assert!(outcome.stderr.contains(expected), "{}", outcome.stderr);
    }
}

#[test]
fn flags_that_tell_no_rank() {
    let run = |flag: &str| {
        vireo(&fixtures(), ["run", "--module=collectives.vmfb", "--function=sum", "--input=4xf32=1", flag])
    };
    let outcome = run("--collectives=tcp://host:1,2,2");
    assert!(outcome.code != 0 && outcome.stderr.contains("rank \"2\" of \"2\" ranks"), "{}", outcome.stderr);
    let outcome = run("--collectives=udp://host:1");
    assert!(outcome.code != 0 && outcome.stderr.contains("expected tcp://HOST:PORT"), "{}", outcome.stderr);
    let outcome = run("--device=local-sync");
    assert!(outcome.code != 0 && outcome.stderr.contains("a channel without rank and count"), "{}", outcome.stderr);
}

#[test]
fn nccl_that_is_not_there_names_what_was_looked_for() {
    let flags = ["--device=cuda", "--cuda_driver=software", "--cuda_nccl=/no/such/libnccl.so.2"];
    let module = ["run", "--module=collectives_cuda.vmfb", "--function=sum", "--input=4xf32=1"];
    let outcome = vireo(&fixtures(), module.into_iter().chain(flags).chain(["--collectives=process://x,0,1"]));
    assert!(outcome.code != 0 && outcome.stderr.contains("/no/such/libnccl.so.2"), "{}", outcome.stderr);
}
