//! The reader of libraries and the symbols that they export: a file has one `library`, and after it the functions.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::types::{Api, Finder, Headers, Library, Plain, Refusal, Refused, Suffixes, Symbol};
use crate::diag::Diagnostics;
use crate::entry::Entry;
use crate::model::hal::raw::RawFunctionArg;
use crate::model::hal::{Function, LayoutType};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawLibrary {
    library: String,
    title: String,
    names: Vec<String>,
    version: Option<String>,
    finder: String,
    older_finder: Option<String>,
    headers: Option<String>,
    software: Option<String>,
    #[serde(default)]
    suffixes: RawSuffixes,
    refusal: Option<String>,
    doc: String,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSuffixes {
    #[serde(default)]
    version: Vec<String>,
    #[serde(default)]
    per_thread: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRefused {
    refused: String,
    doc: String,
    names: BTreeMap<String, u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSymbol {
    symbol: String,
    #[serde(default)]
    optional: bool,
    version: Option<u32>,
    after: Option<String>,
    per_thread: Option<String>,
    #[serde(default)]
    also: BTreeMap<String, u32>,
    #[serde(default)]
    args: Vec<RawFunctionArg>,
    result: Option<String>,
    doc: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawHeaders {
    headers: String,
    includes: Vec<String>,
    doc: String,
}

/// The libraries of `entries` with their symbols.
pub(super) fn read(entries: &[Entry], diagnostics: &mut Diagnostics) -> Vec<Library> {
    let mut libraries: Vec<Library> = Vec::new();
    for entry in entries {
        let file = &entry.origin.file;
        let same_file = libraries.last_mut().filter(|library| library.origin.file == *file);
        match (entry.kind.as_str(), same_file) {
            ("library", None) => libraries.extend(library(entry, diagnostics)),
            ("symbol", Some(library)) => {
                let symbol = symbol(entry, &library.finder, diagnostics);
                library.symbols.extend(symbol);
            }
            ("refused", Some(library)) => library.refused.extend(refused(entry, library, diagnostics)),
            // Where the library could not be read, that is told, and not what it lacks.
            ("symbol", None) => {
                let is_told = entries.iter().any(|other| other.kind == "library" && other.origin.file == *file);
                if !is_told {
                    diagnostics
                        .error(&entry.origin, "a symbol comes after the `library` that has it, in the same file");
                }
            }
            // Symbols are generated into a file of their own, with the name of their spec.
            (_, Some(library)) => {
                let message =
                    format!("the file of the library `{}` is for its symbols, and only for them", library.name);
                diagnostics.error(&entry.origin, message);
            }
            _ => {}
        }
    }
    libraries
}

/// The sets of C headers of `entries`.
pub(super) fn headers(entries: &[Entry], diagnostics: &mut Diagnostics) -> Vec<Headers> {
    let entries = entries.iter().filter(|entry| entry.kind == "headers");
    let raw = entries.filter_map(|entry| {
        let raw: RawHeaders = entry.parse(diagnostics)?;
        entry.need_doc(&raw.doc, diagnostics);
        Some(Headers { name: raw.headers, includes: raw.includes, origin: entry.origin.clone() })
    });
    raw.collect()
}

fn library(entry: &Entry, diagnostics: &mut Diagnostics) -> Option<Library> {
    let raw: RawLibrary = entry.parse(diagnostics)?;
    entry.need_doc(&raw.doc, diagnostics);
    for name in &raw.names {
        if !name.contains(".so") {
            diagnostics.error(&entry.origin_of("names"), format!("`{name}` is not the name of a shared library"));
        }
    }
    if raw.names.is_empty() {
        diagnostics.error(&entry.origin_of("names"), "expected the names under which the library is looked for");
    }
    let finder = match raw.finder.as_str() {
        "dlsym" => Finder::Dlsym,
        function => Finder::Function(function.to_string()),
    };
    let refusal = raw.refusal.and_then(|text| {
        let Some((code, value)) = text.split_once('.') else {
            diagnostics
                .error(&entry.origin_of("refusal"), format!("`{text}` is no value of a code: expected `CODE.VALUE`"));
            return None;
        };
        Some(Refusal { code: code.to_string(), value: value.to_string() })
    });
    Some(Library {
        name: raw.library,
        title: raw.title,
        names: raw.names,
        version: raw.version,
        finder,
        older_finder: raw.older_finder,
        headers: raw.headers,
        software: raw.software,
        suffixes: Suffixes { version: raw.suffixes.version, per_thread: raw.suffixes.per_thread },
        refusal,
        symbols: Vec::new(),
        refused: Vec::new(),
        doc: raw.doc,
        origin: entry.origin.clone(),
    })
}

/// The symbols that `library` exports and does not implement.
fn refused(entry: &Entry, library: &Library, diagnostics: &mut Diagnostics) -> Vec<Refused> {
    let Some(raw) = entry.parse::<RawRefused>(diagnostics) else { return Vec::new() };
    entry.need_doc(&raw.doc, diagnostics);
    if raw.refused != library.name {
        let message = format!("these are of the library `{}`: expected its name", library.name);
        diagnostics.error(&entry.origin, message);
    }
    if library.refusal.is_none() {
        let message = format!("`{}` has no `refusal`, the status that these return", library.name);
        diagnostics.error(&entry.origin, message);
    }
    raw.names.into_iter().map(|(name, version)| Refused { name, version }).collect()
}

fn symbol(entry: &Entry, finder: &Finder, diagnostics: &mut Diagnostics) -> Option<Symbol> {
    let raw: RawSymbol = entry.parse(diagnostics)?;
    entry.need_doc(&raw.doc, diagnostics);
    match (finder, raw.version) {
        (Finder::Dlsym, Some(_)) => {
            diagnostics.error(&entry.origin_of("version"), "the loader of the system looks up names without versions");
        }
        (Finder::Function(finder), None) => {
            let message = format!("`{finder}` is asked for a version of `{}`: expected `version`", raw.symbol);
            diagnostics.error(&entry.origin, message);
        }
        _ => {}
    }
    let mut ty = |key: &str, name: &str, text: &str| {
        let ty = LayoutType::parse(text);
        if ty.is_none() {
            diagnostics.error(&entry.origin_of(key), format!("`{name}`: `{text}` is not a type"));
        }
        ty
    };
    let mut args = Vec::with_capacity(raw.args.len());
    for arg in raw.args {
        let arg_type = ty("args", &arg.name, &arg.ty)?;
        args.push((arg.name, arg_type));
    }
    let result = match raw.result {
        Some(text) => Some(ty("result", "result", &text)?),
        None => None,
    };
    let function = Function { name: raw.symbol, doc: raw.doc, args, result, origin: entry.origin.clone() };
    Some(Symbol {
        function,
        required: !raw.optional,
        version: raw.version,
        after: raw.after,
        per_thread: raw.per_thread,
        also: raw.also,
    })
}

impl Api {
    pub(super) fn check_libraries(&self, diagnostics: &mut Diagnostics) {
        for library in &self.libraries {
            if let Finder::Function(name) = &library.finder
                && !library.symbols.iter().any(|symbol| symbol.function.name == *name)
            {
                let known = library.symbols.iter().map(|symbol| symbol.function.name.as_str()).chain(["dlsym"]);
                let message = format!("`{}` has no symbol `{name}`, nor is it dlsym", library.name);
                diagnostics.unknown(&library.origin, name, message, known);
            }
            if let Some(name) = &library.headers {
                self.check_headers(name, &library.origin, diagnostics);
            }
            for symbol in &library.symbols {
                self.check_function(&symbol.function, true, diagnostics);
            }
            self.check_refusal(library, diagnostics);
        }
    }

    /// Statuses of refusals exist, functions return them, and no name is exported twice.
    fn check_refusal(&self, library: &Library, diagnostics: &mut Diagnostics) {
        let mut seen = BTreeSet::new();
        for name in library.exported() {
            if seen.contains(&name) {
                diagnostics.error(&library.origin, format!("`{name}` is exported twice"));
            }
            seen.insert(name);
        }
        for symbol in &library.symbols {
            let suffix = symbol.per_thread.as_ref().filter(|suffix| !library.suffixes.per_thread.contains(suffix));
            if let Some(suffix) = suffix {
                let known = library.suffixes.per_thread.iter().map(String::as_str);
                let message = format!("`{}` has no suffix `{suffix}` of variants per thread", library.name);
                diagnostics.unknown(&symbol.function.origin, suffix, message, known);
            }
        }
        let Some(refusal) = &library.refusal else { return };
        let Some(Plain::Code(numbers)) = self.plain(&refusal.code) else {
            diagnostics.error(&library.origin, format!("`refusal`: there is no code `{}`", refusal.code));
            return;
        };
        if !numbers.values.iter().any(|value| value.name == refusal.value) {
            let known = numbers.values.iter().map(|value| value.name.as_str());
            let message = format!("`refusal`: `{}` has no value `{}`", refusal.code, refusal.value);
            diagnostics.unknown(&library.origin, &refusal.value, message, known);
        }
        let status = LayoutType::Layout(refusal.code.clone());
        for symbol in library.symbols.iter().filter(|symbol| symbol.function.result.as_ref() != Some(&status)) {
            let message = format!("`{}` cannot refuse: expected the result `{}`", symbol.function.name, refusal.code);
            diagnostics.error(&symbol.function.origin, message);
        }
    }
}
