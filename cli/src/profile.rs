//! `vireo profile`: shows profiles of what devices did, and exports them.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use vireo::profile::{
    DiffOptions, OutputError, Reader, ReportFilter, ReportFormat, Summary, cat, command, counter, diff, dispatch,
    executable, explain, export, html, memory, perfetto, queue, statistics,
};

use crate::arguments::{
    DiffArguments, ExportArguments, ProfileArguments, ProfileCommand, RecordsFormat, RenderArguments, RenderFormat,
    ReportArguments,
};
use crate::exit::Exit;
use crate::failure::Failure;

/// Does what the flags say.
pub fn profile(asked: &ProfileCommand) -> Result<Exit, Failure> {
    match asked {
        ProfileCommand::Summary(arguments) => {
            report(arguments, |reader, format, out| Summary::read(reader)?.write(format, out))
        }
        ProfileCommand::Cat(arguments) => report(arguments, cat),
        ProfileCommand::Export(arguments) => export_rows(arguments),
        ProfileCommand::Statistics(arguments) => report(arguments, statistics),
        ProfileCommand::Explain(arguments) => filtered(&arguments.report, false, explain),
        ProfileCommand::Diff(arguments) => compare(arguments),
        ProfileCommand::Render(arguments) => rendered(arguments),
        ProfileCommand::Executable(arguments) => filtered(&arguments.report, arguments.dispatch_events, executable),
        ProfileCommand::Dispatch(arguments) => filtered(&arguments.report, arguments.dispatch_events, dispatch),
        ProfileCommand::Command(arguments) => filtered(&arguments.report, arguments.dispatch_events, command),
        ProfileCommand::Queue(arguments) => filtered(&arguments.report, arguments.dispatch_events, queue),
        ProfileCommand::Memory(arguments) => filtered(&arguments.report, false, memory),
        ProfileCommand::Counter(arguments) => filtered(&arguments.report, arguments.counter_samples, counter),
    }
}

/// A report of a profile.
type Report = fn(&mut Reader, ReportFormat, &mut dyn Write) -> Result<(), OutputError>;

fn report(arguments: &ProfileArguments, report: Report) -> Result<Exit, Failure> {
    let format = form(arguments.format);
    write(&arguments.file, |reader, out| report(reader, format, out))
}

/// A report of events that a filter selects.
type FilteredReport = fn(&mut Reader, &ReportFilter, ReportFormat, &mut dyn Write) -> Result<(), OutputError>;

fn filtered(arguments: &ReportArguments, events: bool, report: FilteredReport) -> Result<Exit, Failure> {
    if events && arguments.format == RecordsFormat::Text {
        return Err(Failure::new(Exit::Usage, "rows of single events need --format=jsonl"));
    }
    let id = match u64::try_from(arguments.id) {
        Ok(id) => Some(id),
        Err(_) if arguments.id == -1 => None,
        Err(_) => return Err(Failure::new(Exit::Usage, format!("--id is {}: expected -1 or more", arguments.id))),
    };
    let filter = ReportFilter { pattern: arguments.filter.clone(), id, dispatch_events: events };
    let format = form(arguments.format);
    write(&arguments.file, |reader, out| report(reader, &filter, format, out))
}

fn compare(arguments: &DiffArguments) -> Result<Exit, Failure> {
    let (mut before, mut after) = (open(&arguments.before)?, open(&arguments.after)?);
    let options =
        DiffOptions { fail_above: arguments.fail_above.map(|share| share.0), ignore_below: arguments.ignore_below };
    let mut out = BufWriter::new(io::stdout().lock());
    let compared = diff(&mut before, &mut after, &options, form(arguments.format), &mut out);
    match compared.and_then(|above| out.flush().map(|()| above).map_err(OutputError::from)) {
        Ok(0) => Ok(Exit::Ok),
        Ok(_) => Ok(Exit::Mismatch),
        Err(OutputError::Read(error)) => {
            Err(Failure::new(Exit::Usage, "cannot compare profiles").because(error.status()))
        }
        Err(OutputError::Write(error)) => Err(cannot_write(Path::new("-")).because(error)),
    }
}

fn form(format: RecordsFormat) -> ReportFormat {
    match format {
        RecordsFormat::Text => ReportFormat::Text,
        RecordsFormat::Jsonl => ReportFormat::Jsonl,
    }
}

fn write(
    file: &Path,
    report: impl FnOnce(&mut Reader, &mut dyn Write) -> Result<(), OutputError>,
) -> Result<Exit, Failure> {
    let mut reader = open(file)?;
    let mut out = BufWriter::new(io::stdout().lock());
    let written = report(&mut reader, &mut out).and_then(|()| Ok(out.flush()?));
    finish(written, file, Path::new("-"))
}

fn export_rows(arguments: &ExportArguments) -> Result<Exit, Failure> {
    write_file(&arguments.file, &arguments.output, export)
}

/// Writes a file, or to stdout, from a profile.
fn write_file(
    file: &Path,
    output: &Path,
    write: fn(&mut Reader, &mut dyn Write) -> Result<(), OutputError>,
) -> Result<Exit, Failure> {
    let mut reader = open(file)?;
    let out: Box<dyn Write> = match output.as_os_str() == "-" {
        true => Box::new(io::stdout().lock()),
        false => Box::new(File::create(output).map_err(|error| cannot_write(output).because(error))?),
    };
    let mut out = BufWriter::new(out);
    let written = write(&mut reader, &mut out).and_then(|()| Ok(out.flush()?));
    finish(written, file, output)
}

fn rendered(arguments: &RenderArguments) -> Result<Exit, Failure> {
    let render = match arguments.format {
        RenderFormat::Html => html,
        RenderFormat::Perfetto => perfetto,
    };
    write_file(&arguments.file, &arguments.output, render)
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
