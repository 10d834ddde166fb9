//! The flags of `vireo benchmark` and the types of their values, part of the command line.

use std::path::PathBuf;

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, ValueEnum};

use super::examples;
use super::{Color, Comparison, ListingArguments, ProfilingArguments, ProgramArguments};
use crate::os_text::text_of;

/// Measures how long calls of a function take.
///
/// Names and values of flags are those of `iree-benchmark-module` and of Google Benchmark, which it uses.
#[derive(Args, Debug)]
#[command(after_help = examples::help(examples::BENCHMARK))]
pub struct BenchmarkArguments {
    /// The module to measure, after those of --module: a .vmfb file, or `-` for stdin.
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// An exported function to measure. May be repeated; without it, all that take no arguments and all that were
    /// compiled as benchmarks.
    #[arg(long, value_name = "NAME")]
    pub function: Vec<String>,
    /// An argument of the function, as for `vireo run`. Repeat it for each argument, in order.
    #[arg(long, value_name = "VALUE", allow_hyphen_values = true, value_parser = OsStringValueParser::new().map(text_of))]
    pub input: Vec<String>,
    /// Calls that are made one after the other before the benchmark waits for results. Times are those of one call.
    /// Benchmarks of single dispatches take the count that --iree-hal-benchmark-dispatch-repeat-count had when they
    /// were compiled.
    #[arg(long, default_value_t = 1, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub batch_size: u32,
    /// Calls of a batch that may be under way at a time. For functions that take fences; the others return when they
    /// are done. The batch is rounded up to a multiple.
    #[arg(long, default_value_t = 1, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub batch_concurrency: u32,
    /// Only benchmarks whose names this regular expression matches; with a leading dash, those it does not match.
    #[arg(long, value_name = "REGEX", allow_hyphen_values = true)]
    pub benchmark_filter: Option<String>,
    /// List the names of the benchmarks and exit.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true")]
    pub benchmark_list_tests: bool,
    /// Call every function once, without warming up, to see whether it can be called.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true")]
    pub benchmark_dry_run: bool,
    /// Measure this many times. With more than one, mean, median and spread are reported too.
    #[arg(long, default_value_t = 1, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub benchmark_repetitions: u32,
    /// How long a repetition takes at least, in seconds (`0.5s`), or how many iterations it has (`100x`).
    #[arg(long, default_value = "0.5s", value_name = "TIME")]
    pub benchmark_min_time: MinTime,
    /// Run this long before measuring, in seconds.
    #[arg(long, default_value_t = 0.0, value_name = "SECONDS")]
    pub benchmark_min_warmup_time: f64,
    /// How results are written to stdout.
    #[arg(long, value_enum, default_value_t = BenchmarkFormat::Console, value_name = "FORMAT", visible_alias = "benchmark-format")]
    pub format: BenchmarkFormat,
    /// Also write the results to this file.
    #[arg(long, value_name = "FILE")]
    pub benchmark_out: Option<PathBuf>,
    /// How results are written to the file.
    #[arg(long, value_enum, default_value_t = BenchmarkFormat::Json, value_name = "FORMAT")]
    pub benchmark_out_format: BenchmarkFormat,
    /// The unit of times. Without it the table has for each time the unit that fits; JSON and CSV have `ms`, and `us`
    /// for benchmarks of single dispatches.
    #[arg(long, value_enum, value_name = "UNIT", visible_alias = "time-unit")]
    pub benchmark_time_unit: Option<TimeUnit>,
    /// Compare the times with those of an earlier run, a report in JSON as --benchmark_out writes it, or with those of
    /// another module, whose repetitions alternate with those of the program. Of several repetitions the median counts.
    #[arg(long, value_name = "FILE")]
    pub baseline: Option<PathBuf>,
    /// Entries to add to the context of the report in JSON: `key=value,key=value`.
    #[arg(long, value_name = "KEY=VALUE", value_delimiter = ',', value_parser = pair)]
    pub benchmark_context: Vec<(String, String)>,
    /// Colours of the table: `auto` as --color says, `true` or `false`.
    #[arg(long, default_value = "auto", value_name = "WHEN", value_parser = table_color)]
    pub benchmark_color: Color,
    /// Destination of a result, as for `vireo run`, once before the measurement. Repeat it for each result, in order.
    #[arg(long, value_name = "WHERE", allow_hyphen_values = true, value_parser = OsStringValueParser::new().map(text_of))]
    pub output: Vec<String>,
    /// An expected result, as for `vireo run`. A call is checked before the measurement; if it differs, nothing is
    /// measured. Repeat it for each result, in order.
    #[arg(long, value_name = "VALUE", allow_hyphen_values = true, value_parser = OsStringValueParser::new().map(text_of))]
    #[arg(conflicts_with = "output")]
    pub expected_output: Vec<String>,
    /// Most elements of a tensor to print. Negative: all.
    #[arg(long, default_value_t = 1024, value_name = "COUNT", allow_hyphen_values = true)]
    pub output_max_element_count: i32,
    /// How results are compared with expected ones.
    #[command(flatten)]
    pub comparison: Comparison,
    /// Add rows with percentiles of the time of a call, p50, p90 and p99. They come from a pass of its own after the
    /// measurement, in which calls are timed one by one.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true")]
    pub percentiles: bool,
    /// Omit single repetitions from the report if there are several.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true")]
    pub benchmark_report_aggregates_only: bool,
    /// The same on the terminal only.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true")]
    pub benchmark_display_aggregates_only: bool,
    /// Print how much device memory was used, how much machine code there is, and where it handed ops to the
    /// interpreter, to stderr, at the end.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true")]
    pub print_statistics: bool,
    /// Print what the queues of devices were asked for, and how often and how long each kernel ran, to stderr, at the
    /// end.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true")]
    pub print_device_statistics: bool,
    /// Add a row for each kernel below those of a benchmark: the time that its workgroups took for an iteration, in a
    /// pass of its own after the measurement.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true")]
    pub dispatch_statistics: bool,
    /// Lists instead of measurements.
    #[command(flatten)]
    pub listing: ListingArguments,
    /// Modules and devices.
    #[command(flatten)]
    pub program: ProgramArguments,
    /// Profiles of devices.
    #[command(flatten)]
    pub profiling: ProfilingArguments,
}

