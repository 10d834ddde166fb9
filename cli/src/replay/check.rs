//! `vireo replay check`: what a capture needs and holds, and whether it can be replayed.

use std::fmt::Write as _;
use std::io;

use serde_json::json;
use vireo::hal::ExecutableFormat;
use vireo::replay::Examined;

use super::file;
use crate::arguments::{RecordsFormat, ReplayCheckArguments};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::print::print;
use vireo::visible_text::visible;

/// Does what the flags say.
pub fn check(arguments: &ReplayCheckArguments) -> Result<Exit, Failure> {
    let mut reader = file::open(&arguments.file)?;
    let examined = Examined::read(&mut reader, None);
    let examined = examined.map_err(|status| file::cannot_read(&arguments.file).because(status))?;
    let text = match arguments.format {
        RecordsFormat::Text => text(&examined),
        RecordsFormat::Jsonl => format!("{}\n", json(&examined)),
    };
    print(&mut io::stdout(), &text)?;
    Ok(if examined.refused.is_some() { Exit::RunFailure } else { Exit::Ok })
}

/// Whether kernels of a format are machine code.
fn is_machine_code(format: &str) -> bool {
    format != ExecutableFormat::VmvxBytecode.name()
}

/// Why IREE's tools do not replay it, if they do not.
fn refused_there(examined: &Examined) -> Option<String> {
    if let Some(record) = examined.blocks_serial_replay {
        return Some(format!("record {record} waits for a point that no record before it signals: they wait for ever"));
    }
    examined.refused.as_ref().map(|status| visible(&status.to_string()))
}

fn text(examined: &Examined) -> String {
    let answer = |refused: Option<String>| refused.map_or("yes".to_string(), |why| format!("no: {why}"));
    let needs_machine_code = examined.executables.iter().any(|executable| is_machine_code(&executable.format));
    let needed = examined.files.iter().filter(|file| file.needed).count();
    let mut text = String::new();
    let here = examined.refused.as_ref().map(|status| visible(&status.to_string()));
    let _ = writeln!(text, "replays here: {}", answer(here));
    let _ = writeln!(text, "replays with IREE's tools: {}", answer(refused_there(examined)));
    let _ = writeln!(
        text,
        "replays untrusted: {}",
        match (needs_machine_code, needed) {
            _ if examined.refused.is_some() => "no",
            (true, _) => "no: its kernels are machine code",
            (false, 0) => "yes",
            (false, _) => "no: it needs files",
        }
    );
    let _ = writeln!(text, "hermetic: {}", if examined.summary.hermetic() { "yes" } else { "no" });
    for file in &examined.files {
        let use_ = if file.writable { "read and written" } else { "read" };
        let needed = if file.needed { use_ } else { "its contents are in the capture as far as they were read" };
        let _ = writeln!(text, "  file of record {}: {} ({needed})", file.record, visible(&file.path));
    }
    let _ = writeln!(text, "holds:");
    for executable in &examined.executables {
        let kind = if is_machine_code(&executable.format) { "machine code" } else { "bytecode" };
        let (id, bytes, format) = (executable.id, executable.bytes, visible(&executable.format));
        let _ = writeln!(text, "  executable {id}: {bytes} bytes of {kind} ({format})");
    }
    let _ = writeln!(text, "  data of the program: {} bytes", examined.data_bytes);
    let _ = writeln!(text, "  paths: {}", examined.files.len());
    let _ = writeln!(text, "  expected outputs: {}", examined.expected);
    text
}

fn json(examined: &Examined) -> serde_json::Value {
    let executables = examined.executables.iter().map(|executable| {
        let is_machine_code = is_machine_code(&executable.format);
        json!({"id": executable.id, "format": executable.format, "bytes": executable.bytes, "machine_code": is_machine_code})
    });
    let files = examined.files.iter().map(
        |file| json!({"record": file.record, "path": file.path, "writable": file.writable, "needed": file.needed}),
    );
    json!({
        "hermetic": examined.summary.hermetic(),
        "refused": examined.refused.as_ref().map(|status| status.to_string()),
        "reference_tools_refuse": refused_there(examined),
        "blocks_at_record": examined.blocks_serial_replay,
        "files": files.collect::<Vec<_>>(),
        "executables": executables.collect::<Vec<_>>(),
        "data_bytes": examined.data_bytes,
        "expected_outputs": examined.expected,
    })
}
