//! `vireo params`: creates, converts and shows parameter archives. Flags are those of `iree-create-parameters`,
//! `iree-convert-parameters` and `iree-dump-parameters`.

mod convert;
mod create;
mod dump;
mod table;
mod write;

use std::io;

use crate::arguments::{Format, ParamsCommand};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::print::{print, print_json};

/// Does what the flags say.
pub fn params(command: &ParamsCommand) -> Result<Exit, Failure> {
    let text = match command {
        ParamsCommand::Convert(arguments) => convert::convert(arguments)?,
        ParamsCommand::Create(arguments) => create::create(arguments)?,
        ParamsCommand::Dump(arguments) => dump::dump(arguments)?,
    };
    match command.format() {
        Format::Text => print(&mut io::stdout().lock(), &text),
        Format::Json => print_json(&mut io::stdout().lock(), &text),
    }
}
