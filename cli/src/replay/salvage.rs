//! `vireo replay salvage`: saves the whole records of a damaged capture.

use std::fs::File;
use std::io;

use vireo::replay::salvage as save;

use super::file;
use crate::arguments::ReplaySalvageArguments;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::print::print;

/// Does what the flags say.
pub fn salvage(arguments: &ReplaySalvageArguments) -> Result<Exit, Failure> {
    let (input, output) = (&arguments.file, &arguments.output);
    let file = File::open(input).map_err(|error| file::cannot_read(input).because(error))?;
    // A file that is there may be the damaged one.
    let out = File::create_new(output).map_err(|error| file::cannot_write(output).because(error))?;
    let saved = save(&input.display().to_string(), Box::new(file), out);
    let saved = saved.map_err(|status| Failure::new(Exit::Usage, "cannot save the capture").because(status))?;
    let mut text = format!("{} records were saved, and {} bytes lost\n", saved.records, saved.lost);
    if let Some(damage) = saved.damage {
        text.push_str(&format!("{damage}\n"));
    }
    print(&mut io::stdout(), &text)
}
