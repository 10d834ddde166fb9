//! The flags of `vireo trace`, part of the command line: those of `vireo run`, and where the trace goes.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::{RunArguments, examples};

/// Runs a program for AMD GPUs on the software agent, and writes down the packets of its queues.
///
/// It takes the flags of `vireo run`.
#[derive(Args, Debug)]
#[command(after_help = examples::help(examples::TRACE), after_long_help = examples::help(examples::TRACE))]
#[command(mut_arg("device", |flag| flag.default_value("amdgpu")))]
#[command(mut_arg("amdgpu_agent", |flag| flag.default_value("software")))]
pub struct TraceArguments {
    /// Trace the packets of queues (AQL), the signals they wait for and complete, and doorbells. There is no other
    /// trace, so it is always done.
    #[arg(long)]
    pub aql: bool,
    /// How the trace is written.
    #[arg(long, value_enum, default_value_t = TraceFormat::Text, value_name = "FORMAT")]
    pub format: TraceFormat,
    /// The file to write the trace to, instead of stderr.
    #[arg(short = 'o', long, value_name = "FILE")]
    pub trace_output: Option<PathBuf>,
    /// The flags of the run that is traced.
    #[command(flatten)]
    pub run: RunArguments,
}

/// How `vireo trace` writes a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TraceFormat {
    /// A line for each packet, change of a signal and doorbell.
    Text,
    /// Trace events in JSON (also `json`), which https://ui.perfetto.dev and chrome://tracing open.
    #[value(alias = "json")]
    Perfetto,
}
