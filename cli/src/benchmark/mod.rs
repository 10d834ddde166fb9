//! `vireo benchmark`: measures how long calls of functions take.
//!
//! [`measure`] times, [`report`] writes. Names, units and the JSON are those of Google Benchmark, so that tools which
//! read the results of `iree-benchmark-module` read ours.

mod baseline;
mod check;
mod load;
pub mod measure;
pub mod report;
mod time_text;

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anstream::AutoStream;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use regex_lite::Regex;
use vireo::hal::{DispatchStatistics, ExecutionStatistics};
use vireo::inference::{Function, PreparedCall};

use crate::arguments::{BenchmarkArguments, BenchmarkFormat, Color, MinTime, TierChoice, TimeUnit};
use crate::confine;
use crate::device_profile::DeviceProfile;
use crate::engine::{Benchmark, Linked, Session, cannot_call};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::print::{print, print_aside, print_json, print_styled};
use crate::recording;
use crate::run::{CALL, inputs, listing};
use crate::statistics;
use crate::styles::{bold, changes};
use crate::tiers;
use crate::values::Datum;
use vireo::visible_text::{visible, visible_lines};

use baseline::Baseline;
use check::Checked;
use measure::{Plan, Repetition, Stage};
use report::Report;
pub use time_text::time_text;

/// Does what the flags say.
pub fn benchmark(arguments: &BenchmarkArguments, color: Color) -> Result<Exit, Failure> {
    let profile = DeviceProfile::create(&arguments.profiling)?;
    if profile.is_some() && (arguments.print_device_statistics || arguments.dispatch_statistics) {
        let message =
            "--device_profiling_output cannot be combined with --print_device_statistics or --dispatch_statistics";
        return Err(Failure::new(Exit::Usage, message));
    }
    let exit = measure_all(arguments, color, profile.as_ref());
    let profiled = profile.map_or(Ok(()), DeviceProfile::finish);
    let exit = exit?;
    profiled?;
    Ok(exit)
}

