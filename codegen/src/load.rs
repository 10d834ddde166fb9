//! The loader: reads and checks the texts of all spec files, and returns one [`Spec`] or all diagnostics. The folder of
//! a file decides which model reads its entries. Called by build scripts, macros and `xtask`.

use std::collections::BTreeMap;

use crate::check;
use crate::diag::{Diagnostics, Origin};
use crate::entry::{self, Entry};
use crate::model::instruction_set::InstructionSet;
use crate::model::{abi, api, format, gfx, hal, jit, names, ptx, schema, vm};
use crate::sem::Vocabulary;

/// Every fact of `spec/`, checked.
#[derive(Clone, Debug)]
pub struct Spec {
    /// `spec/isa/`: the instruction sets, by the names of their folders.
    pub instruction_sets: BTreeMap<String, InstructionSet>,
    /// `spec/primitives/`: the vocabulary of the semantics of all instruction sets.
    pub primitives: Vocabulary,
    /// `spec/api/`: libraries in C and the data that they share with devices, by the names of their folders.
    pub apis: BTreeMap<String, api::Api>,
    /// `spec/replay/` and `spec/profile/`: formats of files with records, by the names of their folders.
    pub formats: BTreeMap<String, format::Format>,
    /// `spec/abi/`: calling-convention types and the signatures of modules.
    pub abi: abi::Abi,
    /// `spec/schema/`: FlatBuffer tables and other file headers.
    pub schema: schema::Schema,
    /// `spec/hal/`: the objects of the hardware abstraction layer.
    pub hal: hal::Hal,
    /// `spec/names/`: words that programs, hosts or files write.
    pub names: Vec<names::Names>,
    /// `spec/jit/`: rewrites of nodes of the JIT's graph.
    pub rewrites: Vec<jit::Rewrite>,
}

impl Spec {
    /// The instruction set `spec/isa/NAME/`, if it is bytecode of a register machine.
    pub fn vm(&self, name: &str) -> Option<&vm::Isa> {
        match self.instruction_sets.get(name)? {
            InstructionSet::Vm(isa) => Some(isa),
            InstructionSet::Gfx(_) | InstructionSet::Ptx(_) => None,
        }
    }

    /// The instruction set `spec/isa/NAME/`, if it is machine code of a GPU.
    pub fn gfx(&self, name: &str) -> Option<&gfx::Gfx> {
        match self.instruction_sets.get(name)? {
            InstructionSet::Gfx(gfx) => Some(gfx),
            InstructionSet::Vm(_) | InstructionSet::Ptx(_) => None,
        }
    }

    /// The instruction set `spec/isa/NAME/`, if it is the text form of a GPU.
    pub fn ptx(&self, name: &str) -> Option<&ptx::Ptx> {
        match self.instruction_sets.get(name)? {
            InstructionSet::Ptx(ptx) => Some(ptx),
            InstructionSet::Vm(_) | InstructionSet::Gfx(_) => None,
        }
    }

    /// The format of files `spec/NAME/`, if it is there.
    pub fn format(&self, name: &str) -> Option<&format::Format> {
        self.formats.get(name)
    }

    /// The API `spec/api/NAME/`, if it is there.
    pub fn api(&self, name: &str) -> Option<&api::Api> {
        self.apis.get(name)
    }
}

/// The folders of `spec/`, and whether each folder in one is read on its own.
const FOLDERS: [(&str, bool); 10] = [
    ("isa", true),
    ("api", true),
    ("primitives", false),
    ("abi", false),
    ("schema", false),
    ("hal", false),
    ("names", false),
    ("jit", false),
    ("profile", false),
    ("replay", false),
];

/// The folders of formats of files with records.
const FORMATS: [&str; 2] = ["profile", "replay"];

