//! The overview of a module, for people who want to run it: signatures, devices, parameters and sizes. Called by
//! `dump`.

use std::collections::BTreeSet;
use std::fmt::Write;

use vireo::abi::modules::io_parameters;
use vireo::byte_size;
use vireo::hal::{ExecutableFormat, local};
use vireo::inference::{CudaExecutable, GpuExecutable, Signature};
use vireo::vm::Module;
use vireo::vmfb::{Archive, is_for_callers};

use super::kernels::{self, Executable};
use super::summary::Summary;
use crate::failure::Failure;
use vireo::visible_text::visible;

/// The exports and needs of a module, in a few lines.
pub fn overview(module: &Module, archive: &Archive, summary: &Summary) -> Result<String, Failure> {
    let executables = kernels::executables(archive)?;
    let gpu = gpu_executables(archive);
    let mut text = format!(
        "module @{} : version {}, bytecode {}\n\n",
        visible(&summary.name),
        summary.version,
        summary.bytecode_version
    );
    let (mut functions, mut hidden) = (String::new(), 0);
    for export in module.exports() {
        // Initialisers and what compilers add are called by the runtime.
        if !is_for_callers(export.name) {
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
    line("devices", devices(summary, &gpu));
    let loads = archive.imports_from(io_parameters::NAME);
    line("parameters", if loads { "yes; name their archives by --parameters" } else { "none" }.into());
    let (kernels, others) = data(archive, &executables, &gpu);
    let parts = [(summary.code_bytes, "of bytecode"), (kernels, "of kernels"), (others, "of other data")];
    let parts = parts.map(|(bytes, what)| format!("{} {what}", byte_size::text(bytes))).join(", ");
    line("size", format!("{}: {parts}", byte_size::text(archive.bytes().len() as u64)));
    line("debug", if summary.has_source_map { "source locations" } else { "none" }.into());
    if hidden > 0 {
        line("hidden", format!("{hidden} exports for the runtime"));
    }
    text.push_str("\n--output=metadata, --output=disassembly and --output=all show more\n");
    Ok(text)
}

/// The names by which programs look for devices, and the formats of their kernels: both are texts in the module.
fn devices(summary: &Summary, gpu: &[OfGpu]) -> String {
    // fact: a prefix of the names of imports, which is not the category of queries of the same name.
    if !summary.imports.iter().any(|import| import.name.starts_with("hal.device")) {
        return "none".into();
    }
    let texts = || summary.rodata.iter().filter_map(|segment| segment.text.as_deref());
    let join = |found: Vec<&str>| found.iter().map(|text| visible(text)).collect::<Vec<_>>().join(", ");
    // The name of a device of a GPU has no star.
    let is_pattern =
        |text: &&str| text.ends_with('*') && !text.contains(' ') || gpu.iter().any(|gpu| gpu.driver == *text);
    let patterns = join(texts().filter(is_pattern).collect());
    let is_format = |text: &&str| {
        let of_gpu = || gpu.iter().any(|gpu| gpu.format == *text);
        ExecutableFormat::ALL.iter().any(|format| format.name() == *text) || of_gpu()
    };
    // Each executable for a GPU has its target besides the name of the format.
    let mut seen = BTreeSet::new();
    let formats = join(texts().filter(is_format).filter(|text| seen.insert(*text)).collect());
    match (patterns.is_empty(), formats.is_empty()) {
        (true, true) => "any".into(),
        (false, true) => patterns,
        (true, false) => format!("any, with kernels in {formats}"),
        (false, false) => format!("{patterns}, with kernels in {formats}"),
    }
}

/// An executable for GPUs in the data of a module.
struct OfGpu {
    /// Its segment.
    segment: usize,
    /// The driver whose devices run it.
    driver: &'static str,
    /// Its format.
    format: String,
}

/// The executables for GPUs in the data of a module.
fn gpu_executables(archive: &Archive) -> Vec<OfGpu> {
    // Data that is no executable, weights for instance, is left out.
    let executable = |segment: usize, bytes: &[u8]| {
        if let Ok(executable) = GpuExecutable::read(bytes) {
            return Some(OfGpu { segment, driver: GpuExecutable::DRIVER, format: executable.target });
        }
        CudaExecutable::read(bytes).ok()?;
        Some(OfGpu { segment, driver: CudaExecutable::DRIVER, format: CudaExecutable::FORMAT.to_string() })
    };
    let segments = archive.rodata().enumerate();
    segments.filter_map(|(ordinal, segment)| executable(ordinal, archive.bytes().get(segment.range)?)).collect()
}

/// The bytes of executables in the data of a module, and those of everything else.
fn data(archive: &Archive, executables: &[Executable], gpu: &[OfGpu]) -> (u64, u64) {
    let (mut kernels, mut others) = (0, 0);
    for (ordinal, segment) in archive.rodata().enumerate() {
        let bytes = archive.bytes().get(segment.range).unwrap_or_default();
        let is_bytecode = executables.iter().any(|executable| executable.segment() == ordinal);
        let is_gpu = gpu.iter().any(|gpu| gpu.segment == ordinal);
        let is_kernel = is_bytecode || is_gpu || local::elf::infer_format(bytes).is_ok();
        *if is_kernel { &mut kernels } else { &mut others } += bytes.len() as u64;
    }
    (kernels, others)
}
