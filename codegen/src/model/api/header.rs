//! The reader of `c_header` entries: the names of spec entries in C headers, so that a C compiler can compare the two.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::types::{Api, HeaderNames, Plain};
use crate::diag::{Diagnostics, did_you_mean};
use crate::entry::Entry;
use crate::model::constant::ConstantValue;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawHeader {
    c_header: String,
    header: String,
    #[serde(rename = "type")]
    ty: Option<String>,
    shift: Option<String>,
    width: Option<String>,
    mask: Option<String>,
    value: Option<String>,
    #[serde(default)]
    names: BTreeMap<String, String>,
    #[serde(default)]
    absent: Vec<String>,
}

/// Reads the header names of `entries`; the entries that they refer to have been read.
pub(super) fn read(api: &Api, entries: &[Entry], diagnostics: &mut Diagnostics) -> Vec<HeaderNames> {
    let entries = entries.iter().filter(|entry| entry.kind == "c_header");
    let mut seen = BTreeSet::new();
    let mut all = Vec::new();
    for entry in entries {
        let Some(names) = names(api, entry, diagnostics) else { continue };
        if !seen.insert((names.of.clone(), names.header.clone())) {
            diagnostics.error(&entry.origin, format!("`{}` has names in these headers already", names.of));
        }
        all.push(names);
    }
    all
}

fn names(api: &Api, entry: &Entry, diagnostics: &mut Diagnostics) -> Option<HeaderNames> {
    let raw: RawHeader = entry.parse(diagnostics)?;
    if !api.check_headers(&raw.header, &entry.origin_of("header"), diagnostics) {
        return None;
    }
    let Some(members) = members(api, &raw.c_header) else {
        let message = format!("nothing is called `{}`", raw.c_header);
        diagnostics.unknown(&entry.origin, &raw.c_header, message, api.names());
        return None;
    };
    for (key, name) in
        raw.names.keys().map(|name| ("names", name)).chain(raw.absent.iter().map(|name| ("absent", name)))
    {
        if !members.contains(name) {
            let meant = did_you_mean(name, members.iter().map(String::as_str));
            diagnostics.error(&entry.origin_of(key), format!("`{}` has no `{name}`{meant}", raw.c_header));
        }
    }
    Some(HeaderNames {
        of: raw.c_header,
        header: raw.header,
        ty: raw.ty,
        shift: raw.shift,
        width: raw.width,
        mask: raw.mask,
        value: raw.value,
        names: raw.names,
        absent: raw.absent,
        origin: entry.origin.clone(),
    })
}

/// The members of the thing called `name`.
fn members(api: &Api, name: &str) -> Option<Vec<String>> {
    match api.plain(name) {
        Some(Plain::Word(word)) => Some(word.fields.iter().map(|field| field.name.clone()).collect()),
        Some(Plain::Code(numbers)) => Some(numbers.values.iter().map(|value| value.name.clone()).collect()),
        Some(Plain::Layout(layout)) => Some(layout.fields.iter().map(|field| field.name.clone()).collect()),
        Some(Plain::Handle(_)) => Some(Vec::new()),
        None => {
            let mut constants = api.files.iter().flat_map(|file| &file.constants);
            let number = constants.any(|item| item.name == name && matches!(item.value, ConstantValue::Int(..)));
            number.then(Vec::new)
        }
    }
}
