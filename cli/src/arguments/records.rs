//! The flags of `vireo replay` and `vireo profile`, part of the command line.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::examples;

/// The commands of `vireo replay`.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub enum ReplayCommand {
    /// List the records of a capture.
    Dump(ReplayDumpArguments),
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

/// Shows memory of a profile.
///
/// Names and values of flags are those of `iree-profile`, and so is what is written.
#[derive(Args, Debug)]
#[command(after_help = examples::help(examples::PROFILE))]
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
    /// Only what has this number: the event of `dispatch`, the executable, the command buffer, the submission of
    /// `queue`, the sample of `counter` or what it is of. -1: everything.
    #[arg(long, default_value_t = -1, value_name = "NUMBER", allow_hyphen_values = true)]
    pub id: i64,
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

/// The form of exports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExportFormat {
    /// A JSON object on each line, with `schema_version` and `record_type`.
    IreeperfJsonl,
}
