//! The model of `spec/abi/`: the letters of calling conventions, reference types, status codes, and the exports of
//! native modules.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::diag::{Diagnostics, Origin};
use crate::entry::Entry;
use crate::model::status::{self, StatusCode};

mod adaptor;
mod callee;
pub mod convention;
mod module;
mod value;

pub use callee::{Callee, CalleeArg};
pub use convention::{Bracket, Convention, Grammar, Kind, Letter, Slot};
pub use module::{Adapted, Adaptor, Export, Module};
pub use value::{Arg, Field, Meaning, Type};

/// Every entry of `spec/abi/`.
#[derive(Clone, Debug, Default)]
pub struct Abi {
    /// The codes of errors, in the order of the file.
    pub statuses: Vec<StatusCode>,
    /// How convention strings are written.
    pub grammar: Grammar,
    /// The reference types, in the order of the file.
    pub refs: Vec<RefType>,
    /// The modules, by name.
    pub modules: BTreeMap<String, Module>,
    /// The functions that the runtime calls on its own, in the order of the file.
    pub callees: Vec<Callee>,
}

/// A named reference type.
#[derive(Clone, Debug)]
pub struct RefType {
    /// `hal.buffer`
    pub name: String,
    /// Its documentation.
    pub doc: String,
    /// Where it is declared.
    pub origin: Origin,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRef {
    #[serde(rename = "ref")]
    name: String,
    #[serde(default)]
    doc: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawModule {
    module: String,
    version: u32,
    minimum_version: u32,
    #[serde(default)]
    doc: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawExport {
    export: String,
    #[serde(default)]
    doc: String,
    #[serde(default)]
    args: Vec<RawField>,
    #[serde(default)]
    results: Vec<RawField>,
    since: Option<u32>,
    until: Option<u32>,
    #[serde(default)]
    yields: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawField {
    name: String,
    #[serde(rename = "type")]
    ty: Option<String>,
    span: Option<Vec<RawField>>,
    #[serde(default, rename = "null")]
    nullable: bool,
    #[serde(rename = "as")]
    meaning: Option<String>,
}

impl Abi {
    /// Reads the entries of all files below `spec/abi/`, in the order of their paths.
    pub fn load(entries: &[Entry], diagnostics: &mut Diagnostics) -> Self {
        let mut abi = Abi::default();
        // Letters and reference types first: modules refer to them, whatever their files are called.
        for entry in entries {
            match entry.kind.as_str() {
                "convention" => abi.grammar.read_notation(entry, diagnostics),
                "type" => abi.grammar.read_letter(entry, diagnostics),
                "ref" => abi.load_ref(entry, diagnostics),
                "status" => abi.statuses.extend(status::read(entry, &abi.statuses, diagnostics)),
                "module" | "export" | "adaptor" | "callee" => {}
                kind => diagnostics.error(
                    &entry.origin,
                    format!("unknown kind of entry `{kind}`: expected convention, type, ref, status, callee, module, export or \
                         adaptor"),
                ),
            }
        }
        let mut module: Option<Module> = None;
        for entry in entries {
            if module.as_ref().is_some_and(|module| module.origin.file != entry.origin.file) {
                abi.finish(module.take(), diagnostics);
            }
            match entry.kind.as_str() {
                "callee" => {
                    let ty = |name: &str, text: &str, origin: &Origin, diagnostics: &mut Diagnostics| {
                        abi.value_type(name, text, origin, diagnostics)
                    };
                    let callee = callee::read(entry, &abi.callees, ty, diagnostics);
                    abi.callees.extend(callee);
                }
                "module" if module.is_some() => {
                    diagnostics.error(&entry.origin, "a file describes one module: there is one above");
                }
                "module" => module = load_module(entry, diagnostics),
                "export" => match &mut module {
                    Some(module) => module.exports.extend(abi.load_export(entry, module, diagnostics)),
                    None => diagnostics.error(&entry.origin, "an export needs a `module` entry at the top of its file"),
                },
                "adaptor" => match &mut module {
                    Some(module) => module.adaptors.extend(adaptor::read(entry, module, diagnostics)),
                    None => {
                        diagnostics.error(&entry.origin, "an adaptor needs a `module` entry at the top of its file")
                    }
                },
                _ => {}
            }
        }
        abi.finish(module, diagnostics);
        if let (Some(module), Some(missing)) = (abi.modules.values().next(), abi.grammar.missing()) {
            diagnostics
                .error(&module.origin, format!("conventions cannot be written: no entry of spec/abi says {missing}"));
        }
        abi
    }

    fn finish(&mut self, module: Option<Module>, diagnostics: &mut Diagnostics) {
        let Some(module) = module else { return };
        for (index, export) in module.exports.iter().enumerate() {
            let twin = module.exports[..index]
                .iter()
                .find(|other| other.name == export.name && other.since <= export.until && export.since <= other.until);
            if let Some(twin) = twin {
                let message = format!("export `{}` is already described at {}", export.name, twin.origin);
                diagnostics.error(&export.origin, message);
            }
        }
        if let Some(other) = self.modules.get(&module.name) {
            let message = format!("module `{}` is already described at {}", module.name, other.origin);
            diagnostics.error(&module.origin, message);
        }
        self.modules.insert(module.name.clone(), module);
    }

    fn load_ref(&mut self, entry: &Entry, diagnostics: &mut Diagnostics) {
        let Some(raw) = entry.parse::<RawRef>(diagnostics) else { return };
        entry.need_doc(&raw.doc, diagnostics);
        if self.refs.iter().any(|other| other.name == raw.name) {
            diagnostics.error(&entry.origin, format!("reference type `{}` is already described", raw.name));
        }
        self.refs.push(RefType { name: raw.name, doc: raw.doc, origin: entry.origin.clone() });
    }

    fn load_export(&self, entry: &Entry, module: &Module, diagnostics: &mut Diagnostics) -> Option<Export> {
        let raw = entry.parse::<RawExport>(diagnostics)?;
        entry.need_doc(&raw.doc, diagnostics);
        let mut args = Vec::new();
        for (index, field) in raw.args.iter().enumerate() {
            let origin = entry.item_origin("args", index);
            args.extend(match &field.span {
                None => self.field(field, &origin, diagnostics).map(Arg::One),
                Some(_) if field.ty.is_some() || field.nullable || field.meaning.is_some() => {
                    diagnostics.error(&origin, format!("span `{}` has neither `type` nor `null` nor `as`", field.name));
                    None
                }
                Some(fields) if fields.is_empty() => {
                    diagnostics.error(&origin, format!("span `{}` has no fields", field.name));
                    None
                }
                Some(fields) => {
                    for field in fields.iter().filter(|field| field.meaning.is_some()) {
                        let message = format!("`{}`: fields of spans are plain values, without `as`", field.name);
                        diagnostics.error(&origin, message);
                    }
                    let fields = fields.iter().filter_map(|field| self.field(field, &origin, diagnostics)).collect();
                    Some(Arg::Span { name: field.name.clone(), fields })
                }
            });
        }
        let mut results = Vec::new();
        for (index, field) in raw.results.iter().enumerate() {
            results.extend(self.field(field, &entry.item_origin("results", index), diagnostics));
        }
        let since = raw.since.unwrap_or(module.minimum_version);
        let until = raw.until.unwrap_or(module.version);
        if since > until || since > module.version || until > module.version {
            let message = format!(
                "export `{}` is of versions {since} to {until}, but the module has {} to {}",
                raw.export, module.minimum_version, module.version
            );
            diagnostics.error(&entry.origin, message);
        }
        let origin = entry.origin.clone();
        Some(Export { name: raw.export, doc: raw.doc, args, results, since, until, yields: raw.yields, origin })
    }

    fn field(&self, raw: &RawField, origin: &Origin, diagnostics: &mut Diagnostics) -> Option<Field> {
        let name = raw.name.clone();
        if raw.span.is_some() {
            diagnostics.error(origin, format!("span `{name}`: spans stand only at the top level of `args`"));
            return None;
        }
        let Some(text) = raw.ty.as_deref() else {
            diagnostics.error(origin, format!("`{name}` has no type"));
            return None;
        };
        let ty = self.value_type(&name, text, origin, diagnostics)?;
        if raw.nullable && ty.kind() != Kind::Ref {
            diagnostics.error(origin, format!("`{name}` is a number and cannot be null"));
        }
        let meaning = raw.meaning.as_deref().map(Meaning::from_name);
        if let Some(meaning) = meaning.as_ref().filter(|meaning| !meaning.is_of(&ty)) {
            let message = format!("`{name}`: a value of type `{text}` cannot be read as `{}`", meaning.name());
            diagnostics.error(origin, message);
        }
        if meaning == Some(Meaning::Timepoints) && !raw.nullable {
            diagnostics.error(origin, format!("`{name}`: timepoints are those of a fence that may be null"));
        }
        Some(Field { name, ty, nullable: raw.nullable, meaning })
    }

    /// The type of the value `name`, which is written as `text`.
    fn value_type(&self, name: &str, text: &str, origin: &Origin, diagnostics: &mut Diagnostics) -> Option<Type> {
        Some(match Kind::from_name(text) {
            Some(Kind::Ref) => Type::Ref,
            Some(kind) => Type::Number(kind),
            None if self.refs.iter().any(|reference| reference.name == text) => Type::Object(text.to_string()),
            None => {
                let message =
                    format!("`{name}` is of the unknown type `{text}`: neither a letter's name nor a `ref` entry");
                let mut known: Vec<&str> = self.refs.iter().map(|reference| reference.name.as_str()).collect();
                Kind::ALL.into_iter().for_each(|kind| known.push(kind.name()));
                diagnostics.unknown(origin, text, message, known);
                return None;
            }
        })
    }
}

fn load_module(entry: &Entry, diagnostics: &mut Diagnostics) -> Option<Module> {
    let raw = entry.parse::<RawModule>(diagnostics)?;
    entry.need_doc(&raw.doc, diagnostics);
    if raw.minimum_version > raw.version {
        let message = format!("minimum version {} is above the version {}", raw.minimum_version, raw.version);
        diagnostics.error(&entry.origin_of("minimum_version"), message);
    }
    Some(Module {
        name: raw.module,
        version: raw.version,
        minimum_version: raw.minimum_version,
        doc: raw.doc,
        exports: Vec::new(),
        adaptors: Vec::new(),
        origin: entry.origin.clone(),
    })
}
