//! `vireo replay verify`: compares what the host reads in a replay with the expected outputs of the capture.

use std::fmt::Write as _;
use std::fs::File;
use std::io;

use vireo::replay::{Expected, Outputs};

use super::file;
use super::target::{Target, cannot_replay};
use crate::arguments::ReplayVerifyArguments;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::print::print;

/// Most differences that are listed.
const MOST_LISTED: usize = 20;

/// Does what the flags say.
pub fn verify(arguments: &ReplayVerifyArguments) -> Result<Exit, Failure> {
    // A process that is confined can write to what is open.
    let copy = match &arguments.write_expected {
        Some(path) => Some((path, File::create(path).map_err(|error| file::cannot_write(path).because(error))?)),
        None => None,
    };
    let Some(mut target) = Target::prepare(&arguments.file, &arguments.target)? else { return Ok(Exit::Ok) };
    if let Some((path, file)) = copy {
        let mut outputs = Outputs::default();
        target.plan.run(&target.devices, &target.options, &mut outputs).map_err(cannot_replay)?;
        let written = outputs.write(&mut target.reader, file);
        written.map_err(|status| file::cannot_write(path).because(status))?;
        return print(&mut io::stdout(), &format!("{} outputs are expected now\n", outputs.count()));
    }
    let expected = Expected::read(&mut target.reader);
    let mut expected = expected.map_err(|status| file::cannot_read(&arguments.file).because(status))?;
    if expected.count() == 0 {
        let failure = Failure::new(Exit::Usage, "the capture has no expected outputs");
        return Err(failure.hint("--write_expected=FILE writes a copy that has those of this replay"));
    }
    target.plan.run(&target.devices, &target.options, &mut expected).map_err(cannot_replay)?;
    let differences = expected.differences();
    let mut text = String::new();
    for difference in differences.iter().take(MOST_LISTED) {
        let (record, buffer, offset, length) =
            (difference.record, difference.buffer, difference.offset, difference.length);
        let _ = write!(text, "record {record}: {length} bytes at {offset} of buffer {buffer} differ");
        let _ = match difference.first {
            Some((place, expected, found)) => {
                writeln!(text, ", first at {place}: expected {expected:#04x}, found {found:#04x}")
            }
            None => writeln!(text),
        };
    }
    let (found, count) = (expected.found(), expected.count());
    let _ = writeln!(text, "{} of {count} outputs are as expected", found - differences.len() as u64);
    print(&mut io::stdout(), &text)?;
    Ok(if differences.is_empty() && found == count { Exit::Ok } else { Exit::Mismatch })
}
