//! `vireo-wasm-host PROGRAM.wasm FOLDER ARGUMENT...`: runs a program in Wasmtime, as `examples/anywhere/run.mjs` does
//! in Node.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use vireo_wasm_host::Program;
use wasmtime::Result;

fn main() -> Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [program, folder, arguments @ ..] = &arguments[..] else {
        eprintln!("usage: vireo-wasm-host PROGRAM.wasm FOLDER ARGUMENT...");
        return Ok(ExitCode::from(2));
    };
    let outcome = Program::load(Path::new(program))?.run(Path::new(folder), arguments)?;
    std::io::stdout().write_all(&outcome.stdout)?;
    std::io::stderr().write_all(&outcome.stderr)?;
    Ok(u8::try_from(outcome.code).map_or(ExitCode::FAILURE, ExitCode::from))
}