fn measure_all(arguments: &BenchmarkArguments, color: Color, profile: Option<&DeviceProfile>) -> Result<Exit, Failure> {
    let color = if arguments.benchmark_color == Color::Auto { color } else { arguments.benchmark_color };
    let mut out = AutoStream::new(io::stdout(), color.choice()).lock();
    if let Some(listing) = listing(&arguments.program, &arguments.listing)? {
        return print(&mut out, &listing);
    }
    confine::check(&arguments.program)?;
    // A faulty baseline is found before minutes of measuring.
    let (other, report) = match &arguments.baseline {
        Some(path) if baseline::is_module(path) => (Some(path), None),
        path => (None, path.as_deref()),
    };
    let mut baseline = report.map(Baseline::read).transpose()?;
    if other.is_some() && arguments.program.tier == TierChoice::Both {
        return Err(Failure::new(
            Exit::Usage,
            "--tier=both compares two tiers, and --baseline two modules: expected one of them",
        ));
    }
    if arguments.print_device_statistics && arguments.dispatch_statistics {
        let message = "--dispatch_statistics cannot be combined with --print_device_statistics, which counts all calls";
        return Err(Failure::new(Exit::Usage, message));
    }
    let counts = arguments.print_device_statistics || arguments.dispatch_statistics;
    let counted = counts.then(ExecutionStatistics::new);
    let dispatches = counted.as_ref().filter(|_| arguments.dispatch_statistics);
    if let Some(counted) = dispatches {
        // The measured repetitions are not counted: another one is made for that.
        counted.set_paused(true);
    }
    let program = Linked::load(&arguments.program, arguments.file.as_ref(), counted.as_ref(), profile)?;
    let other = other.map(|path| Linked::load_other(&arguments.program, arguments.file.as_ref(), path)).transpose()?;
    let given = given_inputs(arguments, &program)?;
    let mut checked = Checked::read(arguments, &program)?;
    // A file that cannot be written is found out before minutes of measuring.
    let out_file = arguments.benchmark_out.as_deref().filter(|_| !arguments.benchmark_list_tests);
    let mut file = out_file.map(create).transpose()?;
    confine::confine(&arguments.program)?;
    let (session, others) = recording::scope("init", || program.start())?;
    let other = other.map(Linked::start).transpose()?.map(|(session, _)| session);
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
    let console = arguments.format == BenchmarkFormat::Console;
    if checked.is_some() && functions.len() > 1 {
        let message = "--output and --expected_output are for one function, and several are measured";
        return Err(Failure::new(Exit::Usage, message).hint("use --function=NAME"));
    }
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    if let Some(warning) =
        load::warning(&load::averages(), processors).filter(|_| console && !arguments.benchmark_dry_run)
    {
        print_aside(&warning);
    }
    // A function that is measured on both tiers has one name for each.
    let sessions = match &others {
        None => vec![(&session, "")],
        Some(others) => vec![(&session, "/interp"), (&others.compiled, "/jit")],
    };
    let names = functions
        .iter()
        .flat_map(|function| sessions.iter().map(|(_, tier)| format!("{}{tier}", function.signature().name)));
    let mut report = Report::new(arguments, names.collect::<Vec<_>>().iter().map(String::as_str));
    let mut other_report = Report::new(arguments, std::iter::empty());
    if let Some(checked) = checked.take()
        && let (Some(function), Some(inputs)) = (functions.first(), inputs.first())
        && !checked.check(arguments, (&session, others.as_ref()), function, inputs.clone(), &mut out)?
    {
        return Ok(Exit::Mismatch);
    }
    if console {
        print_styled(&mut out, &bold(&report.header()))?;
    }
    for (function, inputs) in functions.iter().zip(inputs) {
        if others.is_some() {
            let called = tiers::call_all((&session, others.as_ref()), function, inputs.clone())?;
            called.map_err(|status| cannot_call(function, status))?;
        }
        for (session, tier) in &sessions {
            let name = &function.signature().name;
            let function = session.function(Some(name))?;
            let beside = match &other {
                Some(other) => {
                    let function = other.function(Some(name))?;
                    // The arguments were read for the program, and the other one has to take the same.
                    Some((other, function))
                }
                None => None,
            };
            let Measured { repetitions, others, times, kernels } =
                measure(arguments, session, &function, inputs.clone(), dispatches, beside.as_ref())?;
            let unit = match Benchmark::of(&function) {
                Benchmark::Dispatch => TimeUnit::Us,
                _ => TimeUnit::Ms,
            };
            let unit = arguments.benchmark_time_unit.unwrap_or(unit);
            let mut rows = report.add(&format!("{name}{tier}"), unit, &repetitions);
            rows += &report.add_percentiles(&format!("{name}{tier}"), unit, &times);
            if beside.is_some() {
                other_report.add(&format!("{name}{tier}"), unit, &others);
            }
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
    if let (Some(file), Some(path)) = (&mut file, &arguments.benchmark_out) {
        let text = report.text(arguments.benchmark_out_format);
        file.write_all(text.as_bytes()).map_err(|error| unwritable(path).because(error))?;
    }
    if !console {
        let text = report.text(arguments.format);
        match arguments.format {
            BenchmarkFormat::Json => print_json(&mut out, &text)?,
            BenchmarkFormat::Console | BenchmarkFormat::Csv | BenchmarkFormat::Markdown => print(&mut out, &text)?,
        };
    }
    if other.is_some() {
        baseline = Some(Baseline::of(other_report.times()));
    }
    if let Some(baseline) = &baseline {
        let comparison = baseline.compare(&report.times(), arguments.benchmark_time_unit);
        if console {
            print_styled(&mut out, &changes(&format!("\n{}", visible_lines(&comparison))))?;
        } else {
            // Programs read stdout.
            print_aside(&comparison);
        }
    }
    if arguments.print_statistics {
        print_aside(&session.statistics());
    }
    if let Some(counted) = counted.filter(|_| arguments.print_device_statistics) {
        print_aside(&statistics::text(&counted));
    }
    Ok(Exit::Ok)
}

/// The inputs of the functions that the flags name, or of the only one, if there are some: they may be in files, which
/// are read before the program runs.
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

/// The dispatches of kernels in so many iterations.
struct Kernels {
    iterations: u64,
    dispatches: Vec<DispatchStatistics>,
}

/// The measurements of a function.
struct Measured {
    repetitions: Vec<Repetition>,
    /// Those of the other module.
    others: Vec<Repetition>,
    /// Seconds of single calls, if they were asked for.
    times: Vec<f64>,
    kernels: Option<Kernels>,
}

/// Calls that are timed one by one at most.
const MOST_SINGLE_CALLS: u64 = 10_000;

/// Measures a function, and then once more, with its dispatches counted or calls timed one by one, if that is asked
/// for. Repetitions alternate with those of the function `beside`, so that what disturbs the machine disturbs both.
fn measure(
    arguments: &BenchmarkArguments,
    session: &Session,
    function: &Function,
    inputs: Vec<Datum>,
    counted: Option<&Arc<ExecutionStatistics>>,
    beside: Option<&(&Session, Function)>,
) -> Result<Measured, Failure> {
    let failed = |status| cannot_call(function, status);
    let mut other = match beside {
        Some((other, function)) => {
            let call = other.prepare(function, inputs.clone());
            Some((call.map_err(|status| cannot_call(function, status))?, function))
        }
        None => None,
    };
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
    let run = |call: &mut PreparedCall,
               function: &Function,
               plan: &Plan,
               tell: &mut dyn FnMut(Stage),
               times: Option<&RefCell<Vec<f64>>>| {
        if function.signature().is_async {
            let size = batch_size.next_multiple_of(batch_concurrency);
            return measure::measure(plan, size.into(), tell, |watch| {
                watch.pause();
                let mut batch = call.batch(size as usize, batch_concurrency as usize)?;
                watch.resume();
                let start = Instant::now();
                let result = recording::scope(CALL, || batch.run());
                note(times, start, size);
                watch.pause();
                drop(batch);
                watch.resume();
                result
            });
        }
        // One call runs a dispatch as often as its argument says.
        let calls = if Benchmark::of(function) == Benchmark::Dispatch { batch_size } else { 1 };
        measure::measure(plan, calls.into(), tell, |_| {
            let start = times.map(|_| Instant::now());
            recording::scope(CALL, || call.run())?;
            if let Some(start) = start {
                note(times, start, calls);
            }
            Ok(())
        })
    };
    let (mut repetitions, mut others) = (Vec::new(), Vec::new());
    match &mut other {
        None => repetitions = run(&mut call, function, &plan, &mut tell, None).map_err(failed)?,
        Some((other, beside)) => {
            let mut once = Plan { repetitions: 1, ..plan };
            let mut once_beside = once;
            for _ in 0..plan.repetitions {
                repetitions.extend(run(&mut call, function, &once, &mut tell, None).map_err(failed)?);
                let measured = run(other, beside, &once_beside, &mut tell, None);
                others.extend(measured.map_err(|status| cannot_call(beside, status))?);
                // Later repetitions have as many iterations as the first one needed.
                let iterations =
                    |of: &[Repetition]| MinTime::Iterations(of.first().map_or(1, |first| first.iterations));
                (once.min_time, once_beside.min_time) = (iterations(&repetitions), iterations(&others));
                (once.warm_up, once_beside.warm_up) = (0.0, 0.0);
            }
        }
    }
    let times = RefCell::new(Vec::new());
    if let Some(first) = repetitions.first().filter(|_| arguments.percentiles && !arguments.benchmark_dry_run) {
        let iterations = MinTime::Iterations(first.iterations.min(MOST_SINGLE_CALLS));
        let again = Plan { min_time: iterations, warm_up: 0.0, repetitions: 1, dry_run: false };
        let mut begins = |stage| {
            // The first call is slower.
            if matches!(stage, Stage::Repetition(..)) {
                times.borrow_mut().clear();
            }
        };
        run(&mut call, function, &again, &mut begins, Some(&times)).map_err(failed)?;
    }
    let kernels = counted.zip(repetitions.first()).map(|(counted, first)| {
        let plan =
            Plan { min_time: MinTime::Iterations(first.iterations), warm_up: 0.0, repetitions: 1, dry_run: false };
        let mut begins = |stage| {
            // The first call is not counted.
            if matches!(stage, Stage::Repetition(..)) {
                counted.reset();
                counted.set_paused(false);
            }
        };
        let again = run(&mut call, function, &plan, &mut begins, None);
        counted.set_paused(true);
        let iterations = again.map_err(failed)?.iter().map(|repetition| repetition.iterations).sum();
        Ok(Kernels { iterations, dispatches: counted.dispatches() })
    });
    bar.finish_and_clear();
    Ok(Measured { repetitions, others, times: times.into_inner(), kernels: kernels.transpose()? })
}

/// Notes the time of one of so many calls since `start`.
fn note(times: Option<&RefCell<Vec<f64>>>, start: Instant, calls: u32) {
    if let Some(times) = times {
        times.borrow_mut().push(start.elapsed().as_secs_f64() / f64::from(calls));
    }
}
