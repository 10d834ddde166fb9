//! `vireo benchmark`: measures how long calls of functions take.
//!
//! [`measure`] times, [`report`] writes. Names, units and the JSON are those of Google Benchmark, so that tools which read the
//! results of `iree-benchmark-module` read ours.

mod measure;
mod report;

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use crate::arguments::{BenchmarkArguments, BenchmarkFormat};
use crate::engine::{Function, Session};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::run::{inputs, print};
use crate::values::Datum;

use measure::{Plan, Repetition};
use report::Report;

/// Does what the flags say.
pub fn benchmark(arguments: &BenchmarkArguments) -> Result<Exit, Failure> {
    if let Some(topologies) = arguments.program.devices.task.dump()? {
        return print(&mut io::stdout(), &topologies);
    }
    let session = Session::load(&arguments.program)?;
    let functions = functions(arguments, &session)?;
    let limits = arguments.program.limits();
    let inputs = functions.iter().map(|function| inputs(function, &arguments.input, limits));
    let inputs = inputs.collect::<Result<Vec<_>, _>>()?;
    // A file that cannot be written is found out before minutes of measuring.
    let mut file = arguments.benchmark_out.as_deref().map(create).transpose()?;
    let mut out = io::stdout().lock();
    let console = arguments.benchmark_format == BenchmarkFormat::Console;
    let mut report = Report::new(arguments, functions.iter().map(|function| function.name.as_str()));
    if console {
        print(&mut out, &report.header())?;
    }
    for (function, inputs) in functions.iter().zip(inputs) {
        let repetitions = measure(arguments, &session, function, inputs)?;
        let rows = report.add(&function.name, &repetitions);
        if console {
            print(&mut out, &rows)?;
        }
    }
    let json = report.json();
    if !console {
        print(&mut out, &json)?;
    }
    if let (Some(file), Some(path)) = (&mut file, &arguments.benchmark_out) {
        file.write_all(json.as_bytes()).map_err(|error| unwritable(path).because(error))?;
    }
    Ok(Exit::Ok)
}

fn unwritable(path: &Path) -> Failure {
    Failure::new(Exit::RunFailure, format!("cannot write to `{}`", path.display()))
}

fn create(path: &Path) -> Result<File, Failure> {
    File::create(path).map_err(|error| unwritable(path).because(error))
}

fn functions(arguments: &BenchmarkArguments, session: &Session) -> Result<Vec<Function>, Failure> {
    if !arguments.function.is_empty() {
        return arguments.function.iter().map(|name| session.function(Some(name))).collect();
    }
    if !arguments.input.is_empty() {
        // The inputs are for the only function there is; if there are several the failure says so.
        return Ok(vec![session.function(None)?]);
    }
    let functions = session.functions_without_arguments()?;
    if functions.is_empty() {
        let failure = Failure::new(Exit::Usage, "no function is chosen, and all that are exported take arguments");
        return Err(failure.hint("use --function=NAME, and --input=VALUE for each argument"));
    }
    Ok(functions)
}

fn measure(
    arguments: &BenchmarkArguments,
    session: &Session,
    function: &Function,
    inputs: Vec<Datum>,
) -> Result<Vec<Repetition>, Failure> {
    let failed = |status| {
        function.explain(Failure::new(Exit::RunFailure, format!("calling @{}", function.name)).because(status))
    };
    let inputs = session.arguments(inputs).map_err(failed)?;
    let plan = Plan {
        min_time: arguments.benchmark_min_time,
        warm_up: arguments.benchmark_min_warmup_time,
        repetitions: arguments.benchmark_repetitions,
    };
    let iteration = || (0..arguments.batch_size).try_for_each(|_| session.call(function, &inputs).map(drop));
    measure::measure(&plan, iteration).map_err(failed)
}
