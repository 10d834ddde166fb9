//! The command line: every command with its flags and their types, as `clap` parses it. `main` parses it, and each command gets its part.

mod benchmark;
mod policy;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

pub use self::benchmark::{BenchmarkArguments, BenchmarkFormat, MinTime, TimeUnit};
pub use self::policy::PolicyArguments;
use crate::exit;
use crate::task::TaskArguments;
use crate::values::Limits;
use crate::values::compare::Tolerance;

/// Runs and inspects IREE programs (.vmfb files).
#[derive(Debug, Parser)]
#[command(name = "vireo", version, about, after_help = exit::HELP, arg_required_else_help = true)]
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

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Call a function of a module and print its results.
    Run(Box<RunArguments>),
    /// Measure how long calls of a function take.
    Benchmark(Box<BenchmarkArguments>),
    /// Run the test functions of modules, which check their results themselves.
    Check(Box<CheckArguments>),
    /// Show what a module contains: imports, exports, types, data and code.
    Dump(DumpArguments),
    /// Assemble a text into a module file.
    Asm(AsmArguments),
    /// Disassemble a whole module to text, which `asm` assembles to the same module.
    Disasm(DisasmArguments),
    /// Create, convert and show parameter archives.
    #[command(subcommand)]
    Params(ParamsCommand),
    /// List the devices that programs can run on.
    Devices(DevicesArguments),
    /// Write a completion script for a shell to stdout.
    Completions {
        /// The shell.
        #[arg(value_enum)]
        shell: clap_complete::Shell,
    },
}

/// Flags of all commands that run programs.
#[derive(Args, Debug)]
pub struct ProgramArguments {
    /// A module to load: a .vmfb file, or `-` for stdin. Repeat it for several modules, dependencies first; the last one is run.
    #[arg(long, value_name = "FILE")]
    pub module: Vec<PathBuf>,
    /// How module files are read.
    #[arg(long, value_enum, default_value_t = ModuleMode::Mmap, value_name = "MODE")]
    pub module_mode: ModuleMode,
    /// The device to run on: `driver`, or `driver://path?key=value`. Repeat it for several; see `vireo devices`.
    #[arg(long, default_value = "local-sync", value_name = "DEVICE")]
    pub device: Vec<String>,
    /// Where devices come from.
    #[command(flatten)]
    pub devices: DeviceArguments,
    /// Where parameters come from.
    #[command(flatten)]
    pub parameters: ParameterArguments,
    /// How bytecode runs, kernels in portable bytecode included.
    #[arg(long, value_enum, default_value_t = TierChoice::Auto, value_name = "TIER")]
    pub tier: TierChoice,
    /// Write each op that the program executes to stderr, with the values of its operands: `[module.f+0000000B]    %i2 = vm.add.i32
    /// %i0(5), %i1(6)`. The interpreter runs the program then.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true")]
    pub trace_execution: bool,
    /// Write a line for each call of a device, and of the objects it creates, to stderr or to a file.
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    pub device_trace: Option<OsString>,
    /// Refuse what breaks the contract of devices before a device sees it, whatever the device checks itself.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true")]
    pub device_validate: bool,
    /// What programs may do.
    #[command(flatten)]
    pub policy: PolicyArguments,
    /// Write the names and addresses of compiled functions to /tmp/perf-PID.map, where `perf report` looks for them.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true")]
    pub perf_map: bool,
    /// Most bytes of one input or expected tensor. Larger ones are refused before memory is allocated.
    #[arg(long, default_value_t = 4 << 30, value_name = "BYTES")]
    pub max_tensor_bytes: u64,
    /// Flags from a file, one per line; `#` begins a comment.
    #[arg(long, value_name = "FILE")]
    pub flagfile: Option<PathBuf>,
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

/// Flags of all commands that have to do with devices.
#[derive(Args, Debug)]
pub struct DeviceArguments {
    /// A shared library with drivers to load. Its code runs with all rights of this process. May be repeated.
    #[arg(long, value_name = "FILE")]
    pub driver_plugin: Vec<PathBuf>,
    /// A library with functions that kernels of local devices import: a shared library, or an embedded one (`.sos`). Its code runs with
    /// all rights of this process. May be repeated; the first that has a function provides it.
    #[arg(long, value_name = "FILE")]
    pub executable_plugin: Vec<PathBuf>,
    /// The workers of `local-task` devices.
    #[command(flatten)]
    pub task: TaskArguments,
}

/// Flags of all commands that read parameters.
#[derive(Args, Debug)]
pub struct ParameterArguments {
    /// An archive with parameters of programs: a .irpa, .gguf or .safetensors file, prefixed with the name of their scope if they
    /// have one. May be repeated.
    #[arg(long, value_name = "[SCOPE=]FILE")]
    pub parameters: Vec<String>,
    /// How parameter archives are read.
    #[arg(long, value_enum, default_value_t = ParameterMode::Mmap, value_name = "MODE")]
    pub parameter_mode: ParameterMode,
}

/// How parameter archives are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ParameterMode {
    /// Mapped: constants that are aligned are used where they are in the file.
    Mmap,
    /// Parameters are read into memory when the program loads them.
    File,
    /// Whole files are read into memory at once.
    Preload,
}

