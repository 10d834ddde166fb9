//! `--format`, which the commands that print something for programs share, part of the command line.

use clap::ValueEnum;

/// How a command writes what it found to stdout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    #[default]
    Text,
    /// One JSON document, for programs. A failure is a document with `error`.
    Json,
}
