//! `vireo profile`: shows profiles of what devices did, and exports them.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use vireo::profile::{OutputError, Reader, ReportFormat, Summary, cat, export};

use crate::arguments::{ExportArguments, ProfileArguments, ProfileCommand, RecordsFormat};
use crate::exit::Exit;
use crate::failure::Failure;

/// Does what the flags say.
pub fn profile(command: &ProfileCommand) -> Result<Exit, Failure> {
    match command {
        ProfileCommand::Summary(arguments) => {
            report(arguments, |reader, format, out| Summary::read(reader)?.write(format, out))
        }
        ProfileCommand::Cat(arguments) => report(arguments, cat),
        ProfileCommand::Export(arguments) => export_rows(arguments),
    }
}

/// A report of a profile.
type Report = fn(&mut Reader, ReportFormat, &mut dyn Write) -> Result<(), OutputError>;

fn report(arguments: &ProfileArguments, report: Report) -> Result<Exit, Failure> {
    let format = match arguments.format {
        RecordsFormat::Text => ReportFormat::Text,
        RecordsFormat::Jsonl => ReportFormat::Jsonl,
    };
    let mut reader = open(&arguments.file)?;
    let mut out = BufWriter::new(io::stdout().lock());
    let written = report(&mut reader, format, &mut out).and_then(|()| Ok(out.flush()?));
    finish(written, &arguments.file, Path::new("-"))
}

fn export_rows(arguments: &ExportArguments) -> Result<Exit, Failure> {
    let mut reader = open(&arguments.file)?;
    let out: Box<dyn Write> = match arguments.output.as_os_str() == "-" {
        true => Box::new(io::stdout().lock()),
        false => {
            let file = File::create(&arguments.output);
            Box::new(file.map_err(|error| cannot_write(&arguments.output).because(error))?)
        }
    };
    let mut out = BufWriter::new(out);
    let written = export(&mut reader, &mut out).and_then(|()| Ok(out.flush()?));
    finish(written, &arguments.file, &arguments.output)
}

fn open(file: &Path) -> Result<Reader, Failure> {
    Reader::open(file).map_err(|status| cannot_read(file).because(status))
}

fn finish(written: Result<(), OutputError>, file: &Path, output: &Path) -> Result<Exit, Failure> {
    written.map(|()| Exit::Ok).map_err(|error| match error {
        OutputError::Read(error) => cannot_read(file).because(error.status()),
        OutputError::Write(error) => cannot_write(output).because(error),
    })
}

fn cannot_read(file: &Path) -> Failure {
    Failure::new(Exit::Usage, format!("cannot read `{}`", file.display()))
}

fn cannot_write(output: &Path) -> Failure {
    let output = if output.as_os_str() == "-" { "stdout".to_string() } else { format!("`{}`", output.display()) };
    Failure::new(Exit::RunFailure, format!("cannot write to {output}"))
}
