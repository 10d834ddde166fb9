//! The instruction sets: a folder of `spec/isa/` for each. The entry `instruction_set` of a folder says which model
//! reads the others, so that a new folder needs no code that names it.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::abi::Abi;
use super::{gfx, ptx, vm};
use crate::diag::{Diagnostics, Origin};
use crate::entry::Entry;
use crate::sem::Vocabulary;

/// An instruction set, as the model of its kind.
#[derive(Clone, Debug)]
pub enum InstructionSet {
    /// Bytecode of a register machine.
    Vm(vm::Isa),
    /// Machine code of a GPU whose instructions work on lanes.
    Gfx(gfx::Gfx),
    /// Text of a GPU whose instructions work on lanes that branch on their own.
    Ptx(ptx::Ptx),
}

/// The names of the models in specs.
const MODELS: [&str; 3] = ["vm", "gfx", "ptx"];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    instruction_set: String,
    model: String,
    doc: String,
}

impl InstructionSet {
    /// Reads the entries of the folder `spec/isa/NAME/`, in the order of their paths. Semantics are written with those
    /// of `primitives` that it uses. No set in `before` may have the same model, since what is generated from a model
    /// has one place.
    pub fn load(
        name: &str,
        entries: &[Entry],
        primitives: &Vocabulary,
        abi: &Abi,
        before: &BTreeMap<String, InstructionSet>,
        diagnostics: &mut Diagnostics,
    ) -> Option<Self> {
        let (declared, others): (Vec<&Entry>, Vec<&Entry>) =
            entries.iter().partition(|entry| entry.kind == "instruction_set");
        let [entry] = declared.as_slice() else {
            let origin = match declared.as_slice() {
                [_, second, ..] => second.origin.clone(),
                _ => Origin { file: entries.first()?.origin.file.clone(), line: 1 },
            };
            let message = format!("spec/isa/{name} needs one entry `instruction_set: {name}`, which names its model");
            diagnostics.error(&origin, message);
            return None;
        };
        let raw: Raw = entry.parse(diagnostics)?;
        entry.need_doc(&raw.doc, diagnostics);
        if raw.instruction_set != name {
            let message = format!("`{}` is in the folder of `{name}`", raw.instruction_set);
            diagnostics.error(&entry.origin, message);
        }
        if let Some((first, _)) = before.iter().find(|(_, set)| set.model() == raw.model) {
            let message = format!("`{}` is the model of spec/isa/{first} already", raw.model);
            diagnostics.error(&entry.origin_of("model"), message);
            return None;
        }
        let others: Vec<Entry> = others.into_iter().cloned().collect();
        match raw.model.as_str() {
            "vm" => Some(Self::Vm(vm::Isa::load(&others, primitives.of(name), abi, diagnostics))),
            "gfx" => Some(Self::Gfx(gfx::Gfx::load(name, &others, primitives.of(name), diagnostics))),
            "ptx" => Some(Self::Ptx(ptx::Ptx::load(name, &others, primitives.of(name), diagnostics))),
            model => {
                let message = format!("unknown model `{model}`: expected one of {}", MODELS.join(" "));
                diagnostics.unknown(&entry.origin_of("model"), model, message, MODELS);
                None
            }
        }
    }

    /// The name of its model.
    pub fn model(&self) -> &'static str {
        match self {
            Self::Vm(_) => MODELS[0],
            Self::Gfx(_) => MODELS[1],
            Self::Ptx(_) => MODELS[2],
        }
    }
}
