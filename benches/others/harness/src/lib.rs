//! The harness of the comparisons: times the programs of `fixtures/bench`, or those of a file, on several runtimes,
//! with the flags and the JSON of Google Benchmark that `benches/measure.py` uses.
//!
//! `COMMAND --function=fib --input=25 --benchmark_min_time=0.1s --benchmark_repetitions=3`; without
//! `--benchmark_min_time` the command prints the result. `--module=FILE` names a file of the command's own kind; a
//! `.vmfb` stands for the programs of `fixtures/bench`.

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use rustix::time::{ClockId, clock_gettime};

/// Why there is no time.
pub type Error = Box<dyn std::error::Error>;

/// The answer of a program.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Answer {
    /// It has no result.
    Nothing,
    /// An integer.
    I32(i32),
    /// A float.
    F32(f32),
}

/// Calls a program.
pub type Call = Box<dyn FnMut() -> Result<Answer, Error>>;

/// Most calls of a repetition.
const MAX_CALLS: u64 = 1_000_000_000;

/// The program to run.
#[derive(Default)]
pub struct Program {
    /// The file of `--module`.
    pub file: Option<PathBuf>,
    /// Its name.
    pub function: String,
    /// Its argument.
    pub input: Option<i32>,
}

impl Program {
    /// The file that has it, on a runtime that does not run modules of Vireo; none for the programs of
    /// `fixtures/bench`.
    pub fn module(&self) -> Option<&Path> {
        self.file.as_deref().filter(|file| file.extension().is_none_or(|kind| kind != "vmfb"))
    }
}

#[derive(Default)]
struct Flags {
    program: Program,
    seconds: Option<f64>,
    repetitions: u32,
}

fn flags(arguments: impl Iterator<Item = String>) -> Result<Flags, Error> {
    let mut flags = Flags { repetitions: 1, ..Flags::default() };
    for argument in arguments {
        let (name, value) =
            argument.split_once('=').ok_or_else(|| format!("expected --name=value, found {argument}"))?;
        match name {
            "--function" => flags.program.function = value.to_string(),
            "--input" => flags.program.input = Some(value.parse()?),
            "--module" => flags.program.file = Some(value.into()),
            "--benchmark_min_time" => flags.seconds = Some(value.trim_end_matches('s').parse()?),
            "--benchmark_repetitions" => flags.repetitions = value.parse()?,
            // There is one format.
            "--benchmark_format" => {}
            _ => return Err(format!("unknown flag {name}").into()),
        }
    }
    Ok(flags)
}

/// Seconds that this thread has run, and seconds on the wall.
fn now() -> (f64, f64) {
    let seconds = |clock| {
        let time = clock_gettime(clock);
        time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
    };
    (seconds(ClockId::ThreadCPUTime), seconds(ClockId::Monotonic))
}

/// Nanoseconds of a call, of the processor and on the wall.
fn repeat(call: &mut Call, calls: u64) -> Result<(f64, f64), Error> {
    let start = now();
    for _ in 0..calls {
        black_box(call()?);
    }
    let end = now();
    let each = |elapsed: f64| elapsed * 1e9 / calls as f64;
    Ok((each(end.0 - start.0), each(end.1 - start.1)))
}

fn run(engine: &str, load: impl FnOnce(&Program) -> Result<Call, Error>) -> Result<(), Error> {
    let flags = flags(std::env::args().skip(1))?;
    let mut call = load(&flags.program)?;
    let Some(seconds) = flags.seconds else {
        println!("{:?}", call()?);
        return Ok(());
    };
    // As Google Benchmark does: the number of calls grows until they take long enough.
    let mut calls = 1_u64;
    let mut times = loop {
        let times = repeat(&mut call, calls)?;
        let elapsed = times.0 * 1e-9 * calls as f64;
        if elapsed >= seconds || calls >= MAX_CALLS {
            break vec![times];
        }
        let growth = if elapsed * 10.0 > seconds { 1.4 * seconds / elapsed } else { 10.0 };
        calls = ((calls as f64 * growth).ceil() as u64).clamp(calls + 1, MAX_CALLS);
    };
    for _ in 1..flags.repetitions {
        times.push(repeat(&mut call, calls)?);
    }
    let benchmarks = times.iter().map(|(cpu, real)| {
        serde_json::json!({
            "name": flags.program.function, "run_type": "iteration", "iterations": calls,
            "real_time": real, "cpu_time": cpu, "time_unit": "ns",
        })
    });
    let benchmarks: Vec<_> = benchmarks.collect();
    println!("{}", serde_json::json!({ "context": { "engine": engine }, "benchmarks": benchmarks }));
    Ok(())
}

/// The command: `engine` says what runs the programs, and `load` finds one and what it is called with.
pub fn command(engine: &str, load: impl FnOnce(&Program) -> Result<Call, Error>) -> ExitCode {
    match run(engine, load) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_those_of_google_benchmark() {
        let parse = |texts: &[&str]| flags(texts.iter().map(ToString::to_string));
        let some = parse(&["--function=fib", "--input=25", "--benchmark_min_time=0.5s", "--benchmark_repetitions=3"]);
        let some = some.unwrap();
        assert_eq!(
            (some.program.function.as_str(), some.program.input, some.seconds, some.repetitions),
            ("fib", Some(25), Some(0.5), 3)
        );
        let module = |text| parse(&[text]).unwrap().program.module().map(PathBuf::from);
        assert_eq!(module("--module=a/b.wat"), Some(PathBuf::from("a/b.wat")));
        assert_eq!(module("--module=fixtures/bench/vm.vmfb"), None);
        assert!(parse(&["--unknown=1"]).is_err() && parse(&["fib"]).is_err());
    }
}
