//! The reader of tables: values for the names of a code, such as the attributes of a device. One table may begin with
//! the values of another one.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::types::{Api, Plain, Table};
use crate::diag::Diagnostics;
use crate::entry::Entry;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTable {
    table: String,
    of: String,
    text: String,
    like: Option<String>,
    doc: String,
    values: BTreeMap<String, u64>,
}

/// Reads the tables of `entries`; the codes that they refer to have been read.
pub(super) fn read(api: &Api, entries: &[Entry], diagnostics: &mut Diagnostics) -> Vec<Table> {
    let mut tables: Vec<Table> = Vec::new();
    for entry in entries.iter().filter(|entry| entry.kind == "table") {
        let table = table(api, &tables, entry, diagnostics);
        tables.extend(table);
    }
    tables
}

fn table(api: &Api, before: &[Table], entry: &Entry, diagnostics: &mut Diagnostics) -> Option<Table> {
    let raw: RawTable = entry.parse(diagnostics)?;
    entry.need_doc(&raw.doc, diagnostics);
    if before.iter().any(|other| other.name == raw.table) {
        diagnostics.error(&entry.origin, format!("two tables are called `{}`", raw.table));
    }
    let Some(Plain::Code(numbers)) = api.plain(&raw.of) else {
        diagnostics.error(&entry.origin_of("of"), format!("there is no code `{}`", raw.of));
        return None;
    };
    let mut values = BTreeMap::new();
    if let Some(name) = &raw.like {
        let Some(other) = before.iter().find(|other| other.name == *name && other.of == raw.of) else {
            let message = format!("there is no table `{name}` of `{}` before this one", raw.of);
            diagnostics.unknown(
                &entry.origin_of("like"),
                name,
                message,
                before.iter().map(|table| table.name.as_str()),
            );
            return None;
        };
        values.extend(other.values.iter().cloned());
    }
    for (name, value) in raw.values {
        if !numbers.values.iter().any(|known| known.name == name) {
            let known = numbers.values.iter().map(|known| known.name.as_str());
            let message = format!("`{}` has no value `{name}`", raw.of);
            diagnostics.unknown(&entry.origin_of("values"), &name, message, known);
        }
        if value >> (8 * numbers.int.size().min(4)) != 0 {
            diagnostics.error(&entry.origin_of("values"), format!("`{name}`: {value} does not fit 32 bits"));
        }
        values.insert(name, value);
    }
    let ordered = numbers.values.iter().filter_map(|known| Some((known.name.clone(), *values.get(&known.name)?)));
    Some(Table {
        name: raw.table,
        of: raw.of.clone(),
        text: raw.text,
        values: ordered.collect(),
        doc: raw.doc,
        origin: entry.origin.clone(),
    })
}
