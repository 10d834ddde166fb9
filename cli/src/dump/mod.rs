//! `vireo dump`: shows the contents of a module.

mod assembly;
mod json;
mod kernels;
mod machine;
mod overview;
mod summary;
mod text;

use std::collections::HashMap;
use std::io;

use anstream::AutoStream;
use vireo::Status;
use vireo::bytecode::{Names, VerifiedFunction};
use vireo::vmfb::schema::bytecode_module_def::FeatureBits;
use vireo::vmfb::{self, Archive, DebugDatabase, RodataLocation};

use crate::arguments::{Color, DumpArguments, DumpOutput, Format, JitOutput, ModuleMode};
use crate::engine;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::print::{print, print_json, print_styled};
use crate::styles::sections;
use crate::suggest::did_you_mean;
use crate::time_limit;
use vireo::visible_text::visible_lines;

use summary::{Dependency, Export, Function, Import, Rodata, Summary, short_text};

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
    if let Some(what) = arguments.jit {
        return print(&mut out, &machine_code(&archive, &summary, &arguments.function, what)?);
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

/// The machine code or the graphs of the functions of the module, then those of the kernels inside it; as far as they
/// are named, if names are given.
fn machine_code(archive: &Archive, summary: &Summary, names: &[String], what: JitOutput) -> Result<String, Failure> {
    let executables = kernels::executables(archive)?;
    let (kernels, others): (Vec<String>, Vec<String>) =
        names.iter().cloned().partition(|name| executables.iter().any(|executable| executable.has(name)));
    // A function may be called as a kernel is: then both are shown.
    let known = |name: &&String| summary.functions.iter().any(|function| function.names.contains(name));
    let functions: Vec<String> = kernels.iter().filter(known).chain(&others).cloned().collect();
    let ordinals =
        if functions.is_empty() && !names.is_empty() { Vec::new() } else { chosen(summary, &functions, &executables)? };
    let module = engine::verify(archive.clone())?;
    let texts = with_names(summary, |names| machine::functions(&module, names, &ordinals, what));
    let mut texts = texts.map_err(no_machine_code)?;
    if names.is_empty() || !kernels.is_empty() {
        for executable in &executables {
            texts.extend(executable.machine_code(&kernels, what).map_err(no_machine_code)?);
        }
    }
    Ok(texts.join("\n"))
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

/// The exports of each function that has some.
fn exports_by_function(exports: &[Export]) -> HashMap<usize, Vec<&Export>> {
    let mut by_function: HashMap<usize, Vec<&Export>> = HashMap::new();
    for export in exports {
        by_function.entry(export.ordinal).or_default().push(export);
    }
    by_function
}

/// Calls `with` with what the module calls things.
fn with_names<R>(summary: &Summary, with: impl FnOnce(Names<'_>) -> R) -> R {
    let imports = summary.imports.iter().map(|import| import.name.clone()).collect::<Vec<_>>();
    let names = summary.functions.iter().enumerate().map(|(ordinal, function)| function.title(ordinal));
    let names = names.map(|name| vireo::visible_text::visible(&name)).collect::<Vec<_>>();
    let sizes = summary.rodata.iter().map(|segment| segment.bytes as usize).collect::<Vec<_>>();
    let names =
        Names { module: &summary.name, types: &summary.types, imports: &imports, functions: &names, rodata: &sizes };
    with(names)
}

fn summarize(archive: &Archive) -> Summary {
    let (major, minor) = archive.bytecode_version();
    let (global_bytes, global_refs) = archive.globals();
    let owned = |(key, value): (&str, &str)| (key.to_string(), value.to_string());
    let functions = archive.functions().collect::<Vec<_>>();
    let exports = archive.exports().map(|export| Export {
        name: export.name.into(),
        ordinal: export.ordinal,
        convention: functions.get(export.ordinal).map(|function| function.convention().to_string()).unwrap_or_default(),
        attributes: functions
            .get(export.ordinal)
            .map(|function| function.attrs().map(owned).collect())
            .unwrap_or_default(),
    });
    let exports = exports.collect::<Vec<_>>();
    let debug = DebugDatabase::of(archive);
    let by_function = exports_by_function(&exports);
    let function = |(ordinal, function): (usize, &vmfb::Function<'_>)| {
        let exported = by_function.get(&ordinal).into_iter().flatten();
        let mut names = exported.map(|export| export.name.clone()).collect::<Vec<_>>();
        let is_exported = !names.is_empty();
        if names.is_empty() {
            names.extend(debug.as_ref().and_then(|debug| debug.function_name(ordinal)).map(str::to_string));
        }
        Function {
            offset: function.code.start as u64,
            length: function.code.len() as u64,
            blocks: function.blocks as usize,
            value_registers: function.slots as usize,
            ref_registers: function.refs as usize,
            requirements: features(function.requirements),
            convention: function.convention().into(),
            names,
            exported: is_exported,
        }
    };
    let all = functions.iter().enumerate().map(function).collect();
    Summary {
        name: archive.name().into(),
        version: archive.version(),
        bytecode_version: format!("{major}.{minor}"),
        requirements: features(archive.def().requirements()),
        attributes: archive.attrs().map(owned).collect(),
        types: archive.types().map(str::to_string).collect(),
        dependencies: archive
            .dependencies()
            .map(|dependency| Dependency {
                name: dependency.name.into(),
                minimum_version: dependency.minimum_version,
                optional: dependency.optional,
            })
            .collect(),
        imports: archive
            .imports()
            .map(|import| Import {
                name: import.full_name.into(),
                convention: import.convention.into(),
                optional: import.optional,
            })
            .collect(),
        rodata: archive
            .rodata()
            .map(|segment| Rodata {
                bytes: segment.range.len() as u64,
                external: segment.location == RodataLocation::External,
                text: archive.bytes().get(segment.range).and_then(short_text),
            })
            .collect(),
        global_bytes: global_bytes as u64,
        global_refs: global_refs as u64,
        code_bytes: archive.bytecode().len() as u64,
        functions: all,
        has_source_map: debug.is_some(),
        exports,
    }
}

fn features(bits: FeatureBits) -> Vec<String> {
    let names = [
        (FeatureBits::EXT_F32, "f32"),
        (FeatureBits::EXT_F64, "f64"),
        (FeatureBits::YIELD, "yield"),
        (FeatureBits::UNWIND, "unwind"),
    ];
    names.iter().filter(|(bit, _)| bits.contains(*bit)).map(|(_, name)| name.to_string()).collect()
}
