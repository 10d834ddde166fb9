//! The flags of `vireo explain`, part of the command line.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::{DeviceArguments, Format, ParameterArguments, Seconds};
use crate::exit;

/// Shows what a program needs, such as devices, kernel formats and parameters, and what of that is missing here.
///
/// The command fails with code 3 if something is missing.
#[derive(Args, Debug)]
#[command(after_help = exit::HELP)]
pub struct ExplainArguments {
    /// The modules: .vmfb files, dependencies first; the last one is explained.
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// A device that the program is to run on. Repeat it for several; see `vireo devices`.
    #[arg(long, default_value = "local-sync", value_name = "DEVICE", value_hint = ValueHint::Other)]
    pub device: Vec<String>,
    /// Most time that the command may take, in seconds. Without it there is no limit.
    #[arg(long, value_name = "SECONDS")]
    pub timeout: Option<Seconds>,
    /// How to show it.
    #[arg(long, value_enum, default_value_t = Format::Text, value_name = "FORMAT")]
    format: Format,
    /// The same as --format=json.
    #[arg(long, hide = true)]
    json: bool,
    /// Where devices come from.
    #[command(flatten)]
    pub devices: DeviceArguments,
    /// Where parameters come from.
    #[command(flatten)]
    pub parameters: ParameterArguments,
}

impl ExplainArguments {
    /// How to show it.
    pub fn format(&self) -> Format {
        if self.json { Format::Json } else { self.format }
    }
}
