//! The flags of `vireo params` and of all commands that read parameters, part of the command line.

use std::path::PathBuf;

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, Subcommand, ValueEnum};

use super::{Format, examples};
use crate::os_text::text_of;

/// Flags of all commands that read parameters.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Parameters")]
pub struct ParameterArguments {
    /// An archive with parameters of programs: a .irpa, .gguf or .safetensors file, prefixed with the name of their
    /// scope if they have one. May be repeated.
    #[arg(long, value_name = "[SCOPE=]FILE", value_parser = OsStringValueParser::new().map(text_of))]
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
#[command(defer = true)]
pub enum ParamsCommand {
    /// Merge parameters of any archives into one .irpa file; omit some, rename them, or replace them by repeated
    /// values.
    Convert(ConvertArguments),
    /// Create a .irpa file from values on the command line.
    Create(CreateArguments),
    /// List the contents of archives, and extract parameters.
    Dump(ParamsDumpArguments),
}

impl ParamsCommand {
    /// How the contents of archives are shown.
    pub fn format(&self) -> Format {
        match self {
            ParamsCommand::Convert(arguments) => arguments.format,
            ParamsCommand::Create(arguments) => arguments.format,
            ParamsCommand::Dump(arguments) => arguments.format,
        }
    }
}

/// Converts archives of parameters into one.
///
/// Names and values of flags are those of `iree-convert-parameters`.
#[derive(Args, Debug)]
#[command(after_help = examples::help(examples::CONVERT))]
pub struct ConvertArguments {
    /// Archives to convert, as for --parameters.
    #[arg(value_name = "[SCOPE=]FILE", value_parser = OsStringValueParser::new().map(text_of))]
    pub files: Vec<String>,
    /// A parameter to omit. May be repeated.
    #[arg(long, value_name = "NAME")]
    pub exclude: Vec<String>,
    /// A parameter to rename. May be repeated.
    #[arg(long, value_name = "OLD=NEW")]
    pub rename: Vec<String>,
    /// A parameter to replace by zeros, or by a value that is repeated: `name`, `name=i8=123`, `name=f32=4.5`,
    /// `name=x32=CAFEF00D`. May be repeated.
    #[arg(long, value_name = "NAME[=TYPE=VALUE]")]
    pub splat: Vec<String>,
    /// Replace all other parameters by zeros that take no space in the file.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true")]
    pub strip: bool,
    /// How the contents of the new file are shown.
    #[arg(long, value_enum, default_value_t = Format::Text, value_name = "FORMAT")]
    pub format: Format,
    /// Do not list the contents of the new file.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true")]
    pub quiet: bool,
    /// The .irpa file to write.
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// The archives to convert.
    #[command(flatten)]
    pub parameters: ParameterArguments,
}

/// Creates an archive of parameters from what flags say.
///
/// Names and values of flags are those of `iree-create-parameters`.
#[derive(Args, Debug)]
#[command(after_help = examples::help(examples::CREATE))]
pub struct CreateArguments {
    /// A parameter that takes no space in the file: `name=2x3xf32` of zeros, or `name=2x3xf32=1.5`. May be repeated.
    #[arg(long, value_name = "NAME=TYPE[=VALUE]")]
    pub splat: Vec<String>,
    /// A parameter with contents in the file: zeros, a repeated value, or any tensor as for `vireo run --input`, such
    /// as `name=2x2xf32=1,2,3,4`, `name=2x2xf32=@file.bin` or `name=@file.npy`. May be repeated.
    #[arg(long, value_name = "NAME=TENSOR")]
    pub data: Vec<String>,
    /// Contents begin at multiples of this many bytes.
    #[arg(long, default_value_t = 64, value_name = "BYTES")]
    pub alignment: u64,
    /// How the contents of the new file are shown.
    #[arg(long, value_enum, default_value_t = Format::Text, value_name = "FORMAT")]
    pub format: Format,
    /// Do not list the contents of the new file.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true")]
    pub quiet: bool,
    /// The .irpa file to write.
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
}

/// Shows what archives of parameters hold.
///
/// Names and values of flags are those of `iree-dump-parameters`.
#[derive(Args, Debug)]
#[command(after_help = examples::help(examples::PARAMS_DUMP))]
pub struct ParamsDumpArguments {
    /// Archives to show, as for --parameters.
    #[arg(value_name = "[SCOPE=]FILE", value_parser = OsStringValueParser::new().map(text_of))]
    pub files: Vec<String>,
    /// How to show it.
    #[arg(long, value_enum, default_value_t = Format::Text, value_name = "FORMAT")]
    pub format: Format,
    /// Write the contents of a parameter to a file. May be repeated.
    #[arg(long, value_name = "[SCOPE::]KEY=FILE")]
    pub extract: Vec<String>,
    /// The archives.
    #[command(flatten)]
    pub parameters: ParameterArguments,
}
