//! `vireo check`: runs the test functions of modules.
//!
//! A test is an exported function that takes nothing and returns nothing; it checks its results itself, by calling the
//! `check` module. Each test gets a context of its own, so none sees what another one left. [`filter`] picks tests,
//! [`report`] and [`junit`] write.

mod filter;
mod junit;
mod report;
mod suite;

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use anstream::AutoStream;
use vireo::inference::Signature;
use vireo::modules::check::{Collected, Collector};
use vireo::vm::Module;
use vireo::vmfb::is_for_callers;

use crate::arguments::{CheckArguments, Color, Format};
use crate::confine;
use crate::devices::flush_c_streams;
use crate::engine::{Loader, Program};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::print::{print, print_json, print_styled};
use crate::tiers;
use vireo::visible_text::visible;

use filter::Filter;
use report::Counts;
use suite::{Outcome, Suite, Test};

/// Does what the flags say.
pub fn check(arguments: &CheckArguments, color: Color) -> Result<Exit, Failure> {
    if let Some(topologies) = arguments.program.devices.task.dump()? {
        return print(&mut io::stdout(), &topologies);
    }
    confine::check(&arguments.program)?;
    let mut programs = load(arguments)?;
    if arguments.list {
        let suites = programs.iter().map(|(.., suite)| suite);
        print(&mut io::stdout(), &suites.map(Suite::list).collect::<String>())?;
        let mut tests = programs.into_iter().flat_map(|(.., suite)| suite.tests);
        return match tests.next().map(|test| test.outcome) {
            Some(Outcome::Error(failure, _)) => Err(failure),
            _ => Ok(Exit::Ok),
        };
    }
    // A confined process opens no file; otherwise this one is touched once there is something to write.
    let opened = arguments.junit.as_deref().filter(|_| confine::is_wanted(&arguments.program));
    let opened = opened.map(|path| open(path).map(|file| (path, file))).transpose()?;
    confine::confine(&arguments.program)?;
    let mut out = AutoStream::new(io::stdout(), color.choice());
    let text = arguments.format == Format::Text;
    let start = Instant::now();
    // A test that fails may take its device with it, which is no fault of those after it. A process that is confined
    // can make no other one.
    let may_link_again = !confine::is_wanted(&arguments.program);
    let (mut again, mut links) = (None, 0);
    'all: for (runs, suite) in &mut programs {
        if text {
            print_styled(&mut out, &report::header(suite))?;
        }
        let Some(runs) = runs else {
            // The failure to load it is there already.
            for test in suite.tests.iter().filter(|_| text) {
                print_styled(&mut out, &report::line(test, test.name.chars().count()))?;
            }
            if arguments.fail_fast {
                break;
            }
            continue;
        };
        let width = suite.exports.iter().map(|export| visible(&export.name).chars().count()).max().unwrap_or(0);
        for export in &suite.exports {
            if runs.links < links {
                let loader = match &again {
                    Some(loader) => loader,
                    None => again.insert(Loader::new(&arguments.program, None, None)?),
                };
                *runs = Linked { links, ..runs.again(loader)? };
            }
            let test = run(&runs.tests, runs.other.as_ref(), export);
            if may_link_again && matches!(test.outcome, Outcome::Error(..)) {
                (again, links) = (None, links + 1);
            }
            if text {
                print_styled(&mut out, &report::line(&test, width))?;
            }
            let bad = matches!(test.outcome, Outcome::Failed(_) | Outcome::Error(..));
            suite.tests.push(test);
            if bad && arguments.fail_fast {
                break 'all;
            }
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    let suites = programs.into_iter().map(|(.., suite)| suite).collect::<Vec<_>>();
    let counts = Counts::of(suites.iter().flat_map(|suite| &suite.tests));
    if text {
        print_styled(&mut out, &report::summary(counts, seconds))?;
    }
    if let Some(path) = &arguments.junit {
        let (path, file) = opened.map_or_else(|| open(path).map(|file| (path.as_path(), file)), Ok)?;
        write(path, file, &junit::junit(&suites))?;
    }
    // Last, since a failure is a document, too.
    if !text {
        print_json(&mut out, &report::json(&suites, seconds))?;
    }
    verdict(&suites, counts, arguments)
}

/// A program of tests, and what they find.
struct Tests {
    program: Program,
    collector: Collector,
}

/// A program and the same for machine code, if both tiers are asked for.
struct Linked {
    modules: Vec<Module>,
    tests: Tests,
    other: Option<Tests>,
    /// After how many tests that may have lost their devices it was linked.
    links: usize,
}

impl Linked {
    /// Links `main` after the modules that it needs.
    fn new(loader: &Loader, modules: Vec<Module>) -> Result<Linked, Failure> {
        let collector = Collector::default();
        let failed = |status| Failure::new(Exit::LoadFailure, "cannot make the check module").because(status);
        let check = Module::native(collector.module()).map_err(failed)?;
        // Both programs report to one collector, since their tests run one after the other.
        let (program, other) = loader.link(&[&[check], &modules[..]].concat())?;
        let tests = |program: Program| Tests { program, collector: collector.clone() };
        Ok(Linked { modules, tests: tests(program), other: other.map(tests), links: 0 })
    }

    /// The same with other devices.
    fn again(&self, loader: &Loader) -> Result<Linked, Failure> {
        Linked::new(loader, self.modules.clone())
    }
}

/// A program, or nothing if it cannot be loaded, and its tests.
type Loaded = (Option<Linked>, Suite);

/// The modules, each with its tests. One of several files that cannot be loaded is a test that fails, so the others are
/// run all the same.
fn load(arguments: &CheckArguments) -> Result<Vec<Loaded>, Failure> {
    let loader = Loader::new(&arguments.program, None, None)?;
    let (tests, dependencies) = match (&arguments.tests[..], &arguments.program.module[..]) {
        ([], [dependencies @ .., last]) => (std::slice::from_ref(last), dependencies),
        (tests, dependencies) => (tests, dependencies),
    };
    if tests.is_empty() {
        let failure = Failure::new(Exit::Usage, "no module is given");
        return Err(failure.hint("name a file, or use --module=file.vmfb; `-` is stdin"));
    }
    let dependencies = dependencies.iter().map(|path| loader.module(path)).collect::<Result<Vec<_>, Failure>>()?;
    let load = |path: &PathBuf| match load_one(arguments, &loader, &dependencies, path) {
        Err(failure) if tests.len() > 1 => Ok((None, Suite::not_loaded(path, failure))),
        loaded => loaded,
    };
    tests.iter().map(load).collect()
}

fn load_one(
    arguments: &CheckArguments,
    loader: &Loader,
    dependencies: &[Module],
    path: &Path,
) -> Result<Loaded, Failure> {
    let filter = Filter::parse(arguments.filter.as_deref().unwrap_or(""));
    let main = loader.module(path)?;
    let module = main.name().to_string();
    let linked = Linked::new(loader, [dependencies, &[main]].concat())?;
    let is_test = |export: &Signature| is_for_callers(&export.name) && filter.matches(&module, &export.name);
    let exports = linked.tests.program.model().signatures().into_iter().filter(is_test).collect();
    let suite = Suite { file: path.display().to_string(), module, exports, tests: Vec::new() };
    Ok((Some(linked), suite))
}

/// The outcome of a test on one tier.
struct Done {
    result: Result<(), Failure>,
    collected: Collected,
    reports: Vec<String>,
}

impl Done {
    fn of(tests: &Tests, name: &str) -> Done {
        let result = call(&tests.program, name);
        Done { result, collected: tests.collector.take(), reports: tests.program.take_reports() }
    }

    /// The same, unless machine code does something else in a context of its own.
    fn compared(self, tests: &Tests, other: &Tests, name: &str) -> Done {
        tiers::print_reports(&self.reports);
        let Some(found) = self.difference(&Done::of(other, name)) else { return self };
        let runs = self.difference(&Done::of(tests, name));
        Done { result: Err(tiers::differ(name, &found, runs.as_ref())), ..self }
    }

    fn difference(&self, other: &Done) -> Option<tiers::Difference> {
        let difference = tiers::line_difference("test, line", &self.lines(), &other.lines());
        difference.or_else(|| tiers::line_difference("trace", &self.reports, &other.reports))
    }

    /// How it ended, as text.
    fn lines(&self) -> Vec<String> {
        let mut failure = Vec::new();
        if let Err(error) = &self.result {
            // Writing to a vector does not fail.
            let _ = error.report(&mut failure);
        }
        let ended = [String::from_utf8_lossy(&failure).into_owned(), format!("{} more", self.collected.more)];
        self.collected.unmet.iter().map(ToString::to_string).chain(ended).collect()
    }
}

fn run(tests: &Tests, other: Option<&Tests>, export: &Signature) -> Test {
    let start = Instant::now();
    let outcome = if !export.arguments.is_empty() {
        Outcome::Skipped("takes arguments")
    } else if !export.results.is_empty() {
        Outcome::Skipped("returns results")
    } else {
        let mut done = Done::of(tests, &export.name);
        flush_c_streams();
        if let Some(other) = other {
            done = done.compared(tests, other, &export.name);
        }
        let Done { result, collected, .. } = done;
        match result {
            Err(failure) => Outcome::Error(failure, collected),
            Ok(()) if collected.is_empty() => Outcome::Passed,
            Ok(()) => Outcome::Failed(collected),
        }
    };
    Test { name: export.name.clone(), seconds: start.elapsed().as_secs_f64(), outcome }
}

fn call(program: &Program, name: &str) -> Result<(), Failure> {
    let session = program.session()?;
    let function = session.function(Some(name))?;
    let failed = |status| Failure::new(Exit::RunFailure, format!("calling @{name}")).because(status);
    session.call(&function, Vec::new()).map(drop).map_err(failed)
}

/// Opens a file to be written, with the contents that it has.
fn open(path: &Path) -> Result<File, Failure> {
    let opened = File::options().create(true).write(true).truncate(false).open(path);
    opened.map_err(|error| unwritable(path).because(error))
}

fn write(path: &Path, mut file: File, text: &str) -> Result<(), Failure> {
    // Pipes and devices have no contents to replace.
    let is_file = file.metadata().is_ok_and(|metadata| metadata.is_file());
    let emptied = if is_file { file.set_len(0) } else { Ok(()) };
    emptied.and_then(|()| file.write_all(text.as_bytes())).map_err(|error| unwritable(path).because(error))
}

fn unwritable(path: &Path) -> Failure {
    Failure::new(Exit::RunFailure, format!("cannot write to `{}`", path.display()))
}

fn verdict(suites: &[Suite], counts: Counts, arguments: &CheckArguments) -> Result<Exit, Failure> {
    if counts.run() == 0 {
        let failure = Failure::new(Exit::Usage, "no test was run");
        let hint = "a test is an exported function that takes nothing and returns nothing; --list names those that --filter picks";
        return Err(failure.hint(hint));
    }
    let mut worst = if counts.failed > 0 { Exit::Mismatch } else { Exit::Ok };
    for test in suites.iter().flat_map(|suite| &suite.tests) {
        if let Outcome::Error(failure, _) = &test.outcome {
            worst = if worst == Exit::LoadFailure { worst } else { failure.exit };
        }
    }
    match (arguments.expect_failure, worst) {
        (false, worst) => Ok(worst),
        // Only a program that was run can fail as it is expected to.
        (true, Exit::LoadFailure) => Ok(worst),
        (true, Exit::Ok) => Err(Failure::new(Exit::Mismatch, "every test passed, but a failure was expected")),
        (true, _) => Ok(Exit::Ok),
    }
}
