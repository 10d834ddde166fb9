//! The flags of `vireo profile`, and of the commands of `vireo replay` that show and replay captures, part of the
//! command line.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Subcommand, ValueEnum, ValueHint};
use vireo::interp::Tier;
use vireo::replay::{FileRemap, SubstitutionSource};

use super::{BenchmarkFormat, DeviceArguments, ListingArguments, MinTime, PolicyArguments, TimeUnit, examples};
use crate::devices::Drivers;
use crate::failure::Failure;

/// Measures how long the replay of a capture takes. Each iteration makes new objects.
///
/// Names and values of flags are those of `iree-benchmark-replay` and of Google Benchmark, which it uses.
#[derive(Args, Debug)]
#[command(after_help = examples::help(examples::REPLAY_BENCHMARK))]
pub struct ReplayBenchmarkArguments {
    /// The capture: a .ireereplay file.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Count the time in scopes with this name alone, such as `execute`. All of the capture is replayed.
    #[arg(long, default_value = "", value_name = "NAME")]
    pub replay_scope: String,
    /// List the name of the benchmark and exit.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true")]
    pub benchmark_list_tests: bool,
    /// Replay once, to see whether that is possible.
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
    /// The unit of times. Without it the table has for each time the unit that fits; JSON and CSV have `ms`.
    #[arg(long, value_enum, value_name = "UNIT", visible_alias = "time-unit")]
    pub benchmark_time_unit: Option<TimeUnit>,
    /// Devices, files and limits.
    #[command(flatten)]
    pub target: ReplayTargetArguments,
}

/// Tells what a capture needs of its environment, what it holds of a program and its data, and whether it can be
/// replayed here and by IREE's tools. The exit code is 1 if it cannot be replayed here.
#[derive(Args, Debug)]
#[command(after_help = examples::help(examples::REPLAY_CHECK))]
pub struct ReplayCheckArguments {
    /// The capture: a .ireereplay file.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// How to show it: `text` is for people, `jsonl` has a JSON object on one line.
    #[arg(long, value_enum, default_value_t = RecordsFormat::Text, value_name = "FORMAT")]
    pub format: RecordsFormat,
}

/// Replays a capture that has expected outputs, and compares what the host reads with them. The exit code is 4 if
/// something differs.
#[derive(Args, Debug)]
#[command(after_help = examples::help(examples::REPLAY_VERIFY))]
pub struct ReplayVerifyArguments {
    /// The capture: a .ireereplay file.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Compare nothing, and write a copy of the capture to this file, with what the host reads in this replay as the
    /// expected outputs. IREE's tools skip them.
    #[arg(long, value_name = "FILE")]
    pub write_expected: Option<PathBuf>,
    /// Devices, files and limits.
    #[command(flatten)]
    pub target: ReplayTargetArguments,
}

/// Writes what is in a capture to files of a folder, and prints their names: executables, files whose contents are in
/// it, and the bytes that the host or files gave to buffers.
#[derive(Args, Debug)]
#[command(after_help = examples::help(examples::REPLAY_EXTRACT))]
pub struct ReplayExtractArguments {
    /// The capture: a .ireereplay file.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// The folder, which is made if it is not there. Files in it are not replaced.
    #[arg(long, value_name = "FOLDER")]
    pub output: PathBuf,
}

/// Saves the whole records of a capture that is damaged, or whose process has not finished it, as a capture that can be
/// replayed up to there.
#[derive(Args, Debug)]
#[command(after_help = examples::help(examples::REPLAY_SALVAGE))]
pub struct ReplaySalvageArguments {
    /// The capture: a .ireereplay file.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// The file to write.
    #[arg(long, value_name = "FILE")]
    pub output: PathBuf,
}

/// Asks devices again for what a capture says they were asked for. Prints nothing if that went well.
///
/// Names and values of flags are those of `iree-run-replay`.
#[derive(Args, Debug)]
#[command(after_help = examples::help(examples::REPLAY_RUN))]
pub struct ReplayRunArguments {
    /// The capture: a .ireereplay file.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Devices, files and limits.
    #[command(flatten)]
    pub target: ReplayTargetArguments,
}

