//! The flags of `vireo replay` and `vireo profile`, part of the command line.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum, ValueHint};
use vireo::interp::Tier;
use vireo::replay::{FileRemap, SubstitutionSource};

use super::{DeviceArguments, ListingArguments, PolicyArguments, examples};
use crate::devices::Drivers;
use crate::failure::Failure;

/// The commands of `vireo replay`.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub enum ReplayCommand {
    /// List the records of a capture.
    Dump(ReplayDumpArguments),
    /// Replay a capture: ask devices again for what they were asked for.
    Run(Box<ReplayRunArguments>),
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
