//! `vireo dump`: shows the contents of a module.

mod assembly;
mod json;
mod kernels;
mod loops;
mod machine;
mod overview;
mod summary;
mod text;

use std::io;

use anstream::AutoStream;
use vireo::Status;
use vireo::bytecode::VerifiedFunction;
use vireo::vmfb::Archive;

use crate::arguments::{Color, DumpArguments, DumpOutput, Format, JitOutput, ModuleMode};
use crate::engine;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::print::{print, print_json, print_styled};
use crate::styles::sections;
use crate::suggest::did_you_mean;
use crate::time_limit;
use vireo::visible_text::visible_lines;

use loops::FunctionLoops;
use machine::Form;
use summary::{Function, Summary, exports_by_function, summarize, with_names};

/// Does what the flags say.
pub fn dump(arguments: &DumpArguments, color: Color) -> Result<Exit, Failure> {
    if arguments.format == Format::Json && arguments.output == DumpOutput::Disassembly {
        return Err(
            Failure::new(Exit::Usage, "JSON shows the metadata, not the disassembly").hint("drop one of the flags")
        );
    }
    if let DumpOutput::FlatbufferBinary | DumpOutput::FlatbufferJson = arguments.output {
        let status = Status::unimplemented("the FlatBuffer of a module is not written, neither as bytes nor as JSON");
        let failure = Failure::new(Exit::Usage, "cannot show the module in this form").because(status);
        return Err(failure.hint("--format=json writes names, types, imports, exports, data and functions"));
    }
    time_limit::start(arguments.timeout, "showing the module")?;
    let archive = engine::open_archive(arguments.module.path(), ModuleMode::Mmap)?;
    let mut summary = summarize(&archive);
    let mut out = AutoStream::new(io::stdout(), color.choice()).lock();
    let form = match arguments.jit {
        None => None,
        Some(JitOutput::Code) => Some(Form::Code),
        Some(JitOutput::Graph) => Some(Form::Graph),
        Some(JitOutput::Why) => {
            let loops = decisions_about_loops(&archive, &summary, &arguments.function)?;
            return match arguments.format {
                Format::Text => print(&mut out, &loops::text(&loops)),
                Format::Json => print_json(&mut out, &loops::json(&loops)),
            };
        }
    };
    if let Some(form) = form {
        if arguments.format == Format::Json {
            let failure = Failure::new(Exit::Usage, "JSON shows what was decided about loops, not machine code");
            return Err(failure.hint("use --jit=why, or drop one of the flags"));
        }
        return print(&mut out, &machine_code(&archive, &summary, &arguments.function, form)?);
    }
    let ordinals = chosen(&summary, &arguments.function, &[])?;
    if arguments.format == Format::Json {
        keep(&mut summary, &ordinals);
        return print_json(&mut out, &json::metadata(&summary));
    }
    let filtered = !arguments.function.is_empty();
    let output = match arguments.output {
        // A single function, or the offsets of ops, are asked for to see the code.
        DumpOutput::Summary | DumpOutput::All if filtered => DumpOutput::Disassembly,
        DumpOutput::Summary if arguments.bytecode_offsets => DumpOutput::Disassembly,
        output => output,
    };
    if output == DumpOutput::Summary {
        let module = engine::verify(archive.clone())?;
        let text = overview::overview(&module, &archive, &summary)?;
        return print_styled(&mut out, &sections(&visible_lines(&text)));
    }
    let metadata = output != DumpOutput::Disassembly;
    if output != DumpOutput::Metadata {
        let module = engine::verify(archive.clone())?;
        let chosen = Chosen { ordinals: &ordinals, filtered, offsets: arguments.bytecode_offsets };
        let text = disassembly(&archive, &summary, module.functions(), &chosen);
        if metadata {
            print(&mut out, &format!("{}\n", text::metadata(&summary)))?;
        }
        return print(&mut out, &text);
    }
    keep(&mut summary, &ordinals);
    print(&mut out, &text::metadata(&summary))
}

/// The functions and kernels that the flags name.
struct Named {
    /// Functions of the module itself.
    ordinals: Vec<usize>,
    executables: Vec<kernels::Executable>,
    /// The names of kernels; all are meant if there are none.
    kernels: Vec<String>,
}

impl Named {
    /// Those with these names, all of them without names.
    fn new(archive: &Archive, summary: &Summary, names: &[String]) -> Result<Named, Failure> {
        let mut executables = kernels::executables(archive)?;
        let (kernels, others): (Vec<String>, Vec<String>) =
            names.iter().cloned().partition(|name| executables.iter().any(|executable| executable.has(name)));
        // A function may be called as a kernel is: then both are shown.
        let known = |name: &&String| summary.functions.iter().any(|function| function.names.contains(name));
        let functions: Vec<String> = kernels.iter().filter(known).chain(&others).cloned().collect();
        let is_all = names.is_empty();
        let ordinals =
            if functions.is_empty() && !is_all { Vec::new() } else { chosen(summary, &functions, &executables)? };
        if !is_all && kernels.is_empty() {
            executables.clear();
        }
        Ok(Named { ordinals, executables, kernels })
    }
}