/// The commands of `vireo params`.
#[derive(Debug, Subcommand)]
pub enum ParamsCommand {
    /// Merge parameters of any archives into one .irpa file; omit some, rename them, or replace them by repeated values.
    Convert(ConvertArguments),
    /// Create a .irpa file from values on the command line.
    Create(CreateArguments),
    /// List the contents of archives, and extract parameters.
    Dump(ParamsDumpArguments),
}

/// Flags of `vireo params convert`. Names and values are those of `iree-convert-parameters`.
#[derive(Args, Debug)]
#[command(after_help = exit::HELP)]
pub struct ConvertArguments {
    /// The archives to convert.
    #[command(flatten)]
    pub parameters: ParameterArguments,
    /// A parameter to omit. May be repeated.
    #[arg(long, value_name = "NAME")]
    pub exclude: Vec<String>,
    /// A parameter to rename. May be repeated.
    #[arg(long, value_name = "OLD=NEW")]
    pub rename: Vec<String>,
    /// A parameter to replace by zeros, or by a value that is repeated: `name`, `name=i8=123`, `name=f32=4.5`, `name=x32=CAFEF00D`.
    /// May be repeated.
    #[arg(long, value_name = "NAME[=TYPE=VALUE]")]
    pub splat: Vec<String>,
    /// Replace all other parameters by zeros that take no space in the file.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true")]
    pub strip: bool,
    /// Do not list the contents of the new file.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true")]
    pub quiet: bool,
    /// The .irpa file to write.
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
}

/// Flags of `vireo params create`. Names and values are those of `iree-create-parameters`.
#[derive(Args, Debug)]
#[command(after_help = exit::HELP)]
pub struct CreateArguments {
    /// A parameter that takes no space in the file: `name=2x3xf32` of zeros, or `name=2x3xf32=1.5`. May be repeated.
    #[arg(long, value_name = "NAME=TYPE[=VALUE]")]
    pub splat: Vec<String>,
    /// A parameter with contents in the file: zeros, a repeated value, or any tensor as for `vireo run --input`, such as
    /// `name=2x2xf32=1,2,3,4`, `name=2x2xf32=@file.bin` or `name=@file.npy`. May be repeated.
    #[arg(long, value_name = "NAME=TENSOR")]
    pub data: Vec<String>,
    /// Contents begin at multiples of this many bytes.
    #[arg(long, default_value_t = 64, value_name = "BYTES")]
    pub alignment: u64,
    /// Do not list the contents of the new file.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true")]
    pub quiet: bool,
    /// The .irpa file to write.
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
}

