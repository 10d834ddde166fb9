//! The PTX of executables for NVIDIA GPUs, for `vireo disasm --ptx`: of an executable, or of those in the read-only
//! data of a module.

use std::fmt::Write;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use serde_json::{Value, json};
use vireo::inference::CudaExecutable;
use vireo::visible_text::visible_lines;
use vireo::{Status, vmfb::Archive};

use crate::arguments::{Format, ModuleMode};
use crate::engine;
use crate::exit::Exit;
use crate::failure::Failure;

/// Bytes of an executable from a file at most.
const MOST: u64 = 1 << 30;

/// The PTX of the file at `path`.
pub fn text(path: &Path, format: Format) -> Result<String, Failure> {
    let failed = || Failure::new(Exit::LoadFailure, format!("cannot disassemble `{}`", path.display()));
    let mut bytes = Vec::new();
    let read = if path == Path::new("-") {
        io::stdin().lock().take(MOST).read_to_end(&mut bytes)
    } else {
        File::open(path).and_then(|file| file.take(MOST).read_to_end(&mut bytes))
    };
    read.map_err(|error| failed().because(error))?;
    let mut listing = Listing::default();
    if CudaExecutable::read(&bytes).is_ok() {
        listing.add(None, &bytes).map_err(|status| failed().because(status))?;
    } else {
        let archive = if path == Path::new("-") {
            Archive::from_bytes(&bytes).map_err(|status| failed().because(status))?
        } else {
            engine::open_archive(path, ModuleMode::Mmap)?
        };
        // Segments of a damaged module may overlap.
        let mut budget = archive.bytes().len();
        for (segment, rodata) in archive.rodata().enumerate() {
            let Some(bytes) = archive.bytes().get(rodata.range).filter(|bytes| bytes.len() <= budget) else { continue };
            budget -= bytes.len();
            if CudaExecutable::read(bytes).is_ok() {
                listing.add(Some(segment), bytes).map_err(|status| failed().because(status))?;
            }
        }
        if listing.executables.is_empty() {
            return Err(failed().because(Status::not_found("there is no executable for NVIDIA GPUs in the module")));
        }
    }
    Ok(match format {
        Format::Json => format!("{:#}\n", json!({"executables": listing.executables})),
        Format::Text => listing.text,
    })
}

/// Executables as text and as JSON.
#[derive(Default)]
struct Listing {
    text: String,
    executables: Vec<Value>,
}

impl Listing {
    fn add(&mut self, segment: Option<usize>, bytes: &[u8]) -> vireo::Result<()> {
        let known = CudaExecutable::read(bytes)?;
        let mut modules = Vec::new();
        for (index, (text, module)) in CudaExecutable::texts(bytes)?.into_iter().zip(known.modules).enumerate() {
            let place = segment.map_or_else(String::new, |segment| format!("vm.rodata[{segment}], "));
            let _ = writeln!(self.text, "// {place}module {index}");
            for line in text.lines() {
                let _ = writeln!(self.text, "{}", visible_lines(line));
            }
            modules.push(json!({"target": module.target, "version": module.version, "text": text}));
        }
        let kernels = known.kernels.iter().map(|kernel| json!({"name": kernel.name, "module": kernel.module}));
        let kernels: Vec<Value> = kernels.collect();
        self.executables.push(json!({"rodata": segment, "modules": modules, "kernels": kernels}));
        Ok(())
    }
}
