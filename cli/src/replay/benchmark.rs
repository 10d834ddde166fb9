//! `vireo replay benchmark`: measures how long a replay takes, or its scopes of one name.

use std::io;

use anstream::AutoStream;
use vireo::replay::Watch;

use super::target::{Target, cannot_replay};
use crate::arguments::{BenchmarkFormat, Color, ReplayBenchmarkArguments, TimeUnit};
use crate::benchmark::measure::{self, Plan, Stopwatch};
use crate::benchmark::report::{Report, benchmark_name};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::print::{print, print_aside, print_json, print_styled};
use crate::styles::bold;
use vireo::visible_text::visible;

/// Does what the flags say.
pub fn benchmark(arguments: &ReplayBenchmarkArguments, color: Color) -> Result<Exit, Failure> {
    let mut out = AutoStream::new(io::stdout(), color.choice()).lock();
    let scope = arguments.replay_scope.as_str();
    // The names that the reference's tool gives them.
    let name = match scope {
        "" => benchmark_name("replay"),
        scope => format!("BM_replay/scope:{scope}/process_time/manual_time"),
    };
    if arguments.benchmark_list_tests {
        return print(&mut out, &format!("{}\n", visible(&name)));
    }
    let Some(target) = Target::prepare(&arguments.file, &arguments.target)? else { return Ok(Exit::Ok) };
    if !scope.is_empty() && !target.plan.has_scope(scope) {
        let message = format!("the capture has no scope `{}`", visible(scope));
        return Err(Failure::new(Exit::Usage, message).hint("`vireo replay dump` lists them: replay.scope_begin"));
    }
    let plan = Plan {
        min_time: arguments.benchmark_min_time,
        warm_up: arguments.benchmark_min_warmup_time,
        repetitions: arguments.benchmark_repetitions,
        dry_run: arguments.benchmark_dry_run,
    };
    let measured = measure::measure(
        &plan,
        1,
        |_| {},
        |watch| {
            let mut scopes = Scopes { name: scope, depth: 0, watch };
            if !scope.is_empty() {
                scopes.watch.pause();
            }
            target.plan.run(&target.devices, &target.options, &mut scopes).map(drop)
        },
    );
    let repetitions = measured.map_err(cannot_replay)?;
    let mut report =
        Report::of_benchmark(arguments.benchmark_repetitions, arguments.benchmark_time_unit, name.chars().count());
    let rows = report.add_benchmark(&name, arguments.benchmark_time_unit.unwrap_or(TimeUnit::Ms), &repetitions);
    match arguments.format {
        BenchmarkFormat::Console => {
            print_styled(&mut out, &bold(&report.header()))?;
            print(&mut out, &rows)?;
        }
        BenchmarkFormat::Json => {
            print_json(&mut out, &report.text(arguments.format))?;
        }
        BenchmarkFormat::Csv | BenchmarkFormat::Markdown => {
            print(&mut out, &report.text(arguments.format))?;
        }
    }
    if let Some(statistics) = target.statistics() {
        print_aside(&statistics);
    }
    Ok(Exit::Ok)
}

/// Measures in scopes of one name: of nested ones the outermost counts.
struct Scopes<'a> {
    name: &'a str,
    depth: u32,
    watch: &'a mut Stopwatch,
}

impl Watch for Scopes<'_> {
    fn scope(&mut self, name: &str, begins: bool) {
        if self.name.is_empty() || name != self.name {
            return;
        }
        match (begins, self.depth) {
            (true, 0) => self.watch.resume(),
            (false, 1) => self.watch.pause(),
            _ => {}
        }
        self.depth = if begins { self.depth + 1 } else { self.depth.saturating_sub(1) };
    }
}
