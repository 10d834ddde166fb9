//! The reader of families: layouts that share memory and are distinguished by tags, such as the packets of a queue.
//! Every tag is resolved to its bits.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::types::{Api, Family, Plain, Tag, Variant};
use crate::diag::{Diagnostics, did_you_mean};
use crate::entry::Entry;
use crate::model::hal::{Layout, LayoutType};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFamily {
    family: String,
    doc: String,
    variants: Vec<RawVariant>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawVariant {
    name: String,
    layout: String,
    when: BTreeMap<String, serde_yaml::Value>,
    #[serde(default)]
    sets: BTreeMap<String, serde_yaml::Value>,
}

/// Reads the families of `entries`; the entries that they refer to have been read.
pub(super) fn read(api: &Api, entries: &[Entry], diagnostics: &mut Diagnostics) -> Vec<Family> {
    let entries = entries.iter().filter(|entry| entry.kind == "family");
    entries.filter_map(|entry| family(api, entry, diagnostics)).collect()
}

fn family(api: &Api, entry: &Entry, diagnostics: &mut Diagnostics) -> Option<Family> {
    let raw: RawFamily = entry.parse(diagnostics)?;
    if raw.doc.trim().is_empty() {
        diagnostics.error(&entry.origin_of("doc"), "the doc is empty");
    }
    let (mut names, mut variants) = (BTreeSet::new(), Vec::<Variant>::new());
    for (index, variant) in raw.variants.into_iter().enumerate() {
        let origin = entry.item_origin("variants", index);
        if !names.insert(variant.name.clone()) {
            diagnostics.error(&origin, format!("two variants are called `{}`", variant.name));
        }
        let Some(Plain::Layout(layout)) = api.plain(&variant.layout).filter(is_writable) else {
            let message = format!("`{}`: there is no writable layout `{}`", variant.name, variant.layout);
            let layouts = api.files.iter().flat_map(|file| &file.layouts).filter(|layout| layout.writable);
            let known = layouts.map(|layout| layout.name.as_str());
            diagnostics.unknown(&origin, &variant.layout, message, known);
            continue;
        };
        let mut tags = |values: BTreeMap<String, serde_yaml::Value>| -> Option<Vec<Tag>> {
            let tags = values.into_iter().map(|(path, value)| {
                tag(api, layout, &path, &value)
                    .map_err(|(within, problem)| {
                        let message = format!("`{}`: `{path}` {problem}", variant.name);
                        diagnostics.unknown(&origin, within, message, []);
                    })
                    .ok()
            });
            tags.collect()
        };
        let (when, sets) = (tags(variant.when), tags(variant.sets));
        let (Some(when), Some(sets)) = (when, sets) else { continue };
        if let Some(other) = variants.iter().find(|other| !told_apart(&other.when, &when)) {
            let message = format!("`{}`: nothing tells it from `{}`", variant.name, other.name);
            diagnostics.error(&origin, message);
        }
        variants.push(Variant { name: variant.name, layout: layout.clone(), when, sets, origin });
    }
    Some(Family { name: raw.family, doc: raw.doc, variants, origin: entry.origin.clone() })
}

fn is_writable(plain: &Plain<'_>) -> bool {
    matches!(plain, Plain::Layout(layout) if layout.writable)
}

/// True if the same bits have different values.
fn told_apart(left: &[Tag], right: &[Tag]) -> bool {
    let place = |tag: &Tag| (tag.offset, tag.size, tag.bit, tag.width);
    left.iter().any(|a| right.iter().any(|b| place(a) == place(b) && a.value != b.value))
}

/// Resolves `header.type: kernel_dispatch` in `layout`. An error names the layout that was searched.
fn tag<'a>(api: &'a Api, layout: &'a Layout, path: &str, value: &serde_yaml::Value) -> Result<Tag, (&'a str, String)> {
    let (mut layout, mut offset) = (layout, 0u64);
    let mut segments = path.split('.').peekable();
    while let Some(segment) = segments.next() {
        let field = layout.fields.iter().find(|field| field.name == segment && field.count.is_none());
        let field = field.ok_or_else(|| {
            let meant = did_you_mean(segment, layout.fields.iter().map(|field| field.name.as_str()));
            let problem = format!("is not in `{}`: it has no single field `{segment}`{meant}", layout.name);
            (layout.name.as_str(), problem)
        })?;
        offset += field.offset;
        let last = segments.peek().is_none();
        let (size, bit, width, code) = match &field.ty {
            LayoutType::Int(int) if last => (int.size(), 0, 8 * int.size() as u32, None),
            LayoutType::Layout(name) => match api.plain(name) {
                Some(Plain::Layout(inner)) if !last => {
                    layout = inner;
                    continue;
                }
                Some(Plain::Code(numbers)) if last => {
                    (numbers.int.size(), 0, 8 * numbers.int.size() as u32, Some(numbers.name.as_str()))
                }
                Some(Plain::Word(word)) => {
                    let name = segments.next().unwrap_or_default();
                    let bits = word.fields.iter().find(|bits| bits.name == name && segments.peek().is_none());
                    let bits = bits.ok_or_else(|| {
                        let meant = did_you_mean(name, word.fields.iter().map(|bits| bits.name.as_str()));
                        (word.name.as_str(), format!("does not name a field of the word `{}`{meant}", word.name))
                    })?;
                    (word.int.size(), bits.bit, bits.width, bits.kind.as_deref())
                }
                _ => return Err((&layout.name, format!("does not name a number: it is of the type `{name}`"))),
            },
            other => return Err((&layout.name, format!("does not name a number: it is of the type `{other}`"))),
        };
        let value = number(api, code, value).map_err(|problem| (code.unwrap_or_default(), problem))?;
        if width < 64 && value >> width != 0 {
            return Err((&layout.name, format!("cannot be {value}: it has {width} bits")));
        }
        return Ok(Tag { path: path.to_string(), offset, size, bit, width, value });
    }
    Err((&layout.name, "does not name a number".to_string()))
}

fn number(api: &Api, code: Option<&str>, value: &serde_yaml::Value) -> Result<u64, String> {
    if let Some(number) = value.as_u64() {
        return Ok(number);
    }
    let name = value.as_str().unwrap_or_default();
    let Some(Plain::Code(numbers)) = code.and_then(|code| api.plain(code)) else {
        return Err("expects a number".to_string());
    };
    let named = numbers.values.iter().find(|other| other.name == name);
    named
        .map(|named| named.value)
        .ok_or_else(|| format!("expects a value of `{}`, which has no `{name}`", numbers.name))
}
