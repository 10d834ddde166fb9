//! The reader of null libraries: libraries whose functions return at once, with made-up handles, so that a program over
//! one takes the time of the host alone.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::types::{Api, NullFunction, NullLibrary, NullResult, Plain};
use crate::diag::Diagnostics;
use crate::entry::Entry;
use crate::model::hal::LayoutType;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawNull {
    null: String,
    folder: String,
    doc: String,
    functions: BTreeMap<String, RawFunction>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum RawFunction {
    Results(BTreeMap<String, RawResult>),
    Word(String),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum RawResult {
    Number(u64),
    Word(String),
}

/// The null libraries of `entries`; symbols have been read.
pub(super) fn read(api: &Api, entries: &[Entry], diagnostics: &mut Diagnostics) -> Vec<NullLibrary> {
    let entries = entries.iter().filter(|entry| entry.kind == "null");
    entries.filter_map(|entry| one(api, entry, diagnostics)).collect()
}

fn one(api: &Api, entry: &Entry, diagnostics: &mut Diagnostics) -> Option<NullLibrary> {
    let raw: RawNull = entry.parse(diagnostics)?;
    entry.need_doc(&raw.doc, diagnostics);
    let Some(library) = api.libraries.iter().find(|library| library.name == raw.null) else {
        let known = api.libraries.iter().map(|library| library.name.as_str());
        diagnostics.unknown(&entry.origin, &raw.null, format!("there is no library `{}`", raw.null), known);
        return None;
    };
    if library.refusal.is_none() {
        let message = format!("`{}` has no `refusal`, the status of other functions", library.name);
        diagnostics.error(&entry.origin, message);
    }
    let origin = entry.origin_of("functions");
    let mut functions = BTreeMap::new();
    for (name, function) in raw.functions {
        let Some(symbol) = library.symbols.iter().find(|symbol| symbol.function.name == name) else {
            let known = library.symbols.iter().map(|symbol| symbol.function.name.as_str());
            diagnostics.unknown(&origin, &name, format!("there is no symbol `{name}`"), known);
            continue;
        };
        let function = match function {
            RawFunction::Word(word) if word == "by hand" => NullFunction::ByHand,
            RawFunction::Word(word) => {
                let message = format!("`{name}`: `{word}`: expected `by hand`, or what it returns for each argument");
                diagnostics.error(&origin, message);
                continue;
            }
            RawFunction::Results(results) => {
                let mut known = Vec::new();
                for (arg, result) in results {
                    let ty = symbol.function.args.iter().find(|(name, _)| *name == arg).map(|(_, ty)| ty);
                    known.extend(
                        self::result(api, (&name, &arg, ty), result, (entry, diagnostics)).map(|result| (arg, result)),
                    );
                }
                NullFunction::Returns(known)
            }
        };
        functions.insert(name, function);
    }
    Some(NullLibrary { library: raw.null, folder: raw.folder, functions, doc: raw.doc, origin: entry.origin.clone() })
}

/// The value for an argument, if it is one that the function writes to and that can have it.
fn result(
    api: &Api,
    (name, arg, ty): (&str, &str, Option<&LayoutType>),
    result: RawResult,
    (entry, diagnostics): (&Entry, &mut Diagnostics),
) -> Option<NullResult> {
    let target = match ty {
        Some(LayoutType::Pointer { to, mutable: true }) => Some(&**to),
        _ => None,
    };
    let handle = match target {
        Some(LayoutType::Layout(name)) => api.plain(name).and_then(|plain| match plain {
            Plain::Handle(int) => Some(int),
            _ => None,
        }),
        _ => None,
    };
    match (result, target) {
        (RawResult::Word(word), _) if word == "next" && handle.is_some() => handle.map(NullResult::Next),
        (RawResult::Number(number), Some(LayoutType::Int(int)))
            if int.size() == 8 || number >> (8 * int.size()) == 0 =>
        {
            Some(NullResult::Number(number))
        }
        _ => {
            let message = format!(
                "`{name}`: `{arg}`: expected `next` for a handle, or a number that fits, for an argument that it writes to"
            );
            diagnostics.error(&entry.origin_of("functions"), message);
            None
        }
    }
}
