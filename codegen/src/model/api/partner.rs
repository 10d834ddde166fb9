//! The reader of partners: a library of another vendor with the calls of this one under names of its own, and the
//! differences between the two.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::types::{Api, Partner, PartnerArgument, PartnerLayout, Plain};
use crate::diag::Diagnostics;
use crate::entry::Entry;
use crate::model::hal::{Layout, LayoutType};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPartner {
    partner: String,
    title: String,
    names: Vec<String>,
    doc: String,
    #[serde(default)]
    arguments: BTreeMap<String, Vec<RawArgument>>,
    #[serde(default)]
    numbers: BTreeMap<String, BTreeMap<String, u64>>,
    #[serde(default)]
    layouts: BTreeMap<String, RawLayout>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum RawArgument {
    Same(String),
    Other(RawOther),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawOther {
    name: Option<String>,
    value: Option<u64>,
    device_of: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawLayout {
    size: u64,
    #[serde(default)]
    absent: Vec<String>,
    offsets: BTreeMap<String, u64>,
}

/// The partner of `entries`, if there is one; calls have been read.
pub(super) fn read(api: &Api, entries: &[Entry], diagnostics: &mut Diagnostics) -> Option<Partner> {
    let mut partner = None;
    for entry in entries.iter().filter(|entry| entry.kind == "partner") {
        if partner.is_some() {
            diagnostics.error(&entry.origin, "the partner of the folder is declared already");
        }
        partner = one(api, entry, diagnostics);
    }
    let is_told = entries.iter().any(|entry| entry.kind == "partner");
    if let Some(call) = api.calls.iter().find(|call| call.hip.is_some() && !is_told) {
        diagnostics.error(&call.origin, format!("`{}` has a name in HIP, but the folder has no `partner`", call.name));
    }
    partner
}

fn one(api: &Api, entry: &Entry, diagnostics: &mut Diagnostics) -> Option<Partner> {
    let raw: RawPartner = entry.parse(diagnostics)?;
    entry.need_doc(&raw.doc, diagnostics);
    for name in raw.names.iter().filter(|name| !name.contains(".so")) {
        diagnostics.error(&entry.origin_of("names"), format!("`{name}` is no name of a shared library"));
    }
    for (code, numbers) in &raw.numbers {
        check_numbers(api, code, numbers, entry, diagnostics);
    }
    let mut layouts = BTreeMap::new();
    for (name, layout) in raw.layouts {
        layouts.extend(self::layout(api, &name, layout, entry, diagnostics).map(|layout| (name, layout)));
    }
    let mut arguments = BTreeMap::new();
    for (call, list) in raw.arguments {
        let list = self::arguments(api, &call, list, entry, diagnostics);
        arguments.extend(list.map(|list| (call, list)));
    }
    let (name, title, names, numbers) = (raw.partner, raw.title, raw.names, raw.numbers);
    Some(Partner { name, title, names, numbers, layouts, arguments, doc: raw.doc, origin: entry.origin.clone() })
}

fn check_numbers(api: &Api, code: &str, numbers: &BTreeMap<String, u64>, entry: &Entry, diagnostics: &mut Diagnostics) {
    let origin = entry.origin_of("numbers");
    let Some(Plain::Code(known)) = api.plain(code) else {
        diagnostics.unknown(&origin, code, format!("there is no code `{code}`"), api.names());
        return;
    };
    let mut seen = BTreeMap::new();
    for (name, number) in numbers {
        if !known.values.iter().any(|value| value.name == *name) {
            let known = known.values.iter().map(|value| value.name.as_str());
            diagnostics.unknown(&origin, name, format!("`{code}` has no value `{name}`"), known);
        }
        if let Some(other) = seen.insert(number, name) {
            diagnostics.error(&origin, format!("`{code}`: `{other}` and `{name}` are both {number}"));
        }
    }
}

fn layout(
    api: &Api,
    name: &str,
    raw: RawLayout,
    entry: &Entry,
    diagnostics: &mut Diagnostics,
) -> Option<PartnerLayout> {
    let origin = entry.origin_of("layouts");
    let Some(Plain::Layout(layout)) = api.plain(name) else {
        diagnostics.unknown(&origin, name, format!("there is no layout `{name}`"), api.names());
        return None;
    };
    let fields = || layout.fields.iter().map(|field| field.name.as_str());
    for field in raw.offsets.keys().chain(&raw.absent) {
        if !fields().any(|known| known == field) {
            diagnostics.unknown(&origin, field, format!("`{name}` has no field `{field}`"), fields());
        }
    }
    for field in fields() {
        if raw.offsets.contains_key(field) == raw.absent.iter().any(|absent| absent == field) {
            diagnostics.error(&origin, format!("`{name}`: `{field}` has an offset there or is absent, one of both"));
        }
    }
    let mut offsets: Vec<(String, u64)> = raw.offsets.into_iter().collect();
    offsets.sort_by_key(|(_, offset)| *offset);
    let mut end = 0;
    for (field, offset) in &offsets {
        let (size, align) = extent(api, layout, field);
        if *offset < end || offset % align != 0 || offset + size > raw.size {
            let message =
                format!("`{name}`: `{field}` at {offset} overlaps another field, is not aligned or is outside");
            diagnostics.error(&origin, message);
        }
        end = offset + size;
    }
    Some(PartnerLayout { size: raw.size, offsets })
}

/// The size of a field, and its alignment.
fn extent(api: &Api, layout: &Layout, field: &str) -> (u64, u64) {
    let Some(field) = layout.fields.iter().find(|known| known.name == field) else { return (0, 1) };
    let (size, align) = match &field.ty {
        LayoutType::Int(int) => (int.size(), int.size()),
        LayoutType::Layout(name) => match api.plain(name) {
            Some(Plain::Code(numbers)) => (numbers.int.size(), numbers.int.size()),
            Some(Plain::Handle(int)) => (int.size(), int.size()),
            Some(Plain::Layout(inner)) => (inner.size, inner.align),
            Some(Plain::Word(word)) => (word.int.size(), word.int.size()),
            None => (0, 1),
        },
        _ => (8, 8),
    };
    (size * field.count.unwrap_or(1), align)
}

fn arguments(
    api: &Api,
    name: &str,
    raw: Vec<RawArgument>,
    entry: &Entry,
    diagnostics: &mut Diagnostics,
) -> Option<Vec<PartnerArgument>> {
    let origin = entry.origin_of("arguments");
    let Some(call) = api.calls.iter().find(|call| call.name == name && call.hip.is_some()) else {
        let known = api.calls.iter().map(|call| call.name.as_str());
        diagnostics.unknown(&origin, name, format!("there is no call `{name}` with a name there"), known);
        return None;
    };
    let args = &call.symbol.function.args;
    let mut known = Vec::new();
    for argument in raw {
        let argument = match argument {
            RawArgument::Same(arg) => PartnerArgument::Same(arg),
            RawArgument::Other(RawOther { name: Some(name), value: Some(value), device_of: None }) => {
                PartnerArgument::Constant(name, value)
            }
            RawArgument::Other(RawOther { name: None, value: None, device_of: Some(arg) }) => {
                PartnerArgument::DeviceOf(arg)
            }
            RawArgument::Other(_) => {
                let message = format!("`{name}`: expected an argument, `name` and `value`, or `device_of`");
                diagnostics.error(&origin, message);
                continue;
            }
        };
        if let PartnerArgument::Same(arg) | PartnerArgument::DeviceOf(arg) = &argument
            && !args.iter().any(|(known, _)| known == arg)
        {
            let known = args.iter().map(|(name, _)| name.as_str());
            diagnostics.unknown(&origin, arg, format!("`{name}` has no argument `{arg}`"), known);
        }
        known.push(argument);
    }
    let same = known.iter().map(|argument| match argument {
        PartnerArgument::Same(arg) => Some(arg.as_str()),
        _ => None,
    });
    if same.eq(args.iter().map(|(name, _)| Some(name.as_str()))) {
        diagnostics.error(&origin, format!("`{name}` has the same arguments there"));
    }
    Some(known)
}
