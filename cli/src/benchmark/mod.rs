//! `vireo benchmark`: measures how long calls of functions take.
//!
//! [`measure`] times, [`report`] writes. Names, units and the JSON are those of Google Benchmark, so that tools which read the
//! results of `iree-benchmark-module` read ours.

mod baseline;
mod measure;
mod report;

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use regex_lite::Regex;
use vireo::hal::{DispatchStatistics, ExecutionStatistics};
use vireo::inference::Function;

use crate::arguments::{BenchmarkArguments, BenchmarkFormat, MinTime, TimeUnit};
use crate::confine;
use crate::engine::{Benchmark, Linked, Session, cannot_call};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::run::{inputs, listing, print, print_aside, print_json};
use crate::statistics;
use crate::tiers;
use crate::values::Datum;
use vireo::visible_text::visible;

use baseline::Baseline;
use measure::{Plan, Repetition, Stage};
use report::Report;
pub use report::time_text;

/// Does what the flags say.
pub fn benchmark(arguments: &BenchmarkArguments) -> Result<Exit, Failure> {
    let mut out = io::stdout().lock();
    if let Some(listing) = listing(&arguments.program, &arguments.listing)? {
        return print(&mut out, &listing);
    }
    confine::check(&arguments.program)?;
    // What is wrong with it is found out before minutes of measuring.
    let baseline = arguments.baseline.as_deref().map(Baseline::read).transpose()?;
    if arguments.print_device_statistics && arguments.dispatch_statistics {
        let message = "--dispatch_statistics cannot be combined with --print_device_statistics, which counts all calls";
        return Err(Failure::new(Exit::Usage, message));
    }
    let counts = arguments.print_device_statistics || arguments.dispatch_statistics;
    let counted = counts.then(ExecutionStatistics::new);
    let dispatches = counted.as_ref().filter(|_| arguments.dispatch_statistics);
    if let Some(counted) = dispatches {
        // What is measured is not counted.
        counted.set_paused(true);
    }
    let program = Linked::load(&arguments.program, arguments.file.as_ref(), counted.as_ref())?;
    let given = given_inputs(arguments, &program)?;
    // A file that cannot be written is found out before minutes of measuring.
    let out_file = arguments.benchmark_out.as_deref().filter(|_| !arguments.benchmark_list_tests);
    let mut file = out_file.map(create).transpose()?;
    confine::confine(&arguments.program)?;
    let (session, others) = program.start()?;
    let functions = functions(arguments, &session)?;
    if arguments.benchmark_list_tests {
        let names =
            functions.iter().map(|function| visible(&report::benchmark_name(&function.signature().name)) + "\n");
        return print(&mut out, &names.collect::<String>());
    }
    let limits = arguments.program.limits();
    let inputs = functions.iter().map(|function| match Benchmark::of(function) {
        Benchmark::Dispatch if arguments.input.is_empty() => Ok(vec![Datum::I32(arguments.batch_size as i32)]),
        _ => match given.iter().find(|(name, _)| *name == function.signature().name) {
            Some((_, inputs)) => Ok(inputs.clone()),
            None => inputs(function.signature(), &arguments.input, limits),
        },
    });
    let inputs = inputs.collect::<Result<Vec<_>, _>>()?;
    let console = arguments.benchmark_format == BenchmarkFormat::Console;
    // What is measured on both tiers has one name for each.
    let sessions = match &others {
        None => vec![(&session, "")],
        Some(others) => vec![(&session, "/interp"), (&others.compiled, "/jit")],
    };
    let names = functions
        .iter()
        .flat_map(|function| sessions.iter().map(|(_, tier)| format!("{}{tier}", function.signature().name)));
    let mut report = Report::new(arguments, names.collect::<Vec<_>>().iter().map(String::as_str));
    if console {
        print(&mut out, &report.header())?;
    }
    for (function, inputs) in functions.iter().zip(inputs) {
        if others.is_some() {
            let called = tiers::call_all((&session, others.as_ref()), function, inputs.clone())?;
            called.map_err(|status| cannot_call(function, status))?;
        }
        for (session, tier) in &sessions {
            let name = &function.signature().name;
            let function = session.function(Some(name))?;
            let (repetitions, kernels) = measure(arguments, session, &function, inputs.clone(), dispatches)?;
            let unit = match Benchmark::of(&function) {
                Benchmark::Dispatch => TimeUnit::Us,
                _ => TimeUnit::Ms,
            };
            let unit = arguments.benchmark_time_unit.unwrap_or(unit);
            let mut rows = report.add(&format!("{name}{tier}"), unit, &repetitions);
            if let Some(Kernels { iterations, dispatches }) = kernels {
                if dispatches.is_empty() {
                    print_aside(&format!("warning: {}: no kernel ran on the host\n", visible(name)));
                }
                rows += &report.add_dispatches(&format!("{name}{tier}"), unit, iterations, &dispatches);
            }
            if console {
                print(&mut out, &rows)?;
            }
        }
    }
    if !console {
        let text = report.text(arguments.benchmark_format);
        match arguments.benchmark_format {
            BenchmarkFormat::Json => print_json(&mut out, &text)?,
            BenchmarkFormat::Console | BenchmarkFormat::Csv => print(&mut out, &text)?,
        };
    }
    if let Some(baseline) = &baseline {
        let comparison = baseline.compare(&report.times(), arguments.benchmark_time_unit);
        if console {
            print(&mut out, &format!("\n{comparison}"))?;
        } else {
            // Programs read stdout.
            print_aside(&comparison);
        }
    }
    if let (Some(file), Some(path)) = (&mut file, &arguments.benchmark_out) {
        let text = report.text(arguments.benchmark_out_format);
        file.write_all(text.as_bytes()).map_err(|error| unwritable(path).because(error))?;
    }
    if arguments.print_statistics {
        print_aside(&session.statistics());
    }
    if let Some(counted) = counted.filter(|_| arguments.print_device_statistics) {
        print_aside(&statistics::text(&counted));
    }
    Ok(Exit::Ok)
}

