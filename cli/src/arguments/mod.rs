//! The command line: every command with its flags and their types, as `clap` parses it. `main` parses it, and each
//! command gets its part.

mod benchmark;
mod captures;
mod check;
mod cuda;
mod examples;
mod explain;
mod format;
mod inspect;
mod params;
mod policy;
mod profiling;
mod recording;
mod records;
mod run;
mod trace;

use std::ffi::OsString;
use std::path::PathBuf;
#[cfg(feature = "software-agents")]
use std::sync::{Arc, OnceLock};

use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};
use vireo::Status;
#[cfg(feature = "software-agents")]
use vireo::hal::PacketTrace;
use vireo::hal::local::{CollectiveOptions, Collectives};
use vireo::hal::{AllocatorSpec, AmdgpuAgent, AmdgpuConfig, SanitizerChecks};

pub use self::benchmark::{BenchmarkArguments, BenchmarkFormat, MinTime, TimeUnit};
pub use self::captures::{Private, ReplayCommand, ReplayDiffArguments, ReplayEditArguments, ReplayMinimizeArguments};
pub use self::check::CheckArguments;
pub use self::cuda::{CudaArguments, CudaDriver};
pub use self::explain::ExplainArguments;
pub use self::format::Format;
pub use self::inspect::{
    AsmArguments, CpuinfoArguments, DevicesArguments, DisasmArguments, DumpArguments, DumpOutput, JitOutput,
};
pub use self::params::{
    ConvertArguments, CreateArguments, ParameterArguments, ParameterMode, ParamsCommand, ParamsDumpArguments,
};
pub use self::policy::{PolicyArguments, Seconds};
pub use self::profiling::ProfilingArguments;
pub use self::recording::RecordingArguments;
pub use self::records::{
    DiffArguments, ExportArguments, ProfileArguments, ProfileCommand, RecordsFormat, RenderArguments, RenderFormat,
    ReplayBenchmarkArguments, ReplayCheckArguments, ReplayDumpArguments, ReplayExtractArguments, ReplayRunArguments,
    ReplaySalvageArguments, ReplayTargetArguments, ReplayVerifyArguments, ReportArguments,
};
pub use self::run::{Comparison, RunArguments, RunCommand};
pub use self::trace::TraceArguments;
#[cfg(feature = "software-agents")]
pub use self::trace::TraceFormat;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::task::TaskArguments;
use crate::values::Limits;

/// The text of `--version`, which the build script writes; `-V` has the version alone.
const LONG_VERSION: &str = include_str!(concat!(env!("OUT_DIR"), "/version.txt"));

/// Runs and inspects IREE programs (.vmfb files).
#[derive(Debug, Parser)]
#[command(name = "vireo", version, long_version = LONG_VERSION, about)]
#[command(after_help = examples::help(examples::ALL), arg_required_else_help = true, args_override_self = true)]
pub struct Arguments {
    /// The command.
    #[command(subcommand)]
    pub command: Command,
    /// When to use colours in messages. NO_COLOR and CLICOLOR_FORCE are respected with `auto`.
    #[arg(long, global = true, value_enum, default_value_t = Color::Auto, value_name = "WHEN")]
    pub color: Color,
}

/// When to use colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// The commands. The flags of one are put together when it is given: those of all take longer than many programs run.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub enum Command {
    /// Call a function of a module and print its results.
    Run(Box<RunCommand>),
    /// Measure how long calls of a function take.
    Benchmark(Box<BenchmarkArguments>),
    /// Run the test functions of modules, which check their results themselves.
    Check(Box<CheckArguments>),
    /// Run a program for AMD GPUs on the software agent, and write down the packets of its queues.
    Trace(Box<TraceArguments>),
    /// Show what a program needs, such as devices, kernel formats and parameters, and what of that is missing here.
    Explain(ExplainArguments),
    /// Show what a module contains: imports, exports, types, data and code.
    Dump(DumpArguments),
    /// Assemble a text into a module file.
    Asm(AsmArguments),
    /// Disassemble a whole module to text, which `asm` assembles to the same module.
    Disasm(DisasmArguments),
    /// Create, convert and show parameter archives.
    #[command(subcommand)]
    Params(ParamsCommand),
    /// Show, replay and compare captures of what devices were asked to do (.ireereplay files).
    #[command(subcommand)]
    Replay(ReplayCommand),
    /// Show profiles of what devices did (.ireeprof files).
    #[command(subcommand)]
    Profile(ProfileCommand),
    /// List the devices that programs can run on.
    Devices(DevicesArguments),
    /// List the features of the processor that kernels can ask for.
    Cpuinfo(CpuinfoArguments),
    /// Write a completion script for a shell to stdout.
    Completions {
        /// The shell.
        #[arg(value_enum)]
        shell: clap_complete::Shell,
    },
}