/// The machine code or the graphs of the functions of the module, then those of the kernels inside it; as far as they
/// are named, if names are given.
fn machine_code(archive: &Archive, summary: &Summary, names: &[String], form: Form) -> Result<String, Failure> {
    let Named { ordinals, executables, kernels } = Named::new(archive, summary, names)?;
    let module = engine::verify(archive.clone())?;
    let texts = with_names(summary, |names| machine::functions(&module, names, &ordinals, form));
    let mut texts = texts.map_err(no_machine_code)?;
    for executable in &executables {
        texts.extend(executable.machine_code(&kernels, form).map_err(no_machine_code)?);
    }
    Ok(texts.join("\n"))
}

/// The decisions about the loops of the same functions.
fn decisions_about_loops(
    archive: &Archive,
    summary: &Summary,
    names: &[String],
) -> Result<Vec<FunctionLoops>, Failure> {
    let Named { ordinals, executables, kernels } = Named::new(archive, summary, names)?;
    let module = engine::verify(archive.clone())?;
    let functions = with_names(summary, |names| loops::functions(&module, names, &ordinals, None));
    let mut functions = functions.map_err(no_machine_code)?;
    for executable in &executables {
        functions.extend(executable.loops(&kernels).map_err(no_machine_code)?);
    }
    Ok(functions)
}

fn no_machine_code(status: Status) -> Failure {
    Failure::new(Exit::Usage, "cannot show machine code").because(status)
}

/// The ordinals of the functions that the flags name; all of them without a flag. Kernels of `executables` could have
/// been named, too.
fn chosen(summary: &Summary, names: &[String], executables: &[kernels::Executable]) -> Result<Vec<usize>, Failure> {
    if names.is_empty() {
        return Ok((0..summary.functions.len()).collect());
    }
    let find = |name: &String| {
        let bare = name.strip_prefix('@').unwrap_or(name);
        let named = |function: &Function| function.names.iter().any(|known| known == name || known == bare);
        // `fn4` is what the code calls function 4 if it has no name.
        let digits = bare.strip_prefix("fn").unwrap_or(bare);
        let ordinal = digits.parse().ok().filter(|ordinal| *ordinal < summary.functions.len());
        summary.functions.iter().position(named).or(ordinal).ok_or_else(|| {
            let known = summary.exports.iter().map(|export| format!("@{}", export.name)).collect::<Vec<_>>().join(", ");
            let kernels: Vec<String> = executables.iter().flat_map(kernels::Executable::kernels).collect();
            let kernels =
                if kernels.is_empty() { String::new() } else { format!("; its kernels are {}", kernels.join(", ")) };
            let message = format!("the module has no function `{name}`");
            let all = summary.functions.iter().flat_map(|function| &function.names).map(String::as_str);
            let meant = did_you_mean(bare, all, "");
            Failure::new(Exit::LoadFailure, message).hint(format!(
                "{meant}it exports {known}; a number from 0 to {} is a function, too{kernels}",
                summary.functions.len().max(1) - 1
            ))
        })
    };
    names.iter().map(find).collect()
}

/// Leaves only the functions that were asked for, and their exports.
fn keep(summary: &mut Summary, ordinals: &[usize]) {
    if ordinals.len() == summary.functions.len() {
        return;
    }
    summary.exports.retain(|export| ordinals.contains(&export.ordinal));
    summary.functions = ordinals.iter().filter_map(|ordinal| summary.functions.get(*ordinal).cloned()).collect();
}

/// The functions whose code is shown, and how.
struct Chosen<'a> {
    ordinals: &'a [usize],
    /// True if these are not all.
    filtered: bool,
    /// True if ops have their offsets before them.
    offsets: bool,
}

fn disassembly(archive: &Archive, summary: &Summary, functions: &[VerifiedFunction], chosen: &Chosen<'_>) -> String {
    let segments = archive.rodata().map(|segment| segment.range).collect::<Vec<_>>();
    let rodata = |ordinal: usize| {
        let range = segments.get(ordinal).cloned();
        range.and_then(|range| archive.bytes().get(range)).unwrap_or_default().to_vec()
    };
    let exports = exports_by_function(&summary.exports);
    with_names(summary, |names| {
        let mut text = if chosen.filtered { String::new() } else { assembly::declarations(summary, &rodata) };
        for ordinal in chosen.ordinals {
            if let Some(function) = functions.get(*ordinal) {
                if !text.is_empty() {
                    text.push('\n');
                }
                let exports = exports.get(ordinal).map_or(&[][..], Vec::as_slice);
                text.push_str(&assembly::function(exports, names, *ordinal, function, chosen.offsets));
            }
        }
        text
    })
}
