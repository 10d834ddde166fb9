//! Runs the models of `fixtures/models` with programs of a target, and compares what they print with the reference
//! runtime's output.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use serde_json::Value;

use super::outcome::Outcome;
use super::programs::{Output, output, started};
use super::targets::Target;
use crate::chore::workspace;

/// The package of the example, and its program.
pub const ANYWHERE: &str = "vireo-anywhere";
/// The package of the command, and its program.
pub const COMMAND: (&str, &str) = ("vireo-cli", "vireo");

/// The folder of the models, in the workspace.
const MODELS: &str = "fixtures/models";

/// A call that the reference runtime has answered.
struct Case<'a> {
    name: &'a str,
    file: &'a str,
    function: &'a str,
    inputs: Vec<&'a str>,
    expected: &'a str,
}

/// A command that runs a case, and what tells it from others of the case.
struct Job<'a> {
    case: &'a Case<'a>,
    how: &'a str,
    command: Command,
}

/// Runs the cases whose inputs `examples/anywhere` can read.
pub fn run_example(target: &Target, runner: &[String]) -> Result<Outcome, String> {
    let manifest = manifest()?;
    let readable = |case: &Case<'_>| {
        !case.inputs.is_empty() && case.inputs.iter().all(|input| input.contains("xf32=") && !input.contains("nan"))
    };
    let cases: Vec<Case<'_>> = cases(&manifest, target).into_iter().filter(readable).collect();
    let program = program(target, ANYWHERE);
    // Programs in WebAssembly see the folder that their host is told as the root.
    let sees: &[&str] = if target.suffix == ".wasm" { &["."] } else { &[] };
    let jobs = cases.iter().map(|case| {
        let file = format!("{MODELS}/{}", case.file);
        let mut command = started(runner, &program);
        command.current_dir(workspace()).args(sees).args([&file, case.function]).args(&case.inputs);
        Job { case, how: "", command }
    });
    let how = runner.first().map_or(String::new(), |runner| format!(" in {}", name_of(runner)));
    let what = format!("{ANYWHERE}{how}");
    let wrong = wrong(target, &what, jobs.collect());
    outcome(cases.len(), &what, wrong)
}

/// Runs all cases with `vireo run`, on the devices with and without workers.
pub fn run_command(target: &Target, runner: &[String]) -> Result<Outcome, String> {
    let manifest = manifest()?;
    let (cases, program) = (&cases(&manifest, target), &program(target, COMMAND.1));
    const DEVICES: [&str; 2] = ["local-sync", "local-task"];
    let jobs = DEVICES.iter().flat_map(|device| {
        cases.iter().map(move |case| {
            let mut command = started(runner, program);
            command.current_dir(workspace().join(MODELS)).arg("run").arg(format!("--device={device}"));
            command.arg(format!("--module={}", case.file)).arg(format!("--function={}", case.function));
            command.args(case.inputs.iter().map(|input| format!("--input={input}")));
            Job { case, how: device, command }
        })
    });
    let wrong = wrong(target, COMMAND.1, jobs.collect());
    outcome(cases.len(), &format!("{} on {}", COMMAND.1, DEVICES.join(" and ")), wrong)
}

/// The wrong outputs of jobs. There is a line for each as it ends, since emulators take minutes for all of them;
/// several run at a time, since they wait more than they compute while they start.
fn wrong(target: &Target, what: &str, jobs: Vec<Job<'_>>) -> Vec<String> {
    let total = jobs.len();
    let jobs = Mutex::new(jobs.into_iter().enumerate());
    let ended = Mutex::new((0, Vec::new()));
    let work = || {
        loop {
            // The lock is not held while the job runs.
            let next = locked(&jobs).next();
            let Some((index, mut job)) = next else { return };
            let start = Instant::now();
            let problem = compare(target, &mut job);
            let mut ended = locked(&ended);
            ended.0 += 1;
            let verdict = if problem.is_some() { ", WRONG" } else { "" };
            let (Job { case, how, .. }, seconds) = (job, start.elapsed().as_secs_f64());
            eprintln!("{}: {what}: {} of {total}: {} {how} ({seconds:.1} s{verdict})", target.name, ended.0, case.name);
            ended.1.extend(problem.map(|problem| (index, problem)));
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    let (_, mut wrong) = ended.into_inner().unwrap_or_else(PoisonError::into_inner);
    wrong.sort();
    wrong.into_iter().map(|(_, problem)| problem).collect()
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn manifest() -> Result<Value, String> {
    let file = workspace().join(MODELS).join("manifest.json");
    let text = std::fs::read(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    serde_json::from_slice(&text).map_err(|error| format!("{}: {error}", file.display()))
}

/// The cases of one call that succeeds, whose kernels the target runs and whose results do not depend on library
/// functions.
fn cases<'a>(manifest: &'a Value, target: &Target) -> Vec<Case<'a>> {
    let all = manifest["cases"].as_array().into_iter().flatten();
    let chosen = all.filter_map(|case| {
        let module = &manifest["modules"][case["module"].as_str()?];
        let [call] = case["calls"].as_array()?.as_slice() else { return None };
        let runs = target.processors.iter().any(|processor| module["cpu"] == **processor);
        if !runs
            || !has_features(module["cpu"].as_str()?)
            || module.get("units").is_some()
            || call.get("error").is_some()
        {
            return None;
        }
        let inputs = call["inputs"].as_array()?.iter().map(Value::as_str).collect::<Option<_>>()?;
        Some(Case {
            name: case["name"].as_str()?,
            file: module["file"].as_str()?,
            function: call["function"].as_str()?,
            inputs,
            expected: call["stdout"].as_str()?,
        })
    });
    chosen.collect()
}

/// Whether this processor, which runs programs of its own kind directly, has the features that kernels were compiled
/// for.
fn has_features(processor: &str) -> bool {
    #[cfg(target_arch = "x86_64")]
    if processor == "x86-64-v3" {
        return is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("bmi2");
    }
    processor != "x86-64-v3"
}

/// Where cargo puts a program of a target.
pub fn program(target: &Target, name: &str) -> PathBuf {
    crate::chore::target().join(target.name).join("debug").join(format!("{name}{}", target.suffix))
}

fn name_of(program: &str) -> String {
    Path::new(program).file_name().map_or_else(|| program.to_string(), |name| name.to_string_lossy().into_owned())
}

/// The difference of the output of a job's command from the expected one.
fn compare(target: &Target, job: &mut Job<'_>) -> Option<String> {
    let Job { case: Case { name, expected, .. }, how, command } = job;
    let output = match output(command) {
        Ok(output) => output,
        Err(error) => return Some(format!("{name} {how}: {error}")),
    };
    let same = if target.nans_as_recorded {
        output.stdout == *expected
    } else {
        let unsigned = |text: &str| text.replace("-NAN", "NAN");
        unsigned(&output.stdout) == unsigned(expected)
    };
    if same && output.status.success() {
        return None;
    }
    let Output { status, stdout, stderr } = output;
    Some(format!("{name} {how}: {status}, printed\n{stdout}{stderr}expected\n{expected}"))
}

fn outcome(cases: usize, what: &str, wrong: Vec<String>) -> Result<Outcome, String> {
    Ok(if cases == 0 {
        Outcome::Failed(format!("{what}: no case of {MODELS} ran"))
    } else if wrong.is_empty() {
        Outcome::Passed(format!("{what}: {cases} cases answer as the reference runtime does"))
    } else {
        Outcome::Failed(format!("{what}:\n{}", wrong.join("\n")))
    })
}
