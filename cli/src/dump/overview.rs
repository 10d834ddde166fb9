//! The overview of a module, for people who want to run it: signatures, devices, parameters and sizes. Called by `dump`.

use std::fmt::Write;

use vireo::hal::{ExecutableFormat, local};
use vireo::inference::Signature;
use vireo::vm::Module;
use vireo::vmfb::Archive;

use super::kernels::{self, Executable};
use super::summary::Summary;
use crate::failure::Failure;
use crate::table::visible;

/// The prefix of imports that load parameters.
const PARAMETERS: &str = "io_parameters.";

/// What a module offers and needs, in a few lines.
pub fn overview(module: &Module, archive: &Archive, summary: &Summary) -> Result<String, Failure> {
    let executables = kernels::executables(archive)?;
    let mut text = format!("module @{}, bytecode {}\n\n", visible(&summary.name), summary.bytecode_version);
    let (mut functions, mut hidden) = (String::new(), 0);
    for export in module.exports() {
        // Initialisers and what compilers add are called by the runtime.
        if export.name.starts_with("__") || export.name.contains('$') {
            hidden += 1;
            continue;
        }
        let _ = match Signature::of(module, &export) {
            Ok(signature) => {
                let kind = if signature.is_async { "  async" } else { "" };
                writeln!(functions, "  {}{kind}", visible(&signature.to_string()))
            }
            Err(_) => writeln!(functions, "  {}: takes any number of arguments", visible(export.name)),
        };
    }
    let none = if functions.is_empty() { "  none\n" } else { "" };
    let _ = writeln!(text, "functions:\n{functions}{none}");
    let mut line = |name: &str, value: String| {
        let _ = writeln!(text, "{:<12}{value}", format!("{name}:"));
    };
    line("devices", devices(summary));
    let loads = summary.imports.iter().any(|import| import.name.starts_with(PARAMETERS));
    line("parameters", if loads { "yes; name their archives by --parameters" } else { "none" }.into());
    let (kernels, others) = data(archive, &executables);
    let parts = [(summary.code_bytes, "of bytecode"), (kernels, "of kernels"), (others, "of other data")];
    let parts = parts.map(|(bytes, what)| format!("{} {what}", size(bytes))).join(", ");
    line("size", format!("{}: {parts}", size(archive.bytes().len() as u64)));
    line("debug", if summary.has_source_map { "source locations" } else { "none" }.into());
    if hidden > 0 {
        line("hidden", format!("{hidden} exports for the runtime"));
    }
    text.push_str("\n--output=metadata, --output=disassembly and --output=all show more\n");
    Ok(text)
}

/// The names by which programs look for devices, and the formats of their kernels: both are texts in the module.
fn devices(summary: &Summary) -> String {
    // fact: a prefix of the names of imports, which is not the category of queries of the same name.
    if !summary.imports.iter().any(|import| import.name.starts_with("hal.device")) {
        return "none".into();
    }
    let texts = || summary.rodata.iter().filter_map(|segment| segment.text.as_deref());
    let join = |found: Vec<&str>| found.iter().map(|text| visible(text)).collect::<Vec<_>>().join(", ");
    let patterns = join(texts().filter(|text| text.ends_with('*') && !text.contains(' ')).collect());
    let is_format = |text: &&str| ExecutableFormat::ALL.iter().any(|format| format.name() == *text);
    let formats = join(texts().filter(is_format).collect());
    match (patterns.is_empty(), formats.is_empty()) {
        (true, true) => "any".into(),
        (false, true) => patterns,
        (true, false) => format!("any, with kernels in {formats}"),
        (false, false) => format!("{patterns}, with kernels in {formats}"),
    }
}

/// The bytes of executables in the data of a module, and those of everything else.
fn data(archive: &Archive, executables: &[Executable]) -> (u64, u64) {
    let (mut kernels, mut others) = (0, 0);
    for (ordinal, segment) in archive.rodata().enumerate() {
        let bytes = archive.bytes().get(segment.range).unwrap_or_default();
        let is_bytecode = executables.iter().any(|executable| executable.segment() == ordinal);
        let is_kernel = is_bytecode || local::elf::infer_format(bytes).is_ok();
        *if is_kernel { &mut kernels } else { &mut others } += bytes.len() as u64;
    }
    (kernels, others)
}

/// A number of bytes in the unit that fits.
fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 10 << 10 {
        return format!("{bytes} bytes");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 10240.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.0} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_the_unit_that_fits() {
        let sizes = [0, 10239, 10240, 10 << 20, 3 << 40].map(size);
        assert_eq!(sizes, ["0 bytes", "10239 bytes", "10 KiB", "10 MiB", "3072 GiB"]);
    }
}
