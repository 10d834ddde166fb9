//! The loader: reads and checks the texts of all spec files, and returns one [`Spec`] or all diagnostics. The path of a
//! file decides which model reads its entries. Called by build scripts, macros and `xtask`.

use crate::check;
use crate::diag::{Diagnostics, Origin};
use crate::entry::{self, Entry};
use crate::model::{abi, api, gfx, hal, names, schema, vm};

/// Every fact of `spec/`, checked.
#[derive(Clone, Debug)]
pub struct Spec {
    /// `spec/isa/vm/`: the instruction set.
    pub vm: vm::Isa,
    /// `spec/abi/`: calling-convention types and the signatures of modules.
    pub abi: abi::Abi,
    /// `spec/schema/`: FlatBuffer tables and other file headers.
    pub schema: schema::Schema,
    /// `spec/hal/`: the objects of the hardware abstraction layer.
    pub hal: hal::Hal,
    /// `spec/api/amdgpu/`: the data structures of AMD GPUs, and the functions of the HSA library.
    pub amdgpu: api::Api,
    /// `spec/isa/gfx11/`: the instruction set of RDNA3.
    pub gfx11: gfx::Gfx,
    /// `spec/names/`: words that programs, hosts or files write.
    pub names: Vec<names::Names>,
}

/// Reads spec files, each given as its path from the workspace root (`spec/isa/vm/isa.yaml`) and its text.
///
/// The order in which files are given does not matter.
///
/// # Errors
/// All errors of all files, sorted by place. A spec with an error is never returned.
pub fn load(files: &[(&str, &str)]) -> Result<Spec, Diagnostics> {
    let mut diagnostics = Diagnostics::default();
    let mut rooms: [Vec<Entry>; 7] = Default::default();
    // Semantics of the ops of the VM are written with the primitives, so both are of one room.
    const PREFIXES: [(&str, usize); 8] = [
        ("spec/isa/vm/", 0),
        ("spec/primitives/", 0),
        ("spec/abi/", 1),
        ("spec/schema/", 2),
        ("spec/hal/", 3),
        ("spec/api/amdgpu/", 4),
        ("spec/isa/gfx11/", 5),
        ("spec/names/", 6),
    ];
    let mut files = files.to_vec();
    files.sort_by_key(|(path, _)| *path);
    for (path, text) in files.iter().copied() {
        let Some((_, room)) = PREFIXES.iter().find(|(prefix, _)| path.starts_with(prefix)) else {
            let origin = Origin { file: path.to_string(), line: 1 };
            diagnostics.error(
                &origin,
                format!(
                    "no model reads this file: expected a path below one of {}",
                    PREFIXES.map(|(prefix, _)| prefix).join(" ")
                ),
            );
            continue;
        };
        rooms[*room].extend(entry::split(path, text, &mut diagnostics));
    }
    let [vm, abi, schema, hal, amdgpu, gfx11, names] = &rooms;
    let abi = abi::Abi::load(abi, &mut diagnostics);
    let spec = Spec {
        vm: vm::Isa::load(vm, &abi, &mut diagnostics),
        abi,
        schema: schema::Schema::load(schema, &mut diagnostics),
        hal: hal::Hal::load(hal, &mut diagnostics),
        amdgpu: api::Api::load(amdgpu, &mut diagnostics),
        gfx11: gfx::Gfx::load(gfx11, &mut diagnostics),
        names: names::load(names, &mut diagnostics),
    };
    check::vm::check(&spec.vm, &mut diagnostics);
    check::abi::check(&spec.abi, &spec.hal, &mut diagnostics);
    // An encoding is named without its parameters.
    let names = rooms.iter().flatten().map(|entry| {
        let name = entry.name().split('(').next().unwrap_or_default();
        (name, &entry.origin, entry.lines())
    });
    diagnostics.without_follow_ups(names);
    rooms.iter().flatten().for_each(|entry| entry.check_doc(&mut diagnostics));
    diagnostics.locate(&files);
    diagnostics.into_result(spec)
}