/// Flags of all commands that run programs.
#[derive(Args, Debug)]
#[command(next_help_heading = "Program")]
pub struct ProgramArguments {
    /// A module to load: a .vmfb file, or `-` for stdin. Repeat it for several modules, dependencies first. The last
    /// one is run, or FILE.
    #[arg(long, value_name = "FILE")]
    pub module: Vec<PathBuf>,
    /// How module files are read.
    #[arg(long, value_enum, default_value_t = ModuleMode::Mmap, value_name = "MODE")]
    pub module_mode: ModuleMode,
    /// The device to run on: `driver`, or `driver://path?key=value`. Repeat it for several; see `vireo devices`.
    #[arg(long, default_value = "local-sync", value_name = "DEVICE", value_hint = ValueHint::Other)]
    pub device: Vec<String>,
    /// An allocator to put over that of each device: `caching` keeps freed memory for buffers of the same size and
    /// type, `caching:HEAP=SIZE;CAPACITY;COUNT,...` in bounds (`device_local=1gib;*;16`), and `debug` fills new and
    /// freed memory with patterns and lists the buffers that were never freed. Repeat it to put one over the other.
    #[arg(long, value_name = "ALLOCATOR")]
    pub device_allocator: Vec<AllocatorSpec>,
    /// How bytecode runs, kernels in portable bytecode included.
    #[arg(long, value_enum, default_value_t = TierChoice::Auto, value_name = "TIER")]
    pub tier: TierChoice,
    /// Write each op that the program executes to stderr, with the values of its operands:
    /// `[module.f+0000000B]    %i2 = vm.add.i32 %i0(5), %i1(6)`. The interpreter runs the program then.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true")]
    pub trace_execution: bool,
    /// Write a line for each call of a device, and of the objects it creates, to stderr or to a file.
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    pub device_trace: Option<OsString>,
    /// Refuse what breaks the contract of devices before a device sees it, whatever the device checks itself.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true")]
    pub device_validate: bool,
    /// The recording of devices.
    #[command(flatten)]
    pub recording: RecordingArguments,
    /// Write the names and addresses of compiled functions to /tmp/perf-PID.map, where `perf report` looks for them.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true")]
    pub perf_map: bool,
    /// Most bytes of one input or expected tensor. Larger ones are refused before memory is allocated.
    #[arg(long, default_value_t = 4 << 30, value_name = "BYTES")]
    pub max_tensor_bytes: u64,
    /// Flags from a file, one per line; `#` begins a comment.
    #[arg(long, value_name = "FILE")]
    pub flagfile: Option<PathBuf>,
    /// Where devices come from.
    #[command(flatten)]
    pub devices: DeviceArguments,
    /// Where parameters come from.
    #[command(flatten)]
    pub parameters: ParameterArguments,
    /// The limits of programs.
    #[command(flatten)]
    pub policy: PolicyArguments,
}

/// How bytecode runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TierChoice {
    /// The interpreter alone.
    Interp,
    /// Machine code for every function that the JIT supports; an error if this build has no JIT.
    Jit,
    /// The interpreter, and machine code for functions that run often or long.
    Auto,
    /// The interpreter, then machine code in a context of its own; any difference is an error.
    Both,
}

/// Flags of commands that list devices and drivers instead of running a program.
#[derive(Args, Debug)]
#[command(next_help_heading = "Lists instead of a call")]
pub struct ListingArguments {
    /// List the devices, or those of one driver, and exit.
    #[arg(long, value_name = "DRIVER", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    pub list_devices: Option<String>,
    /// List the drivers and exit.
    #[arg(long)]
    pub list_drivers: bool,
    /// Describe the devices, or those of one driver, and exit.
    #[arg(long, value_name = "DRIVER", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    pub dump_devices: Option<String>,
}