/// Flags of `vireo params dump`. Names and values are those of `iree-dump-parameters`.
#[derive(Args, Debug)]
#[command(after_help = exit::HELP)]
pub struct ParamsDumpArguments {
    /// Archives to show, as for --parameters.
    #[arg(value_name = "[SCOPE=]FILE")]
    pub files: Vec<String>,
    /// What to show.
    #[command(flatten)]
    pub parameters: ParameterArguments,
    /// How to show it.
    #[arg(long, value_enum, default_value_t = DumpFormat::Text, value_name = "FORMAT")]
    pub format: DumpFormat,
    /// Write the contents of a parameter to a file. May be repeated.
    #[arg(long, value_name = "[SCOPE::]KEY=FILE")]
    pub extract: Vec<String>,
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

impl ProgramArguments {
    /// Bounds on values.
    pub fn limits(&self) -> Limits {
        Limits { max_tensor_bytes: self.max_tensor_bytes }
    }
}

const RUN_HELP: &str = "\
Values (--input, --expected-output):
  1, -2, 0x1F, 1.5, nan     a number, for a function argument of type i32, i64, f32 or f64
  2x3xf32=1,2,3,4,5,6       a tensor; commas, spaces and brackets separate the elements
  2x2xi8=[1 2][3 4]         the same with brackets
  2x3xf32=7                 a tensor of equal elements
  f32=7                     a tensor of rank 0
  2x3xf32                   a tensor of zeros
  2x3xf32=@file.bin         elements from a raw little-endian file; `+file.bin` goes on where the last value ended
  2x3xbf16=@file.npy        a NumPy array that is of this type, or bytes without a type
  @file.npy                 a NumPy array; `+file.npy` the next one in the file, `*file.npy` all that are left
  @file.npz, @file.npz:name a tensor of a file with several, .npz or .safetensors: the first, or the one with the name;
                            `+` and `*` as above
  &2x3xf32=...              an untyped buffer with the contents of the tensor
  (null)                    a null reference, or zero
  (ignored)                 with --expected-output: any result

Element types: i1, i2, i4, i8 to i64, si2 to si64, ui2 to ui64, f16, bf16, f32, f64, f8E4M3FN and the other 8-bit floats,
cf64 and cf128 (1+2i). Others are written as the hexadecimal bytes of each element.";

/// Flags of `vireo run`. Names and values are those of `iree-run-module`; `--list_devices` and `--list-devices` are the same.
#[derive(Args, Debug)]
#[command(after_help = const_format(), after_long_help = const_format())]
pub struct RunArguments {
    /// Modules and devices.
    #[command(flatten)]
    pub program: ProgramArguments,
    /// The exported function to call. Not needed if the module exports only one.
    #[arg(long, value_name = "NAME")]
    pub function: Option<String>,
    /// An argument of the function. Repeat it for each argument, in order.
    #[arg(long, value_name = "VALUE", allow_hyphen_values = true)]
    pub input: Vec<String>,
    /// Destination of a result: none if empty, `-` to print it, `@file` to write it, `+file` to append it to a file. Files
    /// that end in .npy become NumPy arrays, those in .npz and .safetensors hold all results that name them, by the names that follow
    /// a colon (`@file.npz:name`), and others raw bytes. Repeat it for each result, in order.
    #[arg(long, value_name = "WHERE", allow_hyphen_values = true)]
    pub output: Vec<String>,
    /// An expected result, written as an --input. Repeat it for each result, in order.
    #[arg(long, value_name = "VALUE", allow_hyphen_values = true, conflicts_with = "output")]
    pub expected_output: Vec<String>,
    /// How results are compared with expected ones.
    #[command(flatten)]
    pub comparison: Comparison,
    /// Most elements of a tensor to print. Negative: all.
    #[arg(long, default_value_t = 1024, value_name = "COUNT", allow_hyphen_values = true)]
    pub output_max_element_count: i32,
    /// List the devices, or those of one driver, and exit.
    #[arg(long, value_name = "DRIVER", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    pub list_devices: Option<String>,
    /// List the drivers and exit.
    #[arg(long)]
    pub list_drivers: bool,
    /// Describe the devices, or those of one driver, and exit.
    #[arg(long, value_name = "DRIVER", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    pub dump_devices: Option<String>,
    /// Print memory statistics of the device to stderr at the end.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true")]
    pub print_statistics: bool,
}

fn const_format() -> String {
    format!("{RUN_HELP}\n\n{}", exit::HELP)
}

/// How results are compared.
#[derive(Args, Debug)]
pub struct Comparison {
    /// `approximate` uses the tolerances below for floats; `exact` compares bytes.
    #[arg(long, value_enum, default_value_t = EqualityMode::Approximate, value_name = "MODE")]
    pub equality_mode: EqualityMode,
    /// Absolute tolerance of f16.
    #[arg(long, default_value_t = 0.001, value_name = "FLOAT")]
    pub expected_f16_threshold: f32,
    /// Absolute tolerance of f32.
    #[arg(long, default_value_t = 0.0001, value_name = "FLOAT")]
    pub expected_f32_threshold: f32,
    /// Absolute tolerance of f64.
    #[arg(long, default_value_t = 0.0001, value_name = "FLOAT")]
    pub expected_f64_threshold: f64,
    /// Absolute tolerance of bf16.
    #[arg(long, default_value_t = 0.01, value_name = "FLOAT")]
    pub expected_bf16_threshold: f32,
    /// Relative tolerance of all float types.
    #[arg(long, default_value_t = 1e-5, value_name = "FLOAT")]
    pub expected_rtol: f64,
}

/// How results are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum EqualityMode {
    /// `abs(actual - expected) <= atol + rtol * abs(expected)` for floats; NaN equals NaN.
    Approximate,
    /// Equal bytes.
    Exact,
}

