//! Rules of arguments: what a caller of a method must keep besides types, as data. `hal_checks` emits the checks of a validated device from
//! them, and the manual shows them.

use serde::Deserialize;

use super::read::RawField;
use super::{Field, Hal, Kind, Method, Shape};
use crate::diag::{Diagnostics, Origin};
use crate::model::int::Int;

/// What an argument must be, besides its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Values of `buffer_usage`, all of which the buffer must allow.
    pub usage: Vec<String>,
    /// Values of `buffer_usage`, of whose bits the buffer must allow one.
    pub any_usage: Vec<String>,
    /// Values of `memory_access`, all of which the buffer or file must allow.
    pub access: Vec<String>,
    /// Whether the range that it is must be there; other rules of ranges imply it.
    pub in_range: bool,
    /// The arguments that are the offset and the length of a range of the buffer or file.
    pub range: Option<(String, String)>,
    /// The argument whose number of bytes the range must be a multiple of, and begin at one.
    pub multiple_of: Option<String>,
    /// The argument that must have as many bytes.
    pub same_length: Option<String>,
    /// Numbers of bytes or items that it may have.
    pub lengths: Vec<u64>,
    /// The constant that is the most bytes or items that it may have.
    pub at_most: Option<String>,
    /// Whether it must have been made by the device that the method is of, or that made the object.
    pub same_device: bool,
    /// Where the argument is declared.
    pub origin: Origin,
}

/// An argument as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawArgument {
    name: String,
    kind: String,
    #[serde(default)]
    null: bool,
    #[serde(default)]
    list: bool,
    count: Option<u32>,
    #[serde(default)]
    doc: String,
    #[serde(default)]
    usage: Vec<String>,
    #[serde(default)]
    any_usage: Vec<String>,
    #[serde(default)]
    access: Vec<String>,
    #[serde(default)]
    in_range: bool,
    range: Option<[String; 2]>,
    multiple_of: Option<String>,
    same_length: Option<String>,
    #[serde(default)]
    lengths: Vec<u64>,
    at_most: Option<String>,
    #[serde(default)]
    same_device: bool,
}

impl RawArgument {
    /// The argument alone, and its rules if it has some.
    pub(super) fn split(self, origin: Origin) -> (RawField, Option<Rules>) {
        let RawArgument { name, kind, null, list, count, doc, .. } = self;
        let rules = Rules {
            usage: self.usage,
            any_usage: self.any_usage,
            access: self.access,
            in_range: self.in_range,
            range: self.range.map(|[offset, length]| (offset, length)),
            multiple_of: self.multiple_of,
            same_length: self.same_length,
            lengths: self.lengths,
            at_most: self.at_most,
            same_device: self.same_device,
            origin,
        };
        let rules = Some(rules).filter(|rules| *rules != Rules::none(rules.origin.clone()));
        (RawField { name, kind, null, list, count, doc }, rules)
    }
}

impl Rules {
    fn none(origin: Origin) -> Rules {
        Rules {
            usage: Vec::new(),
            any_usage: Vec::new(),
            access: Vec::new(),
            in_range: false,
            range: None,
            multiple_of: None,
            same_length: None,
            lengths: Vec::new(),
            at_most: None,
            same_device: false,
            origin,
        }
    }

    /// Whether something is asked of a range or of what it is of.
    pub fn are_of_memory(&self) -> bool {
        let asks = !(self.usage.is_empty() && self.any_usage.is_empty() && self.access.is_empty());
        asks || self.in_range || self.range.is_some() || self.multiple_of.is_some() || self.same_length.is_some()
    }

    /// The rules as sentences, for people.
    pub fn text(&self) -> String {
        let list = |names: &[String]| names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        let mut sentences = Vec::new();
        if !self.usage.is_empty() {
            sentences.push(format!("Its usage includes {}.", list(&self.usage)));
        }
        if !self.any_usage.is_empty() {
            sentences.push(format!("Its usage includes one of {}.", list(&self.any_usage)));
        }
        if !self.access.is_empty() {
            sentences.push(format!("It allows {}.", list(&self.access)));
        }
        if self.in_range {
            sentences.push("The range is there.".to_string());
        }
        if let Some((offset, length)) = &self.range {
            sentences.push(format!("The range at `{offset}` of `{length}` is within it."));
        }
        if let Some(other) = &self.multiple_of {
            sentences.push(format!("The range begins and ends at multiples of the length of `{other}`."));
        }
        if let Some(other) = &self.same_length {
            sentences.push(format!("It is as long as `{other}`."));
        }
        if !self.lengths.is_empty() {
            let lengths: Vec<String> = self.lengths.iter().map(u64::to_string).collect();
            sentences.push(format!("Its length is one of {}.", lengths.join(", ")));
        }
        if let Some(most) = &self.at_most {
            sentences.push(format!("It is at most as long as `{most}`."));
        }
        if self.same_device {
            sentences.push("The same device made it.".to_string());
        }
        sentences.join(" ")
    }
}

/// Checks what the rules of all methods refer to.
pub(super) fn check(hal: &Hal, diagnostics: &mut Diagnostics) {
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
