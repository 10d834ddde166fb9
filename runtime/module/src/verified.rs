//! All functions of a module file, verified ([`verify`]): by the rules of the compiler that wrote it, which the file
//! says or its functions show.

use std::sync::Arc;

use crate::bytecode::opcode::GapFill;
use crate::bytecode::{
    FunctionInfo, ModuleInfo, Placement, PlacementEvidence, Rules, VerifiedFunction, verify_function,
};
use crate::convention::Convention;
use crate::status::{Result, Status};
use crate::vmfb::{Archive, DebugDatabase, Function};

/// The findings of a verification.
#[derive(Debug)]
pub struct Verified {
    /// The functions, by ordinal.
    pub functions: Arc<[VerifiedFunction]>,
    /// Their names for messages: that of the export, else the one in the debug database, else empty.
    pub function_names: Vec<String>,
    /// The conventions of the imports, by ordinal.
    pub imports: Vec<Convention>,
}

/// Verifies the functions of an archive. After each one, `progress` gets the bytes of code that are verified, and how
/// many there are in all.
///
/// # Errors
/// `INVALID_ARGUMENT` for code or a calling convention that is malformed, with the place in the file, and
/// `INCOMPATIBLE` for code that follows the rules of no known compiler.
pub fn verify(
    archive: &Archive,
    debug: Option<&DebugDatabase>,
    mut progress: impl FnMut(u64, u64),
) -> Result<Verified> {
    let imports: Vec<Convention> = archive
        .imports()
        .map(|import| {
            import.convention.parse().map_err(|status: Status| status.context(format!("import `{}`", import.full_name)))
        })
        .collect::<Result<_>>()?;
    let function_names = function_names(archive, debug);
    let describe = |ordinal: usize| match function_names[ordinal].as_str() {
        "" => format!("function {ordinal}"),
        name => format!("function {ordinal} `{name}`"),
    };
    let conventions: Vec<Convention> = archive
        .functions()
        .enumerate()
        .map(|(ordinal, function)| {
            function.convention().parse().map_err(|status: Status| status.context(describe(ordinal)))
        })
        .collect::<Result<_>>()?;
    let (global_bytes, global_refs) = archive.globals();
    let count = |what: &str, count: usize| {
        u32::try_from(count).map_err(|_| Status::invalid_argument(format!("the module has {count} {what}")))
    };
    let info = ModuleInfo {
        global_bytes: global_bytes as u64,
        global_refs: count("reference globals", global_refs)?,
        types: count("types", archive.types().len())?,
        rodata: count("read-only segments", archive.rodata().len())?,
        imports: &imports,
        functions: &conventions,
    };
    let bytecode = archive.bytecode();
    let code_of = |function: &Function<'_>| bytecode.get(function.code.clone()).unwrap_or_default();
    let functions_with = |rules: Rules| {
        archive.functions().zip(&conventions).enumerate().map(move |(ordinal, (function, convention))| {
            let info = FunctionInfo {
                ordinal: ordinal as u32,
                convention,
                slots: function.slots,
                refs: function.refs,
                blocks: function.blocks,
                features: function.requirements.0,
                rules,
            };
            (function, info)
        })
    };
    let version = archive.bytecode_rules();
    let placement = match &version.gap_fill {
        None => Placement::InOrder,
        Some(GapFill { module, version, .. }) if needs_at_most(archive, module, *version) => Placement::GapFill,
        // The file does not say which compiler wrote it, but the registers that functions read do.
        Some(_) => {
            let mut evidence = PlacementEvidence::default();
            for (function, function_info) in functions_with(Rules { version, placement: Placement::InOrder }) {
                evidence.add(code_of(&function), &function_info, &info).map_err(|message| {
                    undecided(archive, &format!("{}: {message}", describe(function_info.ordinal as usize)))
                })?;
            }
            evidence.placement().map_err(|message| undecided(archive, &message))?
        }
    };
    let code_bytes = |function: &Function<'_>| function.code.len() as u64;
    let (all, mut done) = (archive.functions().map(|function| code_bytes(&function)).sum(), 0);
    let functions = functions_with(Rules { version, placement })
        .map(|(function, function_info)| {
            let verified = verify_function(code_of(&function), &function_info, &info).map_err(|error| {
                let offset = archive.bytecode_offset() + function.code.start + error.offset as usize;
                let (place, message) = (error.offset, error.message);
                let name = describe(function_info.ordinal as usize);
                Status::invalid_argument(format!("at {offset:#x}: {name} at {place:#06x}: {message}"))
            })?;
            done += code_bytes(&function);
            progress(done, all);
            Ok(verified)
        })
        .collect::<Result<Arc<[VerifiedFunction]>>>()?;
    Ok(Verified { functions, function_names, imports })
}

/// True if a module depends on another one in a version that is no newer than `version`.
fn needs_at_most(archive: &Archive, name: &str, version: u32) -> bool {
    archive.dependencies().any(|dependency| dependency.name == name && dependency.minimum_version <= version)
}

/// The error for a module that follows no rule of a known compiler.
fn undecided(archive: &Archive, message: &str) -> Status {
    let version = archive.bytecode_rules();
    let filling = version.gap_fill.as_ref().map_or("", |fill| fill.releases);
    Status::incompatible(format!(
        "the module fits none of the compilers that write bytecode {}.{} ({}): {filling} fill gaps between arguments, others do \
         not, and {message}",
        version.major, version.minor, version.releases
    ))
}

/// Names of functions for messages, by ordinal: that of the export, else the one in the debug database, else empty.
fn function_names(archive: &Archive, debug: Option<&DebugDatabase>) -> Vec<String> {
    let mut names = vec![String::new(); archive.functions().len()];
    for export in archive.exports() {
        // A function can be exported under several names; messages use the first.
        if let Some(name) = names.get_mut(export.ordinal).filter(|name| name.is_empty()) {
            *name = export.name.to_string();
        }
    }
    for (ordinal, name) in names.iter_mut().enumerate().filter(|(_, name)| name.is_empty()) {
        *name = debug.and_then(|debug| debug.function_name(ordinal)).unwrap_or_default().to_string();
    }
    names
}
