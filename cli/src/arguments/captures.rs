//! The commands of `vireo replay`, and the flags of those that compare and change captures, part of the command line.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use vireo::replay::{CompareAs, FileRemap, RecordRanges, SubstitutionSource};

use super::{
    RecordsFormat, ReplayBenchmarkArguments, ReplayCheckArguments, ReplayDumpArguments, ReplayExtractArguments,
    ReplayRunArguments, ReplaySalvageArguments, ReplayTargetArguments, ReplayVerifyArguments, Seconds, examples,
};

/// The commands of `vireo replay`.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub enum ReplayCommand {
    /// List the records of a capture.
    Dump(ReplayDumpArguments),
    /// Replay a capture: ask devices again for what they were asked for.
    Run(Box<ReplayRunArguments>),
    /// Measure how long a replay takes, or a part of it.
    Benchmark(Box<ReplayBenchmarkArguments>),
    /// Tell what a capture needs and holds, and whether it can be replayed.
    Check(ReplayCheckArguments),
    /// Replay a capture and compare what the host reads with what it read when the capture was made.
    Verify(Box<ReplayVerifyArguments>),
    /// Name the first dispatch whose results differ on two devices, or in two captures.
    Diff(Box<ReplayDiffArguments>),
    /// Write a capture of one dispatch, or the least one for which a command still succeeds.
    Minimize(Box<ReplayMinimizeArguments>),
    /// Write a copy of a capture with fewer records, in another order, with other executables, or without what is
    /// private.
    Edit(ReplayEditArguments),
    /// Write what is in a capture to files: executables, files, and bytes of buffers.
    Extract(ReplayExtractArguments),
    /// Save the whole records of a capture that is damaged or was not finished.
    Salvage(ReplaySalvageArguments),
}

/// Replays a capture on two devices, or two captures, dispatch by dispatch, and names the first dispatch whose results
/// differ, with the binding, the first byte and the worst element. Where no dispatch differs, what the host reads is
/// compared. The exit code is 4 if something differs.
#[derive(Args, Debug)]
#[command(after_help = examples::help(examples::REPLAY_DIFF))]
pub struct ReplayDiffArguments {
    /// The capture: a .ireereplay file.
    #[arg(value_name = "FILE")]
    pub first: PathBuf,
    /// The capture of the second side, such as that of another build of the program. Without it both sides replay the
    /// same one.
    #[arg(value_name = "OTHER_FILE")]
    pub second: Option<PathBuf>,
    /// The type of the elements that are compared: `bytes`, `f64`, `f32`, `f16`, `bf16`, `i64`, `i32` or `i8`.
    #[arg(long, default_value = "bytes", value_name = "TYPE")]
    pub compare: CompareAs,
    /// How many values of the type two floats may be apart and count as equal.
    #[arg(long, default_value_t = 0, value_name = "COUNT")]
    pub ulps: u64,
    /// How far two numbers may be apart and count as equal.
    #[arg(long, default_value_t = 0.0, value_name = "NUMBER")]
    pub absolute_tolerance: f64,
    /// How far two numbers may be apart and count as equal, as a part of the larger one, such as 1e-5.
    #[arg(long, default_value_t = 0.0, value_name = "NUMBER")]
    pub relative_tolerance: f64,
    /// Write the bindings of the dispatch that differs to files of this folder, before and after it on both sides.
    /// Files in it are not replaced.
    #[arg(long, value_name = "FOLDER")]
    pub save: Option<PathBuf>,
    /// How to show it: `text` is for people, `jsonl` has a JSON object on a line for each dispatch, and one for the
    /// outcome.
    #[arg(long, value_enum, default_value_t = RecordsFormat::Text, value_name = "FORMAT")]
    pub format: RecordsFormat,
    /// Devices of the first side, then those of the second; with two captures one device is for both. Files and limits
    /// are those of both sides, and executables are replaced on the second side alone.
    #[command(flatten)]
    pub target: ReplayTargetArguments,
}

