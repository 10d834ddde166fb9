//! The emitters: one module for each artifact, and the list of all of them, which `build` and the snapshots run.
//!
//! Emitters build token streams, which [`mod@file`] formats. Generated Rust names the items of the crate that includes
//! it without a path: `generated.rs` of that crate imports them, in the module of the `include!`. So a module of the
//! runtime can be renamed without a change here.

use crate::load::Spec;
use crate::model::api::Api;
use crate::model::format::Format;
use crate::model::instruction_set::InstructionSet;
use crate::model::{gfx, ptx, vm};
use file::GeneratedFile;

pub mod abi_callees;
pub mod abi_letters;
pub mod abi_modules;
pub mod abi_shims;
pub mod api;
pub mod asm;
pub mod assembly_guide;
pub mod c_headers;
mod constants;
pub mod cpu_features;
pub mod decode;
pub mod disasm;
pub mod element_texts;
pub mod elf;
pub mod executable_library;
pub mod executable_plugin;
mod families;
pub mod file;
pub mod format_dump;
pub mod format_executor;
pub mod format_operations;
pub mod format_recorder;
pub mod gfx_counters;
pub mod gfx_immediates;
pub mod gfx_interp;
pub mod gfx_operands;
pub mod gfx_tables;
pub mod hal_arguments;
pub mod hal_calls;
pub mod hal_checks;
pub mod hal_exports;
pub mod hal_forward;
pub mod hal_header;
pub mod hal_imports;
pub mod hal_observe;
pub mod hal_operations;
pub mod hal_owned_operations;
pub mod hal_records;
pub mod hal_traits;
pub mod hal_types;
pub mod hal_vtables;
mod handler;
pub mod interp;
pub mod jit;
mod layout_writers;
mod layouts;
pub mod library_entries;
pub mod library_exports;
pub mod library_symbols;
pub mod local_task;
pub mod names;
pub mod op_tests;
pub mod opcode;
pub(crate) mod operand;
pub mod primitive;
pub mod primitive_tests;
pub mod ptx_interp;
pub mod ptx_tables;
pub mod reference_docs;
pub mod rewrite_tests;
pub mod rewrites;
pub mod schema_readers;
mod scope;
pub mod status;
pub mod stream_api;
pub mod support;
mod tables;
mod threaded;
mod trailing;
pub mod verify;
pub mod vmvx;
mod words;

/// An emitter: from a part of the spec to the files of one artifact.
type Emitter<T> = fn(&T) -> Vec<GeneratedFile>;

/// The emitters that need several parts of the spec, with the prefixes of the paths of their files. A new artifact is
/// one module and one line here, or in the tables below.
const OF_SPEC: &[(&str, Emitter<Spec>)] = &[
    ("jit/rewrites", rewrites::emit),
    ("jit/rewrite_tests", rewrite_tests::emit),
    ("abi/status", status::emit),
    ("abi", abi_letters::emit),
    ("abi/callees", abi_callees::emit),
    ("abi/shims", abi_shims::emit),
    ("abi/modules", abi_modules::emit),
    ("schema", schema_readers::emit),
    ("hal/elf", elf::emit),
    ("hal/executable_library", executable_library::emit),
    ("hal/executable_plugin", executable_plugin::emit),
    ("hal/cpu_features", cpu_features::emit),
    ("hal/vmvx", vmvx::emit),
    ("hal/local_task", local_task::emit),
    ("hal/element_texts", element_texts::emit),
    ("hal/types", hal_types::emit),
    ("hal/arguments", hal_arguments::emit),
    ("hal/traits", hal_traits::emit),
    ("hal/operations", hal_operations::emit),
    ("hal/owned_operations", hal_owned_operations::emit),
    ("hal/vtables", hal_vtables::emit),
    ("hal/exports", hal_exports::emit),
    ("hal/imports", hal_imports::emit),
    ("hal/forward", hal_forward::emit),
    ("hal/calls", hal_calls::emit),
    ("hal/checks", hal_checks::emit),
    ("hal/observe", hal_observe::emit),
    ("hal/records", hal_records::emit),
    ("replay/recorder", format_recorder::emit),
    ("hal/driver", hal_header::emit),
    ("names", names::emit),
    ("replay/executor", format_executor::emit),
    ("stream", stream_api::emit),
];