/// Flags of all commands that replay a capture.
#[derive(Args, Debug)]
#[command(next_help_heading = "Replay")]
pub struct ReplayTargetArguments {
    /// The device to replay on: `driver`, or `driver://path?key=value`. Repeat it for each device of the capture, in
    /// their order; see `vireo devices`.
    #[arg(long, default_value = "local-sync", value_name = "DEVICE", value_hint = ValueHint::Other)]
    pub device: Vec<String>,
    /// Look for files that the capture names elsewhere: those whose path begins with the first text are where it begins
    /// with the second. Of several the longest counts. They must still be the captured ones.
    #[arg(long, value_name = "FROM=TO")]
    pub replay_file_remap: Vec<FileRemap>,
    /// Prepare another executable in place of a captured one: `ID=PATH`, `ID@FORMAT=PATH` where the format cannot be
    /// told from the file, or `all` for the ID. Its functions must have the captured signatures.
    #[arg(long, value_name = "ID=PATH")]
    pub replay_executable_substitution: Vec<SubstitutionSource>,
    /// Write to the files that the capture names, where they were written when it was made. Otherwise they are open for
    /// reading only, and a write to one fails.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true")]
    pub replay_allow_writes: bool,
    /// Wait for each submission before the next call, as IREE's tools do.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true")]
    pub serial: bool,
    /// Print what the queues of devices were asked for, and how often and how long each kernel ran, to stderr, at the
    /// end.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true")]
    pub print_device_statistics: bool,
    /// Flags from a file, one per line; `#` begins a comment.
    #[arg(long, value_name = "FILE")]
    pub flagfile: Option<PathBuf>,
    /// Lists instead of a replay.
    #[command(flatten)]
    pub lists: ListingArguments,
    /// Where devices come from.
    #[command(flatten)]
    pub devices: DeviceArguments,
    /// The limits of the replay.
    #[command(flatten)]
    pub policy: PolicyArguments,
}

impl ReplayTargetArguments {
    /// The text that the listing flags ask for; none if none of them is given.
    pub fn listing(&self) -> Result<Option<String>, Failure> {
        if let Some(topologies) = self.devices.task.dump()? {
            return Ok(Some(topologies));
        }
        let drivers = || Drivers::load(&self.devices, self.policy.policy(Tier::Auto));
        let lists = &self.lists;
        if lists.list_drivers {
            return Ok(Some(drivers()?.list_drivers()));
        }
        if let Some(driver) = &lists.list_devices {
            return drivers()?.list_devices(driver).map(Some);
        }
        lists.dump_devices.as_ref().map(|driver| drivers()?.dump_devices(driver)).transpose()
    }
}

/// Shows the records of a capture, after a summary of what it needs.
///
/// Names and values of flags are those of `iree-dump-replay`, and so is what is written.
#[derive(Args, Debug)]
#[command(after_help = examples::help(examples::REPLAY_DUMP))]
pub struct ReplayDumpArguments {
    /// The capture: a .ireereplay file.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// How to show it: `text` has a line for each record, `jsonl` a JSON object.
    #[arg(long, value_enum, default_value_t = RecordsFormat::Text, value_name = "FORMAT")]
    pub format: RecordsFormat,
}

/// The commands of `vireo profile`.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub enum ProfileCommand {
    /// Count the records of a profile, and add up how long dispatches of each device took.
    Summary(ProfileArguments),
    /// List the records of a profile.
    Cat(ProfileArguments),
    /// Write a row for each event of a profile, for other tools.
    Export(ExportArguments),
    /// Add up the events of a profile by what they are of.
    Statistics(ProfileArguments),
    /// Tell where the time went: busy queues, the slowest functions and dispatches, the most memory, and hints.
    Explain(ReportCommandArguments),
    /// Compare two profiles: times of functions, operations of queues, the most memory.
    Diff(DiffArguments),
    /// Draw a profile: a page with its time line, or a trace for Perfetto.
    Render(RenderArguments),
    /// Show executables and their functions, with how long dispatches took.
    Executable(DispatchReportArguments),
    /// Show how long dispatches of each function took.
    Dispatch(DispatchReportArguments),
    /// Show command buffers, their commands, and how long dispatches took.
    Command(DispatchReportArguments),
    /// Show the operations of queues.
    Queue(DispatchReportArguments),
    /// Show counters, and sums of their samples.
    Counter(CounterReportArguments),
    /// Show allocations, and the most memory that was in use.
    Memory(ReportCommandArguments),
}

/// Shows a profile.
///
/// Names and values of flags are those of `iree-profile`, and so is what is written.
#[derive(Args, Debug)]
#[command(after_help = examples::help(examples::PROFILE))]
pub struct ProfileArguments {
    /// The profile: a .ireeprof file.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// How to show it: `text` is for people, `jsonl` has a JSON object on each line.
    #[arg(long, value_enum, default_value_t = RecordsFormat::Text, value_name = "FORMAT")]
    pub format: RecordsFormat,
}

/// Shows events of a profile.
///
/// Names and values of flags are those of `iree-profile`, and so is what is written.
#[derive(Args, Debug)]
#[command(after_help = examples::help(examples::PROFILE_DISPATCH))]
pub struct DispatchReportArguments {
    /// The profile and the form.
    #[command(flatten)]
    pub report: ReportArguments,
    /// Write a row for each dispatch instead. Needs --format=jsonl.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true")]
    pub dispatch_events: bool,
}

/// Shows memory of a profile, or explains where its time went.
///
/// Names and values of flags are those of `iree-profile`, and so is what is written.
#[derive(Args, Debug)]
#[command(after_help = examples::help(examples::PROFILE_REPORT))]
pub struct ReportCommandArguments {
    /// The profile and the form.
    #[command(flatten)]
    pub report: ReportArguments,
}