/// Writes a capture of one dispatch alone, with its executable, the contents of its bindings before it, and those after
/// it as expected outputs; or the fewest records for which a command still succeeds.
#[derive(Args, Debug)]
#[command(after_help = examples::help(examples::REPLAY_MINIMIZE))]
#[command(group = clap::ArgGroup::new("by").required(true).args(["dispatch", "test"]))]
pub struct ReplayMinimizeArguments {
    /// The capture: a .ireereplay file.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// The file to write, which must not be there.
    #[arg(long, value_name = "FILE")]
    pub output: PathBuf,
    /// The number of the dispatch, which `vireo replay diff` tells: 0 is the first one. The capture is replayed up to
    /// there.
    #[arg(long, value_name = "NUMBER")]
    pub dispatch: Option<u64>,
    /// Take the expected outputs from the dispatch with this number of another capture, such as that of a build that
    /// computes right. Its devices are named after those of the first one.
    #[arg(long, value_name = "FILE", conflicts_with = "test")]
    pub expected: Option<PathBuf>,
    /// Leave out records as long as this command succeeds. The shell runs it, with the path of a capture in place of
    /// `{}`.
    #[arg(long, value_name = "COMMAND")]
    pub test: Option<String>,
    /// Most time that one run of the command may take, in seconds: one that takes longer has failed.
    #[arg(long, default_value = "60", value_name = "SECONDS", requires = "test")]
    pub test_timeout: Seconds,
    /// Devices, files and limits of the replay with --dispatch; --timeout and --max_memory_bytes with --test.
    #[command(flatten)]
    pub target: ReplayTargetArguments,
}

/// Writes a changed copy of a capture. Records are chosen first, then changed.
#[derive(Args, Debug)]
#[command(after_help = examples::help(examples::REPLAY_EDIT))]
#[command(group = clap::ArgGroup::new("edits").required(true).multiple(true)
    .args(["keep", "drop", "order", "substitute", "inline", "strip"]))]
pub struct ReplayEditArguments {
    /// The capture: a .ireereplay file.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// The file to write, which must not be there.
    #[arg(long, value_name = "FILE")]
    pub output: PathBuf,
    /// Keep these records alone, by their numbers (`10,20-29,40-`), and what they need to do the same: what makes their
    /// objects, and what writes their buffers before them.
    #[arg(long, value_name = "RANGES")]
    pub keep: Option<RecordRanges>,
    /// Leave out these records, and those that need an object which one of them makes.
    #[arg(long, value_name = "RANGES")]
    pub drop: Option<RecordRanges>,
    /// Put submissions after those that signal what they wait for, so that IREE's tools do not wait for ever.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true")]
    pub order: bool,
    /// Replace an executable: `ID=PATH`, `ID@FORMAT=PATH` if it has another format than the captured one, or `all` for
    /// the ID. A replay checks that its functions have the captured signatures.
    #[arg(long, value_name = "ID=PATH")]
    pub substitute: Vec<SubstitutionSource>,
    /// Read the files that the capture names, and have what it reads of them in the copy.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true")]
    pub inline: bool,
    /// Look for these files elsewhere, as `vireo replay run` does.
    #[arg(long, value_name = "FROM=TO", requires = "inline")]
    pub replay_file_remap: Vec<FileRemap>,
    /// Remove what is private: `data` replaces what the host and files gave by zeros and removes expected outputs,
    /// `paths` replaces the paths of files by numbers.
    #[arg(long, value_enum, value_delimiter = ',', value_name = "WHAT")]
    pub strip: Vec<Private>,
    /// Most memory that may be used at a time. Without it there is no limit.
    #[arg(long, value_name = "BYTES")]
    pub max_memory_bytes: Option<u64>,
}

/// Parts of a capture that are private.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Private {
    /// Data of a program.
    Data,
    /// Paths of the machine that it ran on.
    Paths,
}
