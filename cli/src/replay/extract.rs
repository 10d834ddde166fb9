//! `vireo replay extract`: writes what is in a capture to files.

use std::fs::{self, File};
use std::io::{self, Write as _};

use vireo::replay::extract as parts_of;
use vireo::{Status, StatusCode};

use super::file;
use crate::arguments::ReplayExtractArguments;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::print::print;

/// Does what the flags say. Names of files are made here of numbers, so none leads out of the folder.
pub fn extract(arguments: &ReplayExtractArguments) -> Result<Exit, Failure> {
    let mut reader = file::open(&arguments.file)?;
    let folder = &arguments.output;
    fs::create_dir_all(folder).map_err(|error| file::cannot_write(folder).because(error))?;
    let (mut listing, mut failure) = (String::new(), None);
    let extracted = parts_of(&mut reader, &mut |part| {
        let path = folder.join(part.name);
        // A file that is there is not replaced, and a link is not followed.
        let written = File::create_new(&path).and_then(|mut file| file.write_all(part.bytes));
        match written {
            Ok(()) => {
                listing.push_str(&format!("{} {} bytes\n", part.name, part.bytes.len()));
                Ok(())
            }
            Err(error) => {
                failure = Some(file::cannot_write(&path).because(error));
                Err(Status::new(StatusCode::Aborted, "a file cannot be written"))
            }
        }
    });
    print(&mut io::stdout(), &listing)?;
    match (failure, extracted) {
        (Some(failure), _) => Err(failure),
        (None, Err(status)) => Err(file::cannot_read(&arguments.file).because(status)),
        (None, Ok(())) => Ok(Exit::Ok),
    }
}