/// The inputs of the functions that the flags name, or of the only one, if there are some: they may be in files, which are read before the program
/// runs.
fn given_inputs(arguments: &BenchmarkArguments, program: &Linked) -> Result<Vec<(String, Vec<Datum>)>, Failure> {
    if arguments.input.is_empty() {
        return Ok(Vec::new());
    }
    let mut names: Vec<_> =
        arguments.function.iter().filter(|name| !name.is_empty()).map(|name| Some(&**name)).collect();
    if names.is_empty() {
        names.push(None);
    }
    let given = names.into_iter().map(|name| {
        let signature = program.signature(name)?;
        let inputs = inputs(&signature, &arguments.input, arguments.program.limits())?;
        Ok((signature.name, inputs))
    });
    given.collect()
}

fn unwritable(path: &Path) -> Failure {
    Failure::new(Exit::RunFailure, format!("cannot write to `{}`", path.display()))
}

fn create(path: &Path) -> Result<File, Failure> {
    File::create(path).map_err(|error| unwritable(path).because(error))
}

fn functions(arguments: &BenchmarkArguments, session: &Session) -> Result<Vec<Function>, Failure> {
    // An empty name is the default of the reference's tool, for none.
    let chosen = arguments.function.iter().filter(|name| !name.is_empty()).collect::<Vec<_>>();
    let mut functions = if !chosen.is_empty() {
        chosen.into_iter().map(|name| session.function(Some(name))).collect::<Result<Vec<_>, _>>()?
    } else if !arguments.input.is_empty() {
        // The inputs are for the only function there is; if there are several the failure says so.
        vec![session.function(None)?]
    } else {
        session.benchmarks()?
    };
    if functions.is_empty() {
        let failure = Failure::new(Exit::Usage, "no function is chosen, and all that are exported take arguments");
        return Err(failure.hint("use --function=NAME, and --input=VALUE for each argument"));
    }
    if let Some(pattern) = &arguments.benchmark_filter {
        let (inverted, expression) = pattern.strip_prefix('-').map_or((false, pattern.as_str()), |rest| (true, rest));
        let regex = Regex::new(expression).map_err(|error| {
            Failure::new(Exit::Usage, format!("--benchmark-filter={}: not a regular expression", visible(pattern)))
                .because(error)
        })?;
        functions.retain(|function| regex.is_match(&report::benchmark_name(&function.signature().name)) != inverted);
        if functions.is_empty() {
            return Err(Failure::new(Exit::Usage, format!("no benchmark matches `{}`", visible(pattern))));
        }
    }
    Ok(functions)
}

