//! The reader of calls: the functions of a library that a driver calls, under names that libraries of other vendors
//! share, and how statuses of the library become statuses of ours.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::types::{Api, Call, Failures, Plain};
use crate::diag::Diagnostics;
use crate::entry::Entry;
use crate::model::hal::LayoutType;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCall {
    call: String,
    cuda: String,
    hip: Option<String>,
    #[serde(default)]
    returns: Vec<String>,
    #[serde(default)]
    optional: bool,
    group: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFailures {
    failures: String,
    interface: Option<String>,
    doc: String,
    pending: String,
    texts: Vec<String>,
    statuses: BTreeMap<String, Vec<String>>,
    lost: Vec<String>,
}

/// The calls of `entries`; symbols have been read.
pub(super) fn calls(api: &Api, entries: &[Entry], diagnostics: &mut Diagnostics) -> Vec<Call> {
    let mut calls: Vec<Call> = Vec::new();
    for entry in entries.iter().filter(|entry| entry.kind == "call") {
        let Some(call) = call(api, entry, diagnostics) else { continue };
        let is_same = |other: &Call| {
            let function = |call: &Call| call.symbol.function.name.clone();
            other.name == call.name
                || function(other) == function(&call)
                || other.hip.is_some() && other.hip == call.hip
        };
        if calls.iter().any(is_same) {
            diagnostics.error(&entry.origin, format!("`{}`: another call has one of its names", call.name));
        }
        calls.push(call);
    }
    calls
}

fn call(api: &Api, entry: &Entry, diagnostics: &mut Diagnostics) -> Option<Call> {
    let raw: RawCall = entry.parse(diagnostics)?;
    let Some(symbol) = api.symbols().find(|symbol| symbol.function.name == raw.cuda) else {
        let known = api.symbols().map(|symbol| symbol.function.name.as_str());
        let message = format!("`{}`: there is no symbol `{}`", raw.call, raw.cuda);
        diagnostics.unknown(&entry.origin_of("cuda"), &raw.cuda, message, known);
        return None;
    };
    for name in &raw.returns {
        let arg = symbol.function.args.iter().find(|(arg, _)| arg == name);
        if !matches!(arg, Some((_, LayoutType::Pointer { mutable: true, .. }))) {
            let message = format!("`{}` has no argument `{name}` that it writes to", raw.cuda);
            let known = symbol.function.args.iter().map(|(name, _)| name.as_str());
            diagnostics.unknown(&entry.origin_of("returns"), name, message, known);
        }
    }
    Some(Call {
        name: raw.call,
        symbol: symbol.clone(),
        hip: raw.hip,
        returns: raw.returns,
        required: !raw.optional && raw.group.is_none(),
        group: raw.group,
        origin: entry.origin.clone(),
    })
}

/// The failures of `entries`; codes and calls have been read.
pub(super) fn failures(api: &Api, entries: &[Entry], diagnostics: &mut Diagnostics) -> Option<Failures> {
    let mut failures = None;
    for entry in entries.iter().filter(|entry| entry.kind == "failures") {
        if failures.is_some() {
            diagnostics.error(&entry.origin, "the failures of the folder are declared already");
        }
        failures = one(api, entry, diagnostics);
    }
    failures
}

fn one(api: &Api, entry: &Entry, diagnostics: &mut Diagnostics) -> Option<Failures> {
    let raw: RawFailures = entry.parse(diagnostics)?;
    entry.need_doc(&raw.doc, diagnostics);
    let Some(Plain::Code(numbers)) = api.plain(&raw.failures) else {
        diagnostics.error(&entry.origin, format!("there is no code `{}`", raw.failures));
        return None;
    };
    for name in &raw.texts {
        let is_text = api.calls.iter().any(|call| call.name == *name && call.required && call.returns.len() == 1);
        if !is_text {
            let known = api.calls.iter().map(|call| call.name.as_str());
            diagnostics.unknown(&entry.origin_of("texts"), name, format!("no call `{name}` returns a text"), known);
        }
    }
    let mut seen: Vec<&str> = Vec::new();
    let listed = raw.statuses.values().flatten().chain(&raw.lost).chain([&raw.pending]);
    for name in listed {
        if !numbers.values.iter().any(|known| known.name == *name) {
            let known = numbers.values.iter().map(|known| known.name.as_str());
            diagnostics.unknown(&entry.origin, name, format!("`{}` has no value `{name}`", raw.failures), known);
        }
        if seen.contains(&name.as_str()) {
            diagnostics.error(&entry.origin, format!("`{name}` is listed twice"));
        }
        seen.push(name);
    }
    Some(Failures {
        code: raw.failures,
        interface: raw.interface,
        pending: raw.pending,
        texts: raw.texts,
        statuses: raw.statuses,
        lost: raw.lost,
        origin: entry.origin.clone(),
    })
}
