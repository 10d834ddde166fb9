//! `vireo params create`: creates an `.irpa` file from values on the command line.

use std::collections::HashSet;

use vireo::Status;
use vireo::inference::text_parts::split;
use vireo::io::{Splat, irpa};
use vireo::vm::Kind;

use super::convert::pattern;
use super::write::{self, Source};
use crate::arguments::CreateArguments;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::values::spec::parse_values;
use crate::values::{Datum, Limits};

/// Most bytes of values that are given one by one or in a file.
const LIMITS: Limits = Limits { max_tensor_bytes: 1 << 40 };

/// Does what the flags say and returns what is to be printed.
pub fn create(arguments: &CreateArguments) -> Result<String, Failure> {
    write::check_output(&arguments.output)?;
    let wrong = |flag: &str, value: &str, status| {
        let failure = Failure::new(Exit::Usage, format!("invalid value for --{flag}={value}")).because(status);
        failure.hint(format!("use --{flag}=NAME=2x3xf32=1.5: a name, a shape with a type, and a value"))
    };
    let alignment = |status| Failure::new(Exit::Usage, "invalid value for --alignment").because(status);
    let mut builder = irpa::Builder::new(arguments.alignment).map_err(alignment)?;
    let (mut sources, mut names) = (Vec::new(), HashSet::new());
    // Parameters without contents come first: those with contents then lie in the order of their flags.
    let splats = arguments.splat.iter().map(|flag| ("splat", flag));
    for (flag, value) in splats.chain(arguments.data.iter().map(|flag| ("data", flag))) {
        let added = Declared::parse(value, flag == "data").and_then(|declared| {
            if !names.insert(declared.name.clone()) {
                return Err(Status::invalid_argument(format!("there are two parameters `{}`", declared.name)));
            }
            let (name, length) = (&declared.name, declared.length);
            match (flag, declared.source) {
                ("splat", Source::Pattern(splat)) => builder.splat(name, &[], length, splat),
                ("splat", _) => builder.splat(name, &[], length, Splat::ZERO),
                (_, source) => {
                    sources.push(source);
                    builder.data(name, &[], length)
                }
            }
        });
        added.map_err(|status| wrong(flag, value, status))?;
    }
    let index = write::write(&arguments.output, &builder, &sources)?;
    Ok(if arguments.quiet {
        String::new()
    } else {
        super::dump::contents([("", &index)].into_iter(), arguments.format)
    })
}

/// A parameter that a flag declares.
struct Declared {
    name: String,
    length: u64,
    source: Source<'static>,
}

impl Declared {
    /// Reads `name=shapextype[=value]`. With `data` the value may be anything that inputs may be.
    fn parse(text: &str, data: bool) -> Result<Declared, Status> {
        let invalid = |error: &dyn std::fmt::Display| Status::invalid_argument(error.to_string());
        let (name, spec) =
            text.split_once('=').ok_or_else(|| invalid(&"expected a name, `=`, and a shape with a type"))?;
        if data && spec.contains(['@', ',', ' ', '[', '+', '*']) {
            let values = parse_values("data", &[Kind::Ref], &[spec.to_string()], LIMITS);
            let values = values.map_err(|error| invalid(&format!("{error}: {}", error.source)))?;
            let [Datum::View(tensor)] = values.as_slice() else {
                return Err(invalid(&"expected exactly one tensor"));
            };
            let bytes = tensor.bytes().to_vec();
            return Ok(Declared { name: name.into(), length: bytes.len() as u64, source: Source::Bytes(bytes) });
        }
        let (shape, element, value) = split(spec)?;
        let size = element.byte_size().ok_or_else(|| {
            let message = format!("elements of type {element}, which are not whole bytes; use i8 of the same size");
            Status::unimplemented(message)
        })?;
        let length = shape.iter().try_fold(size as u64, |bytes, dimension| bytes.checked_mul(*dimension));
        let length = length.ok_or_else(|| invalid(&format!("`{spec}` has too many elements")))?;
        let source =
            if value.is_empty() { Source::Zeros } else { Source::Pattern(pattern(&element.to_string(), value)?) };
        Ok(Declared { name: name.into(), length, source })
    }
}