/// How module files are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ModuleMode {
    /// Into memory, at once.
    Preload,
    /// Mapped, page by page as they are used.
    Mmap,
}

impl Comparison {
    /// The tolerances.
    pub fn tolerance(&self) -> Tolerance {
        Tolerance {
            exact: self.equality_mode == EqualityMode::Exact,
            f16: self.expected_f16_threshold.into(),
            f32: self.expected_f32_threshold.into(),
            f64: self.expected_f64_threshold,
            bf16: self.expected_bf16_threshold.into(),
            relative: self.expected_rtol,
        }
    }
}

impl RunArguments {
    /// Most elements to print.
    pub fn max_elements(&self) -> usize {
        usize::try_from(self.output_max_element_count).unwrap_or(usize::MAX)
    }
}

/// Flags of `vireo check`. Names are those of `iree-check-module` and of GoogleTest, which it uses.
#[derive(Args, Debug)]
#[command(after_help = exit::HELP)]
pub struct CheckArguments {
    /// Test modules, each run on its own after the modules of --module. Without any, the last --module is the test module.
    #[arg(value_name = "FILE")]
    pub tests: Vec<PathBuf>,
    /// Modules and devices.
    #[command(flatten)]
    pub program: ProgramArguments,
    /// Only tests that a pattern matches: `PATTERN:PATTERN-PATTERN:PATTERN`, without those after the dash. `*` is any text, `?` any
    /// character. A test is called `function` or `module.function`.
    #[arg(long, value_name = "PATTERNS", alias = "gtest-filter", allow_hyphen_values = true)]
    pub filter: Option<String>,
    /// List the names of the tests and exit.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true", alias = "gtest-list-tests")]
    pub list: bool,
    /// Stop after the first test that fails.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true", alias = "gtest-fail-fast")]
    pub fail_fast: bool,
    /// Expect that a test fails: succeed if one does, fail if none does.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true")]
    pub expect_failure: bool,
    /// How results are written to stdout.
    #[arg(long, value_enum, default_value_t = CheckFormat::Text, value_name = "FORMAT")]
    pub format: CheckFormat,
    /// Also write the results to this file, in the form of JUnit.
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
}

/// How `vireo check` writes results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CheckFormat {
    /// A line for each test, for people.
    Text,
    /// One JSON object.
    Json,
}

