//! The rules across entries of `spec/hal/`: names and numbers are unique, what an entry refers to exists, and layouts
//! are those of `repr(C)`.

use std::collections::BTreeMap;

use super::kind::{Kind, Shape};
use super::layout::{LayoutType, Measure};
use super::rules::Rules;
use super::types::{Field, Form, Hal, Method, Object, POINTS, SpecFile};
use crate::diag::{Diagnostics, Origin};
use crate::model::int::Int;

/// Checks all of them.
pub(super) fn check(hal: &Hal, diagnostics: &mut Diagnostics) {
    check_names(&hal.files, diagnostics);
    check_bases(hal, diagnostics);
    check_ids(hal, diagnostics);
    check_infallible(hal, diagnostics);
    check_reserved(hal, diagnostics);
    check_operations(hal, diagnostics);
    check_accesses(hal, diagnostics);
    check_all_rules(hal, diagnostics);
    for file in &hal.files {
        let known: Vec<&str> = file.names().map(|(name, _)| name).collect();
        for layout in &file.layouts {
            layout.check(&|ty| file.measure(ty), &known, "this file", diagnostics);
        }
    }
}

/// Checks that an extended object is one that drivers implement and that extends nothing itself.
fn check_bases(hal: &Hal, diagnostics: &mut Diagnostics) {
    for object in hal.objects() {
        let Some(extends) = &object.extends else { continue };
        match hal.object(extends) {
            Some(base) if base.concrete || base.extends.is_some() => {
                diagnostics.error(&object.origin, format!("`{extends}` cannot be extended"));
            }
            Some(base) => {
                for method in object.methods.iter() {
                    if let Some(first) = base.methods.iter().find(|first| first.name == method.name) {
                        let message = format!("`{}` is declared at {} already", method.name, first.origin);
                        diagnostics.error(&method.origin, message);
                    }
                }
            }
            None => {
                let known = hal.objects().map(|object| object.name.as_str());
                diagnostics.unknown(
                    &object.origin,
                    extends,
                    format!("there is no object `{extends}` to extend"),
                    known,
                );
            }
        }
    }
}

/// Checks that objects have different numbers.
fn check_ids(hal: &Hal, diagnostics: &mut Diagnostics) {
    let mut seen: BTreeMap<u32, &Object> = BTreeMap::new();
    for object in hal.objects() {
        match (object.id, object.concrete) {
            (0, true) => {}
            (0, false) => diagnostics.error(&object.origin, "expected an `id` of 1 or more"),
            (_, true) => {
                diagnostics.error(&object.origin, "a concrete object has no `id`: it never leaves the library")
            }
            (id, false) => {
                if let Some(first) = seen.insert(id, object) {
                    let message = format!("the id {id} is that of `{}` at {} already", first.name, first.origin);
                    diagnostics.error(&object.origin, message);
                }
            }
        }
    }
}

/// A method that cannot fail cannot refuse a number either, so it exchanges no enums.
fn check_infallible(hal: &Hal, diagnostics: &mut Diagnostics) {
    for method in hal.objects().flat_map(|object| &object.methods).filter(|method| method.infallible) {
        let shapes = method.args.iter().map(|arg| &arg.shape).chain(&method.result);
        for name in shapes.filter_map(|shape| hal.closed_number(&shape.kind)) {
            let message = format!("`{}` cannot fail, so it cannot exchange the enum `{name}`", method.name);
            diagnostics.error(&method.origin, message);
        }
    }
}

/// An operation of a queue is a method of the device whose first arguments are the queue and the points; others have no
/// such points.
fn check_operations(hal: &Hal, diagnostics: &mut Diagnostics) {
    for object in hal.objects() {
        let mut seen: BTreeMap<&str, &Origin> = BTreeMap::new();
        for method in object.operations() {
            let operation = method.operation.as_deref().unwrap_or_default();
            let first = method.args.iter().map(|arg| arg.name.as_str()).take(POINTS.len());
            if object.name != "device" || !first.eq(POINTS) || method.result.is_some() || method.infallible {
                let message = format!(
                    "`{}`: an operation is a method of `device` that can fail, begins with the arguments {} and has no result",
                    method.name,
                    POINTS.join(", ")
                );
                diagnostics.error(&method.origin, message);
            }
            if let Some(first) = seen.insert(operation, &method.origin) {
                diagnostics
                    .error(&method.origin, format!("the operation `{operation}` is declared at {first} already"));
            }
        }
    }
}