/// Flags of all commands that have to do with devices.
#[derive(Args, Debug)]
#[command(next_help_heading = "Devices")]
pub struct DeviceArguments {
    /// A shared library with drivers to load. Its code runs with all rights of this process. May be repeated.
    #[arg(long, value_name = "FILE")]
    pub driver_plugin: Vec<PathBuf>,
    /// A library with functions that kernels of local devices import: a shared library, or an embedded one (`.sos`).
    /// Its code runs with all rights of this process. May be repeated; the first that has a function provides it.
    #[arg(long, value_name = "FILE")]
    pub executable_plugin: Vec<PathBuf>,
    /// Where the ranks of a program with collective operations meet, and which rank this is:
    /// `tcp://HOST:PORT,RANK,COUNT`, where rank 0 listens. Launchers of MPI programs pass the rank and the count by
    /// variables (PMI_RANK and PMI_SIZE, OMPI_COMM_WORLD_RANK and OMPI_COMM_WORLD_SIZE); a third number is the seconds
    /// that ranks wait for each other, and `,no_shared_memory` at the end keeps large data in connections.
    #[arg(long, value_name = "MEETING", value_parser = parse_collectives)]
    pub collectives: Option<CollectiveOptions>,
    /// The workers of `local-task` devices.
    #[command(flatten)]
    pub task: TaskArguments,
    /// The agents of `amdgpu` devices.
    #[command(flatten)]
    pub amdgpu: AmdgpuArguments,
    /// The devices of `cuda`.
    #[command(flatten)]
    pub cuda: CudaArguments,
}

/// The options of collectives, from their text.
fn parse_collectives(text: &str) -> Result<CollectiveOptions, String> {
    text.parse().map_err(|status: Status| status.message().to_string())
}

impl DeviceArguments {
    /// How devices find the other ranks of a program, with what a launcher of MPI programs says.
    pub fn collectives(&self) -> Result<Collectives, Failure> {
        let Some(options) = &self.collectives else { return Ok(Collectives::default()) };
        let options = options.clone().with_launcher(|name| std::env::var(name).ok());
        let wrong = |status| Failure::new(Exit::Usage, "--collectives cannot tell the rank").because(status);
        Ok(Collectives::new(options.map_err(wrong)?))
    }
}

/// Where the agents of `amdgpu` devices are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AmdgpuAgentName {
    /// GPUs, by the HSA library of the system.
    Library,
    /// The software agent, which interprets the code of GPUs on the processor.
    Software,
}

/// Flags of `amdgpu` devices.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Devices of amdgpu")]
pub struct AmdgpuArguments {
    /// Where the agents of `amdgpu` devices are: GPUs, or the software agent, which interprets their code on the
    /// processor.
    #[arg(long, value_name = "AGENT", value_enum, default_value_t = AmdgpuAgentName::Library)]
    pub amdgpu_agent: AmdgpuAgentName,
    /// A folder with the HSA library of `amdgpu` devices, or the file. May be repeated; the first that can be loaded is
    /// used.
    #[arg(long, value_name = "PATH")]
    pub amdgpu_libhsa_search_path: Vec<PathBuf>,
    /// Check the accesses of kernels on the software agent and the software CUDA driver: `memory` finds those out of
    /// bounds and of freed memory, `race` data races of waves, work-groups and queues, `race-same-value` also those
    /// that change nothing, since all stores leave the same bytes, `init` loads of what was never written. What is
    /// found is written to stderr at the end.
    #[arg(long, value_name = "CHECK,...", value_enum, value_delimiter = ',')]
    pub sanitize: Vec<SanitizerCheck>,
    /// Write what the sanitizer found to this file, too, as JSON.
    #[arg(long, value_name = "FILE", requires = "sanitize")]
    pub sanitize_report: Option<PathBuf>,
    /// The trace of `vireo trace`, which no flag sets.
    #[cfg(feature = "software-agents")]
    #[arg(skip)]
    pub packet_trace: OnceLock<Arc<PacketTrace>>,
}

/// A check of the sanitizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SanitizerCheck {
    /// Accesses out of bounds, and of freed memory.
    Memory,
    /// Data races that can change results.
    Race,
    /// Data races, also those that change nothing.
    RaceSameValue,
    /// Loads of what was never written.
    Init,
}

impl AmdgpuArguments {
    /// The checks of the sanitizer.
    pub fn checks(&self) -> SanitizerChecks {
        let has = |check| self.sanitize.contains(&check);
        SanitizerChecks {
            memory: has(SanitizerCheck::Memory),
            race: has(SanitizerCheck::Race) || has(SanitizerCheck::RaceSameValue),
            race_same_value: has(SanitizerCheck::RaceSameValue),
            init: has(SanitizerCheck::Init),
        }
    }