/// The emitters of instruction sets with the model `vm`.
const OF_VM: &[(&str, Emitter<vm::Isa>)] = &[
    ("vm/opcode", opcode::emit),
    ("vm/decode", decode::emit),
    ("vm/verify", verify::emit),
    ("vm/disasm", disasm::emit),
    ("vm/asm", asm::emit),
    ("vm/interp", interp::emit),
    ("vm/jit", jit::emit),
    ("vm/primitive", primitive::emit),
    ("vm/op_tests", op_tests::emit),
    ("vm/tests/primitives", primitive_tests::emit),
];

/// The emitters of instruction sets with the model `gfx`.
const OF_GFX: &[(&str, Emitter<gfx::Gfx>)] = &[
    ("gfx", gfx_tables::emit),
    ("gfx", gfx_operands::emit),
    ("gfx", gfx_counters::emit),
    ("gfx/immediates", gfx_immediates::emit),
    ("gfx/interp", gfx_interp::emit),
    ("gfx/tests/primitives", primitive_tests::emit_gfx),
];

/// The emitters of instruction sets with the model `ptx`.
const OF_PTX: &[(&str, Emitter<ptx::Ptx>)] =
    &[("ptx", ptx_tables::emit), ("ptx/interp", ptx_interp::emit), ("ptx/tests/primitives", primitive_tests::emit_ptx)];

/// Generates every file, sorted by path. The same spec always gives the same bytes.
pub fn generate(spec: &Spec) -> Vec<GeneratedFile> {
    generate_below(spec, &[""])
}

/// Generates the files whose paths begin with one of `prefixes`, sorted by path. No other emitter runs.
pub fn generate_below(spec: &Spec, prefixes: &[&str]) -> Vec<GeneratedFile> {
    let mut files = run(OF_SPEC, spec, prefixes);
    for set in spec.instruction_sets.values() {
        files.extend(match set {
            InstructionSet::Vm(isa) => run(OF_VM, isa, prefixes),
            InstructionSet::Gfx(gfx) => run(OF_GFX, gfx, prefixes),
            InstructionSet::Ptx(ptx) => run(OF_PTX, ptx, prefixes),
        });
    }
    for api in spec.apis.values() {
        let emitters: [Emitter<Api>; 3] = [api::emit, library_symbols::emit, c_headers::emit];
        files.extend(run(&emitters.map(|emit| (api.name.as_str(), emit)), api, prefixes));
        let software = api.libraries.iter().filter_map(|library| library.software.as_deref());
        let mut software = software.chain(api.nulls.iter().map(|null| null.folder.as_str()));
        if software.any(|folder| is_wanted(folder, prefixes)) {
            files.extend(library_exports::emit(api));
            files.extend(library_entries::emit(api));
        }
    }
    for format in spec.formats.values() {
        let emitters: [Emitter<Format>; 3] =
            [|format| api::emit(&format.api), format_dump::emit, format_operations::emit];
        files.extend(run(&emitters.map(|emit| (format.api.name.as_str(), emit)), format, prefixes));
    }
    files.retain(|file| prefixes.iter().any(|prefix| file.path.starts_with(prefix)));
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files
}

/// Runs the emitters that may make files below `prefixes`.
fn run<T>(emitters: &[(&str, Emitter<T>)], part: &T, prefixes: &[&str]) -> Vec<GeneratedFile> {
    emitters.iter().filter(|(emitted, _)| is_wanted(emitted, prefixes)).flat_map(|(_, emit)| emit(part)).collect()
}

fn is_wanted(emitted: &str, prefixes: &[&str]) -> bool {
    prefixes.iter().any(|prefix| prefix.starts_with(emitted) || emitted.starts_with(prefix))
}
