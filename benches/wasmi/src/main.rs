//! Times a program of `programs.wat` on wasmi, with the flags and the JSON of Google Benchmark that `benches/compare.py` uses.
//!
//! `vireo-bench-wasmi --function=fib --input=25 --benchmark_min_time=0.1s`; without `--benchmark_min_time` it prints the result.

use std::process::ExitCode;

use rustix::time::{ClockId, clock_gettime};
use wasmi::{Engine, Linker, Module, Store, Val};

type Error = Box<dyn std::error::Error>;

#[derive(Default)]
struct Flags {
    function: String,
    input: Option<i32>,
    seconds: Option<f64>,
}

fn flags() -> Result<Flags, Error> {
    let mut flags = Flags::default();
    for argument in std::env::args().skip(1) {
        let (name, value) =
            argument.split_once('=').ok_or_else(|| format!("expected --name=value, found {argument}"))?;
        match name {
            "--function" => flags.function = value.to_string(),
            "--input" => flags.input = Some(value.parse()?),
            "--benchmark_min_time" => flags.seconds = Some(value.trim_end_matches('s').parse()?),
            // There is one module and one format.
            "--module" | "--benchmark_format" => {}
            _ => return Err(format!("unknown flag {name}").into()),
        }
    }
    Ok(flags)
}

/// Seconds that this thread has run.
fn now() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

fn run() -> Result<(), Error> {
    let flags = flags()?;
    let engine = Engine::default();
    let module = Module::new(&engine, include_str!("programs.wat"))?;
    let mut store = Store::new(&engine, ());
    let instance = Linker::new(&engine).instantiate_and_start(&mut store, &module)?;
    let function = instance.get_func(&store, &flags.function).ok_or("there is no such function")?;
    let arguments: Vec<Val> = flags.input.map(Val::I32).into_iter().collect();
    let mut results = vec![Val::I32(0); function.ty(&store).results().len()];
    let Some(seconds) = flags.seconds else {
        function.call(&mut store, &arguments, &mut results)?;
        println!("{results:?}");
        return Ok(());
    };
    // As Google Benchmark does: the number of calls grows until they take long enough.
    let mut calls = 1_u64;
    loop {
        let start = now();
        for _ in 0..calls {
            function.call(&mut store, &arguments, &mut results)?;
        }
        let elapsed = now() - start;
        if elapsed >= seconds || calls >= 1_000_000_000 {
            let time = elapsed * 1e9 / calls as f64;
            let benchmark = serde_json::json!({
                "name": flags.function, "iterations": calls, "real_time": time, "cpu_time": time, "time_unit": "ns",
            });
            println!("{}", serde_json::json!({ "benchmarks": [benchmark] }));
            return Ok(());
        }
        let growth = if elapsed * 10.0 > seconds { 1.4 * seconds / elapsed } else { 10.0 };
        calls = (calls as f64 * growth).ceil() as u64;
    }
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
