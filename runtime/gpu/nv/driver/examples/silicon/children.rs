//! The parts that are programs of their own: the device suite, the command, programs in C and in Python.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};
use vireo_core::status::{Result, Status};

use crate::{Request, skipped};

fn failed(what: &Path, error: &std::io::Error) -> Status {
    Status::internal(format!("{}: {error}", what.display()))
}

fn output(command: &mut Command) -> Result<Output> {
    let program = PathBuf::from(command.get_program());
    command.output().map_err(|error| failed(&program, &error))
}

/// The end of what a program said, for the results.
fn end_of(output: &Output) -> String {
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    let text = String::from_utf8_lossy(&text).trim().to_string();
    let start = text.char_indices().rev().nth(3000).map_or(0, |(at, _)| at);
    text[start..].to_string()
}

/// The device suite, with streams and with graphs.
pub fn conform(request: &Request) -> Result<Value> {
    // A short run takes the groups that say most.
    let filter: &[&str] = if request.short { &["dispatches::", "commands::", "times::"] } else { &[] };
    let graphs = if request.short { "20" } else { "400" };
    suite(request, &["", "graphs=always,streams=2", "pools=off"], filter, &[("VIREO_GRAPHS", graphs)])
}

/// Random graphs of operations on four streams.
pub fn order(request: &Request) -> Result<Value> {
    let graphs = if request.short { "40" } else { "20000" };
    suite(request, &["streams=4", "streams=4,graphs=always"], &["graphs::"], &[("VIREO_GRAPHS", graphs)])
}

/// Runs the device suite with each of the parameters.
fn suite(request: &Request, all: &[&str], filter: &[&str], variables: &[(&str, &str)]) -> Result<Value> {
    let program = request.tools.join("device_suite");
    if !program.exists() {
        return Ok(skipped(format!("there is no {}", program.display())));
    }
    let (mut runs, mut passed, mut fails) = (Vec::new(), 0, 0);
    for params in all {
        let mut command = Command::new(&program);
        command.args(["--test-threads=4"]).args(filter).envs(variables.iter().copied());
        command.env("VIREO_CUDA_LIBRARY", &request.library).env("VIREO_CUDA_PARAMS", params);
        let output = output(&mut command)?;
        let text = String::from_utf8_lossy(&output.stdout);
        let result = text.lines().rfind(|line| line.starts_with("test result: ")).unwrap_or("the suite ended early");
        let number = |word: &str| -> u64 {
            let before = result.split(word).next().unwrap_or_default().trim_end();
            before.rsplit(' ').next().and_then(|number| number.parse().ok()).unwrap_or(0)
        };
        let ok = output.status.success();
        passed += number("passed");
        fails += if ok { 0 } else { number("failed").max(1) };
        let failures: Vec<&str> =
            text.lines().filter_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... FAILED")).collect();
        let said = if ok { String::new() } else { end_of(&output) };
        runs.push(json!({"params": params, "result": result, "failures": failures, "said": said}));
    }
    let outcome = if fails == 0 { "passed" } else { "failed" };
    Ok(json!({"outcome": outcome, "summary": format!("{passed} passed, {fails} failed"), "runs": runs}))
}

/// Compiled programs with inputs and expected results, by the command, with each set of flags. `corpus/programs.json`
/// lists them.
pub fn corpus(request: &Request) -> Result<Value> {
    let (program, folder) = (request.tools.join("vireo"), request.tools.join("corpus"));
    let list = folder.join("programs.json");
    if !program.exists() || !list.exists() {
        return Ok(skipped(format!("there is no {} or no {}", program.display(), list.display())));
    }
    let text = std::fs::read_to_string(&list).map_err(|error| failed(&list, &error))?;
    let all: Value = serde_json::from_str(&text).map_err(|error| Status::invalid_argument(error.to_string()))?;
    let (mut wrong, mut ran) = (Vec::new(), 0);
    for one in all.as_array().into_iter().flatten() {
        let words = |key: &str| one[key].as_array().into_iter().flatten().filter_map(Value::as_str);
        for flags in [&[][..], &["--cuda_use_graphs=always"], &["--cuda_async_allocations=false"]] {
            let mut command = Command::new(&program);
            command.current_dir(&folder).args(["run", "--device=cuda"]).args(flags).args(words("flags"));
            command.arg(format!("--cuda_driver={}", request.library.display()));
            command.arg(format!("--module={}", one["module"].as_str().unwrap_or_default()));
            command.arg(format!("--function={}", one["function"].as_str().unwrap_or_default()));
            command.args(words("inputs").map(|input| format!("--input={input}")));
            command.args(words("expected").map(|expected| format!("--expected_output={expected}")));
            let output = output(&mut command)?;
            ran += 1;
            if !output.status.success() {
                wrong.push(json!({"program": one["name"], "flags": flags, "said": end_of(&output)}));
            }
        }
    }
    let outcome = if wrong.is_empty() { "passed" } else { "failed" };
    let summary = format!("{} of {ran} runs as expected", ran - wrong.len());
    Ok(json!({"outcome": outcome, "summary": summary, "failures": wrong}))
}

/// A program in C over `libnccl.so.2`.
pub fn nccl(request: &Request) -> Result<Value> {
    let program = request.tools.join("nccl_probe");
    if !program.exists() {
        return Ok(skipped(format!("there is no {}", program.display())));
    }
    let output = output(Command::new(&program).arg(&request.library))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let last = text.lines().last().unwrap_or_default();
    if let Some(why) = last.strip_prefix("skipped: ") {
        return Ok(skipped(why));
    }
    let outcome = if output.status.success() { "passed" } else { "failed" };
    Ok(json!({"outcome": outcome, "summary": last, "said": end_of(&output)}))
}

/// Programs in Python, where their packages are installed.
pub fn clients(request: &Request) -> Result<Value> {
    let python = std::env::var("PYTHON").unwrap_or_else(|_| "python3".to_string());
    let folder = if request.library.is_dir() {
        request.library.clone()
    } else {
        request.library.parent().unwrap_or(Path::new(".")).into()
    };
    let (mut runs, mut wrong, mut ran) = (Vec::new(), 0, 0);
    for (package, script) in [("tinygrad", "tinygrad_client.py"), ("numba.cuda", "numba_client.py")] {
        let path = request.tools.join("clients").join(script);
        let is_there = Command::new(&python).args(["-c", &format!("import {package}")]).output();
        if !path.exists() || !is_there.is_ok_and(|output| output.status.success()) {
            runs.push(
                json!({"client": script, "outcome": "skipped", "why": format!("{python} has no package {package}")}),
            );
            continue;
        }
        if request.short {
            runs.push(json!({"client": script, "outcome": "skipped", "why": "a short run has no clients"}));
            continue;
        }
        let mut command = Command::new(&python);
        command.arg(&path).env("DEV", "CUDA:PTX").env("LD_LIBRARY_PATH", &folder);
        let output = output(&mut command)?;
        let ok = output.status.success();
        ran += 1;
        wrong += u32::from(!ok);
        runs.push(json!({"client": script, "outcome": if ok { "passed" } else { "failed" }, "said": end_of(&output)}));
    }
    if ran == 0 {
        let why: Vec<&str> = runs.iter().filter_map(|run| run["why"].as_str()).collect();
        return Ok(json!({"outcome": "skipped", "why": why.join("; "), "runs": runs}));
    }
    let outcome = if wrong == 0 { "passed" } else { "failed" };
    Ok(json!({"outcome": outcome, "summary": format!("{} of {ran} passed", ran - wrong), "runs": runs}))
}