/// The folder that is read as one: `("isa", "vm")` for `spec/isa/vm/ops/integer.yaml`, `("hal", "")` for
/// `spec/hal/device.yaml`.
fn folder_of(path: &str) -> Option<(&'static str, &str)> {
    let (folder, rest) = path.strip_prefix("spec/")?.split_once('/')?;
    let (folder, has_folders) = FOLDERS.into_iter().find(|(name, _)| *name == folder)?;
    match has_folders {
        true => Some((folder, rest.split_once('/')?.0)),
        false => Some((folder, "")),
    }
}

/// Reads spec files, each given as its path from the workspace root (`spec/isa/vm/isa.yaml`) and its text.
///
/// The order in which files are given does not matter.
///
/// # Errors
/// All errors of all files, sorted by place. A spec with an error is never returned.
pub fn load(files: &[(&str, &str)]) -> Result<Spec, Diagnostics> {
    let mut diagnostics = Diagnostics::default();
    let mut folders: BTreeMap<(&str, &str), Vec<Entry>> = BTreeMap::new();
    let mut files = files.to_vec();
    files.sort_by_key(|(path, _)| *path);
    for (path, text) in files.iter().copied() {
        let Some(folder) = folder_of(path) else {
            let known =
                FOLDERS.map(|(name, has_folders)| format!("spec/{name}/{}", if has_folders { "NAME/" } else { "" }));
            let message = format!("no model reads this file: expected a path below one of {}", known.join(" "));
            diagnostics.error(&Origin { file: path.to_string(), line: 1 }, message);
            continue;
        };
        folders.entry(folder).or_default().extend(entry::split(path, text, &mut diagnostics));
    }
    let entries = |name: &'static str| folders.get(&(name, "")).map_or(&[][..], Vec::as_slice);
    let below = |parent: &'static str| folders.iter().filter(move |((folder, _), _)| *folder == parent);
    let abi = abi::Abi::load(entries("abi"), &mut diagnostics);
    let primitives = Vocabulary::load(entries("primitives"), &mut diagnostics);
    let mut instruction_sets: BTreeMap<String, InstructionSet> = BTreeMap::new();
    for ((_, name), entries_of_set) in below("isa") {
        let set = InstructionSet::load(name, entries_of_set, &primitives, &abi, &instruction_sets, &mut diagnostics);
        instruction_sets.extend(set.map(|set| (name.to_string(), set)));
    }
    let rewrites = jit::load(entries("jit"), &primitives.of("vm"), &mut diagnostics);
    let apis =
        below("api").map(|((_, name), entries)| (name.to_string(), api::Api::load(name, entries, &mut diagnostics)));
    let apis: BTreeMap<String, api::Api> = apis.collect();
    let formats = FORMATS.into_iter().filter(|name| !entries(name).is_empty());
    let formats = formats.map(|name| (name.to_string(), format::Format::load(name, entries(name), &mut diagnostics)));
    let formats: BTreeMap<String, format::Format> = formats.collect();
    let spec = Spec {
        formats,
        rewrites,
        apis,
        instruction_sets,
        primitives,
        abi,
        schema: schema::Schema::load(entries("schema"), &mut diagnostics),
        hal: hal::Hal::load(entries("hal"), &mut diagnostics),
        names: names::load(entries("names"), &mut diagnostics),
    };
    for set in spec.instruction_sets.values() {
        if let InstructionSet::Vm(isa) = set {
            check::vm::check(isa, &mut diagnostics);
        }
    }
    check::abi::check(&spec.abi, &spec.hal, &mut diagnostics);
    for format in spec.formats.values() {
        format.check_methods(&spec.hal, &mut diagnostics);
    }
    // An encoding is named without its parameters.
    let all = || folders.values().flatten();
    let names = all().map(|entry| {
        let name = entry.name().split('(').next().unwrap_or_default();
        (name, &entry.origin, entry.lines())
    });
    diagnostics.without_follow_ups(names);
    all().for_each(|entry| entry.check_doc(&mut diagnostics));
    diagnostics.locate(&files);
    diagnostics.into_result(spec)
}
