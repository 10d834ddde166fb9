//! Modules that programs import from ([`Module`]), their exports, and earlier forms of these. The parent reads them.

use super::convention::{Convention, Slot};
use super::value::{Arg, Field};
use crate::diag::Origin;

/// A module that programs import from.
#[derive(Clone, Debug)]
pub struct Module {
    /// `hal`
    pub name: String,
    /// Newest version of the interface.
    pub version: u32,
    /// Oldest version still served.
    pub minimum_version: u32,
    /// Its documentation.
    pub doc: String,
    /// Its functions, in the order of the file.
    pub exports: Vec<Export>,
    /// Earlier forms of these, in the order of the file. Their ordinals follow those of the exports.
    pub adaptors: Vec<Adaptor>,
    /// Where it is declared.
    pub origin: Origin,
}

impl Module {
    /// The functions by ordinal: the exports, then their earlier forms.
    pub fn functions(&self) -> impl Iterator<Item = (&Export, Option<&Adaptor>)> {
        let adaptors = self.adaptors.iter().filter_map(|adaptor| Some((self.export(&adaptor.name)?, Some(adaptor))));
        self.exports.iter().map(|export| (export, None)).chain(adaptors)
    }

    /// The export called `name` that the newest version has.
    pub fn export(&self, name: &str) -> Option<&Export> {
        self.exports.iter().find(|export| export.name == name && export.until >= self.version)
    }
}

/// One exported function.
#[derive(Clone, Debug)]
pub struct Export {
    /// Name without the module.
    pub name: String,
    /// Its documentation.
    pub doc: String,
    /// Arguments in order.
    pub args: Vec<Arg>,
    /// Results in order.
    pub results: Vec<Field>,
    /// First module version that has it.
    pub since: u32,
    /// Last module version that has it.
    pub until: u32,
    /// True if a call may suspend its caller.
    pub yields: bool,
    /// Where it is declared.
    pub origin: Origin,
}

impl Export {
    /// The values of the call: arguments, the fields of spans among them, then results.
    pub fn values(&self) -> impl Iterator<Item = &Field> {
        let args = self.args.iter().flat_map(|arg| match arg {
            Arg::One(field) => std::slice::from_ref(field),
            Arg::Span { fields, .. } => fields,
        });
        args.chain(&self.results)
    }

    /// The calling convention.
    pub fn convention(&self) -> Convention {
        let args = self.args.iter().map(|arg| match arg {
            Arg::One(field) => Slot::One(field.ty.kind()),
            Arg::Span { fields, .. } => Slot::Span(fields.iter().map(|field| field.ty.kind()).collect()),
        });
        Convention { args: args.collect(), results: self.results.iter().map(|field| field.ty.kind()).collect() }
    }
}

/// An earlier form of an export.
#[derive(Clone, Debug)]
pub struct Adaptor {
    /// The name of the export.
    pub name: String,
    /// Its documentation.
    pub doc: String,
    /// Last module version whose programs import it.
    pub until: u32,
    /// How each argument of the export is made, in their order.
    pub args: Vec<Adapted>,
    /// Its calling convention.
    pub convention: Convention,
    /// Where it is declared.
    pub origin: Origin,
}

/// How an argument of the newest form is made of those of an earlier one.
#[derive(Clone, Debug, PartialEq)]
pub enum Adapted {
    /// It is the same.
    Same,
    /// It is an `i32` instead of an `i64`, zero-extended.
    Narrow,
    /// It is a span of at most one reference instead of one that may be null.
    Gathered,
    /// It does not exist and is this integer.
    Integer(i64),
    /// It does not exist and is this number.
    Number(f64),
}

impl Adapted {
    /// True if the earlier form has the argument.
    pub fn is_given(&self) -> bool {
        !matches!(self, Adapted::Integer(_) | Adapted::Number(_))
    }
}
