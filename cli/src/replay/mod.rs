//! `vireo replay`: shows and replays captures of what devices were asked to do.

mod benchmark;
mod check;
mod diff;
mod edit;
mod extract;
mod file;
mod minimize;
mod run;
mod salvage;
mod target;
mod test_command;
mod verify;

use std::io::{self, BufWriter, Write as _};

use vireo::replay::{DumpError, DumpFormat, dump};

use self::file::{cannot_read, open};
use crate::arguments::{Color, RecordsFormat, ReplayCommand, ReplayDumpArguments};
use crate::exit::Exit;
use crate::failure::Failure;

/// Does what the flags say.
pub fn replay(command: &ReplayCommand, color: Color) -> Result<Exit, Failure> {
    match command {
        ReplayCommand::Dump(arguments) => dump_capture(arguments),
        ReplayCommand::Run(arguments) => run::run(arguments),
        ReplayCommand::Benchmark(arguments) => benchmark::benchmark(arguments, color),
        ReplayCommand::Check(arguments) => check::check(arguments),
        ReplayCommand::Verify(arguments) => verify::verify(arguments),
        ReplayCommand::Diff(arguments) => diff::diff(arguments),
        ReplayCommand::Minimize(arguments) => minimize::minimize(arguments),
        ReplayCommand::Edit(arguments) => edit::edit(arguments),
        ReplayCommand::Extract(arguments) => extract::extract(arguments),
        ReplayCommand::Salvage(arguments) => salvage::salvage(arguments),
    }
}

/// Writes the records as they are read: a capture may be larger than memory.
fn dump_capture(arguments: &ReplayDumpArguments) -> Result<Exit, Failure> {
    let cannot_read = || cannot_read(&arguments.file);
    let mut reader = open(&arguments.file)?;
    let format = match arguments.format {
        RecordsFormat::Text => DumpFormat::Text,
        RecordsFormat::Jsonl => DumpFormat::Jsonl,
    };
    let mut out = BufWriter::new(io::stdout().lock());
    let written = dump(&mut reader, format, &mut out).and_then(|()| Ok(out.flush()?));
    written.map(|()| Exit::Ok).map_err(|error| match error {
        DumpError::Read(error) => cannot_read().because(error.status()),
        DumpError::Write(error) => Failure::new(Exit::RunFailure, "cannot write to stdout").because(error),
    })
}
