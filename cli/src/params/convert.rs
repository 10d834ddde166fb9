//! `vireo params convert`: merges parameters of archives of any format into one `.irpa` file.

use std::collections::HashSet;

use vireo::hal::ElementType;
use vireo::inference::text_parts::parse_element;
use vireo::io::{ParameterStorage, Splat, irpa};
use vireo::{Result as VireoResult, Status};

use super::write::{self, Source};
use crate::arguments::ConvertArguments;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::parameters;

/// Does what the flags say and returns what is to be printed.
pub fn convert(arguments: &ConvertArguments) -> Result<String, Failure> {
    let specs = [arguments.parameters.parameters.as_slice(), &arguments.files].concat();
    if specs.is_empty() {
        let failure = Failure::new(Exit::Usage, "no parameters to convert are given");
        return Err(failure.hint("name a file, or SCOPE=FILE; .irpa, .gguf and .safetensors files are read"));
    }
    write::check_output(&arguments.output)?;
    let renames = pairs("rename", &arguments.rename)?;
    let splats = arguments.splat.iter().map(|flag| splat(flag)).collect::<Result<Vec<_>, _>>()?;
    let scopes = parameters::open_all(&specs, arguments.parameters.parameter_mode)?;

    let mut builder = irpa::Builder::with_default_alignment();
    let (mut sources, mut keys) = (Vec::new(), HashSet::new());
    let failed = || Failure::new(Exit::LoadFailure, "cannot convert the parameters");
    for parameter in scopes.iter().flat_map(|scope| &scope.index) {
        if arguments.exclude.contains(&parameter.key) {
            continue;
        }
        let renamed = renames.iter().find(|(old, _)| *old == parameter.key);
        let key = renamed.map_or(parameter.key.as_str(), |(_, new)| new);
        if !keys.insert(key) {
            let failure = Failure::new(Exit::Usage, format!("there would be two parameters `{key}`"));
            return Err(failure.hint("use --exclude=NAME or --rename=OLD=NEW"));
        }
        let given = splats.iter().find(|(name, _)| *name == parameter.key).map(|(_, splat)| *splat);
        let splat = given.or(arguments.strip.then_some(Splat::ZERO));
        let added = match (splat, &parameter.storage) {
            (Some(splat), _) => builder.splat(key, &parameter.metadata, parameter.length, splat),
            (None, ParameterStorage::Splat(splat)) => builder.splat(key, &parameter.metadata, parameter.length, *splat),
            (None, ParameterStorage::Stored { contents, offset }) => {
                sources.push(Source::Contents(contents, *offset));
                builder.data(key, &parameter.metadata, parameter.length)
            }
        };
        added.map_err(|status| failed().because(status))?;
    }
    let index = write::write(&arguments.output, &builder, &sources)?;
    Ok(if arguments.quiet {
        String::new()
    } else {
        super::dump::contents([("", &index)].into_iter(), arguments.format)
    })
}

/// Flags of the form `old=new`.
fn pairs<'a>(flag: &str, values: &'a [String]) -> Result<Vec<(&'a str, &'a str)>, Failure> {
    let pair = |value: &'a String| {
        value.split_once('=').ok_or_else(|| {
            Failure::new(Exit::Usage, format!("--{flag}={value}: expected an old and a new name, `--{flag}=OLD=NEW`"))
        })
    };
    values.iter().map(pair).collect()
}

/// `name`, or `name=type=value`.
fn splat(flag: &str) -> Result<(&str, Splat), Failure> {
    let (name, value) = flag.split_once('=').unwrap_or((flag, ""));
    if value.is_empty() {
        return Ok((name, Splat::ZERO));
    }
    let (ty, value) = value.split_once('=').unwrap_or((value, ""));
    match pattern(ty, value) {
        Ok(splat) => Ok((name, splat)),
        Err(status) => {
            let failure = Failure::new(Exit::Usage, format!("invalid value for --splat={flag}")).because(status);
            Err(failure.hint("use --splat=NAME for zeros, or a type and a value, such as --splat=NAME=f32=4.5"))
        }
    }
}

/// The bytes of an element.
pub fn pattern(ty: &str, value: &str) -> VireoResult<Splat> {
    let element = ElementType::parse(ty)?;
    if element.byte_size().is_none() {
        return Err(Status::unimplemented(format!(
            "elements of type {element}, which are not whole bytes, as a pattern"
        )));
    }
    let mut bytes = Vec::new();
    let wrong = |error| Status::invalid_argument(format!("`{value}` is not of type {ty}: {error}"));
    parse_element(element, value, &mut bytes).map_err(wrong)?;
    Splat::new(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splats_are_names_with_values() {
        let pattern = |flag| splat(flag).map(|(name, splat)| (name.to_string(), splat.pattern().to_vec()));
        assert_eq!(pattern("a").unwrap(), ("a".into(), vec![0]));
        assert_eq!(pattern("a=i8=-1").unwrap(), ("a".into(), vec![255]));
        assert_eq!(pattern("a.b=f32=1").unwrap(), ("a.b".into(), vec![0, 0, 128, 63]));
        for wrong in ["a=f32", "a=f32=x", "a=i4=1", "a=thing=1"] {
            assert_eq!(pattern(wrong).unwrap_err().exit, Exit::Usage, "{wrong}");
        }
    }
}
