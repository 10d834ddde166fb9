//! `vireo asm` and `vireo disasm`: the assembler and the disassembler of modules.

use std::io::{self, Read, Write};
use std::path::Path;
use vireo::visible_text::is_invisible;

use vireo::Status;
use vireo::asm;
use vireo::vmfb::{Archive, FileKind};

use crate::arguments::{AsmArguments, DisasmArguments, Format, ModuleMode};
use crate::engine;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::gpu_code;
use crate::print::{print, print_json};
use crate::ptx_code;
use vireo::visible_text::visible;

/// Bytes that are read as text at most.
const MAX_SOURCE: u64 = u32::MAX as u64;

/// Assembles a text, verifies the module and writes it.
pub fn assemble(arguments: &AsmArguments) -> Result<Exit, Failure> {
    let shown = arguments.source.display();
    let source = read(&arguments.source)?;
    let bytes = asm::assemble(&source).map_err(|error| {
        Failure::new(Exit::Usage, format!("{shown}:{error}")).excerpt(excerpt(&source, error.location))
    })?;
    if !arguments.no_verify {
        let verified = Archive::from_bytes(&bytes).and_then(vireo::vm::Module::from_archive);
        let module = verified.map_err(|status| {
            Failure::new(Exit::LoadFailure, format!("`{shown}` can be assembled, but not run"))
                .because(status)
                .hint("--no-verify writes the module all the same")
        })?;
        for (ordinal, function) in module.functions().iter().enumerate() {
            if function.reads_unwritten_slots() {
                // Such a module is valid, so a closed stderr is no reason to fail either.
                let name = visible(&module.function_name(ordinal));
                let _ = writeln!(
                    io::stderr(),
                    "warning: {shown}: @{name} may read a value register that nothing has written, which is zero"
                );
            }
        }
    }
    std::fs::write(&arguments.output, bytes).map_err(|error| cannot_write(&arguments.output, error))?;
    Ok(Exit::Ok)
}

/// Writes a module as text.
pub fn disassemble(arguments: &DisasmArguments) -> Result<Exit, Failure> {
    if arguments.gfx {
        return write_text(arguments, &gpu_code::text(arguments.module.path(), arguments.format())?);
    }
    if arguments.ptx {
        return write_text(arguments, &ptx_code::text(arguments.module.path(), arguments.format())?);
    }
    if arguments.format() == Format::Json {
        let status = Status::unimplemented("the text of a module is for `vireo asm`, and has no form in JSON");
        let failure = Failure::new(Exit::Usage, "cannot disassemble as JSON").because(status);
        return Err(failure.hint(
            "--gfx and --ptx write the code of GPUs as JSON, and `vireo dump --format=json` the metadata of a module",
        ));
    }
    let archive = engine::open_archive(arguments.module.path(), ModuleMode::Mmap)?;
    let module = engine::verify(archive.clone())?;
    write_text(arguments, &asm::disassemble(&archive, module.functions()))
}

fn write_text(arguments: &DisasmArguments, text: &str) -> Result<Exit, Failure> {
    match &arguments.output {
        Some(path) => std::fs::write(path, text).map(|()| Exit::Ok).map_err(|error| cannot_write(path, error)),
        None if arguments.format() == Format::Json => print_json(&mut io::stdout().lock(), text),
        None => print(&mut io::stdout().lock(), text),
    }
}

/// The line of an error, with a mark below its column.
fn excerpt(source: &str, location: asm::Location) -> String {
    let Some(line) = source.lines().nth((location.line as usize).saturating_sub(1)) else { return String::new() };
    let number = location.line.to_string();
    let before = " ".repeat((location.column as usize).saturating_sub(1));
    // One character for one, so that the mark is below what it marks.
    let line = line.chars().map(|c| if is_invisible(c) { ' ' } else { c }).collect::<String>();
    format!(" {number} | {line}\n {:1$} | {before}^", "", number.len())
}

fn cannot_write(path: &Path, error: io::Error) -> Failure {
    Failure::new(Exit::RunFailure, format!("cannot write `{}`", path.display())).because(error)
}

fn read(path: &Path) -> Result<String, Failure> {
    let failed = || Failure::new(Exit::Usage, format!("cannot read `{}`", path.display()));
    let mut bytes = Vec::new();
    let read = match path == Path::new("-") {
        true => io::stdin().lock().take(MAX_SOURCE + 1).read_to_end(&mut bytes),
        false => std::fs::File::open(path).and_then(|file| file.take(MAX_SOURCE + 1).read_to_end(&mut bytes)),
    };
    read.map_err(|error| failed().because(error))?;
    if bytes.len() as u64 > MAX_SOURCE {
        return Err(failed().because(Status::resource_exhausted("expected a text of at most 4 GiB")));
    }
    String::from_utf8(bytes).map_err(|error| {
        let other = |what: String| {
            let message = format!("the file is {what}, not the text of a module");
            failed().because(Status::invalid_argument(message))
        };
        if Archive::from_bytes(error.as_bytes()).is_ok() {
            return other("a module".into()).hint(format!("`vireo disasm {}` writes the text", path.display()));
        }
        match FileKind::of(error.as_bytes()) {
            Some(kind) => other(kind.to_string()),
            None => failed().because(error),
        }
    })
}
