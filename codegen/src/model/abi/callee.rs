//! The reader of `callee` entries: functions of programs that the runtime calls on its own, with their symbols and
//! arguments.

use serde::Deserialize;

use super::convention::{Convention, Slot};
use super::value::Type;
use crate::diag::{Diagnostics, Origin};
use crate::entry::Entry;

/// A function of a program that the runtime calls.
#[derive(Clone, Debug)]
pub struct Callee {
    /// `set_constants`
    pub name: String,
    /// The name that programs export it by, if that is fixed.
    pub symbol: Option<String>,
    /// Its documentation.
    pub doc: String,
    /// Its arguments in order. There are no results.
    pub args: Vec<CalleeArg>,
    /// Where it is declared.
    pub origin: Origin,
}

/// An argument, or several of one name.
#[derive(Clone, Debug)]
pub struct CalleeArg {
    /// `workgroup_id`
    pub name: String,
    /// The type of each.
    pub ty: Type,
    /// How many there are of it, which is one if this is absent.
    pub count: Option<u32>,
    /// Its documentation.
    pub doc: String,
}

impl Callee {
    /// The calling convention.
    pub fn convention(&self) -> Convention {
        let slots = self.args.iter().flat_map(|arg| {
            let count = arg.count.unwrap_or(1) as usize;
            std::iter::repeat_n(Slot::One(arg.ty.kind()), count)
        });
        Convention { args: slots.collect(), results: Vec::new() }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCallee {
    callee: String,
    symbol: Option<String>,
    #[serde(default)]
    doc: String,
    args: Vec<RawArg>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawArg {
    name: String,
    #[serde(rename = "type")]
    ty: String,
    count: Option<u32>,
    doc: String,
}

/// Reads one entry. `ty` finds the type of a value.
pub(super) fn read(
    entry: &Entry,
    known: &[Callee],
    ty: impl Fn(&str, &str, &Origin, &mut Diagnostics) -> Option<Type>,
    diagnostics: &mut Diagnostics,
) -> Option<Callee> {
    let raw = entry.parse::<RawCallee>(diagnostics)?;
    entry.need_doc(&raw.doc, diagnostics);
    if let Some(other) = known.iter().find(|other| other.name == raw.callee) {
        diagnostics.error(&entry.origin, format!("callee `{}` is already described at {}", raw.callee, other.origin));
    }
    let mut args: Vec<CalleeArg> = Vec::new();
    for (index, arg) in raw.args.into_iter().enumerate() {
        let origin = entry.item_origin("args", index);
        let Some(ty) = ty(&arg.name, &arg.ty, &origin, diagnostics) else { continue };
        if args.iter().any(|other| other.name == arg.name) {
            diagnostics.error(&origin, format!("there are two arguments `{}`", arg.name));
        }
        match (&ty, arg.count) {
            (_, Some(0)) => diagnostics.error(&origin, format!("there is no `{}`: `count` is 0", arg.name)),
            (Type::Number(_), _) | (_, None) => {}
            _ => diagnostics.error(&origin, format!("`{}`: only numbers have a `count`", arg.name)),
        }
        args.push(CalleeArg { name: arg.name, ty, count: arg.count, doc: arg.doc });
    }
    Some(Callee { name: raw.callee, symbol: raw.symbol, doc: raw.doc, args, origin: entry.origin.clone() })
}