fn pair(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').filter(|(key, _)| !key.is_empty());
    pair.map(|(key, value)| (key.to_string(), value.to_string())).ok_or_else(|| "expected `key=value`".to_string())
}

fn table_color(text: &str) -> Result<Color, String> {
    match text {
        "auto" => Ok(Color::Auto),
        "false" | "no" | "off" | "0" => Ok(Color::Never),
        "true" | "yes" | "on" | "1" => Ok(Color::Always),
        _ => Err("expected `auto`, `true` or `false`".to_string()),
    }
}

/// When a repetition is long enough.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MinTime {
    /// After this many seconds.
    Seconds(f64),
    /// After this many iterations.
    Iterations(u64),
}

impl std::str::FromStr for MinTime {
    type Err = String;

    fn from_str(text: &str) -> Result<MinTime, String> {
        let expected = || "expected seconds such as `0.5s`, or iterations such as `100x`".to_string();
        if let Some(count) = text.strip_suffix('x') {
            let count = count.parse().ok().filter(|count| (1..=1_000_000_000).contains(count));
            return count.map(MinTime::Iterations).ok_or_else(expected);
        }
        let seconds = text.strip_suffix('s').unwrap_or(text).parse().ok();
        let seconds = seconds.filter(|seconds: &f64| (0.0..=86_400.0).contains(seconds));
        seconds.map(MinTime::Seconds).ok_or_else(expected)
    }
}

/// How results of benchmarks are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum BenchmarkFormat {
    /// A table for people; also `console`.
    #[value(name = "text", alias = "console")]
    Console,
    /// Google Benchmark's JSON.
    Json,
    /// Google Benchmark's CSV.
    Csv,
    /// A table in Markdown.
    Markdown,
}

/// The unit of times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TimeUnit {
    /// Nanoseconds.
    Ns,
    /// Microseconds.
    Us,
    /// Milliseconds.
    Ms,
    /// Seconds.
    S,
}

impl TimeUnit {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            TimeUnit::Ns => "ns",
            TimeUnit::Us => "us",
            TimeUnit::Ms => "ms",
            TimeUnit::S => "s",
        }
    }

    /// How many there are in a second.
    pub fn per_second(self) -> f64 {
        match self {
            TimeUnit::Ns => 1e9,
            TimeUnit::Us => 1e6,
            TimeUnit::Ms => 1e3,
            TimeUnit::S => 1.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shortest_times() {
        assert_eq!("0.5s".parse(), Ok(MinTime::Seconds(0.5)));
        assert_eq!("2".parse(), Ok(MinTime::Seconds(2.0)));
        assert_eq!("100x".parse(), Ok(MinTime::Iterations(100)));
        for wrong in ["", "x", "0x", "-1s", "nan", "inf", "1e9s", "1.5x", "s"] {
            assert!(wrong.parse::<MinTime>().is_err(), "{wrong}");
        }
    }
}