/// Shows counters of a profile.
///
/// Names and values of flags are those of `iree-profile`, and so is what is written.
#[derive(Args, Debug)]
#[command(after_help = examples::help(examples::PROFILE_DISPATCH))]
pub struct CounterReportArguments {
    /// The profile and the form.
    #[command(flatten)]
    pub report: ReportArguments,
    /// Write a row for each sample, too. Needs --format=jsonl.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true")]
    pub counter_samples: bool,
}

/// The profile of a report, its form, and what it is about.
#[derive(Args, Debug)]
pub struct ReportArguments {
    /// The profile: a .ireeprof file.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// How to show it: `text` is for people, `jsonl` has a JSON object on each line.
    #[arg(long, value_enum, default_value_t = RecordsFormat::Text, value_name = "FORMAT")]
    pub format: RecordsFormat,
    /// Only what has a name that matches the pattern, with `*` and `?`: functions, commands, operations of queues,
    /// counters.
    #[arg(long, default_value = "*", value_name = "PATTERN")]
    pub filter: String,
    /// Only what has this number: the event of `dispatch` and `explain`, the executable, the command buffer, the
    /// submission of `queue`, the sample of `counter` or what it is of. -1: everything.
    #[arg(long, default_value_t = -1, value_name = "NUMBER", allow_hyphen_values = true)]
    pub id: i64,
}

/// Compares two profiles: times and counts of dispatches, each function, operations of queues, and the most memory,
/// those that changed most first. The exit code is 4 if a value grew by more than --fail_above.
#[derive(Args, Debug)]
#[command(after_help = examples::help(examples::PROFILE_DIFF))]
pub struct DiffArguments {
    /// The profile to compare with: a .ireeprof file.
    #[arg(value_name = "BEFORE")]
    pub before: PathBuf,
    /// The profile that is compared.
    #[arg(value_name = "AFTER")]
    pub after: PathBuf,
    /// By how much a value may grow, such as `5%`. A function that only one of them has counts in the time of all
    /// dispatches. Without this flag every change is fine.
    #[arg(long, value_name = "PERCENT")]
    pub fail_above: Option<Percent>,
    /// Let functions with less time than this in both profiles grow by anything: nanoseconds, or ticks of a device
    /// without a clock.
    #[arg(long, default_value_t = 0, value_name = "NANOSECONDS")]
    pub ignore_below: u64,
    /// How to show it: `text` is for people, `jsonl` has a JSON object on each line.
    #[arg(long, value_enum, default_value_t = RecordsFormat::Text, value_name = "FORMAT")]
    pub format: RecordsFormat,
}

/// A share of a value, as `5%`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Percent(pub f64);

impl FromStr for Percent {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number = text.strip_suffix('%').and_then(|number| number.parse::<f64>().ok());
        let number = number.filter(|number| number.is_finite() && *number >= 0.0);
        number.map(|number| Percent(number / 100.0)).ok_or_else(|| "expected a share such as `5%`".to_string())
    }
}

/// Draws the time line of a profile: queues, dispatches, work of the host, memory and metrics.
#[derive(Args, Debug)]
#[command(after_help = examples::help(examples::PROFILE_RENDER))]
pub struct RenderArguments {
    /// The profile: a .ireeprof file.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// `html` is a page that any browser shows without other files or a network, `perfetto` a trace for
    /// https://ui.perfetto.dev.
    #[arg(long, value_enum, default_value_t = RenderFormat::Html, value_name = "FORMAT")]
    pub format: RenderFormat,
    /// The file to write, or `-` for stdout.
    #[arg(long, value_name = "FILE")]
    pub output: PathBuf,
}

/// Writes a row for each event of a profile, with the names of functions and the times of the host.
///
/// Names and values of flags are those of `iree-profile export`, and so is what is written.
#[derive(Args, Debug)]
#[command(after_help = examples::help(examples::PROFILE_EXPORT))]
pub struct ExportArguments {
    /// The profile: a .ireeprof file.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// The form of the rows.
    #[arg(long, value_enum, default_value_t = ExportFormat::IreeperfJsonl, value_name = "FORMAT")]
    pub format: ExportFormat,
    /// The file to write, or `-` for stdout.
    #[arg(long, default_value = "-", value_name = "FILE")]
    pub output: PathBuf,
}

/// How records are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RecordsFormat {
    /// For people.
    Text,
    /// A JSON object on each line, for programs.
    Jsonl,
}

/// The form of drawings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RenderFormat {
    /// A page with its data.
    Html,
    /// A `.pftrace` file.
    Perfetto,
}

/// The form of exports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExportFormat {
    /// A JSON object on each line, with `schema_version` and `record_type`.
    IreeperfJsonl,
}