    /// The configuration that the driver starts from.
    pub fn config(&self) -> AmdgpuConfig {
        let agent = match self.amdgpu_agent {
            AmdgpuAgentName::Library => AmdgpuAgent::Library,
            AmdgpuAgentName::Software => AmdgpuAgent::Software,
        };
        let mut config = AmdgpuConfig { agent, sanitize: self.checks(), ..AmdgpuConfig::default() };
        config.library_paths.clone_from(&self.amdgpu_libhsa_search_path);
        #[cfg(feature = "software-agents")]
        {
            config.packet_trace = self.packet_trace.get().cloned();
        }
        config
    }
}

impl Color {
    /// The choice in the type of the streams that strip colours.
    pub fn choice(self) -> anstream::ColorChoice {
        match self {
            Color::Auto => anstream::ColorChoice::Auto,
            Color::Always => anstream::ColorChoice::Always,
            Color::Never => anstream::ColorChoice::Never,
        }
    }
}

impl Command {
    /// How the command writes to stdout; `benchmark`, `trace` and those that write files have formats of their own.
    pub fn format(&self) -> Format {
        match self {
            Command::Run(arguments) => arguments.format,
            Command::Check(arguments) => arguments.format,
            Command::Explain(arguments) => arguments.format(),
            Command::Dump(arguments) => arguments.format,
            Command::Disasm(arguments) => arguments.format(),
            Command::Params(arguments) => arguments.format(),
            Command::Devices(arguments) => arguments.format,
            Command::Cpuinfo(arguments) => arguments.format,
            Command::Benchmark(arguments) if arguments.format == BenchmarkFormat::Json => Format::Json,
            _ => Format::Text,
        }
    }

    /// The flags of a program, of a command that runs one.
    pub fn program(&self) -> Option<&ProgramArguments> {
        match self {
            Command::Run(arguments) => Some(&arguments.run.program),
            Command::Trace(arguments) => Some(&arguments.run.program),
            Command::Benchmark(arguments) => Some(&arguments.program),
            Command::Check(arguments) => Some(&arguments.program),
            _ => None,
        }
    }
}

impl ProgramArguments {
    /// Bounds on values.
    pub fn limits(&self) -> Limits {
        Limits { max_tensor_bytes: self.max_tensor_bytes }
    }
}

/// How module files are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ModuleMode {
    /// Into memory, at once.
    Preload,
    /// Mapped, page by page as they are used.
    Mmap,
}

#[cfg(test)]
mod tests {
    use super::run::EqualityMode;
    use super::*;

    fn run(flags: &[&str]) -> Result<RunArguments, clap::Error> {
        let arguments = ["vireo", "run"].iter().chain(flags);
        match Arguments::try_parse_from(arguments)?.command {
            Command::Run(arguments) => Ok(arguments.run),
            _ => unreachable!("`run` was given"),
        }
    }

    #[test]
    fn the_command_is_well_formed() {
        <Arguments as clap::CommandFactory>::command().debug_assert();
    }

    #[test]
    fn flags_as_the_reference_tool_writes_them() {
        let arguments =
            run(&["--module=a", "--module=b", "--input=-1", "--input", "-2", "--output=", "--output=-"]).unwrap();
        assert_eq!(arguments.program.module, [PathBuf::from("a"), PathBuf::from("b")]);
        assert_eq!(arguments.input, ["-1", "-2"]);
        assert_eq!(arguments.output, ["", "-"]);
        assert_eq!(arguments.program.device, ["local-sync"]);
        assert_eq!(arguments.listing.list_devices, None);
        assert!(!arguments.print_statistics);
        assert_eq!(run(&["--list-devices"]).unwrap().listing.list_devices.as_deref(), Some(""));
        assert_eq!(run(&["--list-devices=local-sync"]).unwrap().listing.list_devices.as_deref(), Some("local-sync"));
        assert!(run(&["--print-statistics"]).unwrap().print_statistics);
        assert!(!run(&["--print-statistics=false"]).unwrap().print_statistics);
        assert_eq!(run(&["--output-max-element-count=-1"]).unwrap().max_elements(), usize::MAX);
        assert_eq!(run(&["--equality-mode=exact"]).unwrap().comparison.equality_mode, EqualityMode::Exact);
        assert!(run(&["--equality-mode=foo"]).is_err());
        assert!(run(&["--bogus=1"]).is_err());
        assert_eq!(run(&["extra"]).unwrap().file, Some(PathBuf::from("extra")));
        assert!(run(&["extra", "more"]).is_err());
    }
}
