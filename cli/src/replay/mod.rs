//! `vireo replay`: shows and replays captures of what devices were asked to do.

mod run;
mod target;

use std::io::{self, BufWriter, Write as _};

use vireo::replay::{DumpError, DumpFormat, Reader, dump};

use crate::arguments::{RecordsFormat, ReplayCommand, ReplayDumpArguments};
use crate::exit::Exit;
use crate::failure::Failure;

/// Does what the flags say.
pub fn replay(command: &ReplayCommand) -> Result<Exit, Failure> {
    match command {
        ReplayCommand::Dump(arguments) => dump_capture(arguments),
        ReplayCommand::Run(arguments) => run::run(arguments),
    }
}

/// Writes the records as they are read: a capture may be larger than memory.
fn dump_capture(arguments: &ReplayDumpArguments) -> Result<Exit, Failure> {
    let cannot_read = || Failure::new(Exit::Usage, format!("cannot read `{}`", arguments.file.display()));
    let mut reader = Reader::open(&arguments.file).map_err(|status| cannot_read().because(status))?;
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