/// The memory that an operation of a queue names has an access, so that all that it reads and writes is known.
fn check_accesses(hal: &Hal, diagnostics: &mut Diagnostics) {
    for method in hal.objects().flat_map(|object| &object.methods) {
        let first_operand = method.args.len() - method.operands().len();
        for (index, arg) in method.args.iter().enumerate() {
            let is_operand = method.operation.is_some() && index >= first_operand;
            let objects = hal.objects_in(&arg.shape);
            let is_memory = objects.iter().any(|object| matches!(object.name.as_str(), "buffer" | "file"));
            let name = &arg.name;
            let problem = if is_operand && is_memory && arg.accesses().is_empty() {
                "an operation that names memory says what it does to it: expected `access` or `accesses`".to_string()
            } else if !arg.accesses.is_empty() && (!is_operand || objects.is_empty()) {
                "only an object that an operation of a queue names has `accesses`".to_string()
            } else {
                let unknown = arg.accesses.iter().find_map(|access| check_value(hal, "memory_access", access).err());
                let Some(problem) = unknown else { continue };
                problem
            };
            diagnostics.error(&method.origin, format!("`{name}`: {problem}"));
        }
    }
}

/// Methods that generated traits have besides those of the spec: `recycle` of objects that programs refer to, `submit`
/// of devices, and of wrappers `before`, `release`, `inner` and what begins with it.
fn check_reserved(hal: &Hal, diagnostics: &mut Diagnostics) {
    let reserved = |name: &str| {
        matches!(name, "recycle" | "release" | "before" | "inner" | "submit") || name.starts_with("inner_")
    };
    for object in hal.objects() {
        let methods = object.methods.iter().map(|method| (&method.name, &method.origin));
        let facets = object.facets.iter().map(|facet| (&facet.name, &object.origin));
        for (name, origin) in methods.chain(facets).filter(|(name, _)| reserved(name)) {
            diagnostics.error(origin, format!("`{name}` is a method that generated traits add: choose another name"));
        }
    }
}

/// Two declarations of one name are refused: kinds refer to names.
fn check_names(files: &[SpecFile], diagnostics: &mut Diagnostics) {
    let mut seen: BTreeMap<&str, &Origin> = BTreeMap::new();
    for (name, origin) in files.iter().flat_map(SpecFile::names) {
        if let Some(first) = seen.insert(name, origin) {
            diagnostics.error(origin, format!("`{name}` is declared at {first} already"));
        }
    }
}

impl Hal {
    /// The first enum that values of `kind` are or contain.
    fn closed_number(&self, kind: &Kind) -> Option<&str> {
        match kind {
            Kind::Numbers(name) => {
                self.numbers(name).filter(|numbers| numbers.form == Form::Enum).map(|numbers| numbers.name.as_str())
            }
            Kind::Struct(name) => {
                self.structure(name)?.fields.iter().find_map(|field| self.closed_number(&field.shape.kind))
            }
            _ => None,
        }
    }
}

impl SpecFile {
    /// The names that layouts of the file may refer to: its layouts and functions.
    fn measure(&self, ty: &LayoutType) -> Option<Measure> {
        match ty {
            LayoutType::Function(name) => {
                let found = self.functions.iter().any(|item| item.name == *name);
                found.then_some(Measure { size: 8, align: 8, plain: false })
            }
            LayoutType::Layout(name) => {
                let layout = self.layouts.iter().find(|item| item.name == *name)?;
                Some(Measure { size: layout.size, align: layout.align, plain: false })
            }
            _ => None,
        }
    }
}