/// What kernels did in so many iterations.
struct Kernels {
    iterations: u64,
    dispatches: Vec<DispatchStatistics>,
}

/// Measures a function, and then once more, with its dispatches counted, if that is asked for.
fn measure(
    arguments: &BenchmarkArguments,
    session: &Session,
    function: &Function,
    inputs: Vec<Datum>,
    counted: Option<&Arc<ExecutionStatistics>>,
) -> Result<(Vec<Repetition>, Option<Kernels>), Failure> {
    let failed = |status| cannot_call(function, status);
    let mut call = session.prepare(function, inputs).map_err(failed)?;
    let plan = Plan {
        min_time: arguments.benchmark_min_time,
        warm_up: arguments.benchmark_min_warmup_time,
        repetitions: arguments.benchmark_repetitions,
        dry_run: arguments.benchmark_dry_run,
    };
    let BenchmarkArguments { batch_size, batch_concurrency, .. } = *arguments;
    // Drawn on a terminal only, and only while nothing is measured.
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    bar.set_style(ProgressStyle::with_template("{spinner} {msg}").unwrap_or_else(|_| ProgressStyle::default_spinner()));
    let name = visible(&function.signature().name);
    let mut tell = |stage| {
        bar.set_message(match stage {
            Stage::WarmUp => format!("{name}: warming up"),
            Stage::Repetition(index, iterations) => {
                format!("{name}: repetition {} of {}, {iterations} iterations", index + 1, plan.repetitions)
            }
        });
        bar.tick();
    };
    let mut run = |plan: &Plan, tell: &mut dyn FnMut(Stage)| {
        if function.signature().is_async {
            let size = batch_size.next_multiple_of(batch_concurrency);
            return measure::measure(plan, size.into(), tell, |watch| {
                watch.pause();
                let mut batch = call.batch(size as usize, batch_concurrency as usize)?;
                watch.resume();
                let result = batch.run();
                watch.pause();
                drop(batch);
                watch.resume();
                result
            });
        }
        // One call runs a dispatch as often as its argument says.
        let calls = if Benchmark::of(function) == Benchmark::Dispatch { batch_size } else { 1 };
        measure::measure(plan, calls.into(), tell, |_| call.run())
    };
    let repetitions = run(&plan, &mut tell).map_err(failed)?;
    let kernels = counted.zip(repetitions.first()).map(|(counted, first)| {
        let plan =
            Plan { min_time: MinTime::Iterations(first.iterations), warm_up: 0.0, repetitions: 1, dry_run: false };
        let again = run(&plan, &mut |stage| {
            // The first call is not counted.
            if matches!(stage, Stage::Repetition(..)) {
                counted.reset();
                counted.set_paused(false);
            }
        });
        counted.set_paused(true);
        let iterations = again.map_err(failed)?.iter().map(|repetition| repetition.iterations).sum();
        Ok(Kernels { iterations, dispatches: counted.dispatches() })
    });
    bar.finish_and_clear();
    Ok((repetitions, kernels.transpose()?))
}