/// Flags of `vireo dump`.
#[derive(Args, Debug)]
#[command(after_help = exit::HELP)]
pub struct DumpArguments {
    /// The module: a .vmfb file, or `-` for stdin.
    #[arg(value_name = "FILE")]
    pub module: PathBuf,
    /// What to show.
    #[arg(long, value_enum, default_value_t = DumpOutput::All, value_name = "WHAT")]
    pub output: DumpOutput,
    /// How to show it. JSON has the metadata only.
    #[arg(long, value_enum, default_value_t = DumpFormat::Text, value_name = "FORMAT")]
    pub format: DumpFormat,
    /// Only this function: an exported name, or an ordinal as the function table shows it; with `--jit` the name of a kernel, too. May be
    /// repeated.
    #[arg(long, value_name = "NAME")]
    pub function: Vec<String>,
    /// Show the machine code of functions, and of kernels in portable bytecode, next to their ops.
    #[arg(long, conflicts_with_all = ["output", "format"])]
    pub jit: bool,
}

/// Flags of `vireo asm`.
#[derive(Args, Debug)]
#[command(after_help = exit::HELP)]
pub struct AsmArguments {
    /// The text: a .vmasm file, or `-` for stdin.
    #[arg(value_name = "FILE")]
    pub source: PathBuf,
    /// The module file to write.
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// Write the module even if the verifier refuses it; it cannot be run then.
    #[arg(long)]
    pub no_verify: bool,
}

/// Flags of `vireo disasm`.
#[derive(Args, Debug)]
#[command(after_help = exit::HELP)]
pub struct DisasmArguments {
    /// The module: a .vmfb file, or `-` for stdin.
    #[arg(value_name = "FILE")]
    pub module: PathBuf,
    /// The file to write the text to, instead of stdout.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// Flags of `vireo devices`.
#[derive(Args, Debug)]
#[command(after_help = exit::HELP)]
pub struct DevicesArguments {
    /// Only the devices of this driver.
    #[arg(value_name = "DRIVER", default_value = "", hide_default_value = true)]
    pub driver: String,
    /// How to show them.
    #[arg(long, value_enum, default_value_t = DevicesFormat::Text, value_name = "FORMAT")]
    pub format: DevicesFormat,
    /// Where devices come from.
    #[command(flatten)]
    pub devices: DeviceArguments,
}

/// How `vireo devices` shows devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DevicesFormat {
    /// A table for people.
    Text,
    /// JSON, with every detail.
    Json,
}

/// What `vireo dump` shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DumpOutput {
    /// Names, imports, exports, types, data, functions.
    Metadata,
    /// The code of the functions.
    Disassembly,
    /// Both.
    All,
}

/// How `vireo dump` shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DumpFormat {
    /// Tables for people.
    Text,
    /// One JSON object.
    Json,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(flags: &[&str]) -> Result<RunArguments, clap::Error> {
        let arguments = ["vireo", "run"].iter().chain(flags);
        match Arguments::try_parse_from(arguments)?.command {
            Command::Run(arguments) => Ok(*arguments),
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
        assert_eq!(arguments.list_devices, None);
        assert!(!arguments.print_statistics);
        assert_eq!(run(&["--list-devices"]).unwrap().list_devices.as_deref(), Some(""));
        assert_eq!(run(&["--list-devices=local-sync"]).unwrap().list_devices.as_deref(), Some("local-sync"));
        assert!(run(&["--print-statistics"]).unwrap().print_statistics);
        assert!(!run(&["--print-statistics=false"]).unwrap().print_statistics);
        assert_eq!(run(&["--output-max-element-count=-1"]).unwrap().max_elements(), usize::MAX);
        assert_eq!(run(&["--equality-mode=exact"]).unwrap().comparison.equality_mode, EqualityMode::Exact);
        assert!(run(&["--equality-mode=foo"]).is_err());
        assert!(run(&["--bogus=1"]).is_err());
        assert!(run(&["extra"]).is_err());
    }
}