/// Checks what the rules of all methods refer to.
fn check_all_rules(hal: &Hal, diagnostics: &mut Diagnostics) {
    for method in hal.objects().flat_map(|object| &object.methods) {
        for arg in &method.args {
            if let Some(rules) = &arg.rules
                && let Err(problem) = check_rules(hal, method, arg, rules)
            {
                diagnostics.error(&rules.origin, format!("`{}`: {problem}", arg.name));
            }
        }
        for category in method.recorded.iter().flatten() {
            if let Err(problem) = check_value(hal, "command_category", category) {
                diagnostics.error(&method.origin, problem);
            }
        }
        if method.recorded.is_some() && method.infallible {
            diagnostics.error(&method.origin, format!("`{}` cannot fail, so nothing is asked of it", method.name));
        }
    }
}

fn check_rules(hal: &Hal, method: &Method, arg: &Field, rules: &Rules) -> Result<(), String> {
    let is_object = |name: &str| matches!(&arg.shape.kind, Kind::Object(object) if object == name);
    let (buffer, file, reference) = (is_object("buffer"), is_object("file"), is_reference(&arg.shape));
    let counted = arg.shape.list || arg.shape.kind == Kind::Bytes;
    let expect = |holds: bool, problem: &str| if holds { Ok(()) } else { Err(problem.to_string()) };
    let has_usage = !(rules.usage.is_empty() && rules.any_usage.is_empty());
    expect(!has_usage || buffer || reference, "only buffers and ranges of them have a usage")?;
    expect(rules.access.is_empty() || buffer || file || reference, "only buffers and files have an access")?;
    expect(!rules.in_range || reference, "only a `buffer_ref` is a range")?;
    expect(rules.range.is_none() || buffer || file, "only a buffer or a file has a `range`")?;
    let is_range = rules.range.is_some() || reference && !arg.shape.list;
    expect(rules.multiple_of.is_none() || is_range, "only a range has a `multiple_of`")?;
    expect(rules.same_length.is_none() || reference && !arg.shape.list, "only a `buffer_ref` has a `same_length`")?;
    expect(rules.lengths.is_empty() && rules.at_most.is_none() || counted, "only bytes and lists have lengths")?;
    expect(!rules.same_device || matches!(arg.shape.kind, Kind::Object(_)), "only an object has a maker")?;
    expect(!method.infallible, "the method cannot fail, so nothing is asked of its arguments")?;
    for usage in rules.usage.iter().chain(&rules.any_usage) {
        check_value(hal, "buffer_usage", usage)?;
    }
    for access in &rules.access {
        check_value(hal, "memory_access", access)?;
    }
    if let Some((offset, length)) = &rules.range {
        let is_number = |shape: &Shape| shape.kind == Kind::Int(Int::U64) && !shape.list;
        expect(is_number(shape_of(method, offset)?), &format!("`{offset}` is no offset: expected a u64"))?;
        let shape = shape_of(method, length)?;
        let is_length = is_number(shape) || shape.kind == Kind::Bytes;
        expect(is_length, &format!("`{length}` is no length: expected a u64 or bytes"))?;
    }
    if let Some(other) = &rules.multiple_of {
        expect(shape_of(method, other)?.kind == Kind::Bytes, &format!("`{other}` has no length: expected bytes"))?;
    }
    if let Some(other) = &rules.same_length {
        let shape = shape_of(method, other)?;
        let has_length = shape.kind == Kind::Bytes || is_reference(shape) && !shape.list;
        expect(has_length, &format!("`{other}` has no length: expected bytes or a `buffer_ref`"))?;
    }
    if let Some(most) = &rules.at_most {
        let known = hal.files.iter().flat_map(|file| &file.constants).any(|constant| constant.name == *most);
        expect(known, &format!("there is no constant `{most}`"))?;
    }
    Ok(())
}

fn is_reference(shape: &Shape) -> bool {
    matches!(&shape.kind, Kind::Struct(name) if name == "buffer_ref")
}

fn shape_of<'a>(method: &'a Method, name: &str) -> Result<&'a Shape, String> {
    let found = method.args.iter().find(|arg| arg.name == name);
    found.map(|arg| &arg.shape).ok_or_else(|| format!("there is no argument `{name}`"))
}

fn check_value(hal: &Hal, set: &str, name: &str) -> Result<(), String> {
    let numbers = hal.numbers(set).ok_or_else(|| format!("there are no bits `{set}`"))?;
    let known = numbers.values.iter().any(|value| value.name == name);
    if known { Ok(()) } else { Err(format!("`{set}` has no value `{name}`")) }
}
