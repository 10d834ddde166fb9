//! Reads `adaptor` entries: earlier calling conventions of an export, as differences from the newest one.
//! `abi_modules`, `abi_shims` and the macros make further exports of them, which call the same function in Rust.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::convention::{Convention, Kind, Slot};
use super::module::{Adapted, Adaptor, Export, Module};
use super::value::{Arg, Field, Type};
use crate::diag::Diagnostics;
use crate::entry::Entry;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawAdaptor {
    adaptor: String,
    until: u32,
    #[serde(default)]
    doc: String,
    #[serde(default)]
    narrow: Vec<String>,
    #[serde(default)]
    gather: Vec<String>,
    #[serde(default)]
    fill: BTreeMap<String, serde_yaml::Value>,
}

/// Reads an adaptor of an export that the module has so far.
pub(super) fn read(entry: &Entry, module: &Module, diagnostics: &mut Diagnostics) -> Option<Adaptor> {
    let raw: RawAdaptor = entry.parse(diagnostics)?;
    entry.need_doc(&raw.doc, diagnostics);
    let Some(export) = module.export(&raw.adaptor) else {
        let known = module.exports.iter().map(|export| export.name.as_str());
        let message = format!("module `{}` has no export `{}` above", module.name, raw.adaptor);
        diagnostics.unknown(&entry.origin, &raw.adaptor, message, known);
        return None;
    };
    if raw.until > module.version {
        let message = format!("`until` is {}, but the module has version {}", raw.until, module.version);
        diagnostics.error(&entry.origin_of("until"), message);
    }
    for (key, name) in raw
        .narrow
        .iter()
        .map(|name| ("narrow", name))
        .chain(raw.gather.iter().map(|name| ("gather", name)))
        .chain(raw.fill.keys().map(|name| ("fill", name)))
    {
        if !export.args.iter().any(|arg| arg.name() == name) {
            let known = export.args.iter().map(Arg::name);
            diagnostics.unknown(
                &entry.origin_of(key),
                name,
                format!("export `{}` has no argument `{name}`", export.name),
                known,
            );
        }
    }
    let args = export.args.iter().map(|arg| adapted(&raw, arg)).collect::<Result<Vec<_>, _>>();
    let args = args.map_err(|(key, message)| diagnostics.error(&entry.origin_of(key), message)).ok()?;
    let convention = convention(export, &args);
    let taken = module.exports.iter().filter(|other| other.name == export.name).map(Export::convention);
    let earlier = module.adaptors.iter().filter(|other| other.name == export.name);
    if taken.chain(earlier.map(|other| other.convention.clone())).any(|other| other == convention) {
        diagnostics.error(&entry.origin, format!("export `{}` has this calling convention already", export.name));
    }
    let origin = entry.origin.clone();
    Some(Adaptor { name: raw.adaptor, doc: raw.doc, until: raw.until, args, convention, origin })
}

/// How one argument is made, or the key that is wrong and why.
fn adapted(raw: &RawAdaptor, arg: &Arg) -> Result<Adapted, (&'static str, String)> {
    let name = arg.name();
    let one = match arg {
        Arg::One(field) => Some(field),
        Arg::Span { .. } => None,
    };
    let of = |kind: Kind| one.is_some_and(|field| field.ty == Type::Number(kind));
    if raw.narrow.iter().any(|narrow| narrow == name) {
        if of(Kind::I64) {
            return Ok(Adapted::Narrow);
        }
        return Err(("narrow", format!("`{name}` is not an i64")));
    }
    if raw.gather.iter().any(|gathered| gathered == name) {
        if one.is_some_and(|field| field.nullable) {
            return Ok(Adapted::Gathered);
        }
        return Err(("gather", format!("`{name}` is not a reference that may be null")));
    }
    let Some(value) = raw.fill.get(name) else { return Ok(Adapted::Same) };
    let adapted = match value {
        _ if of(Kind::I32) || of(Kind::I64) => value.as_i64().map(Adapted::Integer),
        _ if of(Kind::F32) || of(Kind::F64) => value.as_f64().map(Adapted::Number),
        _ => None,
    };
    adapted.ok_or_else(|| ("fill", format!("`{name}` cannot be filled with this value")))
}

/// The calling convention of a form with these arguments.
fn convention(export: &Export, args: &[Adapted]) -> Convention {
    let Convention { args: slots, results } = export.convention();
    let slots =
        slots.into_iter().zip(args).filter(|(_, adapted)| adapted.is_given()).map(|(slot, adapted)| match adapted {
            Adapted::Narrow => Slot::One(Kind::I32),
            Adapted::Gathered => Slot::Span(vec![Kind::Ref]),
            _ => slot,
        });
    Convention { args: slots.collect(), results }
}

impl Arg {
    /// Its name.
    pub fn name(&self) -> &str {
        match self {
            Arg::One(Field { name, .. }) | Arg::Span { name, .. } => name,
        }
    }
}
