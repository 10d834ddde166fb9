//! The code of GPUs as text, for `vireo disasm --gfx`: of a code object, or of the executables in the read-only data of
//! a module.

use std::path::Path;

use crate::arguments::Format;
use crate::failure::Failure;

/// The text of the file at `path`.
#[cfg(not(feature = "software-agents"))]
pub fn text(_path: &Path, _format: Format) -> Result<String, Failure> {
    use crate::exit::Exit;
    Err(Failure::new(Exit::Usage, "this build has no disassembler of GPU code: it lacks the feature `software-agents`"))
}

/// The text of the file at `path`.
#[cfg(feature = "software-agents")]
pub fn text(path: &Path, format: Format) -> Result<String, Failure> {
    use std::fmt::Write;
    use std::fs::File;
    use std::io::{self, Read};

    use vireo::gpu::{Listing, code_objects};
    use vireo::{Status, vmfb::Archive};

    use crate::arguments::ModuleMode;
    use crate::engine;
    use crate::exit::Exit;

    /// Bytes of a code object from a file at most.
    const MOST: u64 = 1 << 30;

    let failed = || Failure::new(Exit::LoadFailure, format!("cannot disassemble `{}`", path.display()));
    let wrong = |error: vireo::gpu::ListingError| failed().because(Status::invalid_argument(error.to_string()));
    let mut bytes = Vec::new();
    if path == Path::new("-") {
        io::stdin().lock().take(MOST).read_to_end(&mut bytes).map_err(|error| failed().because(error))?;
    } else {
        let read = File::open(path).and_then(|file| file.take(4).read_to_end(&mut bytes));
        read.map_err(|error| failed().because(error))?;
    }
    let mut listings: Vec<(Option<usize>, Listing)> = Vec::new();
    if bytes.starts_with(b"\x7FELF") {
        if path != Path::new("-") {
            bytes.clear();
            let read = File::open(path).and_then(|file| file.take(MOST).read_to_end(&mut bytes));
            read.map_err(|error| failed().because(error))?;
        }
        listings.push((None, Listing::of(&bytes).map_err(wrong)?));
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
            for object in code_objects(bytes).map_err(|status| failed().because(status))? {
                listings.push((Some(segment), Listing::of(object).map_err(wrong)?));
            }
        }
        if listings.is_empty() {
            return Err(failed().because(Status::not_found("there is no executable for AMD GPUs in the module")));
        }
    }
    if format == Format::Json {
        let objects: Vec<_> = listings.iter().map(|(segment, listing)| json_of(*segment, listing)).collect();
        return Ok(format!("{:#}\n", serde_json::json!({"code_objects": objects})));
    }
    let mut text = String::new();
    for (segment, listing) in &listings {
        if let Some(segment) = segment {
            let _ = writeln!(text, "// vm.rodata[{segment}]");
        }
        let _ = writeln!(text, "{}", listing);
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    Ok(text)
}

#[cfg(feature = "software-agents")]
fn json_of(segment: Option<usize>, listing: &vireo::gpu::Listing) -> serde_json::Value {
    use serde_json::json;
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let functions: Vec<_> = listing
        .functions
        .iter()
        .map(|function| {
            let line = |line: &vireo::gpu::Line| {
                json!({
                    "address": line.address,
                    "bytes": hex(&line.bytes),
                    "text": line.text,
                    "label": line.label,
                    "source": line.source,
                })
            };
            json!({
                "name": function.name,
                "address": function.address,
                "descriptor": function.descriptor,
                "instructions": function.lines.iter().map(line).collect::<Vec<_>>(),
            })
        })
        .collect();
    json!({"rodata": segment, "processor": listing.processor, "functions": functions})
}
