//! The flags of `vireo run`, part of the command line.

use std::path::PathBuf;

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, ValueEnum, ValueHint};
use vireo::inference::Tolerance;

use super::{Format, ListingArguments, ProfilingArguments, ProgramArguments, examples};
use crate::exit;
use crate::os_text::text_of;

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

/// Calls a function of a module and prints its results.
///
/// Names and values of flags are those of `iree-run-module`; `--list_devices` and `--list-devices` are the same.
#[derive(Args, Debug)]
#[command(after_help = const_format(), after_long_help = const_format())]
pub struct RunCommand {
    /// How results are written to stdout: as the reference's tool prints them, or as one JSON document.
    #[arg(long, value_enum, default_value_t = Format::Text, value_name = "FORMAT")]
    pub format: Format,
    /// The function and its arguments.
    #[command(flatten)]
    pub run: RunArguments,
}

/// Calls a function of a module and prints its results.
///
/// Names and values of flags are those of `iree-run-module`; `--list_devices` and `--list-devices` are the same.
#[derive(Args, Debug)]
pub struct RunArguments {
    /// The module to run, after those of --module: a .vmfb file, or `-` for stdin.
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// The exported function to call. Not needed if the module exports only one.
    #[arg(long, value_name = "NAME", value_hint = ValueHint::Other)]
    pub function: Option<String>,
    /// An argument of the function. Repeat it for each argument, in order.
    #[arg(long, value_name = "VALUE", allow_hyphen_values = true, value_parser = OsStringValueParser::new().map(text_of), value_hint = ValueHint::Other)]
    pub input: Vec<String>,
    /// Destination of a result: none if empty, `-` to print it, `@file` to write it, `+file` to append it to a file.
    /// Files that end in .npy become NumPy arrays, those in .npz and .safetensors hold all results that name them, by
    /// the names that follow a colon (`@file.npz:name`), and others raw bytes. Repeat it for each result, in order.
    #[arg(long, value_name = "WHERE", allow_hyphen_values = true, value_parser = OsStringValueParser::new().map(text_of))]
    pub output: Vec<String>,
    /// An expected result, written as an --input. Repeat it for each result, in order.
    #[arg(long, value_name = "VALUE", allow_hyphen_values = true, value_parser = OsStringValueParser::new().map(text_of), conflicts_with = "output")]
    pub expected_output: Vec<String>,
    /// Most elements of a tensor to print. Negative: all.
    #[arg(long, default_value_t = 1024, value_name = "COUNT", allow_hyphen_values = true)]
    pub output_max_element_count: i32,
    /// Print memory statistics of the device, how much machine code there is, and where it handed ops to the
    /// interpreter, to stderr at the end.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true")]
    pub print_statistics: bool,
    /// Print what the queues of devices were asked for, and how often and how long each kernel ran, to stderr, at the
    /// end.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true")]
    pub print_device_statistics: bool,
    /// Write when each kernel ran on the devices to this file, as trace events in JSON, which https://ui.perfetto.dev
    /// and chrome://tracing open.
    #[arg(long, value_name = "FILE")]
    pub dispatch_trace: Option<PathBuf>,
    /// How results are compared with expected ones.
    #[command(flatten)]
    pub comparison: Comparison,
    /// Lists instead of a call.
    #[command(flatten)]
    pub listing: ListingArguments,
    /// Modules and devices.
    #[command(flatten)]
    pub program: ProgramArguments,
    /// Profiles of devices.
    #[command(flatten)]
    pub profiling: ProfilingArguments,
}

fn const_format() -> String {
    format!("Examples:\n  {}\n\n{RUN_HELP}\n\n{}", examples::RUN, exit::HELP)
}

/// How results are compared.
#[derive(Args, Debug)]
#[command(next_help_heading = "Comparison with expected results")]
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
