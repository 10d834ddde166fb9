//! `vireo params`: creates, converts and shows parameter archives. Flags are those of `iree-create-parameters`,
//! `iree-convert-parameters` and `iree-dump-parameters`.

mod convert;
mod create;
mod dump;
mod write;

use std::fmt::Write;
use std::io;

use vireo::io::{ParameterIndex, ParameterStorage};

use crate::arguments::{Format, ParamsCommand};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::print::{print, print_json};
use vireo::visible_text::visible;

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

/// The table of a scope, as the reference tools print it.
fn table(scope: &str, index: &ParameterIndex) -> String {
    const RULE: &str = "---------------+------------------+------------------+------------";
    let name = if scope.is_empty() { "<global>".to_string() } else { format!("`{}`", visible(scope)) };
    let mut text = format!("//==={}===//\n", "-".repeat(110));
    let mut line = |line: String| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{line}");
    };
    line(format!("// Parameter scope {name} ({} entries, {} total bytes)", index.len(), index.total_bytes()));
    line(format!("//==={}{}===//", &RULE[3..], "-".repeat(47)));
    line("//         Start |              End |           Length | Key".into());
    line(format!("//{RULE}{}//", "-".repeat(50)));
    for parameter in index {
        let (key, length) = (visible(&parameter.key), parameter.length);
        line(match &parameter.storage {
            ParameterStorage::Splat(_) => format!("{:>16} | {:>16} | {length:>16} | `{key}`", "-", "-"),
            ParameterStorage::Stored { offset, .. } => {
                format!("{offset:>16} | {:>16} | {length:>16} | `{key}`", offset + length)
            }
        });
    }
    line(String::new());
    text
}
