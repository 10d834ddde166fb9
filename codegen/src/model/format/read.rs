//! The reader of the entries that formats alone have.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::path::ShownField;
use super::types::{Content, Format, Operation, PartForm, Payload, Replay, Row, Unrecorded};
use crate::diag::Diagnostics;
use crate::entry::Entry;

/// The kinds of entries that are read here.
pub(super) const KINDS: [&str; 6] = ["payload", "part", "operation", "unrecorded", "content", "row"];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPayload {
    payload: String,
    code: u32,
    text: String,
    json: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPart {
    part: String,
    #[serde(default)]
    text: String,
    json: String,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Paths {
    One(String),
    Many(Vec<String>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawOperation {
    operation: String,
    code: u32,
    payload: Option<String>,
    or: Option<String>,
    method: Option<String>,
    replay: String,
    makes: Option<String>,
    arguments: Option<BTreeMap<String, Paths>>,
    by_hand: Option<String>,
    doc: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawUnrecorded {
    unrecorded: String,
    #[serde(default)]
    also: Vec<String>,
    reason: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawContent {
    content: String,
    text: Option<String>,
    layout: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRow {
    row: String,
    content: String,
    json: String,
}

/// Reads `entries` into `format`.
pub(super) fn read(format: &mut Format, entries: &[&Entry], diagnostics: &mut Diagnostics) {
    for entry in entries {
        match entry.kind.as_str() {
            "payload" => format.payloads.extend(payload(entry, diagnostics)),
            "part" => format.parts.extend(part(entry, diagnostics)),
            "operation" => format.operations.extend(operation(entry, diagnostics)),
            "unrecorded" => unrecorded(format, entry, diagnostics),
            "row" => format.rows.extend(row(entry, diagnostics)),
            _ => format.contents.extend(content(entry, diagnostics)),
        }
    }
}

fn shown(entry: &Entry, key: &str, text: &str, diagnostics: &mut Diagnostics) -> Vec<ShownField> {
    let fields = text.split_whitespace().filter_map(|field| {
        let parsed = ShownField::parse(field);
        if parsed.is_none() {
            let message = format!("`{field}`: expected `label=path`, and perhaps a form such as `:hex`");
            diagnostics.error(&entry.origin_of(key), message);
        }
        parsed
    });
    fields.collect()
}

fn payload(entry: &Entry, diagnostics: &mut Diagnostics) -> Option<Payload> {
    let raw: RawPayload = entry.parse(diagnostics)?;
    Some(Payload {
        text: shown(entry, "text", &raw.text, diagnostics),
        json: shown(entry, "json", &raw.json, diagnostics),
        name: raw.payload,
        code: raw.code,
        origin: entry.origin.clone(),
    })
}

fn part(entry: &Entry, diagnostics: &mut Diagnostics) -> Option<PartForm> {
    let raw: RawPart = entry.parse(diagnostics)?;
    Some(PartForm {
        text: shown(entry, "text", &raw.text, diagnostics),
        json: shown(entry, "json", &raw.json, diagnostics),
        name: raw.part,
        origin: entry.origin.clone(),
    })
}

/// `device.trim` as object and method.
fn method(entry: &Entry, text: &str, diagnostics: &mut Diagnostics) -> Option<(String, String)> {
    let split = text.split_once('.');
    if split.is_none() {
        diagnostics.error(&entry.origin, format!("`{text}`: expected `OBJECT.METHOD`"));
    }
    split.map(|(object, method)| (object.to_string(), method.to_string()))
}

fn operation(entry: &Entry, diagnostics: &mut Diagnostics) -> Option<Operation> {
    let raw: RawOperation = entry.parse(diagnostics)?;
    let replay = match raw.replay.as_str() {
        "call" => Replay::Call,
        "skip" => Replay::Skip,
        "refuse" => Replay::Refuse,
        "scope" => Replay::Scope,
        other => {
            let message = format!("`{other}`: expected call, skip, refuse or scope");
            diagnostics.unknown(&entry.origin_of("replay"), other, message, ["call", "skip", "refuse", "scope"]);
            return None;
        }
    };
    if raw.method.is_none() && raw.doc.is_none() {
        diagnostics.error(&entry.origin, format!("`{}`: expected `method`, or `doc`", raw.operation));
    }
    let method = match &raw.method {
        Some(text) => Some(method(entry, text, diagnostics)?),
        None => None,
    };
    if raw.by_hand.is_some() && replay != Replay::Call {
        diagnostics.error(&entry.origin_of("by_hand"), "only a replay that calls the method does that by hand");
    }
    if replay == Replay::Call && method.is_none() && raw.by_hand.is_none() {
        let message = format!("`{}`: a replay has no method to call: expected `by_hand`", raw.operation);
        diagnostics.error(&entry.origin, message);
    }
    let arguments = raw.arguments.map(|arguments| {
        let lists = arguments.into_iter().map(|(name, paths)| match paths {
            Paths::One(path) => (name, vec![path]),
            Paths::Many(paths) => (name, paths),
        });
        lists.collect()
    });
    Some(Operation {
        name: raw.operation,
        code: raw.code,
        payload: raw.payload,
        or: raw.or,
        method,
        replay,
        makes: raw.makes,
        arguments,
        by_hand: raw.by_hand,
        origin: entry.origin.clone(),
    })
}

fn unrecorded(format: &mut Format, entry: &Entry, diagnostics: &mut Diagnostics) {
    let Some(raw) = entry.parse::<RawUnrecorded>(diagnostics) else { return };
    if raw.reason.trim().is_empty() {
        diagnostics.error(&entry.origin_of("reason"), "the reason is empty");
    }
    for name in std::iter::once(&raw.unrecorded).chain(&raw.also) {
        if let Some(method) = method(entry, name, diagnostics) {
            format.unrecorded.push(Unrecorded { method, reason: raw.reason.clone(), origin: entry.origin.clone() });
        }
    }
}

fn row(entry: &Entry, diagnostics: &mut Diagnostics) -> Option<Row> {
    let raw: RawRow = entry.parse(diagnostics)?;
    let json = shown(entry, "json", &raw.json, diagnostics);
    Some(Row { name: raw.row, content: raw.content, json, origin: entry.origin.clone() })
}

fn content(entry: &Entry, diagnostics: &mut Diagnostics) -> Option<Content> {
    let raw: RawContent = entry.parse(diagnostics)?;
    let text = raw.text.unwrap_or_else(|| raw.content.replace('_', "-"));
    Some(Content { name: raw.content, text, layout: raw.layout, origin: entry.origin.clone() })
}
