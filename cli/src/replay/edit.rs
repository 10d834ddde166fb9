//! `vireo replay edit`: writes a changed copy of a capture.

use std::fmt::Write as _;
use std::io;

use vireo::replay::{EditOptions, Edited, Stripped, edit as edited};
use vireo::{MemoryBudget, StatusCode};

use super::file;
use crate::arguments::{Private, ReplayEditArguments};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::print::print;

/// Does what the flags say.
pub fn edit(arguments: &ReplayEditArguments) -> Result<Exit, Failure> {
    let substitutions = arguments.substitute.iter().map(|source| {
        let unreadable = || Failure::new(Exit::Usage, "cannot read what takes the place of an executable");
        source.read().map_err(|status| unreadable().because(status))
    });
    let options = EditOptions {
        keep: arguments.keep.clone(),
        drop: arguments.drop.clone(),
        order: arguments.order,
        substitutions: substitutions.collect::<Result<_, _>>()?,
        inline: arguments.inline,
        remaps: arguments.replay_file_remap.clone(),
        strip_data: arguments.strip.contains(&Private::Data),
        strip_paths: arguments.strip.contains(&Private::Paths),
    };
    let memory = arguments.max_memory_bytes.map(MemoryBudget::new);
    let mut reader = file::open(&arguments.file)?;
    let path = &arguments.output;
    let output = file::create(path)?;
    let outcome = edited(&mut reader, &options, memory.as_ref(), output).map_err(|status| {
        let code = match status.code() {
            StatusCode::NotFound => Exit::Usage,
            StatusCode::DataLoss | StatusCode::InvalidArgument => Exit::Usage,
            StatusCode::Unavailable | StatusCode::ResourceExhausted => Exit::RunFailure,
            _ => Exit::LoadFailure,
        };
        Failure::new(code, "cannot edit the capture").because(status)
    });
    let done = outcome.inspect_err(|_| file::remove(path))?;
    print(&mut io::stdout(), &text(&done, arguments))
}

fn text(done: &Edited, arguments: &ReplayEditArguments) -> String {
    let mut text = format!("{} records were written, and {} left out\n", done.records, done.left_out);
    if arguments.order || done.moved > 0 {
        let _ = writeln!(text, "{} records come after a later one of the capture", done.moved);
    }
    if done.barriers > 0 {
        let _ = writeln!(text, "{} barriers signal what records that are left out did", done.barriers);
    }
    if !arguments.substitute.is_empty() {
        let _ = writeln!(text, "{} executables were replaced", done.substituted);
    }
    if arguments.inline {
        let _ = writeln!(text, "{} reads of files have their {} bytes", done.inlined_reads, done.inlined_bytes);
        for file in &done.inlined_files {
            let _ = writeln!(text, "  {}", vireo::visible_text::visible(file));
        }
    }
    let Stripped { zeroed_bytes, expected, unknown, paths } = done.stripped;
    if arguments.strip.contains(&Private::Data) {
        let _ = writeln!(
            text,
            "{zeroed_bytes} bytes of data are zero, {expected} expected outputs and {unknown} unknown records removed"
        );
        let _ = writeln!(text, "executables, their constants and patterns of fills are as they were");
    }
    if arguments.strip.contains(&Private::Paths) {
        let _ = writeln!(text, "{paths} paths are numbers");
        let _ = writeln!(text, "executables, and names of functions and scopes are as they were");
    }
    text
}
